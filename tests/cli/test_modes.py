"""Approval modes: what each means, and which one a thread was worked on with."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.app.sessions.approval_modes import MODES, find_recorded_approval, make_approval
from treadle.cli.options import MODES as OFFERED
from treadle.core.approval import AlwaysAsk, AskAbove, NeverAsk, Policy
from treadle.core.config import AgentConfig
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition
from treadle.tools.builtin import builtin_tools


def test_the_modes_on_offer_are_those_there_are() -> None:
    assert OFFERED == MODES


DEFINITIONS = tuple(tool.definition for tool in builtin_tools())
READING = tuple(one for one in DEFINITIONS if one.effect is EffectClass.READ)


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_tells_the_mode_it_was_worked_on_with(mode: Any) -> None:
    approval = make_approval(mode)
    tools = READING if approval.only_reads else DEFINITIONS
    assert find_recorded_approval(AgentConfig(tools=tools, approval=approval.policy)) == approval


@pytest.mark.parametrize("policy", [AlwaysAsk(), AskAbove(RiskLevel.LOW)])
@pytest.mark.parametrize("tools", [READING, DEFINITIONS, ()])
def test_a_policy_that_is_no_mode_is_kept(
    policy: Policy, tools: tuple[ToolDefinition, ...]
) -> None:
    found = find_recorded_approval(AgentConfig(tools=tools, approval=policy))
    assert (found.name, found.policy, found.only_reads) == ("", policy, tools != DEFINITIONS)


def test_a_thread_of_a_program_with_tools_of_its_own_gets_no_tool_that_changes_things() -> None:
    tools = (ToolDefinition("deploy", "Deploy it.", {}, EffectClass.MUTATE),)
    found = find_recorded_approval(AgentConfig(tools=tools, approval=NeverAsk()))
    assert found.only_reads
