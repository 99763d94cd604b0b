"""From what an agent is made of to what works: builders of its tasks, sessions on its threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from treadle.agent.definition import AgentDefinition
from treadle.core.config import AgentConfig
from treadle.core.task.request import append_form
from treadle.runtime.approval_callback import wrap_approval_callback
from treadle.runtime.builder import CREATOR, AgentBuilder
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session, SessionOptions
from treadle.runtime.subagents import SubAgent
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Configured
from treadle.tools.context import AgentContext
from treadle.tools.registry import Registry


async def make_builder(
    agent: AgentDefinition, prompt: str, context: AgentContext[Any]
) -> AgentBuilder:
    """The builder of a task of this agent.

    Args:
        agent: what it is made of.
        prompt: the task.
        context: what its tools are given.
    """
    provider, model = agent.find_provider()
    options, redactor = agent.options, agent.find_redactor()
    builder = AgentBuilder(prompt, llm=provider, config=agent.limits, store=agent.open_store())
    builder.system_prompt(await agent.find_instructions(context)).approval(agent.policy)
    builder.tools(Registry(agent.tools, context=context)).settings(agent.settings)
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
        builder.sub_agent(one.name, one.description, await make_builder(one.agent, "any", context))
    return builder


async def make_session_opener(
    agent: AgentDefinition, context: AgentContext[Any]
) -> Callable[[str], Session]:
    """What opens a session on the thread of an id, or, without one, on that of the context's key.

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
    tools, sub_agents = (
        Registry(agent.tools, context=context),
        await _make_sub_agents(agent, context),
    )
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
            return Session(writer, provider, tools, config, options, turns)
        except BaseException:
            writer.close()
            raise

    return open_session


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
    agent: AgentDefinition, context: AgentContext[Any]
) -> Sequence[SubAgent]:
    if not agent.agents:
        return ()
    return (await make_builder(agent, "any", context)).make_sub_agents()
