"""Session files of other programs, written by hand from their formats; and how to take them in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from treadle.exchange import claude_code, codex, gemini
from treadle.exchange.journal_builder import ImportedThread, ImportOptions, build_imported_thread
from treadle.exchange.json_lines import read_lines
from treadle.exchange.session_steps import ImportedSession
from treadle.thread.codec import Entry, decode_entry
from treadle.thread.facts import ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import JournalCondition, scan_journal

NOW: Final = "2026-11-21T08:00:00.000000Z"
NAME: Final = "11111111-1111-4111-8111-111111111111"
OPTIONS: Final = ImportOptions(str, lambda url: url.rpartition("@")[2] or None, NOW)

CONVERTERS: Final = {
    "claude-code": claude_code.convert_lines,
    "codex": codex.convert_lines,
    "gemini": gemini.convert_lines,
}

_MINUTE: Final = "2025-10-01T08:00:{:02}.000Z"


def time(second: int) -> str:
    return _MINUTE.format(second)


def sessions(source: str, records: Iterable[Any], stem: str = NAME) -> list[ImportedSession]:
    """The sessions of a file of these records; text stands for a line as it is."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    faults: Counter[str] = Counter()
    read = read_lines((f"{line}\n".encode("utf-8", "surrogatepass") for line in lines), faults)
    return CONVERTERS[source](read, stem, faults)


def one(source: str, records: Iterable[Any], stem: str = NAME) -> ImportedSession:
    [session] = sessions(source, records, stem)
    return session


def draft_of(session: ImportedSession, options: ImportOptions = OPTIONS) -> ImportedThread:
    return build_imported_thread(session, "/sessions/one.jsonl", options)


def entries_of(draft: ImportedThread) -> list[Entry]:
    return [decode_entry(record.event) for record in scan_journal(draft.data).records]


def fold_of(draft: ImportedThread) -> ThreadFold:
    """The thread as it is folded from the journal; the journal is intact."""
    found = scan_journal(draft.data)
    assert found.condition is JournalCondition.CLEAN
    header = decode_entry(found.records[0].event)
    assert isinstance(header, ThreadCreated)
    fold = ThreadFold(header)
    for record in found.records:
        fold.apply(record.seq, record.at, decode_entry(record.event))
    return fold


def talk_of(draft: ImportedThread) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in fold_of(draft).conversation]


# ---- Claude Code -------------------------------------------------------------------------------


def claude(kind: str, second: int, content: Any, **more: Any) -> dict[str, Any]:
    """A record; `content` is the message's."""
    uuid = more.pop("uuid", f"u{second}")
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": more.pop("parentUuid", f"u{second - 1}" if second else None),
        "isSidechain": False,
        "userType": "external",
        "sessionId": NAME,
        "cwd": "/w",
        "version": "2.0.1",
        "gitBranch": "main",
        "timestamp": time(second),
        "message": message,
        **more,
    }


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call_id: str, name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any = "fine", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


CLAUDE: Final[Sequence[Any]] = (
    {"type": "summary", "summary": "Mend the sum", "leafUuid": "u5"},
    claude("user", 0, "mend add()"),
    claude(
        "assistant",
        1,
        [{"type": "thinking", "thinking": "hm", "signature": "x"}],
        message={
            "id": "m1",
            "model": "claude-x",
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 1},
        },
    ),
    claude(
        "assistant",
        2,
        [block("I look."), use("t1", file_path="/w/calc.py")],
        message={
            "id": "m1",
            "model": "claude-x",
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 30},
        },
    ),
    claude("user", 3, [result("t1", [block("a - b")])], toolUseResult={"file": {}}),
    claude("assistant", 4, [use("t2", "Edit", text="a + b")], message={"id": "m2"}),
    claude("user", 5, [result("t2", "no such file", is_error=True)]),
    claude("assistant", 6, [block("It adds now.")], message={"id": "m3", "model": "claude-y"}),
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
)

# ---- Codex CLI ---------------------------------------------------------------------------------


def item(second: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": time(second), "type": "response_item", "payload": payload}


def event(second: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": time(second), "type": "event_msg", "payload": payload}


def tokens(second: int, total: int) -> dict[str, Any]:
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    info = {"last_token_usage": used, "total_token_usage": {"total_tokens": total}}
    return event(second, type="token_count", info=info)


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


META: Final = {
    "timestamp": time(0),
    "type": "session_meta",
    "payload": {
        "id": NAME,
        "timestamp": time(0),
        "cwd": "/w",
        "cli_version": "0.65.0",
        "model_provider": "openai",
        "git": {
            "branch": "main",
            "commit_hash": "c0ffee",
            "repository_url": "https://me:secret@host/path",
        },
    },
}

CODEX: Final[Sequence[Any]] = (
    META,
    item(1, **said("developer", "<permissions instructions> all")),
    item(1, **said("user", "<environment_context> here")),
    {"timestamp": time(1), "type": "turn_context", "payload": {"model": "gpt-x", "cwd": "/w"}},
    item(2, **said("user", "mend add()")),
    event(2, type="user_message", message="mend add()"),
    item(3, type="reasoning", summary=[], encrypted_content="zz"),
    item(3, **said("assistant", "I look.")),
    item(4, type="function_call", name="shell", call_id="c1", arguments='{"cmd": "cat"}'),
    item(4, type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin"),
    tokens(5, 11),
    tokens(5, 11),
    item(5, type="function_call_output", call_id="c1", output="a - b"),
    item(
        6,
        type="custom_tool_call_output",
        call_id="c2",
        output='{"output":"no such file","metadata":{"exit_code":1}}',
    ),
    item(7, **said("assistant", "It adds now.")),
    tokens(7, 22),
)

# ---- Gemini CLI --------------------------------------------------------------------------------


def spoken(kind: str, second: int, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"g{second}", "timestamp": time(second), "type": kind, "content": content, **more}


def answered(name: str, response: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"functionResponse": {"id": "x", "name": name, "response": response}}]


GEMINI_MESSAGES: Final[list[dict[str, Any]]] = [
    spoken("user", 1, [{"text": "mend add()"}]),
    spoken(
        "gemini",
        2,
        "I look.",
        model="gemini-x",
        thoughts=[{"subject": "hm", "description": "so"}],
        tokens={"input": 9, "output": 2, "cached": 4, "thoughts": 1, "tool": 0, "total": 12},
        toolCalls=[
            {
                "id": "r1",
                "name": "read_file",
                "args": {"path": "calc.py"},
                "status": "success",
                "result": answered("read_file", {"output": "a - b"}),
            },
            {
                "id": "r2",
                "name": "replace",
                "args": {},
                "status": "error",
                "result": answered("replace", {"error": "no such file"}),
            },
        ],
    ),
    spoken("gemini", 3, "It adds now.", model="gemini-x"),
]

GEMINI: Final[dict[str, Any]] = {
    "sessionId": NAME,
    "projectHash": "c0ffee",
    "startTime": time(0),
    "lastUpdated": time(3),
    "messages": GEMINI_MESSAGES,
    "directories": ["/w"],
    "summary": "Mend the sum",
}
GEMINI_LOG: Final[Sequence[Any]] = (
    {"sessionId": NAME, "projectHash": "c0ffee", "startTime": time(0), "directories": ["/w"]},
    *GEMINI_MESSAGES[:2],
    {"$set": {"summary": "Mend the sum"}},
    GEMINI_MESSAGES[2],
)

ROUND: Final = [
    ("user", "mend add()"),
    ("assistant", "I look."),
    ("tool", "a - b"),
    ("tool", "ERROR: Failed: no such file"),
    ("assistant", "It adds now."),
]
"""What Codex CLI and Gemini CLI say happened; Claude Code asked in two rounds."""
