"""What is common to everybody who works on a thread: opening it, deciding, stopping, closing."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Self

from msgspec.structs import replace

from treadle import outputs
from treadle.answers import Answer, Verdict
from treadle.core.actions import SendLlmRequest, Summarize
from treadle.core.approval import Approved, Decision, Grant, Question
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.events import ToolCompleted
from treadle.core.llm import Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import Outcome, ToolExecutionStatus
from treadle.errors import StoreError, UsageError
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.approvals import make_kind_grants, make_tool_grant
from treadle.runtime.fail_closed_redaction import make_fail_closed, make_fail_closed_streams
from treadle.runtime.inbox import StopRequest
from treadle.runtime.performer import Performer
from treadle.runtime.ports import (
    FileStateSaver,
    LivePublisher,
    Provider,
    TextRedactor,
    Tools,
    Workspace,
    Writer,
)
from treadle.runtime.recovery_loop import RecoveryLoop
from treadle.runtime.subagents import (
    ChildEngine,
    ParentCall,
    SubAgent,
    cancel_sub_agent_call,
    reject_unattended,
    run_sub_agent,
)
from treadle.runtime.workspace_observer import WorkspaceObserver
from treadle.runtime.writability import check_writable
from treadle.thread.codec import Entry, Event, encode_entry
from treadle.thread.facts import ChildStarted, Configured, ContextObserved, Revoked
from treadle.thread.grants import GrantFact, list_grants
from treadle.thread.task_state import get_model_name


class Driver(RecoveryLoop):
    """What is common to everybody who works on a thread: `Session`, `AgentEngine`.

    Args:
        writer: the thread, as `LocalStore.create` or `LocalStore.open` gives it.
        provider: who answers.
        tools: who runs calls.
        config: model, limits, prompt; `None` keeps what the thread has recorded. The definitions
            of the tools are put in by the driver.
        workspace: who knows the folder; without one nothing is observed and no hook runs.
        files: who keeps the files as they were before and after each round that may change them.
        context: where and how the agent works; recorded when it is news.
        redactor: keeps known secrets out of records and requests.
        ask: asked about a call that a crash left uncertain; without it the model is told.
        approve: asked about a call that needs a yes; without it the call waits, on disk.
        hook_usage: what the post-tools hook has used since it was last asked, and of which model.
        fault_of: why an answer does not have the form that was asked for; empty if it has.
        sub_agents: tools whose calls are worked on by agents of their own.
        on_output: gets every output as it happens.
        live: tells watchers in other processes what is being said; closed with this.

    What the thread's last process left unfinished is taken up by whatever is asked for first.
    """

    def __init__(
        self,
        writer: Writer,
        provider: Provider,
        tools: Tools,
        config: AgentConfig | None = None,
        *,
        workspace: Workspace | None = None,
        files: FileStateSaver | None = None,
        context: ContextObserved | None = None,
        redactor: TextRedactor | None = None,
        ask: Callable[[Question], Awaitable[Answer]] | None = None,
        approve: Callable[[Question], Awaitable[Verdict]] | None = None,
        hook_usage: Callable[[], tuple[Usage | None, str]] = lambda: (None, ""),
        fault_of: Callable[[str], str] | None = None,
        sub_agents: Sequence[SubAgent] = (),
        on_output: Callable[[Output], None] | None = None,
        live: LivePublisher | None = None,
    ) -> None:
        self._writer = writer
        self._live = live
        self._redact = make_fail_closed(redactor.redact) if redactor is not None else None
        streams = getattr(redactor, "stream", None)
        self._sub_agents = {agent.name: agent for agent in sub_agents}
        self._at_work: dict[str, ChildEngine] = {}
        hands = Performer(
            writer,
            provider,
            tools,
            workspace=workspace,
            redact=self._redact,
            streams=make_fail_closed_streams(streams) if streams is not None else None,
            hook_usage=hook_usage,
            fault_of=fault_of,
            delegate=self._delegate,
            emit=self._emit,
            live=live,
        )
        super().__init__(
            writer,
            hands,
            WorkspaceObserver(writer, workspace, files, context, self._redact, self._notify),
            self._make_configuration(config, provider, tools),
            redact=self._redact,
            ask=ask,
            approve=approve,
            on_output=on_output,
        )

    def _notify(self, text: str) -> None:
        self._later.append(outputs.Notice(text))

    def _make_configuration(
        self, config: AgentConfig | None, provider: Provider, tools: Tools
    ) -> Configured:
        """What the thread is to record of its configuration, as a record will say it."""
        machine = self._writer.fold.machine
        recorded = machine.config
        config = recorded if config is None else config
        model, limit = get_model_name(machine, config), config.context_tokens_max
        if limit == recorded.context_tokens_max and model != get_model_name(machine, recorded):
            limit = 0  # it is that of another model
        limit = limit or provider.traits(model).context_tokens_max or 0
        config = replace(config, context_tokens_max=limit)
        banned = machine.memory.blacklisted_tools if isinstance(machine, TaskMachine) else ()
        known = (*tools.definitions(), *(one.definition for one in self._sub_agents.values()))
        offered = tuple(one for one in known if one.name not in banned)
        config = replace(config, tools=offered, granted=recorded.granted, grants=recorded.grants)
        wanted, _ = encode_entry(Configured(config, provider.name), self._redact)
        assert isinstance(wanted, Configured)
        return wanted

    # ---- what people ask of it -----------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._writer.thread_id

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return get_model_name(self._writer.fold.machine, self._configuration.config)

    @property
    def conversation(self) -> Sequence[Message]:
        """All messages so far."""
        return self._writer.fold.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `decide` answers them."""
        return self._writer.fold.machine.questions

    def configure(
        self,
        config: AgentConfig | None = None,
        *,
        provider: Provider | None = None,
        tools: Tools | None = None,
    ) -> None:
        """Work with another configuration from the next decision on, also in a running turn.

        It is durable when this returns. The request and the calls in flight go on as they are. A
        call that has not begun is judged anew: one whose tool is not offered any more does not
        run, and one that lacks a yes now ends with words that say so. Of the calls that wait for a
        person, those that need no yes now go on, those whose tool is gone are refused; if no turn
        is running, `resume` does that. What was allowed for good stays allowed.

        Args:
            config: as for `Driver`; `None` keeps what is recorded.
            provider: who answers from now on; `None` keeps who does.
            tools: who runs calls from now on; `None` keeps who does.

        Raises:
            StoreError: as `resume`; nothing has changed then.
        """
        provider, tools = provider or self._performer.provider, tools or self._performer.tools
        check_writable(self._writer)
        before = self._performer.provider, self._performer.tools
        self._performer.provider, self._performer.tools = provider, tools
        try:
            self._configuration = self._reconfiguration.apply(
                self._make_configuration(config, provider, tools)
            )
            if isinstance(self._due, SendLlmRequest | Summarize):
                self._due = self._writer.fold.machine.obligations()  # as it is sent now
            self._commit_at_once()
        except BaseException:
            self._performer.provider, self._performer.tools = before
            raise

    def _record_at_once(self, entry: Entry) -> None:
        """Make a fact durable, whether a turn is running or not."""
        check_writable(self._writer)
        self._writer.stage(entry, self._redact)
        self._commit_at_once()

    def _commit_at_once(self) -> None:
        try:
            self._commit()
        except StoreError as error:
            if self._running is not None:
                self._inbox.put(error)  # the running turn cannot go on either
            raise

    async def resume(self) -> TurnFinished:
        """Finish what was left unfinished; returns at once if nothing was.

        Raises:
            StoreError: the disk refused; this session is finished, what was acknowledged is safe.
        """
        return await (self._run() if self._running is None else self._wait_for_run())

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What a person has allowed for the rest of the thread."""
        return list_grants(self._writer.fold.machine.config)

    def revoke(self, grant: Grant) -> None:
        """Take back what a person has allowed, now and also for the turn that is running.

        Calls that have begun go on. A grant of a whole tool takes those of its kinds with it.

        Raises:
            UsageError: there is no such grant; nothing was recorded.
            StoreError: as `resume`.
        """
        is_there = any(
            (one.tool_name, one.kind) == (grant.tool_name, grant.kind) for one in self.grants
        )
        if not is_there:
            what = f"{grant.tool_name}: {grant.kind}" if grant.kind else grant.tool_name
            raise UsageError(f"{what} is not allowed for good in this thread")
        check_writable(self._writer)
        self._record_grant(Revoked(grant.tool_name, grant.kind))
        self._commit_at_once()

    async def decide(
        self,
        decisions: Mapping[str, Decision],
        *,
        grant: Sequence[str] = (),
        kinds: Mapping[str, Sequence[str]] | None = None,
    ) -> TurnFinished:
        """Say what becomes of calls that wait for a person, by call id, and go on.

        Args:
            decisions: by call id; the others wait on.
            grant: tools that are allowed for the rest of the thread, up to the risk of their calls
                that are approved here, as they are: a modified one may be another matter.
            kinds: by call id, kinds of a call approved here that are allowed for the rest of the
                thread, up to its risk and on its ground.

        Raises:
            UsageError: a call does not wait for a person, a tool or a kind is granted none of whose
                calls is approved here, or a person is being asked already; nothing was recorded.
            StoreError: as `resume`.
        """
        waiting = {question.call.id: question for question in self.questions}
        for call_id in decisions:
            if call_id not in waiting:
                calls = ", ".join(sorted(waiting)) or "none"
                raise UsageError(
                    f"no call {call_id!r} waits for approval", hint=f"those that wait: {calls}"
                )
        if self._running is not None:
            raise UsageError("a person is being asked already", hint="wait until that is over")
        allowed = {
            call_id: waiting[call_id]
            for call_id, decision in decisions.items()
            if isinstance(decision, Approved)
        }
        granted: list[GrantFact] = [make_tool_grant(name, [*allowed.values()]) for name in grant]
        for call_id, named in (kinds or {}).items():
            if call_id not in allowed:
                raise UsageError(
                    f"call {call_id!r} is not allowed here, so its kinds cannot be granted",
                    hint="grant kinds of a call together with a yes to it",
                )
            granted += make_kind_grants(allowed[call_id], named)
        decided = [
            self._make_decision_event(waiting[call_id], waiting[call_id], decision)
            for call_id, decision in decisions.items()
        ]
        return await self._run(*granted, *decided)

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End what is running; what is known is kept."""
        if self._running is not None:
            self._inbox.put(StopRequest(TurnOutcome.CANCELLED, reason))

    def interrupt(self) -> None:
        """Stop what is running where it is; it stays unfinished on disk, to be resumed."""
        if self._running is not None:
            self._inbox.put(StopRequest(TurnOutcome.INTERRUPTED, "the session was closed"))

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread.

        What was running stays unfinished on disk, to be resumed.
        """
        try:
            while self._running is not None:
                self.interrupt()
                await asyncio.wait({self._running})
            if self._writer.is_usable and self._is_prepared and self.is_waiting:
                await self._observer.observe()
                self._commit()
        finally:
            if self._live is not None:
                self._live.close()
            problem = self._writer.close()
        if problem is not None:
            self._emit(outputs.Notice(f"no snapshot was written: {problem}"))

    async def _stream_outputs(
        self, work: Callable[[], Coroutine[Any, Any, TurnFinished]]
    ) -> AsyncGenerator[Output, None]:
        """Work as a stream of outputs, ending with `TurnFinished`."""
        queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._listeners.append(queue.put_nowait)
        task = asyncio.ensure_future(work())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (output := await queue.get()) is not None:
                yield output
            yield await task
        finally:
            self._listeners.remove(queue.put_nowait)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _wait_for_run(self) -> TurnFinished:
        """The end of what is running."""
        assert self._running is not None
        return await asyncio.shield(self._running)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- sub-agents ----------------------------------------------------------------------------

    def _budget_left(self) -> TokenBudget | None:
        """What a sub-agent that begins now may use at most."""
        return None

    def _delegate(self, call: ToolCall) -> Coroutine[Any, Any, tuple[Outcome, Usage | None]] | None:
        """Work on the call of a sub-agent; `None` if it is none."""
        agent = self._sub_agents.get(call.tool_name)
        if agent is None:
            return None
        fold = self._writer.fold
        origin = ParentCall(
            self.thread_id,
            call.id,
            fold.header.depth + 1,
            self._share_budget(),
            reject_unattended if self._approve is None else self._ask_for_verdict,
            fold.is_private,
        )
        return run_sub_agent(agent, call, origin, fold.children, self._record_child, self._at_work)

    def _complete_stopped_calls(self, reason: str) -> Iterable[Event]:
        """What sub-agents used that were at work; else it would be lost with their calls."""
        for call, child in self._list_open_children():
            outcome = cancel_sub_agent_call(call, child, reason)
            yield ToolCompleted(call.id, outcome, self._writer.now(), child.total_usage)
        self._at_work.clear()

    def _list_open_children(self) -> list[tuple[ToolCall, ChildEngine]]:
        """The calls that are not over, with the sub-agents that were at work on them."""
        return [
            (call, self._at_work[call.id])
            for call, status in self._writer.fold.machine.round
            if call.id in self._at_work and not isinstance(status, ToolExecutionStatus.Completed)
        ]

    def _share_budget(self) -> TokenBudget | None:
        """What is left, shared by the sub-agents whose calls are open: together they stay in it."""
        left = self._budget_left()
        open_count = sum(
            call.tool_name in self._sub_agents
            and not isinstance(status, ToolExecutionStatus.Completed)
            for call, status in self._writer.fold.machine.round
        )
        return None if left is None else left.split_between(max(1, open_count))

    def _record_child(self, call_id: str, thread_id: str) -> None:
        self._writer.stage(ChildStarted(call_id, thread_id))
        self._commit()
