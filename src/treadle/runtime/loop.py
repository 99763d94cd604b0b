"""The loop: one thread, its machine, and the world. The same for every machine.

The way of an event: it arrives in the inbox; `_take` folds it and puts it into the batch;
`_commit` makes the batch durable; `_perform` does what the machine asked for; what comes of that
arrives in the inbox. Nothing is performed, and nothing shown as done, before the batch it follows
from is on disk.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import (
    AgentAction,
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    RequestApproval,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    Summarize,
    WaitForInput,
)
from treadle.core.approval import Approved, Decision, Modified, Question, Rejected
from treadle.core.events import (
    ApprovalDecided,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolCompleted,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.messages import ToolCall
from treadle.errors import DiskError, StoreError
from treadle.runtime import outputs
from treadle.runtime.calls import look_at
from treadle.runtime.inbox import Inbox, Stop
from treadle.runtime.outputs import Ending, Output, TurnFinished, TurnOutcome
from treadle.runtime.performer import Performer
from treadle.runtime.ports import Writer
from treadle.runtime.recovery import Answer, Resolution, completed_by, describe, open_calls
from treadle.runtime.rounds import Round
from treadle.runtime.telling import output_of
from treadle.runtime.verdict import Verdict
from treadle.runtime.work import Work
from treadle.thread.codec import Entry, Event
from treadle.thread.facts import Configured, GitObserved, Granted, Recovered
from treadle.thread.recovery import Decision as Recovery
from treadle.thread.recovery import Standing


class Loop(ABC):
    """Feeds a machine, makes durable what comes of it, performs what it asks for.

    Args:
        writer: the thread.
        hands: who performs.
        wanted: the configuration that the thread is to have recorded.
        redact: replaces known secrets, if somebody can.
        ask: asked about a call that a crash left uncertain.
        approve: asked about a call that needs a yes.
        on_output: gets every output as it happens.
    """

    def __init__(
        self,
        writer: Writer,
        hands: Performer,
        wanted: Configured,
        *,
        redact: Callable[[str], str] | None,
        ask: Callable[[ToolCall], Awaitable[Answer]] | None,
        approve: Callable[[Question], Awaitable[Verdict]] | None,
        on_output: Callable[[Output], None] | None,
    ) -> None:
        self._writer = writer
        self._hands = hands
        self._wanted = wanted
        self._redact = redact
        self._ask = ask
        self._approve = approve
        self._listeners = [] if on_output is None else [on_output]
        self._inbox = Inbox()
        self._work = Work(self._inbox.put)
        self._round = Round(writer.fold.observed)
        self._due: AgentAction | None = None
        self._later: list[Output] = []
        self._is_prepared = False
        self._running: asyncio.Future[TurnFinished] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._end = Ending()

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._writer.fold.is_idle

    # ---- what differs from machine to machine --------------------------------------------------

    @abstractmethod
    def _finished(self) -> TurnFinished:
        """How it ended, for whoever asked for it."""

    @abstractmethod
    def _ended_early(self, stop: Stop, partial_text: str) -> Event | None:
        """The event that tells the machine of an order to stop; `None` leaves it as it is."""

    def _refused(self) -> tuple[str, Event] | None:
        """Why the next request must not be sent, and the event that says so; `None` if it may."""
        return None

    def _time_left_s(self) -> float | None:
        """Seconds until work must end; `None` if nobody set a limit."""
        return None

    def _next_input(self) -> Event | None:
        """What was said meanwhile and is to be delivered now."""
        return None

    def _works_on(self, action: AgentAction) -> Coroutine[Any, Any, Event] | None:
        """Work for an action that only this machine has."""
        raise AssertionError(f"nobody performs {type(action).__name__}")

    @abstractmethod
    def _took(self, event: Event, action: AgentAction | None) -> None:
        """An event was folded; tell people what it means here."""

    # ---- the loop ------------------------------------------------------------------------------

    async def _run(self, *inputs: Entry) -> TurnFinished:
        if not self._writer.is_usable:
            why = "this session is finished: it was closed, or the disk refused"
            raise StoreError(why, hint="open the thread again")
        running: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        self._running = running
        self._inbox.clear()  # a stop that came when the last turn was over is not for this one
        self._end, self._due = Ending(), None
        self._arm_alarm(self._time_left_s())
        try:
            try:
                await self._begin(inputs)
                await self._loop()
            except Stop as stop:
                await self._stop(stop)
            except asyncio.CancelledError:
                await self._stop(Stop(TurnOutcome.CANCELLED, "cancelled"))
                raise
        except Exception as error:
            running.set_exception(error)
            running.exception()  # the caller is told in any case, others if they wait
            await self._work.end()
            raise
        finally:
            self._disarm_alarm()
            self._running = None
            if not running.done():
                running.set_result(self._finished())
        return running.result()

    def _arm_alarm(self, left_s: float | None) -> None:
        """Stop when the time is over; `None` if nobody set a limit."""
        if left_s is not None:
            stop = Stop(TurnOutcome.LIMIT, "the time limit is reached")
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(left_s, lambda: self._inbox.put(stop))

    def _disarm_alarm(self) -> float | None:
        """Nothing is stopped any more; the seconds that were left."""
        alarm, self._alarm = self._alarm, None
        if alarm is None:
            return None
        alarm.cancel()
        return max(0.0, alarm.when() - asyncio.get_running_loop().time())

    async def _begin(self, inputs: Sequence[Entry]) -> None:
        """Stage what comes before the first request: configuration, inputs, recovery.

        Inputs are taken before anything is waited for: what is said meanwhile comes after them.
        """
        fold = self._writer.fold
        was_busy = not fold.machine.is_at_rest
        if self._wanted != Configured(fold.machine.config, fold.provider):
            self._writer.stage(self._wanted)
        if self._writer.note:
            self._note(self._writer.note)
            self._writer.note = ""
        for entry in inputs:
            if isinstance(entry, Event):
                self._take(entry)
            elif isinstance(entry, Granted):
                self._grant(entry.tool_name)
            else:
                self._writer.stage(entry, self._redact)
        if was_busy:
            await self._recover()
        elif not self._is_prepared:
            await self._observe()
        self._is_prepared = True

    def _note(self, note: str) -> None:
        """Record and tell what an earlier process left and what becomes of it."""
        self._writer.stage(Recovered(note), self._redact)
        self._later.append(outputs.Notice(note))

    async def _loop(self) -> None:
        """Until the machine is at rest and nothing is left to deliver."""
        while True:
            while self._inbox:
                item = self._inbox.take()
                if isinstance(item, BaseException):
                    raise item
                self._take(item)
            await self._intend()
            self._commit()
            if self._inbox:  # a stop: what is due does not begin
                continue
            self._perform()
            machine = self._writer.fold.machine
            if not machine.is_at_rest:
                await self._inbox.wait()
            elif machine.questions:
                if not await self._ask_person():
                    break
            elif (said := self._next_input()) is not None:
                self._take(said)
            else:
                await self._observe()
                self._commit()
                if self._next_input() is None:
                    break
        self._refresh_snapshot()

    def _take(self, event: Event) -> None:
        """Fold one event; remember the action it asks for until the batch is durable."""
        machine = self._writer.fold.machine
        before, calls = machine.state_name, machine.round
        action = self._writer.stage(event, self._redact)
        if isinstance(event, ToolCompleted):
            self._round.ended(event.call_id)
        if isinstance(action, RequestApproval):
            self._later.append(outputs.ApprovalRequested(self._writer.thread_id, action.questions))
        elif action is not None and _is_work(action):
            self._due = action
        elif self._writer.fold.machine.state_name != before:
            self._due = None
        if (told := output_of(event, calls)) is not None:
            self._later.append(told)
        self._took(event, action)

    async def _intend(self) -> None:
        """Put the intent of what is due into the batch that is about to be committed."""
        if isinstance(self._due, RunPostToolsHook) and self._hands.workspace is None:
            self._take(PostToolsHookCompleted(False, at=self._writer.now()))
        due = self._due
        if isinstance(due, SendLlmRequest) and (refused := self._refused()) is not None:
            why, event = refused
            self._end = Ending(TurnOutcome.LIMIT, why)
            self._take(event)
        elif isinstance(due, ExecuteTools):
            await self._plan_round(due)
        machine = self._writer.fold.machine
        for call, is_new in self._round.startable(machine):
            if is_new:
                self._take(ToolStarted(call.id, self._writer.now()))
            self._later.append(outputs.ToolStarted(call))

    async def _plan_round(self, due: ExecuteTools) -> None:
        self._due = None
        if self._round.begins(self._writer.fold.machine):
            effects = self._writer.fold.machine.config.effect_of
            if self._round.may_change(due.calls, effects):
                self._round.before = await self._observe()
                if self._inbox:  # a stop: nothing is intended any more
                    return
        self._round.plan(due.calls)

    def _commit(self) -> None:
        """Make the batch durable, then tell what it made true."""
        later, self._later = self._later, []
        if self._writer.has_staged:
            self._writer.write()
            self._writer.sync()
        for output in later:
            self._emit(output)

    def _emit(self, output: Output) -> None:
        """Tell everybody; one who raises ends the turn, and is nobody else's fault."""
        for listener in tuple(self._listeners):
            try:
                listener(output)
            except Exception as error:  # noqa: BLE001  raised by the loop
                self._inbox.put(error)

    def _perform(self) -> None:
        due, self._due = self._due, None
        if isinstance(due, SendLlmRequest):
            self._work.start(self._hands.call_model(due.request))
        elif isinstance(due, Summarize):
            self._emit(outputs.Notice("compacting the conversation"))
            self._work.start(self._hands.summarize(due))
        elif isinstance(due, RunPostToolsHook):
            hook = self._hands.run_hook(
                due.completed_tools,
                self._round.before,
                self._observe,
                is_whole=self._round.is_whole,
            )
            self._work.start(hook)
        elif due is not None and (work := self._works_on(due)) is not None:
            self._work.start(work)
        for call in self._round.take_started():
            self._work.start(self._hands.run_call(call))
        retry = self._writer.fold.machine.retry
        if retry is not None and not self._work.is_timer_armed:
            self._emit(outputs.Retrying(retry.error, retry.delay_s))
            self._work.arm_timer(
                retry.delay_s, lambda: self._inbox.put(RetryTimeoutFired(self._writer.now()))
            )

    async def _ask_person(self) -> bool:
        """Ask about each call that waits for a yes; returns whether one was decided."""
        has_decided = False
        for question in self._writer.fold.machine.questions:
            if question.call.tool_name in self._writer.fold.machine.config.granted:
                self._take(self._decided(question.call.id, Approved()))
            elif self._approve is not None:
                left_s = self._disarm_alarm()  # a person may take their time
                verdict = await self._inbox.unless(self._approve(question))
                self._arm_alarm(left_s)
                if verdict.always and not isinstance(verdict.decision, Rejected):
                    self._grant(question.call.tool_name)
                self._take(self._decided(question.call.id, verdict.decision))
                self._commit()  # what a person said is not asked again, whatever happens
            else:
                continue
            has_decided = True
        if not has_decided:
            questions = self._writer.fold.machine.questions
            calls = ", ".join(question.call.tool_name for question in questions)
            self._end = Ending(TurnOutcome.APPROVAL, f"waiting for approval of: {calls}")
        return has_decided

    def _grant(self, tool_name: str) -> None:
        self._writer.stage(Granted(tool_name), self._redact)
        config = self._writer.fold.machine.config
        self._wanted = replace(self._wanted, config=config)

    async def _observe(self) -> GitObserved | None:
        """Look at the repository and record how it stands, if that is news."""
        if self._hands.workspace is None:
            return None
        seen = await look_at(self._hands.workspace)
        if seen is not None and seen != self._writer.fold.observed:
            self._writer.stage(seen, self._redact)
        return seen

    def _decided(self, call_id: str, decision: Decision) -> ApprovalDecided:
        """A modified call is looked at again: what it risks now is recorded with it."""
        if isinstance(decision, Modified):
            questions = self._writer.fold.machine.questions
            asked = next(one for one in questions if one.call.id == call_id)
            call = replace(asked.call, arguments_json=decision.arguments_json)
            decision = replace(decision, risk=self._hands.tools.risk_of(call))
        return ApprovalDecided(call_id, decision, self._writer.now())

    # ---- stopping ------------------------------------------------------------------------------

    async def _stop(self, stop: Stop) -> None:
        """End all work, record what is known of it, and settle the thread.

        Calls that can say how far they got do; a cancel answers the others. When the process
        ends instead, they stay open: recovery decides when the thread is opened again.
        """
        so_far, self._end = self._end, Ending(stop.outcome, stop.reason)
        await self._work.end()
        text = self._hands.take_partial_text()
        while self._inbox:
            item = self._inbox.take()
            if not isinstance(item, BaseException):
                self._take(item)
        is_over = self.is_waiting and self._next_input() is None
        if is_over and self._end.outcome is stop.outcome:  # the stop came too late
            self._end = so_far
        if stop.outcome is not TurnOutcome.INTERRUPTED and not self.is_waiting:
            event = self._ended_early(stop, text)
            if event is not None:
                self._take(event)
        self._due = None
        self._round.clear()
        self._commit()

    # ---- recovery ------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Take up what the last process left."""
        machine = self._writer.fold.machine
        what = "work had stopped" if self._is_prepared else "the process had died"
        self._round.clear()
        if not machine.round:
            self._due = machine.obligations()
            if not _is_work(self._due):
                self._due = None
            self._note(f"{what} in {machine.state_name}; going on from there")
            return
        found = open_calls(
            machine.round, machine.config.effect_of, has_person=self._ask is not None
        )
        self._note(describe(what, found))
        doubtful = [one for one in found if one.decision in (Recovery.ASK, Recovery.REPORT)]
        for one in doubtful:
            if one.standing is Standing.STARTED:
                self._take(ToolUncertain(one.call.id))
        if self._ask is not None and doubtful:
            self._commit()  # the question is on disk before it is asked
        again = [one.call for one in found if one not in doubtful]
        for one in doubtful:
            answer = await self._inbox.unless(self._ask(one.call)) if self._ask else None
            if answer is not None and answer.resolution is Resolution.RUN_AGAIN:
                again.append(one.call)
            else:
                self._take(completed_by(answer, one.call, self._writer.now()))
        if again:
            self._due = ExecuteTools(tuple(again))

    def _refresh_snapshot(self) -> None:
        try:
            self._writer.refresh_snapshot()
        except DiskError as error:
            self._emit(outputs.Notice(f"no snapshot was written: {error.message}"))


_NO_WORK: Final = (WaitForInput, DisplayMessage, DisplayError, RequestApproval, Shutdown)


def _is_work(action: AgentAction) -> bool:
    return not isinstance(action, _NO_WORK)
