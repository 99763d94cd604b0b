"""The driver: one open thread, its machine, and the world.

The way of an event: it arrives in the inbox; `_take` folds it and puts it into the batch;
`_commit` makes the batch durable; `_perform` does what the machine asked for; what comes of that
arrives in the inbox. Nothing is performed, and nothing shown as done, before the batch it follows
from is on disk.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from msgspec.structs import replace

from treadle.core.actions import (
    AgentAction,
    DisplayError,
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
)
from treadle.core.chat.states import Error, ExecutingTools, WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.events import (
    CancelRequested,
    DurableEvent,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ShutdownRequested,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.llm import LlmRequest, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import CompletedToolInfo, EffectClass, ToolExecutionStatus, ToolProgress
from treadle.errors import DiskError, StoreError, UsageError
from treadle.runtime import outputs
from treadle.runtime.calls import call_model, look_at, presentable, refusal, run_call, run_hook
from treadle.runtime.inbox import Inbox, Stop
from treadle.runtime.outputs import Ending, Output, TurnFinished, TurnOutcome
from treadle.runtime.ports import Provider, Redactor, Tools, Workspace, Writer
from treadle.runtime.recovery import Answer, Resolution, completed_by, describe, open_calls
from treadle.runtime.telling import output_of
from treadle.runtime.work import Work
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Configured, GitObserved, InputQueued, Recovered
from treadle.thread.record import clean
from treadle.thread.recovery import Decision, Standing


class Session:
    """A thread that is open for work.

    Args:
        writer: the thread, as `LocalStore.create` or `LocalStore.open` gives it.
        provider: who answers.
        tools: who runs calls.
        config: model, limits, prompt; `None` keeps what the thread has recorded. The definitions
            of the tools are put in by the session.
        workspace: who knows the folder; without one nothing is observed and no hook runs.
        redactor: keeps known secrets out of records and requests.
        ask: asked about a call that a crash left uncertain; without it the model is told.
        hook_usage: what the post-tools hook has used since it was last asked, and of which model.
        on_output: gets every output as it happens.

    What the thread's last process left unfinished is taken up by the first `turn` or `resume`.
    """

    def __init__(
        self,
        writer: Writer,
        provider: Provider,
        tools: Tools,
        config: AgentConfig | None = None,
        *,
        workspace: Workspace | None = None,
        redactor: Redactor | None = None,
        ask: Callable[[ToolCall], Awaitable[Answer]] | None = None,
        hook_usage: Callable[[], tuple[Usage | None, str]] = lambda: (None, ""),
        on_output: Callable[[Output], None] | None = None,
    ) -> None:
        self._writer = writer
        self._provider = provider
        self._tools = tools
        config = writer.fold.machine.config if config is None else config
        wanted = Configured(replace(config, tools=tuple(tools.definitions())), provider.name)
        redact = self._redact = redactor.redact if redactor is not None else None
        self._wanted, _ = encode_entry(wanted, redact)  # as a record will say it: to be compared
        assert isinstance(self._wanted, Configured)
        self._config = self._wanted.config
        self._workspace = workspace
        self._ask = ask
        self._hook_usage = hook_usage
        self._listeners = [] if on_output is None else [on_output]
        self._inbox = Inbox()
        self._work = Work(self._inbox.put)
        self._due: AgentAction | None = None
        self._later: list[Output] = []
        self._partial_text = io.StringIO()
        self._before = writer.fold.observed
        self._saw_round = False
        self._is_prepared = False
        self._running: asyncio.Future[TurnFinished] | None = None
        self._end = Ending()

    # ---- what people ask of a session ----------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._writer.thread_id

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return self._config.model_name

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: the agent waits for input."""
        return isinstance(self._writer.fold.state, WaitingForUserInput)

    @property
    def conversation(self) -> Sequence[Message]:
        """All messages so far."""
        return self._writer.fold.conversation

    async def turn(self, text: str) -> TurnFinished:
        """Say something and work until the agent waits again.

        If the thread was left busy, that is finished first. If a turn is running already, the
        input is queued, durably, and the running turn delivers it; this waits for it too.

        Raises:
            UsageError: there is nothing in the text.
            StoreError: the disk refused; this session is finished, what was acknowledged is safe.
        """
        if not text.strip():
            raise UsageError("the prompt is empty", hint="say what the agent is to do")
        message = Message.user(clean(text))
        if self._running is None:
            return await self._run(message)
        self._writer.stage(InputQueued(message), self._redact)
        try:
            self._commit()
        except StoreError as error:
            self._inbox.put(error)  # the running turn cannot go on either
            raise
        return await asyncio.shield(self._running)

    async def resume(self) -> TurnFinished:
        """Finish what was left unfinished; returns at once if nothing was. Raises as `turn`."""
        return await (self._run(None) if self._running is None else asyncio.shield(self._running))

    async def stream(self, text: str | None) -> AsyncGenerator[Output, None]:
        """`turn` (or `resume`, for `None`) as a stream of outputs, ending with `TurnFinished`."""
        queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._listeners.append(queue.put_nowait)
        turn = asyncio.ensure_future(self.resume() if text is None else self.turn(text))
        turn.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (output := await queue.get()) is not None:
                yield output
            yield await turn
        finally:
            self._listeners.remove(queue.put_nowait)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End the running turn; what is known is kept, open calls are answered as cancelled."""
        if self._running is not None:
            self._inbox.put(Stop(TurnOutcome.CANCELLED, reason))

    def interrupt(self) -> None:
        """Stop the running turn where it is; it stays unfinished on disk, to be resumed."""
        if self._running is not None:
            self._inbox.put(Stop(TurnOutcome.INTERRUPTED, "the session was closed"))

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread.

        A turn that was running stays unfinished on disk, to be resumed.
        """
        try:
            while self._running is not None:
                self.interrupt()
                await asyncio.wait({self._running})
            if self._writer.is_usable and self._is_prepared and self.is_waiting:
                await self._observe()
                self._commit()
        finally:
            problem = self._writer.close()
            self._writer.fold.machine.handle_event(ShutdownRequested())
        if problem is not None:
            self._emit(outputs.Notice(f"no snapshot was written: {problem}"))

    # ---- the loop ------------------------------------------------------------------------------

    async def _run(self, message: Message | None) -> TurnFinished:
        if not self._writer.is_usable:
            why = "this session is finished: it was closed, or the disk refused"
            raise StoreError(why, hint="open the thread again")
        running: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        self._running = running
        self._inbox.clear()  # a stop that came when the last turn was over is not for this one
        self._end, self._due = Ending(), None
        try:
            try:
                await self._begin(message)
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
            self._running = None
            if not running.done():
                running.set_result(self._finished())
        return running.result()

    def _finished(self) -> TurnFinished:
        fold = self._writer.fold
        answer = ""
        if self._end.outcome is TurnOutcome.DONE and fold.conversation:
            last = fold.conversation[-1]
            answer = last.content if last.role == "assistant" else ""
        return TurnFinished(
            self.thread_id,
            self._end.outcome,
            answer,
            fold.version,
            fold.usage,
            fold.turn_usage,
            self._end.error,
            self._end.error_kind,
        )

    async def _begin(self, message: Message | None) -> None:
        """Stage what comes before the first request: configuration, the prompt, recovery.

        The prompt is taken before anything is waited for: what is said meanwhile comes after it.
        """
        fold = self._writer.fold
        was_busy = not self.is_waiting
        if self._wanted != Configured(fold.machine.config, fold.provider):
            self._writer.stage(self._wanted)
        if self._writer.note:
            self._note(self._writer.note)
            self._writer.note = ""
        if message is not None and (was_busy or fold.queued):
            self._writer.stage(InputQueued(message), self._redact)
        elif message is not None:
            self._take(UserInput(message))
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
        """Until the machine waits and nothing is left to deliver."""
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
            if not self.is_waiting:
                await self._inbox.wait()
            elif self._writer.fold.queued:
                self._take(UserInput(self._writer.fold.queued[0]))
            else:
                await self._observe()
                self._commit()
                if not self._writer.fold.queued:
                    break
        self._refresh_snapshot()

    def _take(self, event: DurableEvent) -> None:
        """Fold one event; remember the action it asks for until the batch is durable."""
        before = self._writer.fold.state
        action = self._writer.stage(event, self._redact)
        if isinstance(action, SendLlmRequest | ExecuteTools | RunPostToolsHook):
            self._due = action
        elif type(self._writer.fold.state) is not type(before):
            self._due = None
        if isinstance(event, UserInput):
            self._end = Ending()
            prompt = self.conversation[-1].content
            self._later.append(outputs.TurnStarted(self.thread_id, prompt))
        elif (told := output_of(event, before)) is not None:
            self._later.append(told)
        if isinstance(action, DisplayError) and isinstance(event, LlmEvent.Error):
            self._end = Ending(TurnOutcome.FAILED, action.text, event.error.kind)
            self._later.append(outputs.ErrorShown(action.text))

    async def _intend(self) -> None:
        """Put the intent of what is due into the batch that is about to be committed."""
        if isinstance(self._due, RunPostToolsHook) and self._workspace is None:
            self._take(PostToolsHookCompleted(False))
        due = self._due
        if isinstance(due, SendLlmRequest):
            limit = self._config.max_steps
            if limit and self._writer.fold.turn_steps >= limit:
                why = f"stopped after {limit} model requests (max steps)"
                self._end = Ending(TurnOutcome.LIMIT, why)
                self._take(CancelRequested(reason=why))
        elif isinstance(due, ExecuteTools):
            state = self._writer.fold.state
            assert isinstance(state, ExecutingTools)
            pending = ToolExecutionStatus.Pending
            if all(isinstance(status, pending) for status in state.executions):
                self._saw_round = True
                if any(self._effect(call) is not EffectClass.READ for call in due.calls):
                    self._before = await self._observe()
                    if self._inbox:  # a stop: nothing is intended any more
                        return
            startable = {
                status.call_id
                for status in state.executions
                if isinstance(status, pending) or getattr(status, "uncertain", False)
            }
            for call in due.calls:
                if call.id in startable:
                    self._take(ToolStarted(call.id, self._writer.now()))
                self._later.append(outputs.ToolStarted(call))

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
            self._work.start(self._call_model(due.request))
        elif isinstance(due, ExecuteTools):
            for call in due.calls:
                self._work.start(self._run_call(call))
        elif isinstance(due, RunPostToolsHook):
            self._work.start(self._run_hook(due.completed_tools))
        state = self._writer.fold.state
        if isinstance(state, Error) and not self._work.is_timer_armed:
            self._emit(outputs.Retrying(state.error, state.delay_s))
            self._work.arm_timer(state.delay_s, lambda: self._inbox.put(RetryTimeoutFired()))

    # ---- the work ------------------------------------------------------------------------------

    async def _call_model(self, request: LlmRequest) -> DurableEvent:
        self._partial_text = io.StringIO()
        limit_s = self._config.llm_timeout_s
        event = await call_model(self._provider, request, limit_s, self._on_delta)
        self._partial_text = io.StringIO()
        if isinstance(event, LlmEvent.Error):
            return replace(event, jitter=random.random())  # noqa: S311  spreads retries only
        return replace(event, at=self._writer.now())

    def _on_delta(
        self, event: LlmEvent.TextDelta | LlmEvent.ThinkingDelta | LlmEvent.ToolCallDelta
    ) -> None:
        self._writer.fold.machine.handle_event(event)
        if isinstance(event, LlmEvent.TextDelta):
            self._partial_text.write(event.content)
            self._emit(outputs.TextDelta(clean(event.content)))
        elif isinstance(event, LlmEvent.ThinkingDelta) and event.content:
            self._emit(outputs.ThinkingDelta(clean(event.content)))

    async def _run_call(self, call: ToolCall) -> DurableEvent:
        def on_progress(progress: ToolProgress) -> None:
            event = ToolProgressEvent(call.id, progress, self._writer.now())
            self._writer.fold.machine.handle_event(event)
            if self._redact is not None and progress.message:
                progress = replace(progress, message=self._redact(progress.message))
            self._emit(outputs.ToolProgressed(call.id, progress))

        key = f"{self.thread_id}:{call.id}"
        limit_s = self._config.tool_timeout_s
        outcome = refusal(call) if self._effect(call) is not EffectClass.READ else None
        if outcome is None:
            outcome = await run_call(self._tools, call, key, limit_s, on_progress)
        outcome = presentable(outcome, call.id, self._redact or str)
        return ToolCompleted(call.id, outcome, self._writer.now())

    async def _run_hook(self, completed: tuple[CompletedToolInfo, ...]) -> DurableEvent:
        assert self._workspace is not None
        trailer = f"Treadle-Thread: {self.thread_id}@{self._writer.fold.version}"
        event = await run_hook(
            self._workspace, completed, self._before, is_whole=self._saw_round, trailer=trailer
        )
        await self._observe()
        usage, model = self._hook_usage()
        return replace(event, usage=usage, model=model)

    async def _observe(self) -> GitObserved | None:
        """Look at the repository and record how it stands, if that is news."""
        if self._workspace is None:
            return None
        seen = await look_at(self._workspace)
        if seen is not None and seen != self._writer.fold.observed:
            self._writer.stage(seen, self._redact)
        return seen

    # ---- stopping ------------------------------------------------------------------------------

    async def _stop(self, stop: Stop) -> None:
        """End all work, record what is known of it, and settle the thread.

        Calls that can say how far they got do; a cancel answers the others. When the process
        ends instead, they stay open: recovery decides when the thread is opened again.
        """
        so_far, self._end = self._end, Ending(stop.outcome, stop.reason)
        await self._work.end()
        text, self._partial_text = self._partial_text.getvalue(), io.StringIO()
        while self._inbox:
            item = self._inbox.take()
            if not isinstance(item, BaseException):
                self._take(item)
        is_over = self.is_waiting and not self._writer.fold.queued
        if is_over and self._end.outcome is stop.outcome:  # the stop came too late
            self._end = so_far
        if stop.outcome is not TurnOutcome.INTERRUPTED and not self.is_waiting:
            self._take(CancelRequested(text, stop.reason))
        self._due = None
        self._commit()

    # ---- recovery ------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Take up what the last process left."""
        fold = self._writer.fold
        state = fold.state
        if not isinstance(state, ExecutingTools):
            self._due = fold.machine.obligations()
            self._note(f"the process had died in {type(state).__name__}; going on from there")
            return
        found = open_calls(state, self._config.effect_of, has_person=self._ask is not None)
        self._note(describe(found))
        doubtful = [one for one in found if one.decision in (Decision.ASK, Decision.REPORT)]
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

    def _effect(self, call: ToolCall) -> EffectClass:
        return self._config.effect_of(call.tool_name)

    def _refresh_snapshot(self) -> None:
        try:
            self._writer.refresh_snapshot()
        except DiskError as error:
            self._emit(outputs.Notice(f"no snapshot was written: {error.message}"))
