"""Calls as a person has changed them before they run: whether they fit, and what is asked then."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.app.threads.call_arguments import read_arguments
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.errors import UsageError
from treadle.thread.question_text import read_object
from treadle.tool_failure import ToolFailure


def check_changed_arguments(question: Question, arguments: str) -> None:
    """Arguments that the tool would not take are said to be wrong before the question is gone.

    Raises:
        UsageError: they are no JSON object, or do not fit.
    """
    from treadle.tools.builtin import find_builtin_tool

    if read_object(arguments) is None:
        raise UsageError("--args takes a JSON object", hint="""--args '{"command": "ls"}'""")
    tool = find_builtin_tool(question.call.tool_name)
    try:
        if tool is not None:
            tool.signature.parse(arguments)
    except ToolFailure as failure:
        raise UsageError(
            f"{question.call.tool_name} does not take these arguments: {failure.message}",
            hint="nothing was answered; give the whole of them as a JSON object",
        ) from None


def make_changed_question(question: Question, arguments_json: str, folder: str) -> Question:
    """The question about a call as it was changed; a command is judged anew.

    Args:
        question: as it was asked.
        arguments_json: those of the changed call.
        folder: the absolute path of the workspace.
    """
    from treadle.risk.assess import assess

    def command_of(call: ToolCall) -> str:
        command = (read_arguments(call) or {}).get("command")
        return command if isinstance(command, str) else ""

    call = replace(question.call, arguments_json=arguments_json)
    risk, reasons = question.risk, question.scope.reasons
    if kind_of(call.tool_name) is ToolKind.RUN:
        before, after = (assess(command_of(one), folder) for one in (question.call, call))
        risk = after.risk
        reasons = (*(one for one in reasons if one not in before.reasons), *after.reasons)
    scope = replace(question.scope, reasons=reasons, kinds=())
    return replace(
        question, call=call, risk=risk, reason="this is the call as you have edited it", scope=scope
    )
