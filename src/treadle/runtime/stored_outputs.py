"""The whole of a result that was cut, as its message names it: `read_file` with `output:CALL`.

It is read from beside the thread and not by the tool, which knows files alone: so it is there in a
sandbox too, in a task, in a fork, and for whoever goes on with the thread.
"""

from __future__ import annotations

import json
from typing import Final

from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.errors import StoreError
from treadle.runtime.ports import Writer

READ_TOOL: Final = "read_file"
OUTPUT_PREFIX: Final = "output:"


def describe_output_location(config: AgentConfig, thread_id: str, call_id: str) -> str:
    """Where all of an output is found, for the model if it has the tool, else for people."""
    if config.definition_of(READ_TOOL) is not None:
        return f"{READ_TOOL} has it as {json.dumps(OUTPUT_PREFIX + call_id, ensure_ascii=False)}"
    from shlex import quote

    return f"treadle show {thread_id} --output {quote(call_id)}"


def find_requested_output(config: AgentConfig, call: ToolCall) -> str | None:
    """The call whose output this one is to read; `None` if it is to read a file, or none."""
    if call.tool_name != READ_TOOL or config.definition_of(READ_TOOL) is None:
        return None
    try:
        path = json.loads(call.arguments_json)["path"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    if not isinstance(path, str) or not path.startswith(OUTPUT_PREFIX):
        return None
    return path.removeprefix(OUTPUT_PREFIX)


def read_stored_output(writer: Writer, call: ToolCall, output_id: str) -> Outcome:
    """The lines of an output that a call asks for; never raises for anything the call does."""
    from treadle.tool_failure import ToolFailure
    from treadle.tools.read_file import read_file, read_output

    try:
        arguments = read_file.signature.parse(call.arguments_json)
        data = writer.read_output(output_id)
        if data is None:
            why = f"{OUTPUT_PREFIX}{output_id}: no output of this thread is kept under this name"
            raise ToolFailure(ToolErrorKind.NOT_FOUND, why)
        lines = arguments.get("start_line", 1), arguments.get("end_line")
        return ToolExecutionOutcome.Success(call.id, read_output(data, *lines))
    except ToolFailure as failure:
        error = ToolError(failure.kind, failure.message, failure.output)
    except StoreError as refused:
        error = ToolError(ToolErrorKind.IO, refused.message)
    return ToolExecutionOutcome.Error(call.id, error)
