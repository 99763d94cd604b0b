"""The request of a planning step: a pure function of memory and settings.

With `self_reported_confidence` the schema of each tool gains an optional number, by which the model
says how sure it is of the call, and which is taken out again before anybody sees the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from treadle.core.config import AgentConfig, choose_model
from treadle.core.llm import LlmRequest
from treadle.core.messages import ToolCall
from treadle.core.task.memory import AgentMemory
from treadle.core.tools import ToolDefinition

_CONFIDENCE: Final[dict[str, Any]] = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "how sure you are that this call is right: 0 not at all, 1 entirely",
}

_FORM: Final = (
    "Your final answer must be one JSON document of the following JSON schema and nothing "
    "else, no words around it:\n"
)


def build_request(memory: AgentMemory, settings: AgentConfig) -> LlmRequest:
    """The request of the present planning step; the same bytes whenever it is built."""
    tools = settings.tools
    if memory.config.self_reported_confidence:
        tools = tuple(map(_add_confidence, tools))
    return LlmRequest(
        choose_task_model(memory, settings),
        memory.messages_in_view(),
        tools,
        _build_system_prompt(memory),
        settings.max_tokens,
        settings.temperature,
        settings.reasoning,
        settings.web_search,
        native_schema=settings.native_schema,
    )


def choose_task_model(memory: AgentMemory, settings: AgentConfig) -> str:
    """The model for this kind of task; the provider's default if none is named."""
    return choose_model(memory.config.models, memory.task_type) or settings.model_name


def _build_system_prompt(memory: AgentMemory) -> str:
    schema = memory.config.output_schema
    return memory.system_prompt if schema is None else append_form(memory.system_prompt, schema)


def append_form(system_prompt: str, schema: dict[str, Any]) -> str:
    """A system prompt, and behind it the form that answers must have."""
    form = f"{_FORM}{msgspec.json.encode(schema, order='deterministic').decode()}"
    return f"{system_prompt}\n\n{form}" if system_prompt else form


def find_form(system_prompt: str) -> dict[str, Any] | None:
    """The JSON schema that `append_form` put there; `None` if there is none."""
    _, is_there, schema = system_prompt.rpartition(_FORM)
    return msgspec.json.decode(schema, type=dict[str, Any]) if is_there else None


def _add_confidence(tool: ToolDefinition) -> ToolDefinition:
    properties = {**_get_properties(tool), find_confidence_name(tool): _CONFIDENCE}
    return replace(tool, input_schema={**tool.input_schema, "properties": properties})


def _get_properties(tool: ToolDefinition) -> dict[str, Any]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def find_confidence_name(tool: ToolDefinition) -> str:
    """The name of the property in which a call of this tool says its confidence."""
    name = "confidence"
    while name in _get_properties(tool):
        name = f"_{name}"
    return name


def extract_confidences(
    calls: Sequence[ToolCall], memory: AgentMemory, settings: AgentConfig
) -> tuple[tuple[ToolCall, ...], list[float]]:
    """The calls as they are to be run, and the confidences that stood in them."""
    if not memory.config.self_reported_confidence:
        return tuple(calls), []
    run: list[ToolCall] = []
    reported: list[float] = []
    for call in calls:
        tool = settings.definition_of(call.tool_name)
        if tool is not None:
            call, confidence = _extract_confidence(call, find_confidence_name(tool))
            reported += [] if confidence is None else [confidence]
        run.append(call)
    return tuple(run), reported


def _extract_confidence(call: ToolCall, name: str) -> tuple[ToolCall, float | None]:
    """The other arguments keep their bytes; text that is no JSON object stays as it is."""
    try:
        arguments = msgspec.json.decode(call.arguments_json, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return call, None
    raw = arguments.pop(name, None)
    if raw is None:
        return call, None
    call = replace(call, arguments_json=msgspec.json.encode(arguments).decode())
    try:
        return call, msgspec.json.decode(raw, type=float)
    except msgspec.MsgspecError:
        return call, None
