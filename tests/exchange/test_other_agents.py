"""Sessions of Pi, exports of OpenCode, trajectories of SWE-agent and mini-swe-agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exchange.recorded import draft_of, fold_of, talk_of
from treadle.core.llm import Usage
from treadle.errors import UsageError
from treadle.exchange.session_files import find_session_files, identify_file, read_sessions
from treadle.exchange.session_steps import ImportedSession, SessionFailure, SessionStop

TALK = [("user", "mend add()"), ("assistant", "I look."), ("tool", "a - b")]
ROUND = [*TALK, ("assistant", "It adds now.")]
AT = "2025-10-01T08:00:0{}.000Z"


def pi(kind: str, second: int, parent: int | None, **more: Any) -> dict[str, Any]:
    own = {"id": f"e{second}", "parentId": None if parent is None else f"e{parent}"}
    return {"type": kind, "timestamp": AT.format(second), **own, **more}


def pi_answer(second: int, parent: int, *content: Any, **more: Any) -> dict[str, Any]:
    used = {"input": 3, "output": 2, "cacheRead": 4, "cacheWrite": 0}
    about = {"provider": "anthropic", "model": "m-1", "usage": used, "stopReason": "stop"}
    message = {"role": "assistant", "content": list(content), **about, **more}
    return pi("message", second, parent, message=message)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "cat calc.py"}}
PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "u-1", "timestamp": AT.format(0), "cwd": "/w"},
    pi("model_change", 1, None, provider="anthropic", modelId="m-1"),
    pi("message", 2, 1, message={"role": "user", "content": "mend add()"}),
    pi_answer(3, 2, {"type": "thinking", "thinking": "hm"}, text("I look."), CALL),
    pi(
        "message",
        4,
        3,
        message={"role": "toolResult", "toolCallId": "c1", "content": [text("a - b")]},
    ),
    pi_answer(5, 4, text("It adds now.")),
]

OPENCODE: dict[str, Any] = {
    "info": {
        "id": "ses_1",
        "version": "1.0.9",
        "directory": "/w",
        "title": "Mend the sum",
        "time": {"created": 1759305600000, "updated": 1759305605000},
    },
    "messages": [
        {
            "info": {"id": "m1", "role": "user", "time": {"created": 1759305600000}},
            "parts": [text("mend add()"), {**text("Called the Read tool"), "synthetic": True}],
        },
        {
            "info": {
                "id": "m2",
                "role": "assistant",
                "time": {"created": 1759305601000},
                "modelID": "m-1",
                "providerID": "anthropic",
                "tokens": {"input": 3, "output": 2, "cache": {"read": 4, "write": 0}},
            },
            "parts": [
                {"type": "step-start"},
                text("I look."),
                {
                    "type": "tool",
                    "callID": "c1",
                    "tool": "bash",
                    "state": {
                        "status": "completed",
                        "input": {"command": "cat calc.py"},
                        "output": "a - b",
                        "time": {"start": 1, "end": 1759305602000},
                    },
                },
            ],
        },
        {
            "info": {"id": "m3", "role": "assistant", "time": {"created": 1759305603000}},
            "parts": [text("It adds now.")],
        },
    ],
}

FUNCTION = {"name": "bash", "arguments": '{"command": "cat calc.py"}'}
ASKED = {"id": "c1", "type": "function", "function": FUNCTION}
MINI: dict[str, Any] = {
    "info": {
        "mini_version": "2.3.0",
        "exit_status": "Submitted",
        "config": {"model": {"model_name": "p/m-1"}, "environment": {"cwd": "/w"}},
    },
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "mend add()"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [ASKED],
            "extra": {"response": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}},
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "a - b",
            "extra": {"returncode": 0, "timestamp": 1759305602.5},
        },
        {"role": "assistant", "content": "It adds now."},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}
SWE: dict[str, Any] = {
    "environment": "swe_main",
    "trajectory": [
        {"thought": "I look.", "action": "cat calc.py\n", "observation": "a - b", "response": "x"},
        {"thought": "It adds now.", "action": "", "observation": "", "response": "y"},
    ],
    "history": [
        {"role": "system", "content": "You are helpful.", "agent": "main"},
        {"role": "user", "content": "mend add()", "agent": "main"},
        {"role": "assistant", "content": "I look.\n```\ncat calc.py\n```", "agent": "main"},
    ],
    "info": {"exit_status": "submitted"},
}
SWE_CALLS: dict[str, Any] = {
    **SWE,
    "history": [
        *SWE["history"][:2],
        {"role": "assistant", "content": "I look.", "tool_calls": [ASKED]},
        {"role": "tool", "content": [text("a - b")], "tool_call_ids": ["c1"]},
        {"role": "assistant", "content": "It adds now."},
    ],
}

FILES: dict[str, tuple[str, Any]] = {
    "2025_u-1.jsonl": ("pi", PI),
    "ses_1.json": ("opencode", OPENCODE),
    "one.traj.json": ("swe-agent", MINI),
    "two.traj": ("swe-agent", SWE),
    "three.traj": ("swe-agent", SWE_CALLS),
}


def put(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    lines = value if name.endswith(".jsonl") else [value]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def read(path: Path) -> ImportedSession:
    [session] = read_sessions(identify_file(path))
    return session


@pytest.mark.parametrize("name", FILES)
def test_a_session_becomes_a_thread_that_can_be_gone_on_with(name: str, tmp_path: Path) -> None:
    source, value = FILES[name]
    path = put(tmp_path, name, value)
    assert list(find_session_files(tmp_path)) == [path]
    assert identify_file(path).source == source
    session = read(path)
    draft = draft_of(session)
    assert talk_of(draft) == ROUND
    assert (draft.repaired, session.problems) == (0, ())
    [call] = [one for message in fold_of(draft).conversation for one in message.tool_calls]
    assert json.loads(call.arguments_json) == {"command": "cat calc.py"}
    assert draft.thread == draft_of(read(path)).thread
    document = fold_of(draft).document()
    if source != "swe-agent":
        assert (document.workspace_root, document.model) == ("/w", "anthropic:m-1")
        assert document.created_at == "2025-10-01T08:00:00.000000Z"
    if name in ("2025_u-1.jsonl", "ses_1.json", "one.traj.json"):
        assert document.usage.input_tokens >= 7
    if source == "opencode":
        assert document.usage == Usage(7, 2, cache_read_tokens=4, unpriced_tokens=9)
        assert document.metadata.title == "Mend the sum"


def test_a_branch_that_was_left_is_taken_back(tmp_path: Path) -> None:
    left = [
        pi("message", 6, 5, message={"role": "user", "content": "and sub()"}),
        pi_answer(7, 6, text("No.")),
        pi("message", 8, 5, message={"role": "user", "content": "and mul()"}),
        pi_answer(9, 8, text("Yes.")),
    ]
    fold = fold_of(draft_of(read(put(tmp_path, "x.jsonl", [*PI, *left]))))
    assert [one.content for one in fold.conversation.in_view][-2:] == ["and mul()", "Yes."]
    assert "and sub()" not in {one.content for one in fold.conversation.in_view}


def test_what_was_not_answered_or_was_stopped_is_told(tmp_path: Path) -> None:
    failed = pi_answer(3, 2, stopReason="error", errorMessage="overloaded")
    stopped = pi_answer(3, 2, text("I "), stopReason="aborted")
    steps = [read(put(tmp_path, "x.jsonl", [*PI[:3], one])).steps for one in (failed, stopped)]
    assert [type(one[-1]) for one in steps] == [SessionFailure, SessionStop]
    aborted = {"name": "MessageAbortedError", "data": {"message": "aborted"}}
    message = {"info": {"role": "assistant", "error": aborted}, "parts": []}
    value = {**OPENCODE, "messages": [OPENCODE["messages"][0], message]}
    assert SessionStop in {type(one) for one in read(put(tmp_path, "x.json", value)).steps}


@pytest.mark.parametrize("name", FILES)
def test_nothing_in_a_file_however_wrong_stops_the_reading(name: str, tmp_path: Path) -> None:
    value = FILES[name][1]
    for wrong in (None, 7, "x", [], {}, [None], {"role": 1}, {"parts": 3}):

        def spoiled(one: Any, wrong: Any = wrong) -> list[Any]:
            if isinstance(one, dict):
                kept = [{**one, key: wrong} for key in one]
                return kept + [{**one, k: v} for k, old in one.items() for v in spoiled(old)]
            if isinstance(one, list):
                return [[*one[:n], v, *one[n + 1 :]] for n, o in enumerate(one) for v in spoiled(o)]
            return []

        for bad in spoiled(value):
            found = identify_file(put(tmp_path, name, bad))
            if found.source:
                [draft_of(session) for session in read_sessions(found)]


def test_who_is_refused_is_told_the_formats(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(put(tmp_path, "x.json", {"what": "ever"}))
    for name in ("Claude Code", "Codex", "Gemini", "Pi", "opencode", "SWE-agent", ".traj.json"):
        assert name in refused.value.hint
