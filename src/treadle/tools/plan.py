"""The tool with which an agent tells its plan."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from treadle.core.tools import EffectClass, RiskLevel
from treadle.thread.plan import STEP_COUNT_MAX, AgentPlan, PlanStep
from treadle.tools.function_tool import tool


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW)
def plan(steps: Annotated[list[PlanStep], Meta(max_length=STEP_COUNT_MAX)]) -> str:
    """Show the person your steps for work that takes several, and how far you are.

    Give all steps each time, at the latest when one is done and the next begins; one is in progress
    at a time. In plan mode give the steps that you propose, and end your turn: the person is asked
    whether you are to do them.

    Args:
        steps: All steps, in order; none of them takes the plan back.
    """
    return f"The person sees it: {AgentPlan(tuple(steps)).summary}."
