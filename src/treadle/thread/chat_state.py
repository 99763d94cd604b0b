"""The conversation machine's state as data, and back."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from treadle.core.chat.moves import build_request
from treadle.core.chat.states import (
    STATES,
    AgentState,
    CallingLlm,
    Error,
    ErrorOrigin,
    ExecutingTools,
    PostToolsHook,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.core.tools import ToolExecutionStatus
from treadle.thread.codec import UnknownEntryError
from treadle.thread.model import AgentStateSnapshot, PendingToolCall

KIND_OF_STATE: Final = {
    state: "".join("_" + c.lower() if c.isupper() else c for c in state.__name__).lstrip("_")
    for state in STATES
}


def snapshot_state(state: AgentState) -> AgentStateSnapshot:
    """The state beside the conversation, as data.

    Progress of running calls is left out: it came in by events that are not stored, and a
    snapshot must equal what a replay reaches.
    """
    kind = KIND_OF_STATE[type(state)]
    if isinstance(state, CallingLlm):
        return AgentStateSnapshot(kind, retries=state.retries)
    if isinstance(state, Error):
        return AgentStateSnapshot(
            kind,
            retries=state.retries,
            last_error=state.error.text,
            error=state.error,
            origin=state.origin,
            delay_s=state.delay_s,
        )
    if isinstance(state, ExecutingTools):
        executions = tuple(
            replace(status, progress=None, last_update_at="")
            if isinstance(status, ToolExecutionStatus.Running)
            else status
            for status in state.executions
        )
        pending = tuple(
            PendingToolCall(status.call_id, status.tool_name)
            for status in executions
            if not isinstance(status, ToolExecutionStatus.Completed)
        )
        return AgentStateSnapshot(kind, pending_tool_calls=pending, executions=executions)
    if isinstance(state, PostToolsHook):
        return AgentStateSnapshot(kind, completed_tools=state.completed_tools)
    return AgentStateSnapshot(kind)


def restore_state(
    snapshot: AgentStateSnapshot, conversation: Conversation, config: AgentConfig
) -> AgentState:
    """The state that `snapshot_state` saw; requests are built again, byte for byte.

    Raises:
        UnknownEntryError: a state this version does not have, or one that cannot be.
    """
    kind = snapshot.kind
    if kind == KIND_OF_STATE[WaitingForUserInput]:
        return WaitingForUserInput(conversation)
    if kind == KIND_OF_STATE[CallingLlm]:
        return CallingLlm(conversation, snapshot.retries)
    if kind == KIND_OF_STATE[ExecutingTools]:
        calls = conversation[-1].tool_calls if conversation else ()
        if not calls or [s.call_id for s in snapshot.executions] != [call.id for call in calls]:
            raise UnknownEntryError("a snapshot holds a round of calls that nobody asked for")
        return ExecutingTools(conversation, snapshot.executions)
    if kind == KIND_OF_STATE[PostToolsHook]:
        request = build_request(config, conversation)
        return PostToolsHook(conversation, request, snapshot.completed_tools)
    if kind == KIND_OF_STATE[Error]:
        error = snapshot.error or LlmError(LlmErrorKind.INTERNAL)
        origin = snapshot.origin or ErrorOrigin.LLM
        return Error(conversation, error, snapshot.retries, origin, snapshot.delay_s)
    raise UnknownEntryError(f"a snapshot holds the state {kind!r}, which this version has not")
