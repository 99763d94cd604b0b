"""A server in plain JSON-RPC, which does what its first argument says; run as a program.

It answers the handshake of 2025 as servers do, has the tools of `TOOLS`, and is wrong in one way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
OBJECT = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "description": "Says it again.", "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
    {"name": "note", "description": "Writes it down.", "inputSchema": OBJECT,
     "annotations": {"readOnlyHint": True}},
    {"name": "drop", "description": "Removes it.", "inputSchema": OBJECT,
     "annotations": {"destructiveHint": True}},
]  # fmt: skip
LISTED: list[dict[str, Any]] = []
"""How often it was asked for its tools."""


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def list_tools(params: dict[str, Any]) -> dict[str, Any]:
    LISTED.append(params)
    if HOW == "endless list":
        n = int(params.get("cursor", 0))
        return {"tools": [{"name": f"t{n}", "inputSchema": OBJECT}], "nextCursor": str(n + 1)}
    if HOW == "odd tools":
        return {"tools": ODD_TOOLS}
    if HOW == "late tool" and len(LISTED) > 1:
        return {"tools": [*TOOLS, {"name": "late", "inputSchema": OBJECT}]}
    if HOW == "silent list":
        signal.pause()
    if HOW == "no list":
        return {"tools": "none"}
    return {"tools": TOOLS}


ODD_TOOLS: list[dict[str, Any]] = [
    {"name": "a.b", "description": "first\x1b[2J", "inputSchema": OBJECT},
    {"name": "a b", "inputSchema": OBJECT},
    {"name": "a_b", "inputSchema": OBJECT},
    {"name": "x" * 100, "inputSchema": OBJECT},
    {"name": "x" * 101, "inputSchema": OBJECT},
    {"name": "\N{SNOWMAN}", "inputSchema": OBJECT},
    {"name": "a_b", "inputSchema": OBJECT},
    {"name": "bad key", "inputSchema": {"type": "object", "properties": {"a b": {}}}},
    {"name": "bad schema", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}}},
    {"name": "deep", "inputSchema": {"type": "object", "properties": {"a": json.loads(
        '{"items":' * 40 + "{}" + "}" * 40)}}},
    {"name": "long", "inputSchema": {"type": "object", "properties": {
        f"p{n}": {"description": "w" * 1000} for n in range(40)}}},
]  # fmt: skip


def list_prompts(params: dict[str, Any]) -> dict[str, Any]:
    if HOW == "endless prompts":
        n = int(params.get("cursor", 0))
        return {"prompts": [{"name": f"p{n}"}], "nextCursor": str(n + 1)}
    if HOW == "changed prompts" and (FOLDER / "notes.txt").exists():
        return {"prompts": [*PROMPTS, {"name": "late"}]}
    if HOW == "silent prompts":
        signal.pause()
    return {"prompts": ODD_PROMPTS if HOW == "odd prompts" else PROMPTS}


PROMPTS: list[dict[str, Any]] = [
    {"name": "review", "description": "Looks at\x1b[2J it.", "arguments": [
        {"name": "path", "required": True}, {"name": "style"}]},
]  # fmt: skip
ODD_PROMPTS: list[dict[str, Any]] = [
    {"name": "two words"},
    {"name": "esc\x1b[2J"},
    {"name": "a/b"},
    {"name": "x" * 101},
    {"name": "many", "arguments": [{"name": f"a{n}"} for n in range(21)]},
    {"name": "bad", "arguments": [{"name": "a b"}]},
    {"name": "good", "description": "d" * 10_000 + "\n\n"},
    {"name": "good", "description": "again"},
]


def get_prompt(params: dict[str, Any]) -> dict[str, Any]:
    if HOW == "silent prompts":
        signal.pause()
    words = "g" * 1_000_000 if HOW == "giant prompt" else json.dumps(params, sort_keys=True)
    words = "" if HOW == "empty prompt" else words
    return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}


def write_down(words: str) -> None:
    with (FOLDER / "notes.txt").open("a") as file:
        file.write(words + "\n")


def call_tool(request: dict[str, Any]) -> dict[str, Any] | None:
    params = request["params"]
    if HOW in SILENT:
        return SILENT[HOW](request)
    if HOW in BEFORE:
        BEFORE[HOW](params)
    return RESULTS.get(HOW) or text(f"{params['name']}: {params['arguments'].get('text', '')}")


def die(request: dict[str, Any]) -> None:
    write_down("called")
    os._exit(3)


def keep_silent(request: dict[str, Any]) -> None:
    write_down("called")


def refuse(request: dict[str, Any]) -> None:
    send({"id": request["id"], "error": {"code": -32602, "message": "no\x1b[2J such thing"}})


def send_too_much(request: dict[str, Any]) -> None:
    sys.stdout.write("x" * 17_000_000)
    sys.stdout.flush()


def print_a_log(params: dict[str, Any]) -> None:
    sys.stdout.write("a line of a log\n{broken\n\xff\n")


def answer_another(params: dict[str, Any]) -> None:
    send({"id": 99_999, "result": text("whose?")})


def ask_back(params: dict[str, Any]) -> None:
    asked = {"messages": [], "maxTokens": 1}
    send({"id": 7, "method": "sampling/createMessage", "params": asked})


FORM = {"message": "Who?", "requestedSchema": {
    "type": "object", "properties": {"name": {"type": "string"}}}}  # fmt: skip
WISH = {"messages": [{"role": "user", "content": {"type": "text", "text": "a wish"}}],
        "maxTokens": 9}  # fmt: skip


LONG_FORM = {"message": "Who are\x1b[2J you?", "requestedSchema": {
    "type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "default": 7},
        "color": {"type": "string", "oneOf": [
            {"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "news": {"type": "boolean"},
        "toys": {"type": "array", "items": {"enum": ["bear", "car"]}}}}}  # fmt: skip


def ask(method: str, params: dict[str, Any], count: int = 20) -> None:
    """All at once, and waits for what is said to each."""
    for n in range(count):
        send({"id": f"q{n}", "method": method, "params": params})
    answers = []
    while len(answers) < count:
        line = json.loads(sys.stdin.readline() or os._exit(4))
        if line.get("method") == "notifications/cancelled":
            write_down("cancelled")
            return
        answers += [line] if str(line.get("id")).startswith("q") else []
    with (FOLDER / "answers.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in answers)
    write_down(f"{len(answers)} answers")


EARLY: list[dict[str, Any]] = []
"""What was said to what it asked before it was called."""


def tell_early(request: dict[str, Any]) -> dict[str, Any]:
    return text(json.dumps(EARLY))


def flood(params: dict[str, Any]) -> None:
    token = params.get("_meta", {}).get("progressToken")
    for n in range(2000):
        send({"method": "notifications/progress", "params": {
            "progressToken": token, "progress": n, "total": -1,
            "message": "m" * 1000}})  # fmt: skip


SILENT = {
    "dies": die,
    "never answers": keep_silent,
    "refuses": refuse,
    "too large": send_too_much,
    "asks at once": tell_early,
}
BEFORE = {
    "not json": print_a_log,
    "wrong id": answer_another,
    "floods": flood,
    "asks back": ask_back,
    "asks for forms": lambda _: ask("elicitation/create", FORM),
    "asks for one form": lambda _: ask("elicitation/create", LONG_FORM, 1),
    "asks for one answer": lambda _: ask("sampling/createMessage", WISH, 1),
    "asks for answers": lambda _: ask("sampling/createMessage", WISH),
}
RESULTS: dict[str, dict[str, Any]] = {
    "escapes": text("a\x1b]0;title\x07\x1b[2Jb\u202ec"),
    "giant": text("g" * 1_000_000),
    "wrong shape": {"content": "what"},
    "changed schema": {**text("it needs `words` now"), "isError": True},
}


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    match request["method"]:
        case "initialize":
            if HOW == "never starts":
                signal.pause()
            if HOW == "waits":
                (FOLDER / "go").read_text()
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}, "completions": {}}
                | ({"prompts": {"listChanged": True}} if "prompt" in HOW else {}),
                "serverInfo": {"name": "plain", "version": "1"},
            }
        case "tools/list":
            return list_tools(request.get("params") or {})
        case "prompts/list":
            return list_prompts(request.get("params") or {})
        case "prompts/get":
            return get_prompt(request["params"])
        case "completion/complete":
            return {"completion": {"values": ["two words", "es\x1bc", "x" * 300, "", *"ab" * 200]}}
        case "tools/call":
            if HOW == "changed prompts":
                write_down("called")
                send({"method": "notifications/prompts/list_changed"})
            if HOW == "late tool":
                send({"method": "notifications/tools/list_changed"})
            return call_tool(request)
    send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    return None


def main() -> None:
    (FOLDER / "environment.json").write_text(json.dumps(dict(os.environ)))
    (FOLDER / "pid.txt").write_text(str(os.getpid()))
    if HOW == "stays":  # and so does its child
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        (FOLDER / "child.txt").write_text(str(child.pid))
    for line in sys.stdin:
        request = json.loads(line)
        if HOW == "asks at once" and request.get("method") == "notifications/initialized":
            send({"id": "early", "method": "elicitation/create", "params": FORM})
        if request.get("id") == "early":
            EARLY.append(request)
        if request.get("method") == "notifications/cancelled":
            write_down("cancelled")
        if "method" in request and "id" in request and (result := answer(request)) is not None:
            send({"id": request["id"], "result": result})
    if HOW == "stays":
        signal.pause()


if __name__ == "__main__":
    main()
