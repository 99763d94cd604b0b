"""The whole of a result that was cut or masked, as the model reads of it: `output:CALL`.

It is read from beside the thread and not by the tool, which knows files alone: so it is there in a
sandbox too, in a task, in a fork, and for whoever goes on with the thread. `search_files` takes the
same name as its path.
"""

from __future__ import annotations

import json
from typing import Any, Final

from treadle.core.config import AgentConfig
from treadle.core.conversation import OUTPUT_PREFIX, Conversation
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.errors import MissingBlobError, StoreError
from treadle.runtime.ports import Writer
from treadle.runtime.store_calls import call_store
from treadle.tool_failure import ToolFailure

NAME_COUNT_MAX: Final = 5
"""Outputs that are named to a model which asks for one that is not kept; the newest."""


def find_output_reader(config: AgentConfig) -> str:
    """The tool that gives the model an earlier result again; empty if it has none."""
    return config.name_of(ToolKind.READ)


def describe_output_location(
    config: AgentConfig, thread_id: str, call_id: str, line: int | None
) -> str:
    """Where all of an output is found, for the model if it has the tool, else for people.

    Args:
        config: what is offered.
        thread_id: the thread.
        call_id: whose output it is.
        line: the line of the output at which it was cut, if it is known.
    """
    name = json.dumps(OUTPUT_PREFIX + call_id, ensure_ascii=False)
    if reader := find_output_reader(config):
        start = "" if line is None else f", start_line={line}"
        how = f"{reader}({name}{start}) goes on here"
        if searcher := config.name_of(ToolKind.SEARCH):
            how += f", {searcher}(PATTERN, {name}) searches it"
        return how
    from shlex import quote

    return f"treadle show {thread_id} --output {quote(call_id)}"


def find_requested_output(config: AgentConfig, call: ToolCall) -> str | None:
    """The call whose output this one is to read; `None` if it is to read a file, or none."""
    is_reader = kind_of(call.tool_name) in (ToolKind.READ, ToolKind.SEARCH)
    if not is_reader or config.definition_of(call.tool_name) is None:
        return None
    try:
        path = _parse(call)["path"]
    except ToolFailure:  # the tool itself will say what is wrong
        return None
    if not isinstance(path, str) or not path.startswith(OUTPUT_PREFIX):
        return None
    return path.removeprefix(OUTPUT_PREFIX)


async def read_stored_output(
    writer: Writer,
    conversation: Conversation,
    call: ToolCall,
    output_id: str,
    live: bytes | None = None,
) -> Outcome:
    """What a call asks for of an output; never raises for anything the call does.

    Args:
        writer: the thread.
        conversation: what was said in it.
        call: the call.
        output_id: the call whose output it is to read.
        live: what it has printed so far, if it still runs.
    """
    from treadle.tools.read_file import read_output
    from treadle.tools.search_files import search_output

    try:
        arguments = _parse(call)
        data = live
        if data is None:
            data = await call_store(writer.has_slow_sync, lambda: writer.read_output(output_id))
        if data is None:
            data = _find_unseen_result(conversation, output_id)
        if data is None:
            raise ToolFailure(ToolErrorKind.NOT_FOUND, _explain_absence(conversation, output_id))
        if kind_of(call.tool_name) is ToolKind.SEARCH:
            found = await search_output(data, arguments["path"], arguments["pattern"])
        else:
            lines = arguments.get("start_line", 1), arguments.get("end_line")
            found = read_output(data, *lines)
        return ToolExecutionOutcome.Success(call.id, found)
    except ToolFailure as failure:
        error = ToolError(failure.kind, failure.message, failure.output)
    except MissingBlobError:
        # Its words name a folder of this machine, which is nothing to a model.
        why = f"{OUTPUT_PREFIX}{output_id} is not kept any more, or is damaged: {_ALL_THERE_IS}"
        error = ToolError(ToolErrorKind.IO, why)
    except StoreError as refused:
        error = ToolError(ToolErrorKind.IO, refused.message)
    return ToolExecutionOutcome.Error(call.id, error)


def _find_unseen_result(conversation: Conversation, call_id: str) -> bytes | None:
    """A result that was short enough to stand in its message, which the model is not shown now."""

    def find(messages: Conversation) -> str | None:
        found = (one.content for one in messages if one.tool_call_id == call_id)
        return next(found, None)

    text = find(conversation)
    return None if text is None or find(conversation.in_view) == text else text.encode()


_ALL_THERE_IS: Final = "what its own result shows is all there is; if more is needed, run it again"


def _parse(call: ToolCall) -> dict[str, Any]:
    from treadle.tools.builtin import find_builtin_tool

    tool = find_builtin_tool(call.tool_name)
    return {"path": None} if tool is None else tool.signature.parse(call.arguments_json)


def _explain_absence(conversation: Conversation, output_id: str) -> str:
    """Why nothing is kept under this name, and what is."""
    kept: list[str] = []
    is_known = False
    for message in conversation:
        if message.role == "tool" and message.tool_call_id is not None:
            is_known = is_known or message.tool_call_id == output_id
            name = json.dumps(OUTPUT_PREFIX + message.tool_call_id, ensure_ascii=False)
            kept += [name] if f"({name}" in message.content else []
    if is_known:
        return f"{OUTPUT_PREFIX}{output_id}: of this call nothing more is kept; {_ALL_THERE_IS}"
    told = f"kept are: {', '.join(kept[-NAME_COUNT_MAX:])}" if kept else "none is kept so far"
    return f"{OUTPUT_PREFIX}{output_id}: no output of this thread is kept under this name; {told}"
