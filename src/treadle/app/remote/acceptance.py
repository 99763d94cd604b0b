"""Whether something that came over a server is what a person has said to this machine, and counts.

What a server hands out is believed in nothing. It was signed with a key that was paired with this
machine, under this id, for this machine and this thread; its time is not over, nor far away; the
thread is not private; the setting of the user allows it; and a yes to a call of critical risk is
not among it unless they have said so. The session then looks whether the question is still the one
that was signed (`app/sessions/request_taker.py`), and whether it was taken before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from treadle.app.remote.paired_keys import MachineKeys
from treadle.app.remote.statements import RemoteStatement, verify_statement
from treadle.app.threads.changed_calls import make_changed_question
from treadle.config.settings import RemoteMode
from treadle.core.approval import Question
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.errors import UsageError
from treadle.store.thread_requests import PersonRequest
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id
from treadle.thread.question_text import read_object

ANSWERS: Final = frozenset({"approve", "always", "change", "reject"})
_WORDS: Final = frozenset({"prompt", "steer", "interrupt"})
ALLOWED: Final[Mapping[RemoteMode, frozenset[str]]] = MappingProxyType(
    {
        "off": frozenset(),
        "answer": ANSWERS,
        "steer": ANSWERS | _WORDS,
        "start": ANSWERS | _WORDS | {"start"},
    }
)
"""What may be asked from elsewhere, by the setting of the user."""

_ELSE: Final = "it was signed for something else"
HOLDS_S_MAX: Final = 3600
"""Seconds from now within which the time of a statement ends: six times what a device gives it."""


class RemotePolicy(Struct, frozen=True):
    """What the user of this machine lets be said from elsewhere; `by_way_of` is told of it."""

    mode: RemoteMode
    may_be_critical: bool
    by_way_of: str


def check_statement(
    data: bytes,
    request_id: str,
    fold: ThreadFold,
    keys: MachineKeys,
    policy: RemotePolicy,
    now: str,
) -> PersonRequest:
    """What was signed for a thread that is there, as a request of this machine.

    Args:
        data: what a server says that somebody has left for this machine.
        request_id: the id that it gives.
        fold: the thread that it says it is for.
        keys: who this machine is, and whom it trusts.
        policy: what may be said.
        now: the time, as records have it.

    Raises:
        UsageError: it does not count, and why.
        NotConfiguredError: the library that verifies is not installed.
    """
    said, request = _verify(data, request_id, keys, policy, now)
    if said.thread != fold.header.thread or said.act == "start":
        raise UsageError(_ELSE)
    if fold.is_private:
        raise UsageError("nothing is taken from elsewhere in a private thread")
    if said.act in ANSWERS:
        _check_answer(said, fold, may_be_critical=policy.may_be_critical)
    return request


def check_start(
    data: bytes, request_id: str, keys: MachineKeys, policy: RemotePolicy, now: str
) -> tuple[PersonRequest, str]:
    """What was signed to begin a thread, and the word for the folder it is to begin in.

    The device has chosen the thread's id, so that it begins once.

    Raises:
        UsageError, NotConfiguredError: as `check_statement`.
    """
    said, request = _verify(data, request_id, keys, policy, now)
    if said.act != "start" or not is_thread_id(said.thread):
        raise UsageError(_ELSE)
    return request, said.folder


def _verify(
    data: bytes, request_id: str, keys: MachineKeys, policy: RemotePolicy, now: str
) -> tuple[RemoteStatement, PersonRequest]:
    """What was signed for this machine, whatever it is about."""
    verified = verify_statement(data, keys.names)
    said = verified.statement
    # The id is what is taken once. A server that could choose it would have a yes counted twice.
    if (said.id, said.machine) != (request_id, keys.machine):
        raise UsageError(_ELSE)
    _check_time(said.expires_at, now)
    if said.act not in ALLOWED[policy.mode]:
        raise UsageError(f"this machine takes no such thing from elsewhere: remote = {policy.mode}")
    by = f"{verified.key_name} by way of {policy.by_way_of}"
    return said, PersonRequest(
        *(said.id, said.thread, said.act, by, said.expires_at),
        *(said.call_id, said.ground, said.text),
        is_remote=True,
    )


def _check_time(expires_at: str, now: str) -> None:
    if expires_at <= now:
        raise UsageError("it came too late: its time is over by the clock of this machine")
    # A device whose clock is ahead would leave a server something to hold back for as long.
    latest = datetime.fromisoformat(now) + timedelta(seconds=HOLDS_S_MAX)
    if expires_at > latest.strftime("%Y-%m-%dT%H:%M:%S.%fZ"):
        raise UsageError("it would hold for too long: the clocks of device and machine differ")


def _check_answer(said: RemoteStatement, fold: ThreadFold, *, may_be_critical: bool) -> None:
    questions = (one for one in fold.machine.questions if one.call.id == said.call_id)
    question = next(questions, None)
    if question is None:
        raise UsageError("this question is not open any more")
    if said.act == "reject":
        return
    risks = {question.risk}
    if said.act == "change":
        risks.add(_find_changed_risk(said, question, fold))
    if RiskLevel.CRITICAL in risks and not may_be_critical:
        raise UsageError("a call of critical risk is not allowed from elsewhere")


def _find_changed_risk(said: RemoteStatement, question: Question, fold: ThreadFold) -> RiskLevel:
    if kind_of(question.call.tool_name) is not ToolKind.RUN:
        raise UsageError("only commands can be changed from elsewhere")
    # What else is said of a command decides what holds it, so that its words are not its risk.
    before, after = (
        {**(read_object(one) or {}), "command": ""}
        for one in (question.call.arguments_json, said.text)
    )
    if before != after:
        raise UsageError("of a command its words alone can be changed from elsewhere")
    return make_changed_question(question, said.text, fold.workspace or "/").risk
