"""What a program says of calls that wait, in a person's name."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.core.approval import Approved, Decision, Question, Rejected
from treadle.errors import UsageError


def make_approvals(questions: Iterable[Question]) -> dict[str, Decision]:
    """A yes to each. Raises `UsageError` if there are none."""
    return _list_calls(questions, Approved())


def make_rejections(questions: Iterable[Question], reason: str) -> dict[str, Decision]:
    """A no to each, with a reason for the model. Raises `UsageError` if there are none."""
    return _list_calls(questions, Rejected(reason))


def _list_calls(questions: Iterable[Question], decision: Decision) -> dict[str, Decision]:
    decisions = {one.call.id: decision for one in questions}
    if not decisions:
        raise UsageError("no call waits for a yes", hint="`questions` has those that do")
    return decisions
