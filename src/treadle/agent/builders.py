"""From what an agent is made of to what works: builders of its tasks, sessions on its threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace

from treadle.agent.definition import AgentDefinition
from treadle.agent.turn_telemetry import follow_turns
from treadle.core.config import AgentConfig
from treadle.core.task.request import append_form
from treadle.mcp.tool_set import McpTools
from treadle.runtime.approval_callback import wrap_approval_callback
from treadle.runtime.builder import CREATOR, AgentBuilder
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Tools
from treadle.runtime.session import Session, SessionOptions
from treadle.runtime.subagents import SubAgent
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Configured
from treadle.tools.context import AgentContext


async def make_builder(
    agent: AgentDefinition, prompt: str, context: AgentContext[Any], stack: AsyncExitStack
) -> AgentBuilder:
    """The builder of a task of this agent.

    Args:
        agent: what it is made of.
        prompt: the task.
        context: what its tools are given.
        stack: ends what its tools and those of its sub-agents have started.
    """
    provider, model = agent.find_provider()
    options, redactor = agent.options, agent.find_redactor()
    builder = AgentBuilder(prompt, llm=provider, config=agent.limits, store=agent.open_store())
    builder.system_prompt(await agent.find_instructions(context)).approval(agent.policy)
    builder.tools(_make_tools(agent, context, stack)).settings(agent.settings)
    if model:
        builder.model(model)
    if agent.form is not None:
        builder.output(agent.form)
    if redactor is not None:
        builder.redactor(redactor)
    if "budget" in options:
        builder.budget(options["budget"])
    if "on_approval" in options:
        builder.on_approval(options["on_approval"])
    if "on_output" in options:
        builder.on_output(options["on_output"])
    for one in agent.agents:
        builder.sub_agent(
            one.name, one.description, await make_builder(one.agent, "any", context, stack)
        )
    return builder


def _make_tools(agent: AgentDefinition, context: AgentContext[Any], stack: AsyncExitStack) -> Tools:
    tools = agent.make_tools(context)
    if isinstance(tools, McpTools):
        stack.push_async_callback(tools.aclose)
    return tools


class SessionOpener:
    """Opens sessions of one agent, which share what its tools have started.

    Args:
        open_session: on the thread of an id, or, without one, on that of the context's key.
        stack: ends what was started.
    """

    def __init__(self, open_session: Callable[[str], Session], stack: AsyncExitStack) -> None:
        self.open = open_session
        self._stack = stack
        self._users: set[object] = set()

    def enter(self, user: object) -> None:
        """One more needs what was started, until it leaves."""
        self._users.add(user)

    async def leave(self, user: object) -> None:
        """One needs it no more; the last one ends it."""
        self._users.discard(user)
        if not self._users:
            await self._stack.aclose()


async def make_session_opener(agent: AgentDefinition, context: AgentContext[Any]) -> SessionOpener:
    """What opens sessions on threads of this agent.

    Args:
        agent: what it is made of.
        context: what its tools are given.
    """
    provider, _ = agent.find_provider()
    store, redactor, decide = (
        agent.open_store(),
        agent.find_redactor(),
        agent.options.get("on_approval"),
    )
    config = await _make_config(agent, context)
    stack = AsyncExitStack()
    tools = _make_tools(agent, context, stack)
    sub_agents = await _make_sub_agents(agent, context, stack)
    offered = (*tools.definitions(), *(one.definition for one in sub_agents))
    options = DriverOptions(
        redactor=redactor,
        approve=None if decide is None else wrap_approval_callback(decide),
        on_output=agent.options.get("on_output"),
        sub_agents=sub_agents,
    )

    def begin() -> ThreadWriter:
        return store.open_by_key(
            context.thread_key,
            CREATOR,
            first=[Configured(replace(config, tools=offered), provider.name)],
            redact=None if redactor is None else redactor.redact,
        )

    def open_session(thread_id: str) -> Session:
        writer = store.open(thread_id) if thread_id else begin()
        try:
            turns = SessionOptions(agent.options.get("budget"))
            session = Session(writer, provider, tools, config, options, turns)
            follow_turns(session, store)
            return session
        except BaseException:
            writer.close()
            raise

    return SessionOpener(open_session, stack)


async def _make_config(agent: AgentDefinition, context: AgentContext[Any]) -> AgentConfig:
    provider, model = agent.find_provider()
    prompt = await agent.find_instructions(context)
    config = replace(
        agent.settings,
        model_name=model,
        system_prompt=prompt if agent.form is None else append_form(prompt, agent.form.schema),
        approval=agent.policy,
        max_steps=agent.limits.max_steps,
    )
    return config.with_limits(provider.traits(model).context_tokens_max)


async def _make_sub_agents(
    agent: AgentDefinition, context: AgentContext[Any], stack: AsyncExitStack
) -> Sequence[SubAgent]:
    if not agent.agents:
        return ()
    return (await make_builder(agent, "any", context, stack)).make_sub_agents()
