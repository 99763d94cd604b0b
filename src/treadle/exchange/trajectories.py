"""Trajectories of SWE-agent (`*.traj`) and mini-swe-agent (`*.traj.json`): one JSON object a file.

mini-swe-agent has `messages`, as Chat Completions have them, and `info`; SWE-agent has `history`,
the same with `tool_call_ids`, and `trajectory`, a step a turn: `thought`, `action`, `observation`.
A file has no id of its own: the session's is made of the file's name and its first messages.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.core.tool_families import COMMAND_NAME
from treadle.exchange.content_blocks import format_content, list_pictures
from treadle.exchange.json_lines import (
    Fields,
    as_count,
    as_list,
    as_object,
    as_string,
    dump_json,
    format_problems,
    to_text,
)
from treadle.exchange.session_builder import SessionBuilder
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCall,
    SessionCallResult,
    SessionFailure,
    SessionPrompt,
)
from treadle.exchange.times import parse_timestamp

SOURCE: Final = "swe-agent"
PROVIDER: Final = "litellm"

_KEYS: Final = ("messages", "history", "trajectory")
_ID_ENTRY_COUNT: Final = 4
"""Entries that the id is made of: the prompt, which runs share, and the first answer."""


def is_session_data(value: Any) -> bool:
    """Whether a file's value is a trajectory."""
    fields = as_object(value)
    if "trajectory_format" in fields:
        return True
    if "sessionId" in fields or not ({"info", "trajectory"} & fields.keys()):
        return False
    entries = _list_entries(fields)
    return bool(entries) and all(_is_entry(as_object(one)) for one in entries[:_ID_ENTRY_COUNT])


def _is_entry(fields: Fields) -> bool:
    return "role" in fields or {"action", "observation"} <= fields.keys()


def _list_entries(fields: Fields) -> list[Any]:
    """Messages, or steps where the messages do not tell the calls."""
    found = next((as_list(fields[key]) for key in _KEYS if as_list(fields.get(key))), [])
    steps = as_list(fields.get("trajectory"))
    has_calls = any(as_list(as_object(one).get("tool_calls")) for one in found)
    is_told = bool(as_list(fields.get("messages"))) or has_calls or not steps
    prompts = [one for one in found if as_object(one).get("role") in ("system", "user")]
    return found if is_told else [*(prompts[:2] if found is not steps else ()), *steps]


def convert_value(value: Any, stem: str, faults: Counter[str]) -> list[ImportedSession]:
    """The session of a file.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    fields = as_object(value)
    entries, telling = _list_entries(fields), SessionBuilder()
    config = as_object(as_object(fields.get("info")).get("config"))
    model = as_string(as_object(config.get("model")).get("model_name"))
    for number, entry in enumerate(entries):
        one = as_object(entry)
        at = parse_timestamp(as_object(one.get("extra")).get("timestamp"))
        telling.begin_record(at)
        if "role" in one:
            _add_message(telling, at, one, number, model)
        elif _is_entry(one):
            _add_step(telling, one, number, model)
        else:
            telling.add_foreign(at, dump_json(entry))
    telling.join_answers()
    digest = sha256(dump_json(entries[:_ID_ENTRY_COUNT]).encode("utf-8", "replace")).hexdigest()[
        :16
    ]
    telling.folder = as_string(as_object(config.get("environment")).get("cwd")) or None
    telling.version = as_string(as_object(fields.get("info")).get("mini_version"))
    return [telling.build(SOURCE, f"{stem}-{digest}", PROVIDER, format_problems(faults))]


def _add_message(telling: SessionBuilder, at: str, fields: Fields, number: int, model: str) -> None:
    role, content = as_string(fields.get("role")), fields.get("content")
    text, shown = format_content(content), list_pictures(content)
    if role == "user":
        telling.add_step(SessionPrompt(at, text, shown))
    elif role == "assistant":
        calls = tuple(
            _make_call(as_object(one), f"{number}-{place}")
            for place, one in enumerate(as_list(fields.get("tool_calls")))
        )
        response = as_object(as_object(fields.get("extra")).get("response"))
        usage = _parse_usage(as_object(response.get("usage")))
        telling.add_answer(
            "", SessionAnswer(at, text, calls, as_string(response.get("model")) or model, usage)
        )
    elif role == "tool":
        ids = as_list(fields.get("tool_call_ids")) or [fields.get("tool_call_id")]
        status = as_object(fields.get("extra")).get("returncode")
        is_error = status not in (None, 0)
        telling.add_step(SessionCallResult(at, as_string(ids[0]), text, is_error, shown))
    elif (
        role == "exit"
        and as_string(as_object(fields.get("extra")).get("exit_status")) != "Submitted"
    ):
        telling.add_step(SessionFailure(at, text or "it was ended"))
    else:
        telling.add_foreign(at, dump_json(fields))


def _make_call(fields: Fields, fallback: str) -> SessionCall:
    called = as_object(fields.get("function"))
    name, arguments = as_string(called.get("name")), to_text(called.get("arguments"))
    return SessionCall(as_string(fields.get("id")) or fallback, name, arguments)


def _add_step(telling: SessionBuilder, fields: Fields, number: int, model: str) -> None:
    """A turn: what was thought, the command that was run, and what came of it."""
    text = as_string(fields.get("thought")) or as_string(fields.get("response"))
    action = as_string(fields.get("action")).strip()
    calls = (
        (SessionCall(f"step-{number}", COMMAND_NAME, dump_json({"command": action})),)
        if action
        else ()
    )
    telling.add_answer("", SessionAnswer("", text, calls, model))
    if action:
        telling.add_step(
            SessionCallResult("", f"step-{number}", to_text(fields.get("observation")))
        )


def _parse_usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    read, written = (as_count(fields.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    cached = as_count(as_object(fields.get("prompt_tokens_details")).get("cached_tokens"))
    return Usage(read, written, cache_read_tokens=cached, unpriced_tokens=read + written)
