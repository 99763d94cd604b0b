"""The loop: one thread, its machine, and the world. The same for every machine.

`_fold_event` folds what arrives into the batch, `_commit` makes the batch durable, `_perform` does
what the machine asked for: nothing is done, or shown, before what it follows from is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from treadle import outputs
from treadle.answers import Answer, Verdict
from treadle.core.actions import (
    AgentAction,
    ExecuteTools,
    RequestApproval,
    RunPostToolsHook,
    SendLlmRequest,
    Summarize,
)
from treadle.core.approval import Approved, Decision, Question, Scope
from treadle.core.events import (
    ApprovalDecided,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolCompleted,
    ToolStarted,
)
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass, Outcome, Status
from treadle.errors import DiskError
from treadle.outputs import Ending, Output, TurnFinished, TurnOutcome
from treadle.runtime.approvals import find_rerun_refusal, find_start_refusal, make_grants
from treadle.runtime.calls import cancel_unstarted
from treadle.runtime.event_outputs import make_event_output
from treadle.runtime.inbox import Inbox, StopRequest
from treadle.runtime.performer import Performer, is_work
from treadle.runtime.ports import Writer
from treadle.runtime.questions import make_decision_event, refresh_question
from treadle.runtime.reconfiguration import Reconfiguration, reject_withdrawn
from treadle.runtime.tool_round import ToolRound
from treadle.runtime.turn_timer import PersonWait, TurnTimer
from treadle.runtime.work_group import WorkGroup
from treadle.runtime.workspace_observer import WorkspaceObserver
from treadle.runtime.writability import check_writable
from treadle.thread.codec import Entry, Event
from treadle.thread.facts import Configured, Recovered
from treadle.thread.grants import GrantFact

_log = logging.getLogger("treadle.runtime")


class MachineLoop(ABC):
    """Feeds a machine, makes durable what comes of it, performs what it asks for.

    Args:
        writer: the thread.
        performer: who performs.
        observer: who looks at the repository and keeps the files.
        configuration: the configuration that the thread is to have recorded.
        redact: replaces known secrets, if somebody can.
        ask: asked about a call that a crash left uncertain.
        approve: asked about a call that needs a yes.
        on_output: gets every output as it happens.
    """

    def __init__(
        self,
        writer: Writer,
        performer: Performer,
        observer: WorkspaceObserver,
        configuration: Configured,
        *,
        redact: Callable[[str], str] | None,
        ask: Callable[[Question], Awaitable[Answer]] | None,
        approve: Callable[[Question], Awaitable[Verdict]] | None,
        on_output: Callable[[Output], None] | None,
    ) -> None:
        self._writer = writer
        self._performer = performer
        self._observer = observer
        self._configuration = configuration
        self._redact = redact
        self._ask = ask
        self._approve = approve
        self._listeners = [] if on_output is None else [on_output]
        self._inbox = Inbox()
        self._work = WorkGroup(self._inbox.put)
        self._round = ToolRound(writer.fold.observed)
        self._due: AgentAction | None = None
        self._later: list[Output] = []
        self._is_prepared = False
        self._running: asyncio.Future[TurnFinished] | None = None
        self._alarm: TurnTimer | None = None
        self._person = asyncio.Lock()
        self._wait = PersonWait(writer.now, self._record_idle_time)
        self._reconfiguration = Reconfiguration(writer, performer)
        self._end = Ending()

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._writer.fold.is_idle

    # ---- what differs from machine to machine --------------------------------------------------

    @abstractmethod
    def _make_turn_result(self) -> TurnFinished:
        """How it ended, for whoever asked for it."""

    @abstractmethod
    def _make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        """The event that tells the machine of an order to stop; `None` leaves it as it is."""

    def _refuse_request(self, due: SendLlmRequest | Summarize) -> tuple[str, Event] | None:
        """Why this request must not be sent, and the event that says so; `None` if it may."""
        return None

    def _complete_stopped_calls(self, reason: str) -> Iterable[Event]:
        """How calls ended that a stop has cut, if more is known of them than that."""
        return ()

    def _record_idle_time(self, since: str, until: str) -> None:  # noqa: B027  not all count time
        """Between these times a person was waited for while calls were running."""

    def _time_left_s(self) -> float | None:
        """Seconds until work must end; `None` if nobody set a limit."""
        return None

    def _next_input(self, *, steering: bool = False) -> Event | None:
        """What was said meanwhile and begins a turn now, or is heard before the request due."""
        return None

    def _make_action_work(self, action: AgentAction) -> Coroutine[Any, Any, Event] | None:
        """Work for an action that only this machine has."""
        raise AssertionError(f"nobody performs {type(action).__name__}")

    @abstractmethod
    async def _recover(self) -> None:
        """Take up what the last process left."""

    @abstractmethod
    def _on_event(self, event: Event, action: AgentAction | None) -> None:
        """An event was folded; tell people what it means here."""

    # ---- the loop ------------------------------------------------------------------------------

    async def _run(self, *inputs: Entry) -> TurnFinished:
        check_writable(self._writer)
        running: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        self._running = running
        self._inbox.clear()  # a stop that came when the last turn was over is not for this one
        self._end, self._due = Ending(), None
        over = StopRequest(TurnOutcome.LIMIT, "the time limit is reached")
        self._alarm = TurnTimer(self._time_left_s(), lambda: self._inbox.put(over))
        try:
            try:
                await self._stage_inputs(inputs)
                await self._run_loop()
            except StopRequest as stop:
                await self._stop(stop)
            except asyncio.CancelledError:
                await self._stop(StopRequest(TurnOutcome.CANCELLED, "cancelled by its program"))
                raise
        except Exception as error:
            running.set_exception(error)
            running.exception()  # the caller is told in any case, others if they wait
            await self._salvage()
            raise
        finally:
            self._alarm.stop()
            self._wait.stop()
            self._running = None
            if not running.done():
                running.set_result(self._make_turn_result())
        return running.result()

    async def _stage_inputs(self, inputs: Sequence[Entry]) -> None:
        """Stage what comes before the first request: configuration, inputs, recovery.

        Inputs are taken before anything is waited for: what is said meanwhile comes after them.
        """
        fold = self._writer.fold
        was_busy = not fold.machine.is_at_rest
        if self._configuration != Configured(fold.machine.config, fold.provider):
            self._writer.stage(self._configuration)
        self._observer.record_context()
        if self._writer.note:
            self._record_note(self._writer.note)
            self._writer.note = ""
        for entry in inputs:
            if isinstance(entry, Event):
                self._fold_event(entry)
            elif isinstance(entry, GrantFact):
                self._record_grant(entry)
            else:
                self._writer.stage(entry, self._redact)
        if was_busy:
            await self._recover()
        elif not self._is_prepared:
            await self._observer.observe()
        self._is_prepared = True

    def _record_note(self, note: str) -> None:
        """Record and tell what an earlier process left and what becomes of it."""
        self._writer.stage(Recovered(note), self._redact)
        self._later.append(outputs.Notice(note))

    async def _run_loop(self) -> None:
        """Until the machine is at rest and nothing is left to deliver."""
        while True:
            while self._inbox:
                item = self._inbox.pop()
                if isinstance(item, BaseException):
                    raise item
                self._fold_event(item)
            await self._record_intents()
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
                self._fold_event(said)
            else:
                await self._observer.observe()
                self._commit()
                if self._next_input() is None:
                    break
        self._refresh_snapshot()

    def _fold_event(self, event: Event) -> None:
        """Fold one event; remember the action it asks for until the batch is durable."""
        self._wait.report_idle_time(getattr(event, "at", ""))
        machine = self._writer.fold.machine
        before, calls = machine.state_name, machine.round
        action = self._writer.stage(event, self._redact)
        if isinstance(event, ToolCompleted):
            self._round.end_call(event.call_id)
        if isinstance(action, RequestApproval):
            self._later.append(outputs.ApprovalRequested(self._writer.thread_id, action.questions))
        elif action is not None and is_work(action):
            self._due = action
        elif self._writer.fold.machine.state_name != before:
            self._due = None
        if (output := make_event_output(event, calls)) is not None:
            self._later.append(output)
        self._on_event(event, action)

    async def _record_intents(self) -> None:
        """Put the intent of what is due into the batch that is about to be committed."""
        while True:
            due = self._due
            if isinstance(due, RunPostToolsHook) and self._performer.workspace is None:
                self._fold_event(PostToolsHookCompleted(False, at=self._writer.now()))
            elif isinstance(due, ExecuteTools):
                await self._plan_round(due)
            elif (
                isinstance(due, SendLlmRequest | Summarize)
                and (refused := self._refuse_request(due)) is not None
            ):
                why, event = refused
                self._end = Ending(TurnOutcome.LIMIT, why)
                self._fold_event(event)
            elif isinstance(due, SendLlmRequest) and (said := self._next_input(steering=True)):
                self._fold_event(said)  # the request is asked for anew, with it
            elif not self._begin_calls():
                break
        await self._save_files_after_round()

    async def _save_files_after_round(self) -> None:
        """Keep the files when a round that may have changed them is over, with its hook."""
        is_over = isinstance(self._due, SendLlmRequest | Summarize)
        if self._round.is_unsaved and (is_over or self._writer.fold.machine.is_at_rest):
            self._round.is_unsaved = False
            await self._observer.save_files("after")

    def _begin_calls(self) -> bool:
        """Record the intent of the calls that begin now; returns whether one was refused.

        A refused call has ended: something else may be due.
        """
        has_refused = False
        scope_of = self._performer.tools.scope_of
        for call, status, scope in self._round.startable_calls(self._writer.fold.machine, scope_of):
            if (refused := self._find_start_refusal(call, status, scope)) is not None:
                self._fold_event(ToolCompleted(call.id, refused, self._writer.now()))
                has_refused = True
                continue
            confined = "" if scope is None else scope.confined
            if self._round.begin_call(call, status, scope):
                self._fold_event(ToolStarted(call.id, self._writer.now(), confined))
            self._later.append(outputs.ToolStarted(call, confined))
        return has_refused

    def _find_start_refusal(
        self, call: ToolCall, status: Status, scope: Scope | None
    ) -> Outcome | None:
        """How a call that is about to begin ends if it lacks a yes, or may not run any more."""
        if call.tool_name in self._reconfiguration.withdrawn:
            return reject_withdrawn(call)
        config, round_ = self._writer.fold.machine.config, self._writer.fold.machine.round
        if call.id in self._round.approved_bindings:
            return find_rerun_refusal(call, self._round.approved_bindings[call.id], config, scope)
        risk, beside = self._performer.tools.risk_of(call), (other for _, other in round_)
        return find_start_refusal(call, status, config, risk, scope, beside)

    async def _plan_round(self, due: ExecuteTools) -> None:
        self._due = None
        if self._round.is_at_start(self._writer.fold.machine):
            effects = self._writer.fold.machine.config.effect_of
            if self._round.has_mutating_calls(due.calls, effects):
                self._round.before = await self._observer.observe()
                await self._observer.save_files("before")
                self._round.is_unsaved = True
                if self._inbox:  # a stop: nothing is intended any more
                    return
        self._round.plan_calls(due.calls)

    def _commit(self) -> None:
        """Make the batch durable, then tell what it made true."""
        later, self._later = self._later, []
        if self._writer.has_staged:
            self._writer.write()
            self._writer.sync()
        for output in later:
            self._emit(output)

    def add_listener(self, listener: Callable[[Output], None]) -> None:
        """Tell one more, from now on, of every output as it happens."""
        self._listeners.append(listener)

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
            self._work.start(self._performer.call_model(due.request))
        elif isinstance(due, Summarize):
            self._emit(outputs.Notice("compacting the conversation"))
            self._work.start(self._performer.summarize(due))
        elif isinstance(due, RunPostToolsHook):
            hook = self._performer.run_hook(
                due.completed_tools,
                self._round.before,
                self._observer.observe,
                is_whole=self._round.is_whole,
            )
            self._work.start(hook)
        elif due is not None and (work := self._make_action_work(due)) is not None:
            self._work.start(work)
        for call in self._round.pop_started_calls():
            self._work.start(self._performer.run_call(call))
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
            config = self._writer.fold.machine.config
            shown = refresh_question(question, config, self._performer.tools)
            if config.is_granted(shown):
                self._fold_event(self._make_decision_event(question, shown, Approved()))
            elif (settled := self._reconfiguration.find_decision(question)) is not None:
                self._fold_event(self._make_decision_event(question, shown, settled))
            elif self._approve is not None:
                asked = self._reconfiguration.wait_for_verdict(
                    question, self._ask_for_verdict(shown)
                )
                if (verdict := await self._inbox.run_unless_stopped(asked)) is None:
                    return True  # by what was changed meanwhile
                for granted in make_grants(shown, verdict):
                    self._record_grant(granted)
                self._fold_event(self._make_decision_event(question, shown, verdict.decision))
                self._commit()  # what a person said is not asked again, whatever happens
            else:
                continue
            has_decided = True
        if not has_decided:
            questions = self._writer.fold.machine.questions
            calls = ", ".join(question.call.tool_name for question in questions)
            self._end = Ending(TurnOutcome.APPROVAL, f"waiting for approval of: {calls}")
        return has_decided

    async def _ask_for_verdict(self, question: Question) -> Verdict:
        """What a person says, who is asked one thing at a time and may take their time."""
        assert self._approve is not None
        assert self._alarm is not None
        with self._wait.measure(self._alarm):
            async with self._person:
                return await self._approve(question)

    def _record_grant(self, granted: GrantFact) -> None:
        """Record what a person allows for good, or takes back."""
        self._writer.stage(granted, self._redact)
        now, wanted = self._writer.fold.machine.config, self._configuration.config
        wanted = replace(wanted, granted=now.granted, grants=now.grants)
        self._configuration = replace(self._configuration, config=wanted)

    def _make_decision_event(
        self, asked: Question, shown: Question, decision: Decision
    ) -> ApprovalDecided:
        return make_decision_event(
            asked, shown, decision, self._performer.tools, self._writer.now()
        )

    # ---- stopping ------------------------------------------------------------------------------

    async def _stop(self, stop: StopRequest) -> None:
        """End all work, record what is known of it, and settle the thread.

        Calls that can say how far they got do; a cancel answers the others. When the process
        ends instead, they stay open: recovery decides when the thread is opened again.
        """
        so_far, self._end = self._end, Ending(stop.outcome, stop.reason)
        await self._drain_inbox()
        text = self._performer.take_partial_text()
        is_over = self.is_waiting and self._next_input() is None
        if is_over and self._end.outcome is stop.outcome:  # the stop came too late
            self._end = so_far
        event = None
        if stop.outcome is not TurnOutcome.INTERRUPTED and not self.is_waiting:
            event = self._make_stop_event(stop, text)
        self._complete_unrun_calls(stop.reason, all_of_them=event is not None)
        if event is not None:
            for known in self._complete_stopped_calls(stop.reason):
                self._fold_event(known)
            if not self.is_waiting:
                self._fold_event(event)
        await self._save_files_after_round()
        if not self._writer.fold.machine.is_at_rest:
            self._writer.stopped = stop.reason
            note = f"its program stopped the work: {stop.reason}"
            self._writer.stage(Recovered(note, stop.reason), self._redact)
        self._reset_and_commit()

    async def _salvage(self) -> None:
        """Keep what has arrived when an error ends the turn: an answer is paid for once only."""
        try:
            await self._work.cancel_all()
            if self._writer.is_usable:
                await self._drain_inbox()
                self._complete_unrun_calls("the turn failed", all_of_them=False)
                self._reset_and_commit()
        except Exception:  # noqa: BLE001  the first error is the one to be told
            _log.exception("%s: what had arrived could not be kept", self._writer.thread_id)

    async def _drain_inbox(self) -> None:
        """End all work, and take what has arrived."""
        await self._work.cancel_all()
        while self._inbox:
            item = self._inbox.pop()
            if not isinstance(item, BaseException):
                self._fold_event(item)

    def _complete_unrun_calls(self, why: str, *, all_of_them: bool) -> None:
        """Answer calls whose intent is on disk and which this process knows it has not run.

        Otherwise they would count as uncertain. Those that are safe to repeat may stay open: they
        run when work goes on.
        """
        effect_of = self._writer.fold.machine.config.effect_of
        for call in self._round.pop_unrun_calls():
            if all_of_them or effect_of(call.tool_name) is EffectClass.MUTATE:
                self._fold_event(
                    ToolCompleted(call.id, cancel_unstarted(call, why), self._writer.now())
                )

    def _reset_and_commit(self) -> None:
        self._due = None
        self._round.clear()
        self._commit()

    def _refresh_snapshot(self) -> None:
        try:
            self._writer.refresh_snapshot()
        except DiskError as error:
            self._emit(outputs.Notice(f"no snapshot was written: {error.message}"))
