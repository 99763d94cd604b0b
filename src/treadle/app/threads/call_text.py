"""A tool call, and its result, in a line or a few."""

from __future__ import annotations

from typing import Final

from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.core.messages import ToolCall
from treadle.core.tool_families import PERSONS_COMMAND, ToolKind, find_shape, kind_of
from treadle.thread.plan import AgentPlan, StepStatus, read_plan_call

HEAD_LENGTH_MAX: Final = 100
HEAD_LINES_MAX: Final = 3
TAIL_LINES_MAX: Final = 6
"""Lines of a command's output; the last of them says how it ended."""


def preview_output(text: str, tool_name: str, *, is_whole: bool = True) -> str:
    """Some lines of a result that say something, cut to width, and how many more there are.

    Of a command, a model's or a person's, those are the last ones, where its errors are, and the
    first one if the last does not say how it ended; of every other tool the first ones.

    Args:
        text: the result.
        tool_name: whose it is.
        is_whole: whether all of it is here; else how many more there are is not known.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    is_command = tool_name == PERSONS_COMMAND or kind_of(tool_name) is ToolKind.RUN
    most = TAIL_LINES_MAX if is_command else HEAD_LINES_MAX
    shown = [
        line if len(line) <= HEAD_LENGTH_MAX else line[: HEAD_LENGTH_MAX - 1] + "…"
        for line in (lines[-most:] if is_command else lines[:most])
    ]
    if len(lines) > most:
        kind = "earlier" if is_command else "more"
        count = f"{len(lines) - most} " if is_whole else ""
        shown.insert(0 if is_command else most, f"… {count}{kind} lines")
        if is_command and not lines[-1].startswith("[") and tool_name != PERSONS_COMMAND:
            shown.insert(0, lines[0][:HEAD_LENGTH_MAX])
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
