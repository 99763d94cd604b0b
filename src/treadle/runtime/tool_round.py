"""The calls of a round: which are to begin, which run, and whether this process saw it all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import UnsetType

from treadle.core.approval import Scope
from treadle.core.machine import Machine
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    ApprovalBinding,
    EffectClass,
    Status,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)
from treadle.thread.facts import GitObserved


class ToolRound:
    """The calls in flight, at most so many at a time as the machine allows.

    Calls that write one file begin one after the other, in request order, so that each is judged by
    what those before it have left. A call counts as started, on disk too, only when it really
    begins: one that waits for its turn when the process dies has not run.
    """

    def __init__(self, before: GitObserved | None) -> None:
        self.before = before
        """How the repository stood before the round."""
        self.is_whole = False
        """Whether this process saw the round from its beginning."""
        self.is_unsaved = False
        """Whether files may have changed in it that nobody has kept since."""
        self._waiting: deque[ToolCall] = deque()
        self._running: dict[str, str] = {}
        """The calls that run, each with the file that it writes; empty if it names none."""
        self._file_by_call: dict[str, str] = {}
        """The calls that had to wait for a file, each with that file."""
        self._started: list[tuple[ToolCall, Status]] = []
        self.approved_bindings: dict[str, ApprovalBinding | UnsetType] = {}
        """The calls in doubt of which a person said that they are to run again, each with what it
        was bound to when they were asked."""

    def is_at_start(self, machine: Machine[Any]) -> bool:
        """Whether nothing of the machine's round has run yet."""
        begins = all(_has_not_run(status) for _, status in machine.round)
        self.is_whole = self.is_whole or begins
        return begins

    def has_mutating_calls(
        self, calls: Sequence[ToolCall], effect_of: Callable[[str], EffectClass]
    ) -> bool:
        """Whether one of the calls may change something."""
        return any(effect_of(call.tool_name) is not EffectClass.READ for call in calls)

    def plan_calls(self, calls: Sequence[ToolCall]) -> None:
        """These are to run, in this order."""
        self._waiting = deque(calls)
        self._file_by_call.clear()

    def startable_calls(
        self, machine: Machine[Any], scope_of: Callable[[ToolCall], Scope | None]
    ) -> Iterator[tuple[ToolCall, Status, Scope | None]]:
        """The calls that may `begin` now, each with where it stands, and its scope of now.

        To take a scope may mean to read a whole file: it is not taken of a call that waits for one
        which is still being written.
        """
        held = []
        while self._waiting and (
            not machine.parallel_max or len(self._running) < machine.parallel_max
        ):
            call = self._waiting.popleft()
            if self._is_being_written(self._file_by_call.get(call.id, "")):
                held.append(call)
                continue
            scope = scope_of(call)
            if scope is not None and self._is_being_written(scope.file):
                self._file_by_call[call.id] = scope.file
                held.append(call)
                continue
            status = next(status for one, status in machine.round if one.id == call.id)
            yield call, status, scope
        self._waiting.extendleft(reversed(held))

    def _is_being_written(self, file: str) -> bool:
        return file != "" and file in self._running.values()

    def begin_call(self, call: ToolCall, status: Status, scope: Scope | None) -> bool:
        """This one begins; returns whether its intent must be recorded first."""
        self._running[call.id] = "" if scope is None else scope.file
        self._started.append((call, status))
        is_running = isinstance(status, ToolExecutionStatus.Running)
        return not is_running or getattr(status, "uncertain", False)

    def pop_started_calls(self) -> list[ToolCall]:
        """The calls whose intent is on disk, to be run now."""
        started, self._started = self._started, []
        return [call for call, _ in started]

    def pop_unrun_calls(self) -> list[ToolCall]:
        """The calls whose intent is recorded, of which this process knows that they never ran."""
        started, self._started = self._started, []
        is_pending = ToolExecutionStatus.Pending
        return [call for call, status in started if isinstance(status, is_pending)]

    def end_call(self, call_id: str) -> None:
        """A call is over: another one may begin."""
        self._running.pop(call_id, None)

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self._waiting.clear()
        self._running.clear()
        self._file_by_call.clear()
        self._started.clear()
        self.approved_bindings.clear()


def _has_not_run(status: Status) -> bool:
    if isinstance(status, ToolExecutionStatus.Pending):
        return True
    outcome = getattr(status, "outcome", None)
    return (
        isinstance(outcome, ToolExecutionOutcome.Error)
        and outcome.error.kind is ToolErrorKind.REJECTED
    )
