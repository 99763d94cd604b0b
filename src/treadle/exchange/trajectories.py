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
from treadle.exchange.blocks import shown
from treadle.exchange.lines import (
    Fields,
    count_of,
    dump,
    fields_of,
    items_of,
    problems_of,
    text_of,
    word,
)
from treadle.exchange.session_builder import Telling
from treadle.exchange.steps import Answered, Call, Failed, Result, Said, Session
from treadle.exchange.times import utc

SOURCE: Final = "swe-agent"
PROVIDER: Final = "litellm"

_KEYS: Final = ("messages", "history", "trajectory")
_NAMING_COUNT: Final = 4
"""Entries that the id is made of: the prompt, which runs share, and the first answer."""


def is_one(value: Any) -> bool:
    """Whether a file's value is a trajectory."""
    fields = fields_of(value)
    if "trajectory_format" in fields:
        return True
    if "sessionId" in fields or not ({"info", "trajectory"} & fields.keys()):
        return False
    entries = _entries(fields)
    return bool(entries) and all(_is_entry(fields_of(one)) for one in entries[:_NAMING_COUNT])


def _is_entry(fields: Fields) -> bool:
    return "role" in fields or {"action", "observation"} <= fields.keys()


def _entries(fields: Fields) -> list[Any]:
    """Messages, or steps where the messages do not tell the calls."""
    found = next((items_of(fields[key]) for key in _KEYS if items_of(fields.get(key))), [])
    steps = items_of(fields.get("trajectory"))
    has_calls = any(items_of(fields_of(one).get("tool_calls")) for one in found)
    is_told = bool(items_of(fields.get("messages"))) or has_calls or not steps
    prompts = [one for one in found if fields_of(one).get("role") in ("system", "user")]
    return found if is_told else [*(prompts[:2] if found is not steps else ()), *steps]


def convert_whole(value: Any, stem: str, faults: Counter[str]) -> list[Session]:
    """The session of a file.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    fields = fields_of(value)
    entries, telling = _entries(fields), Telling()
    config = fields_of(fields_of(fields.get("info")).get("config"))
    model = word(fields_of(config.get("model")).get("model_name"))
    for number, entry in enumerate(entries):
        one = fields_of(entry)
        at = utc(fields_of(one.get("extra")).get("timestamp"))
        telling.begin_record(at)
        if "role" in one:
            _take_message(telling, at, one, number, model)
        elif _is_entry(one):
            _take_step(telling, one, number, model)
        else:
            telling.keep(at, dump(entry))
    telling.finish()
    digest = sha256(dump(entries[:_NAMING_COUNT]).encode("utf-8", "replace")).hexdigest()[:16]
    telling.folder = word(fields_of(config.get("environment")).get("cwd")) or None
    telling.version = word(fields_of(fields.get("info")).get("mini_version"))
    return [telling.session(SOURCE, f"{stem}-{digest}", PROVIDER, problems_of(faults))]


def _take_message(telling: Telling, at: str, fields: Fields, number: int, model: str) -> None:
    role, text = word(fields.get("role")), shown(fields.get("content"))
    if role == "user":
        telling.add(Said(at, text))
    elif role == "assistant":
        calls = tuple(
            _call(fields_of(one), f"{number}-{place}")
            for place, one in enumerate(items_of(fields.get("tool_calls")))
        )
        response = fields_of(fields_of(fields.get("extra")).get("response"))
        usage = _usage(fields_of(response.get("usage")))
        telling.answer("", Answered(at, text, calls, word(response.get("model")) or model, usage))
    elif role == "tool":
        ids = items_of(fields.get("tool_call_ids")) or [fields.get("tool_call_id")]
        status = fields_of(fields.get("extra")).get("returncode")
        telling.add(Result(at, word(ids[0]), text, status not in (None, 0)))
    elif role == "exit" and word(fields_of(fields.get("extra")).get("exit_status")) != "Submitted":
        telling.add(Failed(at, text or "it was ended"))
    else:
        telling.keep(at, dump(fields))


def _call(fields: Fields, fallback: str) -> Call:
    called = fields_of(fields.get("function"))
    name, arguments = word(called.get("name")), text_of(called.get("arguments"))
    return Call(word(fields.get("id")) or fallback, name, arguments)


def _take_step(telling: Telling, fields: Fields, number: int, model: str) -> None:
    """A turn: what was thought, the command that was run, and what came of it."""
    text = word(fields.get("thought")) or word(fields.get("response"))
    action = word(fields.get("action")).strip()
    calls = (Call(f"step-{number}", "bash", dump({"command": action})),) if action else ()
    telling.answer("", Answered("", text, calls, model))
    if action:
        telling.add(Result("", f"step-{number}", text_of(fields.get("observation"))))


def _usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    read, written = (count_of(fields.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    cached = count_of(fields_of(fields.get("prompt_tokens_details")).get("cached_tokens"))
    return Usage(read, written, cache_read_tokens=cached, unpriced_tokens=read + written)
