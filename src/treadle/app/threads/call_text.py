"""A tool call, and its result, in a line or a few."""

from __future__ import annotations

from typing import Final

from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, find_shape, kind_of
from treadle.thread.plan import AgentPlan, StepStatus, read_plan_call

HEAD_LENGTH_MAX: Final = 100
HEAD_LINES_MAX: Final = 3


def first_lines(text: str, *, is_whole: bool = True) -> str:
    """The first lines of a result that say something, cut to width, and how many more there are.

    Of a text that `is_whole` is false for only a part is here: how many more is not known then.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [
        line if len(line) <= HEAD_LENGTH_MAX else line[: HEAD_LENGTH_MAX - 1] + "…"
        for line in lines[:HEAD_LINES_MAX]
    ]
    if len(lines) > HEAD_LINES_MAX:
        shown.append(f"… {len(lines) - HEAD_LINES_MAX} more lines" if is_whole else "… more lines")
    return "\n".join(shown)


def describe_call(call: ToolCall) -> str:
    """A call in one line: the command itself, or the tool and what it works on."""
    if (plan := read_plan_call(call)) is not None:
        return f"plan: {plan.summary}"[:HEAD_LENGTH_MAX].replace("\n", "⏎")
    arguments = read_arguments(call)
    if kind_of(call.tool_name) is ToolKind.PATCH and (paths := list_written_paths(call)):
        return " ".join((call.tool_name, *paths))[:HEAD_LENGTH_MAX].replace("\n", "⏎")
    if arguments is None:
        return f"{call.tool_name} {call.arguments_json}"[:HEAD_LENGTH_MAX]
    if kind_of(call.tool_name) is ToolKind.RUN:
        detail = f"$ {_format_value(arguments.get('command', ''))}"
        return detail if len(detail) <= HEAD_LENGTH_MAX else detail[: HEAD_LENGTH_MAX - 1] + "…"
    shape = find_shape(call.tool_name)
    unsaid = {} if shape is None else shape.fixed
    said = (value for name, value in arguments.items() if value != unsaid.get(name, ...))
    shown = [text for value in said if (text := _format_value(value))]
    return " ".join((call.tool_name, *shown))[:HEAD_LENGTH_MAX].replace("\n", "⏎")


def _format_value(value: object) -> str:
    """An argument that can be told in words: a text, a number, or words in a row."""
    if isinstance(value, list) and all(isinstance(one, str | int) for one in value):
        return " ".join(str(one) for one in value)
    return str(value) if isinstance(value, str | int) else ""


_STEP_MARKS: Final = {
    StepStatus.DONE: "[x]",
    StepStatus.IN_PROGRESS: "[>]",
    StepStatus.PENDING: "[ ]",
}


def list_plan_lines(plan: AgentPlan) -> list[str]:
    """The steps of a plan, a line each, with a mark for how far it is."""
    return [f"{_STEP_MARKS[one.status]} {' '.join(one.step.split())}" for one in plan.steps]
