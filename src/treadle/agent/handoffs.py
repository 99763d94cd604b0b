"""Agents that hand a conversation to each other: its instructions, its tools, its model change.

A handoff is a call of the model like any other. It is recorded twice, as the call and as the
configuration that holds from then on; the name of the agent is kept with the thread, so that every
process goes on with the agent that had it last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.core.approval import Scope
from treadle.core.config import AgentConfig
from treadle.core.tools import Access, EffectClass, RiskLevel
from treadle.errors import UsageError
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.session import Session
from treadle.runtime.subagents import SubAgent
from treadle.thread.facts import ExtraSet
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import AnyTool, Tool

EXTRA_NAME: Final = "agent"
"""Under this name a thread keeps which of several agents has it."""


class ReadyAgent(Struct, frozen=True):
    """An agent that can take a thread: who answers, with what, and what it is told."""

    name: str
    provider: Provider
    config: AgentConfig
    tools: Tools
    sub_agents: Sequence[SubAgent]


class AgentFamily:
    """The agents that threads may be handed to, and the sessions they work in.

    Args:
        first: the name of the one that has a thread about which nothing else is said.
    """

    def __init__(self, first: str) -> None:
        self.first: Final = first
        self.names: list[str] = []
        self.agents: dict[str, ReadyAgent] = {}
        self.sessions: dict[str, Session] = {}
        """By the id of their thread."""

    def find(self, recorded: object) -> ReadyAgent:
        """The agent of this name; the first one if there is none, or none any more."""
        return self.agents.get(str(recorded), self.agents[self.first])

    def get_present(self, thread_id: str) -> str:
        """The name of the one that has a thread now."""
        return self.find(self.sessions[thread_id].metadata.extra.get(EXTRA_NAME)).name

    def hand_over(self, thread_id: str, name: str) -> None:
        """Let another agent go on from the next decision on; durable when this returns.

        Raises:
            UsageError: there is no such agent.
            StoreError: the disk refused; nothing has changed.
        """
        agent, session = self.agents.get(name), self.sessions[thread_id]
        if agent is None:
            raise UsageError(
                f"there is no agent {name!r} to hand the thread to",
                hint=f"there are: {', '.join(self.agents)}; Agent.add_handoff adds one",
            )
        session.driver.configure(
            agent.config, provider=agent.provider, tools=agent.tools, sub_agents=agent.sub_agents
        )
        session.driver.record(ExtraSet({EXTRA_NAME: name}))


def check_extra(values: dict[str, Any]) -> ExtraSet:
    """The record of a program's own values; `UsageError` for what cannot be kept."""
    if EXTRA_NAME in values:  # another one would take the thread with the next process
        raise UsageError(
            f"`{EXTRA_NAME}` says which agent has the thread",
            hint="keep the value under another name; hand_to(NAME) hands the thread over",
        )
    try:
        msgspec.json.encode(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"JSON cannot say what is to be kept: {error}") from error
    return ExtraSet(values)


def explain_missing_handoffs(name: str, family: Iterable[str]) -> dict[str, str]:
    """Why an agent has no tool to hand over to each of the others, should a call of one be left.

    A process that died in the middle of a handoff leaves such a call to the agent that has the
    thread since.
    """
    reasons = dict.fromkeys(family, f"{name} has the conversation, and does not hand over there")
    reasons[name] = f"{name} has the conversation already"
    return {f"hand_to_{one}": reason for one, reason in reasons.items()}


def make_handoff_tools(targets: Mapping[str, str], family: AgentFamily) -> list[AnyTool]:
    """A tool for each agent that may be handed to.

    Args:
        targets: what the model reads about each agent, by its name.
        family: all of them.
    """
    return [_make_tool(name, description, family) for name, description in targets.items()]


def _make_tool(name: str, description: str, family: AgentFamily) -> AnyTool:
    async def handoff(ctx: ToolContext, reason: str) -> str:
        family.hand_over(ctx.thread_id, name)
        return f"{name} has the conversation from here on. The reason: {reason}"

    handoff.__name__ = f"hand_to_{name}"
    handoff.__doc__ = f"""Hand the conversation to {name}, who goes on in your place. {description}

    Args:
        reason: why, for whoever goes on.
    """
    # It changes nothing in the world, which is recorded with its beginning: after a crash it runs
    # again, though the agent that has the thread since is not offered it.
    scope = Scope(access=Access.READ)
    return Tool(handoff, EffectClass.READ, RiskLevel.LOW, scope_of=lambda _, __: scope)
