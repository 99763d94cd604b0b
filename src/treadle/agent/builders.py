"""From what an agent is made of to what works: builders of its tasks, sessions on its threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from treadle.agent.definition import AgentDefinition
from treadle.agent.handoffs import EXTRA_NAME, AgentFamily, ReadyAgent
from treadle.agent.turn_telemetry import follow_turns
from treadle.core.config import AgentConfig
from treadle.core.task.request import append_form
from treadle.errors import UsageError
from treadle.mcp.tool_set import McpTools
from treadle.runtime.approval_callback import wrap_approval_callback
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.runtime.options import DriverOptions
from treadle.runtime.output_modes import hold_answers
from treadle.runtime.ports import Tools, Writer
from treadle.runtime.session import Session, SessionOptions
from treadle.runtime.store_calls import Result, call_store
from treadle.runtime.subagents import SubAgent
from treadle.runtime.task_threads import CREATOR
from treadle.store.thread_writer import ThreadWriter
from treadle.store.threads import AnyThreads, is_slow
from treadle.thread.facts import Configured
from treadle.tools.context import AgentContext

if TYPE_CHECKING:  # who works in no repository loads nothing of it
    from treadle.agent.repositories import Checkout


async def make_builder(
    agent: AgentDefinition,
    prompt: str,
    context: AgentContext[Any],
    stack: AsyncExitStack,
    checkout: Checkout | None = None,
) -> AgentBuilder:
    """The builder of a task of this agent.

    Args:
        agent: what it is made of.
        prompt: the task.
        context: what its tools are given.
        stack: ends what its tools and those of its sub-agents have started.
        checkout: the clone that its own tools work in, if they do in one.

    Raises:
        UsageError: it hands what it does to others, which a task cannot be.
    """
    if agent.handoff_descriptions:
        raise UsageError(
            f"the agent {agent.name!r} hands over to others, and a task stays with who began it",
            hint="agent.thread(KEY) for conversations; agents as tools (as_tool) for tasks",
        )
    builder = await _make_plain_builder(agent, prompt, context, stack, checkout)
    if checkout is not None:
        from treadle.agent.repositories import make_workspace

        builder.workspace(make_workspace(checkout, agent.find_redactor()))
    return builder


@asynccontextmanager
async def open_engine(
    agent: AgentDefinition, thread: str | Writer, deps: Any, checkout: Checkout | None = None
) -> AsyncIterator[AgentEngine]:
    """Go on with a task that an agent like this one began. See `Agent.resume_task`.

    `thread` is its id; or it is open, and this does not close it before it has begun.
    """
    async with AsyncExitStack() as stack:
        builder = await make_builder(agent, "", agent.make_context(deps), stack, checkout)
        store = agent.open_store()
        if isinstance(thread, str):
            resume = partial(builder.resume, thread)
            engine = await call_store(is_slow(store), resume, AgentEngine.abandon)
        else:
            engine = builder.resume_opened(thread)
        follow_turns(engine, store)
        yield await stack.enter_async_context(engine)


async def _make_plain_builder(
    agent: AgentDefinition,
    prompt: str,
    context: AgentContext[Any],
    stack: AsyncExitStack,
    checkout: Checkout | None = None,
) -> AgentBuilder:
    provider, model = agent.find_provider()
    options, redactor = agent.options, agent.find_redactor()
    builder = AgentBuilder(prompt, llm=provider, config=agent.limits, store=agent.open_store())
    builder.system_prompt(await agent.find_instructions(context)).approval(agent.policy)
    builder.tools(_make_tools(agent, context, stack, checkout=checkout)).settings(agent.settings)
    if model:
        builder.model(model)
    if agent.form is not None:
        builder.output(agent.form).output_mode(agent.output_choice)
    if redactor is not None:
        builder.redactor(redactor)
    if "budget" in options:
        builder.budget(options["budget"])
    if "on_approval" in options:
        builder.on_approval(options["on_approval"])
    if "on_server_question" in options:
        builder.on_server_question(options["on_server_question"])
    if "on_output" in options:
        builder.on_output(options["on_output"])
    for one in agent.agents:
        builder.sub_agent(
            one.name, one.description, await make_builder(one.agent, "any", context, stack)
        )
    return builder


def _make_tools(
    agent: AgentDefinition,
    context: AgentContext[Any],
    stack: AsyncExitStack,
    family: AgentFamily | None = None,
    checkout: Checkout | None = None,
) -> Tools:
    tools = agent.make_tools(context, family, checkout)
    if isinstance(tools, McpTools):
        stack.push_async_callback(tools.aclose)
    return tools


class SessionOpener:
    """Opens sessions of the agents that a thread may be handed to; they share what tools started.

    Args:
        open_session: on the thread of an id, or, without one, on that of the context's key.
        family: those agents.
        stack: ends what was started.
        store: where the threads are.
    """

    def __init__(
        self,
        open_session: Callable[[str], Session],
        family: AgentFamily,
        stack: AsyncExitStack,
        store: AnyThreads,
    ) -> None:
        self._open_session = open_session
        self._is_slow = is_slow(store)
        self.family = family
        self._stack = stack
        self._users: set[object] = set()

    async def open(self, thread_id: str) -> Session:
        """A session on the thread of this id; without one, on that of the context's key."""
        opening = partial(self._open_session, thread_id)
        return await self.ask_store(opening, lambda session: session.driver.journal.close())

    async def ask_store(
        self, work: Callable[[], Result], undo: Callable[[Result], object] = lambda _: None
    ) -> Result:
        """See `call_store`; of the store where the threads are."""
        return await call_store(self._is_slow, work, undo)

    def enter(self, user: object) -> None:
        """One more needs what was started, until it leaves."""
        self._users.add(user)

    async def leave(self, user: object) -> None:
        """One needs it no more; the last one ends it."""
        self._users.discard(user)
        if not self._users:
            await self._stack.aclose()


async def make_session_opener(agent: AgentDefinition, context: AgentContext[Any]) -> SessionOpener:
    """What opens sessions on threads of this agent, and of those that they may be handed to.

    Args:
        agent: the one that has a new thread.
        context: what tools are given.
    """
    stack, family = AsyncExitStack(), AgentFamily(agent.name)
    for one in agent.list_family():
        family.names.append(one.name)
    for one in agent.list_family():
        family.agents[one.name] = await _prepare(one, context, stack, family)
    store, redactor, decide = agent.open_store(), agent.find_redactor(), agent.on_approval
    options = DriverOptions(
        redactor=redactor,
        approve=None if decide is None else wrap_approval_callback(decide),
        answer_server=agent.options.get("on_server_question"),
        on_output=agent.options.get("on_output"),
    )

    def begin() -> ThreadWriter:
        first = family.agents[agent.name]
        offered = (*first.tools.definitions(), *(one.definition for one in first.sub_agents))
        return store.open_by_key(
            context.thread_key,
            CREATOR,
            first=[Configured(replace(first.config, tools=offered), first.provider.name)],
            redact=None if redactor is None else redactor.redact,
        )

    def open_session(thread_id: str) -> Session:
        writer = store.open(thread_id) if thread_id else begin()
        try:
            present = family.find(writer.fold.metadata.extra.get(EXTRA_NAME))
            own = replace(options, sub_agents=present.sub_agents)
            turns = SessionOptions(agent.options.get("budget"))
            parts = (present.provider, present.tools, present.config)
            session = family.sessions[writer.thread_id] = Session(writer, *parts, own, turns)
            follow_turns(session, store)
            return session
        except BaseException:
            writer.close()
            raise

    return SessionOpener(open_session, family, stack, store)


async def _prepare(
    agent: AgentDefinition, context: AgentContext[Any], stack: AsyncExitStack, family: AgentFamily
) -> ReadyAgent:
    provider, _ = agent.find_provider()
    config = await _make_config(agent, context)
    tools = _make_tools(agent, context, stack, family)
    sub_agents = await _make_sub_agents(agent, context, stack)
    return ReadyAgent(agent.name, provider, config, tools, sub_agents)


async def _make_config(agent: AgentDefinition, context: AgentContext[Any]) -> AgentConfig:
    provider, model = agent.find_provider()
    prompt = await agent.find_instructions(context)
    schema = None if agent.form is None else agent.form.schema
    config = replace(
        hold_answers(agent.settings, schema, agent.output_choice, provider, model),
        model_name=model,
        system_prompt=prompt if schema is None else append_form(prompt, schema),
        approval=agent.policy,
        max_steps=agent.limits.max_steps,
    )
    return config.with_limits(provider.traits(model).context_tokens_max)


async def _make_sub_agents(
    agent: AgentDefinition, context: AgentContext[Any], stack: AsyncExitStack
) -> Sequence[SubAgent]:
    if not agent.agents:
        return ()
    return (await _make_plain_builder(agent, "any", context, stack)).make_sub_agents()
