"""Which calls of a round begin, in which order, and how many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from treadle import outputs
from treadle.core.actions import AskPerson, RefuseCall, StartCall
from treadle.core.approval import NO_SCOPE, Question, Scope
from treadle.core.events import ApprovalRequired, ToolCompleted, ToolStarted
from treadle.core.messages import ToolCall
from treadle.core.tools import Access, Status, ToolExecutionStatus
from treadle.runtime.approvals import Approvals
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_progress import TurnProgress

_Completed, _Pending, _Running = (
    ToolExecutionStatus.Completed,
    ToolExecutionStatus.Pending,
    ToolExecutionStatus.Running,
)


class CallScheduler:
    """The calls in flight, at most so many at a time as the machine allows.

    Calls that write one file begin one after the other, in request order, so that each is judged by
    what those before it have left. A call counts as started, on disk too, only when it really
    begins: one that waits for its turn when the process dies has not run.

    Args:
        journal: the thread.
        turn: who folds what begins.
        approvals: who looks at a call that is about to begin.
    """

    def __init__(self, journal: ThreadJournal, turn: TurnProgress, approvals: Approvals) -> None:
        self._journal = journal
        self._turn = turn
        self._approvals = approvals
        self._waiting: deque[ToolCall] = deque()
        self._running: dict[str, tuple[str, ...]] = {}
        """The calls that run, each with the files that it writes, as far as it names them."""
        self._files_by_call: dict[str, tuple[str, ...]] = {}
        """The calls that had to wait for a file, each with those that it writes."""
        self._started: list[tuple[ToolCall, Status, bool]] = []

    def may_change(self, calls: Sequence[ToolCall]) -> bool:
        """Whether one of the calls may change something, as things stand."""
        config = self._journal.machine.config
        for call in calls:
            if config.access_of(call, NO_SCOPE) is Access.READ:
                continue  # whatever its scope says; to make one may mean to read a file
            scope = self._approvals.scope_of(call) or NO_SCOPE
            if config.access_of(call, scope) is not Access.READ:
                return True
        return False

    def plan(self, calls: Sequence[ToolCall]) -> None:
        """These are to run, in this order."""
        self._waiting = deque(calls)
        self._files_by_call.clear()

    def begin_calls(self) -> bool:
        """Record the intent of the calls that begin now; returns whether others may follow at once.

        So it is where one was refused: it has ended, and something else may be due. Where one needs
        a person's yes after all, nothing begins: all are planned again when it is decided.
        """
        if not self._waiting:
            return False
        self._forget_ended_calls()
        answers: list[RefuseCall | tuple[ToolCall, Status, Scope]] = []
        questions: list[Question] = []
        for call, status, scope in self._list_startable_calls():
            # The machine answers and stays where it is: all are judged before the first begins.
            ruling = self._journal.machine.handle_event(self._approvals.assess(call, scope))
            if isinstance(ruling, AskPerson):
                questions.append(ruling.question)
            elif isinstance(ruling, RefuseCall):
                answers.append(ruling)
            elif isinstance(ruling, StartCall):
                scope = scope or NO_SCOPE
                self._running[call.id] = scope.written
                answers.append((call, status, scope))
        if questions:
            self._waiting.clear()
            self._running.clear()
            self._approvals.count_repeats(questions)
            self._turn.fold(ApprovalRequired(tuple(questions), self._journal.now()))
            return True
        for answer in answers:
            if isinstance(answer, RefuseCall):
                at = self._journal.now()
                self._turn.fold(ToolCompleted(answer.call_id, answer.outcome, at))
            else:
                self._record_start(*answer)
        return any(isinstance(answer, RefuseCall) for answer in answers)

    def _record_start(self, call: ToolCall, status: Status, scope: Scope) -> None:
        self._started.append((call, status, bool(scope.refused)))
        access = UNSET if scope.access is None else scope.access
        # One that runs again because it only read needs no second record, unless it may change
        # something now: then nobody may run it a third time in silence.
        is_on_disk = isinstance(status, _Running) and not status.uncertain
        if not is_on_disk or getattr(status, "access", UNSET) != access:
            self._turn.fold(ToolStarted(call.id, self._journal.now(), scope.confined, scope.access))
        self._journal.announce(outputs.ToolStarted(call, scope.confined))

    def _list_startable_calls(self) -> Iterator[tuple[ToolCall, Status, Scope | None]]:
        """The calls that may begin now, each with where it stands, and its scope of now.

        To make a scope may mean to read a whole file: it is not made of a call that waits for one
        which is still being written.
        """
        machine, behind = self._journal.machine, list[ToolCall]()
        status_of = {call.id: status for call, status in machine.round}
        while self._waiting and (
            not machine.parallel_max or len(self._running) < machine.parallel_max
        ):
            call = self._waiting.popleft()
            if self._are_being_written(self._files_by_call.get(call.id, ())):
                behind.append(call)
                continue
            scope = self._approvals.scope_of(call)
            if scope is not None and self._are_being_written(scope.written):
                self._files_by_call[call.id] = scope.written
                behind.append(call)
                continue
            yield call, status_of[call.id], scope
        self._waiting.extendleft(reversed(behind))

    def _are_being_written(self, files: Sequence[str]) -> bool:
        return any(not {*files}.isdisjoint(others) for others in self._running.values())

    def _forget_ended_calls(self) -> None:
        """A call that is over makes room for another one."""
        if self._running:
            round_ = self._journal.machine.round
            open_ids = {call.id for call, status in round_ if not isinstance(status, _Completed)}
            for call_id in [one for one in self._running if one not in open_ids]:
                del self._running[call_id]

    def pop_started_calls(self) -> list[tuple[ToolCall, bool]]:
        """The calls whose intent is on disk, to be run now; true if its tool refuses it."""
        started, self._started = self._started, []
        return [(call, is_refused) for call, _, is_refused in started]

    def pop_unrun_calls(self) -> list[ToolCall]:
        """The calls whose intent is recorded, of which this process knows that they never ran."""
        started, self._started = self._started, []
        return [call for call, status, _ in started if isinstance(status, _Pending)]

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self._waiting.clear()
        self._running.clear()
        self._files_by_call.clear()
        self._started.clear()
        self._approvals.forget_reruns()
