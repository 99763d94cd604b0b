"""The transition table of the task machine. All of its control flow is in this file.

A row says: in this state, on this event, go there. States and events are names, so that a custom
graph adds its own; the handlers (`handlers.py`) say which event happens, never where it leads.

Where the rows come from: those above the line are the source document's, literally. Those below it
were missing there (its handlers emit `FatalError` where its table has no row), or serve what the
design adds: a batch of calls that a person approves runs as a batch, an answer that does not have
the form that was asked for is asked for again, and what runs is asked about wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from treadle.errors import InvalidTransition


class State(StrEnum):
    """The nine built-in states. A custom graph's own are plain strings."""

    IDLE = "Idle"
    PLANNING = "Planning"
    ACTING = "Acting"
    PARALLEL_ACTING = "ParallelActing"
    WAITING_FOR_HUMAN = "WaitingForHuman"
    OBSERVING = "Observing"
    REFLECTING = "Reflecting"
    DONE = "Done"
    ERROR = "Error"

    def is_terminal(self) -> bool:
        """Whether the machine stops here. A custom graph may have further terminal states."""
        return self in (State.DONE, State.ERROR)


class Event(StrEnum):
    """What a handler says has happened. A custom graph's own events are plain strings."""

    START = "Start"
    LLM_TOOL_CALL = "LlmToolCall"
    LLM_PARALLEL_TOOL_CALLS = "LlmParallelToolCalls"
    LLM_FINAL_ANSWER = "LlmFinalAnswer"
    MAX_STEPS = "MaxSteps"
    LOW_CONFIDENCE = "LowConfidence"
    ANSWER_TOO_SHORT = "AnswerTooShort"
    TOOL_BLACKLISTED = "ToolBlacklisted"
    HUMAN_APPROVAL_REQUIRED = "HumanApprovalRequired"
    FATAL_ERROR = "FatalError"
    HUMAN_APPROVED = "HumanApproved"
    HUMAN_REJECTED = "HumanRejected"
    HUMAN_MODIFIED = "HumanModified"
    TOOL_SUCCESS = "ToolSuccess"
    TOOL_FAILURE = "ToolFailure"
    CONTINUE = "Continue"
    NEEDS_REFLECTION = "NeedsReflection"
    REFLECT_DONE = "ReflectDone"
    # ---- additions to the source document ----
    ANSWER_INVALID = "AnswerInvalid"
    """The answer does not have the form that was asked for."""
    HUMAN_APPROVED_PARALLEL = "HumanApprovedParallel"
    """A person has decided about each call of a batch, and at least one may run."""


class TransitionTable(Mapping[tuple[str, str], str]):
    """(state, event) -> next state. Immutable.

    Args:
        rows: each a state, an event and the state it leads to; a later row for the same pair
            replaces the earlier one.
        terminal: the states in which the machine stops, beside `Done` and `Error`.
    """

    __slots__ = ("_rows", "terminal")

    def __init__(self, rows: Iterable[tuple[str, str, str]], terminal: Iterable[str] = ()) -> None:
        self._rows: Final = {(state, event): to for state, event, to in rows}
        self.terminal: Final = frozenset({State.DONE, State.ERROR, *terminal})

    def target(self, state: str, event: str) -> str:
        """Where the event leads.

        Raises:
            InvalidTransition: the table has no such row; nothing has moved.
        """
        to = self._rows.get((state, event))
        if to is None:
            raise InvalidTransition(state, event)
        return to

    def is_terminal(self, state: str) -> bool:
        """Whether the machine stops in this state."""
        return state in self.terminal

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """All rows, in the order in which they were declared."""
        return tuple((state, event, to) for (state, event), to in self._rows.items())

    def __getitem__(self, pair: tuple[str, str]) -> str:
        return self._rows[pair]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


_S, _E = State, Event

# fmt: off
DEFAULT_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    (_S.IDLE,              _E.START,                   _S.PLANNING),
    (_S.PLANNING,          _E.LLM_TOOL_CALL,           _S.ACTING),
    (_S.PLANNING,          _E.LLM_PARALLEL_TOOL_CALLS, _S.PARALLEL_ACTING),
    (_S.PLANNING,          _E.LLM_FINAL_ANSWER,        _S.DONE),
    (_S.PLANNING,          _E.MAX_STEPS,               _S.ERROR),
    (_S.PLANNING,          _E.LOW_CONFIDENCE,          _S.REFLECTING),
    (_S.PLANNING,          _E.ANSWER_TOO_SHORT,        _S.PLANNING),
    (_S.PLANNING,          _E.TOOL_BLACKLISTED,        _S.PLANNING),
    (_S.PLANNING,          _E.HUMAN_APPROVAL_REQUIRED, _S.WAITING_FOR_HUMAN),
    (_S.PLANNING,          _E.FATAL_ERROR,             _S.ERROR),
    (_S.WAITING_FOR_HUMAN, _E.HUMAN_APPROVED,          _S.ACTING),
    (_S.WAITING_FOR_HUMAN, _E.HUMAN_REJECTED,          _S.OBSERVING),
    (_S.WAITING_FOR_HUMAN, _E.HUMAN_MODIFIED,          _S.ACTING),
    (_S.ACTING,            _E.TOOL_SUCCESS,            _S.OBSERVING),
    (_S.ACTING,            _E.TOOL_FAILURE,            _S.OBSERVING),
    (_S.PARALLEL_ACTING,   _E.TOOL_SUCCESS,            _S.OBSERVING),
    (_S.PARALLEL_ACTING,   _E.TOOL_FAILURE,            _S.OBSERVING),
    (_S.OBSERVING,         _E.CONTINUE,                _S.PLANNING),
    (_S.OBSERVING,         _E.NEEDS_REFLECTION,        _S.REFLECTING),
    (_S.REFLECTING,        _E.REFLECT_DONE,            _S.PLANNING),
    # ---- additions to the source document ----
    (_S.ACTING,            _E.FATAL_ERROR,             _S.ERROR),
    (_S.PARALLEL_ACTING,   _E.FATAL_ERROR,             _S.ERROR),
    (_S.WAITING_FOR_HUMAN, _E.FATAL_ERROR,             _S.ERROR),
    (_S.WAITING_FOR_HUMAN, _E.HUMAN_APPROVED_PARALLEL, _S.PARALLEL_ACTING),
    (_S.PLANNING,          _E.ANSWER_INVALID,          _S.PLANNING),
    (_S.ACTING,            _E.HUMAN_APPROVAL_REQUIRED, _S.WAITING_FOR_HUMAN),
    (_S.PARALLEL_ACTING,   _E.HUMAN_APPROVAL_REQUIRED, _S.WAITING_FOR_HUMAN),
)
# fmt: on


def build_transition_table() -> TransitionTable:
    """The default graph: a task runs from `Idle` to `Done` or `Error`."""
    return _DEFAULT


_DEFAULT: Final = TransitionTable(DEFAULT_ROWS)
