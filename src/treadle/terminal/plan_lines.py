"""The plan of an agent as lines that are drawn again and again. No drawing here."""

from __future__ import annotations

from typing import Final

from treadle.terminal.live_lines import crop_text
from treadle.terminal.ports import StyledLine
from treadle.thread.plan import AgentPlan, StepStatus
from treadle.thread.safe_text import sanitize_text

STEPS_MAX: Final = 6
"""Steps that are drawn: those around the one that is being done."""

MARKS: Final = {StepStatus.DONE: "✓", StepStatus.IN_PROGRESS: "▸", StepStatus.PENDING: "○"}
PLAIN_WORDS: Final = {
    StepStatus.DONE: "done",
    StepStatus.IN_PROGRESS: "in progress",
    StepStatus.PENDING: "to do",
}
STEP_STYLES: Final = {
    StepStatus.DONE: "dim",
    StepStatus.IN_PROGRESS: "bold",
    StepStatus.PENDING: "",
}


def plan_lines(plan: AgentPlan, width: int) -> list[StyledLine]:
    """A head, and a line for each of a few steps: one that is done, and what comes then."""
    is_open = [one.status is not StepStatus.DONE for one in plan.steps]
    current = is_open.index(True) if True in is_open else len(plan.steps)
    first = max(0, min(current - 1, len(plan.steps) - STEPS_MAX))
    shown = plan.steps[first : first + STEPS_MAX]
    head = f"Plan: {plan.done_count} of {len(plan.steps)} done"
    lines: list[StyledLine] = [[("dim", crop_text(head, width))]]
    for one in shown:
        style = STEP_STYLES[one.status]
        text = sanitize_text(one.step).replace("\n", " ").replace("\t", " ")
        lines.append([(style, f"{MARKS[one.status]} {crop_text(text, width - 2)}")])
    if more := len(plan.steps) - first - len(shown):
        lines.append([("dim", crop_text(f"  … {more} more", width))])
    return lines
