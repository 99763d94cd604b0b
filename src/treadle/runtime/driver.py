"""A thread that is open for work, and what people and programs ask of it.

The loop is in `loop.py`, its parts are listed in `parts.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import SendLlmRequest, Summarize
from treadle.core.approval import Decision, Grant, Question
from treadle.core.config import AgentConfig
from treadle.core.messages import Message
from treadle.core.task.machine import TaskMachine
from treadle.errors import StoreError, UsageError
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.inbox import StopRequest
from treadle.runtime.loop import LEFT, TurnLoop
from treadle.runtime.parts import TurnParts
from treadle.runtime.ports import LivePublisher, Provider, Tools
from treadle.runtime.subagents import SubAgent
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import Configured, Revoked
from treadle.thread.grants import list_grants
from treadle.thread.task_state import get_model_name


class Driver:
    """What is common to everybody who works on a thread.

    What the thread's last process left unfinished is taken up by whatever is asked for first.

    Args:
        parts: who does what.
        config: model, limits, prompt; `None` keeps what the thread has recorded. The definitions
            of the tools are put in here.
        live: tells watchers in other processes what is being said; closed with this.
    """

    def __init__(
        self, parts: TurnParts, config: AgentConfig | None, live: LivePublisher | None = None
    ) -> None:
        self.journal = parts.journal
        self.performer = parts.performer
        self.background = parts.background
        self.approvals = parts.approvals
        self._parts = parts
        self._live = live
        self._loop = TurnLoop(parts, self._make_configuration(config), self._make_configuration)

    def _make_configuration(self, config: AgentConfig | None) -> Configured:
        """What the thread is to record of its configuration, as a record will say it."""
        machine = self.journal.fold.machine
        provider, tools = self.performer.provider, self.performer.tools
        recorded = machine.config
        config = recorded if config is None else config
        model, limit = get_model_name(machine, config), config.context_tokens_max
        if limit == recorded.context_tokens_max and model != get_model_name(machine, recorded):
            config = replace(config, context_tokens_max=0)  # it is that of another model
        config = config.with_limits(provider.traits(model).context_tokens_max)
        banned = machine.memory.blacklisted_tools if isinstance(machine, TaskMachine) else ()
        known = (*tools.definitions(), *self._parts.sub_agents.definitions)
        offered = tuple(one for one in known if one.name not in banned)
        config = replace(config, tools=offered, granted=recorded.granted, grants=recorded.grants)
        wanted, _ = encode_entry(Configured(config, provider.name), self.journal.redact)
        assert isinstance(wanted, Configured)
        return wanted

    # ---- what it is ----------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.journal.writer.thread_id

    @property
    def config(self) -> AgentConfig:
        """What the thread works with, or will from the next turn on."""
        return self._loop.configuration.config

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return get_model_name(self.journal.fold.machine, self._loop.configuration.config)

    @property
    def conversation(self) -> Sequence[Message]:
        """All messages so far."""
        return self.journal.fold.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `decide` answers them."""
        return self.journal.machine.questions

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What a person has allowed for the rest of the thread."""
        return list_grants(self.journal.machine.config)

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        return self._loop.running is not None

    @property
    def is_prepared(self) -> bool:
        """Whether a turn has begun in this process."""
        return self._loop.is_prepared

    # ---- what people ask of it -----------------------------------------------------------------

    async def run(self, *inputs: Entry) -> TurnFinished:
        """Record the inputs, work until nothing is left to do; no turn may be running."""
        return await self._loop.run(*inputs)

    async def resume(self) -> TurnFinished:
        """Finish what was left unfinished; returns at once if nothing was.

        Raises:
            StoreError: the disk refused; this session is finished, what was acknowledged is safe.
        """
        return await self.wait()

    async def wait(self) -> TurnFinished:
        """The end of the turn that is running; one that was left, or none, goes on here.

        A stream that somebody breaks out of is closed by the event loop, which may do so later than
        the next thing is asked of the thread.
        """
        while self._loop.running is not None:
            finished = await asyncio.shield(self._loop.running)
            if (finished.outcome, finished.error) != (LEFT.outcome, LEFT.reason):
                return finished
        return await self.run()

    def configure(
        self,
        config: AgentConfig | None = None,
        *,
        provider: Provider | None = None,
        tools: Tools | None = None,
        sub_agents: Sequence[SubAgent] | None = None,
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
            sub_agents: those that are offered from now on; `None` keeps them.

        Raises:
            StoreError: as `resume`; nothing has changed then.
        """
        provider, tools = provider or self.performer.provider, tools or self.performer.tools
        self.journal.check_writable()
        before = self.performer.provider, self.performer.tools
        self.performer.provider, self.performer.tools = provider, tools
        self._parts.sub_agents.offer(sub_agents)
        try:
            self._loop.configuration = self._make_configuration(config)
            self.approvals.apply_configuration(self._loop.configuration, tools)
            if isinstance(self._parts.turn.due, SendLlmRequest | Summarize):
                self._parts.turn.due = self.journal.machine.obligations()  # as it is sent now
            self._commit_at_once()
        except BaseException:
            self.performer.provider, self.performer.tools = before
            self.approvals.tools = before[1]
            raise
        self._parts.sub_agents.follow_configuration()

    def record(self, *entries: Entry) -> None:
        """Make facts durable together, whether a turn is running or not."""
        self.journal.check_writable()
        for entry in entries:
            self.journal.stage(entry)
        self._commit_at_once()

    def _commit_at_once(self) -> None:
        try:
            self.journal.commit()
        except StoreError as error:
            if self.is_running:
                self._parts.inbox.put(error)  # the running turn cannot go on either
            raise

    def revoke(self, grant: Grant) -> None:
        """Take back what a person has allowed, now and also for the turn that is running.

        Calls that have begun go on. A grant of a whole tool takes those of its kinds with it.

        Raises:
            UsageError: there is no such grant; nothing was recorded.
            StoreError: as `resume`.
        """
        known = {(one.tool_name, one.kind) for one in self.grants}
        if (grant.tool_name, grant.kind) not in known:
            what = f"{grant.tool_name}: {grant.kind}" if grant.kind else grant.tool_name
            raise UsageError(f"{what} is not allowed for good in this thread")
        self.record(Revoked(grant.tool_name, grant.kind))

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
        entries = self.approvals.make_entries(decisions, grant, kinds or {})
        if self.is_running:
            raise UsageError("a person is being asked already", hint="wait until that is over")
        return await self.run(*entries)

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End what is running; what is known is kept."""
        if self.is_running:
            self._parts.inbox.put(StopRequest(TurnOutcome.CANCELLED, reason))

    def interrupt(self) -> None:
        """Stop what is running where it is; it stays unfinished on disk, to be resumed."""
        if self.is_running:
            self._parts.inbox.put(StopRequest(TurnOutcome.INTERRUPTED, "the session was closed"))

    def add_listener(self, listener: Callable[[Output], None]) -> None:
        """Tell one more, from now on, of every output as it happens."""
        self.journal.add_listener(listener)

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread.

        What was running stays unfinished on disk, to be resumed.
        """
        try:
            while self.is_running:
                self.interrupt()
                assert self._loop.running is not None
                await asyncio.wait({self._loop.running})
            await self.background.close()
            can_write = self.journal.writer.is_usable and self.is_prepared
            if can_write and self._parts.rules.is_waiting:
                await self._parts.files.observe()
                await self.journal.commit_beside()
        finally:
            if self._live is not None:
                self._live.close()
            problem = await self.journal.close_beside()
        if problem is not None:
            self.journal.emit(outputs.Notice(f"no snapshot was written: {problem}"))

    def stream(
        self, work: Callable[[], Coroutine[Any, Any, TurnFinished]]
    ) -> AsyncGenerator[Output, None]:
        """Work as a stream of outputs, ending with `TurnFinished`."""
        return _follow_work(self.journal, self._loop, work)


async def _follow_work(
    journal: ThreadJournal, loop: TurnLoop, work: Callable[[], Coroutine[Any, Any, TurnFinished]]
) -> AsyncGenerator[Output, None]:
    queue: asyncio.Queue[Output | None] = asyncio.Queue()
    journal.add_listener(queue.put_nowait)
    task = asyncio.ensure_future(work())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (output := await queue.get()) is not None:
            yield output
        yield await task
    finally:
        journal.remove_listener(queue.put_nowait)
        loop.left.add(task)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        loop.left.discard(task)
