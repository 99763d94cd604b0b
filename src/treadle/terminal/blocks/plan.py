"""The plan of an agent, as a finished block."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from treadle.terminal.blocks.frames import PrefixedBlock
from treadle.terminal.plan_lines import MARKS, PLAIN_WORDS, STEP_STYLES
from treadle.terminal.styles import rich_style
from treadle.thread.plan import AgentPlan
from treadle.thread.safe_text import sanitize_text


def plan_block(plan: AgentPlan, *, is_plain: bool = False) -> RenderableType:
    """All steps.

    Args:
        plan: the plan.
        is_plain: whether it is for a terminal that shows lines only, with words for signs.
    """
    head = Text(f"Plan: {plan.done_count} of {len(plan.steps)} done", "" if is_plain else "bold")
    return Group(head, *(_render_step(number, plan, is_plain) for number in range(len(plan.steps))))


def _render_step(number: int, plan: AgentPlan, is_plain: bool) -> RenderableType:
    one = plan.steps[number]
    text = sanitize_text(one.step)
    if is_plain:
        return Text(f"{number + 1}. {text} ({PLAIN_WORDS[one.status]})")
    style = rich_style(STEP_STYLES[one.status])
    return PrefixedBlock(Text(text, style), f"{MARKS[one.status]} ", style)
