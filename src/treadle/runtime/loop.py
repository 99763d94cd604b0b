"""The loop: events in, made durable, actions out. The same for every machine.

What happens arrives in the *inbox*; the *turn* folds it into a batch and knows what is due; the
*scheduler* says which calls begin, the *approvals* ask a person, the *file keeper* keeps how the
workspace stood; `journal.commit` makes the batch durable; the *performer* does what is due. Nothing
is done, or shown, before what it follows from is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import (
    AgentAction,
    ExecuteTools,
    MaskResults,
    RunPostToolsHook,
    SendLlmRequest,
    Summarize,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Masking
from treadle.core.events import PostToolsHookCompleted, ResultsMasked, RetryTimeoutFired
from treadle.core.tools import ToolExecutionStatus
from treadle.errors import DiskError
from treadle.outputs import Ending, TurnFinished, TurnOutcome
from treadle.runtime.inbox import StopRequest
from treadle.runtime.parts import TurnParts
from treadle.runtime.ports import have_start
from treadle.runtime.stored_outputs import find_output_reader
from treadle.runtime.turn_end import TurnEnd
from treadle.runtime.turn_timer import TurnTimer
from treadle.thread.codec import Entry, Event
from treadle.thread.facts import Configured

CANCELLED: Final = StopRequest(TurnOutcome.CANCELLED, "cancelled by its program")
LEFT: Final = StopRequest(TurnOutcome.INTERRUPTED, "whoever followed it has left")


class TurnLoop:
    """Works on a thread until nothing is left to do.

    Args:
        parts: who does what.
        configuration: the configuration that the thread is to have recorded.
        make_configuration: makes another one, with the tools that are offered then.
    """

    def __init__(
        self,
        parts: TurnParts,
        configuration: Configured,
        make_configuration: Callable[[AgentConfig], Configured],
    ) -> None:
        self._rules = parts.rules
        self._journal = parts.journal
        self._inbox = parts.inbox
        self._turn = parts.turn
        self._approvals = parts.approvals
        self._scheduler = parts.scheduler
        self._recovery = parts.recovery
        self._files = parts.files
        self._background = parts.background
        self._performer = parts.performer
        self._work = parts.work
        self._end = TurnEnd(parts)
        self.configuration = configuration
        self._make_configuration = make_configuration
        self._has_prepared_tools = False
        self.running: asyncio.Future[TurnFinished] | None = None
        """How the turn ends that is running, if one is."""
        self.left: set[asyncio.Task[Any]] = set()
        """Work that whoever followed it has left: it stops where it is."""
        self.is_prepared = False
        """Whether a turn has begun in this process."""

    async def run(self, *inputs: Entry) -> TurnFinished:
        """Record the inputs, then work until the machine is at rest and nothing is left to say."""
        self._journal.check_writable()
        running: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        self.running = running
        self._inbox.clear()  # a stop that came when the last turn was over is not for this one
        self._turn.end, self._turn.due = Ending(), None
        self._has_prepared_tools = False
        over = StopRequest(TurnOutcome.LIMIT, "the time limit is reached")
        alarm = TurnTimer(self._rules.time_left_s(), lambda: self._inbox.put(over))
        self._turn.alarm = alarm
        try:
            try:
                await self._stage_inputs(inputs)
                await self._run_loop()
            except StopRequest as stop:
                await self._end.stop(stop)
            except asyncio.CancelledError:
                is_left = asyncio.current_task() in self.left
                await self._end.stop(LEFT if is_left else CANCELLED)
                raise
        except Exception as error:
            running.set_exception(error)
            running.exception()  # the caller is told in any case, others if they wait
            await self._end.salvage()
            raise
        finally:
            alarm.stop()
            self._turn.wait.stop()
            self.running = None
            if not running.done():
                running.set_result(self._rules.make_result(self._turn.end))
            self._journal.report_end()
        return running.result()

    async def _stage_inputs(self, inputs: Sequence[Entry]) -> None:
        """Stage what comes before the first request: configuration, inputs, recovery.

        Inputs are taken before anything is waited for: what is said meanwhile comes after them.
        """
        machine, writer = self._journal.machine, self._journal.writer
        was_busy = not machine.is_at_rest
        self._stage_configuration()
        self._files.record_context()
        self._background.settle()
        if writer.note:
            self._turn.note(writer.note)
            writer.note = ""
        for entry in inputs:
            if isinstance(entry, Event):
                self._turn.fold(entry)
            else:
                self._journal.stage(entry)
        if was_busy and self._rules.is_new and not self.is_prepared:
            # This process has just recorded what begins the turn: nobody died.
            self._turn.due = self._journal.machine.obligations()
            self._rules.announce_start()
            await self._files.observe()
        elif was_busy:
            self._scheduler.clear()
            done = ToolExecutionStatus.Completed
            calls = [call for call, status in machine.round if not isinstance(status, done)]
            # Before anybody is asked: a stop meanwhile keeps the files, too.
            self._files.resume_round(may_change=self._scheduler.may_change(calls))
            await self._recovery.recover(is_own=self.is_prepared)
        elif not self.is_prepared:
            await self._files.observe()
        self.is_prepared = True

    def _stage_configuration(self) -> None:
        """Record the configuration if it is news; what was granted meanwhile is part of it."""
        now = self._journal.machine.config
        wanted = replace(self.configuration.config, granted=now.granted, grants=now.grants)
        self.configuration = replace(self.configuration, config=wanted)
        if self.configuration != Configured(now, self._journal.fold.provider):
            self._journal.stage(self.configuration)

    async def _run_loop(self) -> None:
        """Until the machine is at rest and nothing is left to deliver."""
        while True:
            while self._inbox:
                item = self._inbox.pop()
                if isinstance(item, BaseException):
                    raise item
                self._turn.fold(item)
            await self._record_intents()
            has_news = await self._journal.commit_beside()
            if self._inbox or has_news:
                continue  # a stop: what is due does not begin; or it is another thing by now
            if await self._prepare_tools():  # the request is asked for anew, with them
                continue
            self._perform()
            machine = self._journal.machine
            if not machine.is_at_rest:
                await self._inbox.wait()
            elif machine.questions:
                if not await self._approvals.answer_questions():
                    calls = ", ".join(one.call.tool_name for one in machine.questions)
                    why = f"waiting for approval of: {calls}"
                    self._turn.end = Ending(TurnOutcome.APPROVAL, why)
                    break
            elif (said := self._rules.next_input()) is not None:
                self._turn.fold(said)
            else:
                await self._files.observe()
                await self._journal.commit_beside()
                if self._rules.next_input() is None:
                    break
        self._refresh_snapshot()

    async def _prepare_tools(self) -> bool:
        """Start what tools need before the turn's first request; whether other ones are offered.

        What the person said is on disk by then, and a stop does not wait for it.
        """
        tools = self._performer.tools
        is_due = isinstance(self._turn.due, SendLlmRequest) and not self._has_prepared_tools
        if not is_due or not have_start(tools):
            return False
        notices = await self._inbox.run_unless_stopped(tools.prepare())
        self._has_prepared_tools = True
        for words in notices:
            self._journal.emit(outputs.Notice((self._journal.redact or str)(words)))
        before = self._journal.machine.config.tools
        self.configuration = self._make_configuration(self.configuration.config)
        # Not `tools`: a person may have chosen another mode meanwhile, and with it another set.
        self._approvals.apply_configuration(self.configuration, self._performer.tools)
        if self._journal.machine.config.tools == before:
            return False
        self._turn.due = self._journal.machine.obligations()
        return True

    async def _record_intents(self) -> None:
        """Put the intent of what is due into the batch that is about to be committed."""
        while True:
            due = self._turn.due
            if isinstance(due, MaskResults):
                self._turn.fold(self._make_masking(due))
            elif isinstance(due, RunPostToolsHook) and self._has_nothing_to_commit():
                self._turn.fold(PostToolsHookCompleted(False, at=self._journal.now()))
            elif isinstance(due, ExecuteTools):
                self._turn.due = None
                await self._files.open_round(
                    self._journal.machine.round,
                    may_change=self._scheduler.may_change(due.calls),
                )
                if not self._inbox:  # else a stop: nothing is intended any more
                    self._scheduler.plan(due.calls)
            elif (
                isinstance(due, SendLlmRequest | Summarize)
                and (refused := self._rules.refuse_request(due)) is not None
            ):
                why, event = refused
                self._turn.end = Ending(TurnOutcome.LIMIT, why)
                self._turn.fold(event)
            elif isinstance(due, SendLlmRequest) and (
                said := self._rules.next_input(steering=True)
            ):
                self._turn.fold(said)  # the request is asked for anew, with it
            elif not self._scheduler.begin_calls():
                break
        await self._end.keep_files_after_round()

    def _make_masking(self, due: MaskResults) -> ResultsMasked:
        """What leaves old results out; nothing has to be waited for."""
        reader = find_output_reader(self._journal.machine.config)
        return ResultsMasked(Masking(due.through, due.size, reader), self._journal.now())

    def _has_nothing_to_commit(self) -> bool:
        """Whether the hook would find nothing.

        The machine asks for it after each round in which a tool succeeded that may change things,
        also where these very calls could only read: so older programs fold the same.
        """
        return self._performer.workspace is None or self._files.only_reads

    def _perform(self) -> None:
        """Begin what is due, now that its intent is on disk."""
        due, self._turn.due = self._turn.due, None
        if isinstance(due, SendLlmRequest):
            self._work.start(self._performer.call_model(due.request))
        elif isinstance(due, Summarize):
            self._journal.emit(outputs.Notice("compacting the conversation"))
            self._work.start(self._performer.summarize(due))
        elif isinstance(due, RunPostToolsHook):
            files = self._files
            hook = self._performer.run_hook(
                due.completed_tools, files.before, files.observe, is_whole=files.is_whole
            )
            self._work.start(hook)
        elif due is not None and (work := self._make_own_work(due)) is not None:
            self._work.start(work)
        for call, is_refused in self._scheduler.pop_started_calls():
            self._work.start(self._performer.run_call(call, is_refused=is_refused))
        retry = self._journal.machine.retry
        if retry is not None and not self._work.is_timer_armed:
            self._journal.emit(outputs.Retrying(retry.error, retry.delay_s))
            self._work.arm_timer(
                retry.delay_s, lambda: self._inbox.put(RetryTimeoutFired(self._journal.now()))
            )

    def _make_own_work(self, due: AgentAction) -> Coroutine[Any, Any, Event] | None:
        return self._rules.make_action_work(due, self._performer.provider, self._performer.tools)

    def _refresh_snapshot(self) -> None:
        try:
            self._journal.writer.refresh_snapshot()
        except DiskError as error:
            self._journal.emit(outputs.Notice(f"no snapshot was written: {error.message}"))
