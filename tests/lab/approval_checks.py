"""What must hold of approvals: what was asked, what a person said, and what ran then.

Of one thread, as the world saw it and as its records say it. Pure functions that return what is
violated; each kind of violation has a word of its own before the colon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lab.agent import EFFECTS, may_change, may_repeat
from lab.world import (
    Agreed,
    Asked,
    Begun,
    Chose,
    Denied,
    Found,
    GrantedKind,
    Note,
)
from treadle.core.tools import ToolErrorKind

Event = dict[str, Any]

UNCERTAIN: Final = ToolErrorKind.UNCERTAIN.value
REJECTED: Final = ToolErrorKind.REJECTED.value
TOO_LATE: Final = "ask for it again"
"""How what a model reads of a call ends that needs a person's word when it is too late to ask."""


def check_approvals(notes: Iterable[Note], events: Sequence[Event], thread: str) -> list[str]:
    """All of them."""
    own = [note for note in notes if getattr(note, "thread", "") == thread]
    return [
        *check_words(own),
        *check_open_questions(own),
        *check_starts(own, events),
        *check_refusals(own, events),
        *check_doubts(events),
        *check_round_order(events),
    ]


def check_words(notes: Iterable[Note]) -> Iterator[str]:
    """Whether what ran was what a person had allowed when it began."""
    said: dict[str, Agreed | Denied] = {}
    grounds: set[str] = set()
    only_reads = False
    for note in notes:
        if isinstance(note, Agreed | Denied):
            said[note.call] = note
        elif isinstance(note, GrantedKind):
            grounds.add(note.ground)
        elif isinstance(note, Chose):
            only_reads = note.only_reads
        elif isinstance(note, Begun):
            if only_reads and may_change(note.tool):
                yield f"refused: call {note.call} may write, and ran in plan mode"
            if note.tool == "grave" and (why := _judge_run(note, said.get(note.call), grounds)):
                yield why


def _judge_run(run: Begun, word: Agreed | Denied | None, grounds: set[str]) -> str:
    """Why this call must not have run so; empty if it may have."""
    if isinstance(word, Denied):
        return f"refused: call {run.call} ran, and a person had said no"
    if run.ground in grounds:
        return ""
    if word is None and not grounds:
        return f"unapproved: call {run.call} ran without a yes"
    if word is None:
        return f"misplaced: call {run.call} ran on {run.ground}, its kind is allowed on {grounds}"
    if (word.ground, word.content) != (run.ground, run.content):
        return (
            f"misplaced: call {run.call} ran on {run.ground} with {run.content}, "
            f"the yes was for {word.ground} with {word.content}"
        )
    if word.arguments != run.arguments:
        return f"altered: call {run.call} ran with {run.arguments}, not {word.arguments}"
    return ""


def check_open_questions(notes: Iterable[Note]) -> Iterator[str]:
    """Whether a question that a person was shown stands until something has become of it."""
    asked: set[str] = set()
    for note in notes:
        if isinstance(note, Asked):
            asked.add(note.call)
        elif isinstance(note, Agreed | Denied | Begun):
            asked.discard(note.call)
        elif isinstance(note, Chose):
            asked.clear()
        elif isinstance(note, Found):
            for call in sorted(asked.difference(note.calls)):
                yield f"vanished: the question about call {call} was shown and is not open"
            asked.intersection_update(note.calls)


def check_starts(notes: Iterable[Note], events: Iterable[Event]) -> Iterator[str]:
    """Whether each run of a call that may change something has a record of its own."""
    runs = Counter(
        note.call for note in notes if isinstance(note, Begun) and not may_repeat(note.tool)
    )
    started = Counter(one["call_id"] for one in events if one["type"] == "tool_started")
    for call, count in runs.items():
        if count > started[call]:
            yield f"unrecorded: call {call} began {count} times, {started[call]} records say so"


def check_refusals(notes: Iterable[Note], events: Iterable[Event]) -> Iterator[str]:
    """Whether of no call that may have changed something is told that it did not run."""
    begun = {note.call for note in notes if isinstance(note, Begun) and may_change(note.tool)}
    for one in events:
        if _kind_of_error(one) == REJECTED and one["call_id"] in begun:
            yield f"untold: call {one['call_id']} had begun, and its result says that nothing ran"


def check_doubts(events: Iterable[Event]) -> Iterator[str]:
    """Whether nobody was told of a call as uncertain that can be run again."""
    for call, names in list_doubts(events):
        if all(name in EFFECTS and may_repeat(name) for name in names):
            yield f"doubted: call {call} is told as uncertain, and can be run again"


def list_doubts(events: Iterable[Event]) -> Iterator[tuple[str, set[str]]]:
    """What somebody was told of as uncertain: the call, and the tools that it may be one of.

    Where the model was shown less than all, an id comes again in another round; and what was asked
    for before a fork is not in its records.
    """
    names: dict[str, set[str]] = {}
    for one in events:
        for call in _calls_of(one):
            names.setdefault(call["id"], set()).add(call["tool_name"])
        is_doubt = one["type"] == "tool_uncertain" or _kind_of_error(one) == UNCERTAIN
        if is_doubt and (asked := names.get(one["call_id"])):
            yield one["call_id"], asked


def check_round_order(events: Iterable[Event]) -> Iterator[str]:
    """Whether no call of a round began before all that needs a word was decided.

    A process that takes up a round in which calls had begun can ask nobody any more.
    """
    begun = ""
    is_excused = False
    for one in events:
        if _calls_of(one):
            begun, is_excused = "", False
        elif one["type"] == "tool_started":
            begun = begun or one["call_id"]
        elif one["type"] == "recovered":
            is_excused = bool(begun)
        elif begun and not is_excused and _is_late(one):
            yield f"early: call {begun} had begun, and of its round was undecided: {one}"


def _is_late(event: Event) -> bool:
    """Whether it says that something was decided about a call, or that it is too late for that."""
    if event["type"] in ("approval_required", "approval_decided"):
        return True
    return _kind_of_error(event) == REJECTED and _error_of(event)["message"].endswith(TOO_LATE)


def _calls_of(event: Event) -> list[dict[str, Any]]:
    """The calls that a model asks for in an answer."""
    is_answer = event["type"] == "llm_completed"
    calls: list[dict[str, Any]] = (
        event["response"]["message"].get("tool_calls", []) if is_answer else []
    )
    return calls


def _kind_of_error(event: Event) -> str:
    kind: str = _error_of(event).get("kind", "")
    return kind


def _error_of(event: Event) -> dict[str, Any]:
    """Why a call has failed; empty for everything else."""
    error: dict[str, Any] = event.get("outcome", {}).get("error", {})
    return error
