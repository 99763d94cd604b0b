"""The conversation machine's state as data, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from treadle.core.chat.handlers import build_request
from treadle.core.chat.states import (
    STATES,
    AgentState,
    CallingLlm,
    Compacting,
    CompactionCause,
    Error,
    ErrorOrigin,
    ExecutingTools,
    PostToolsHook,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation, View
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.core.tools import Status, ToolExecutionStatus
from treadle.thread.codec import UnknownEntryError
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, PendingToolCall


@lru_cache
def to_snake_case(name: str) -> str:
    """`waiting_for_user_input` for `WaitingForUserInput`."""
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


KIND_OF_STATE: Final = {state: to_snake_case(state.__name__) for state in STATES}


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
    if isinstance(state, ExecutingTools | WaitingForApproval):
        executions = tuple(map(_drop_progress, state.executions))
        pending = tuple(
            PendingToolCall(status.call_id, status.tool_name)
            for status in executions
            if not isinstance(status, ToolExecutionStatus.Completed)
        )
        questions = state.questions if isinstance(state, WaitingForApproval) else ()
        return AgentStateSnapshot(
            kind, pending_tool_calls=pending, executions=executions, questions=questions
        )
    if isinstance(state, Compacting):
        return AgentStateSnapshot(kind, through=state.through, cause=state.cause, focus=state.focus)
    if isinstance(state, PostToolsHook):
        return AgentStateSnapshot(kind, completed_tools=state.completed_tools)
    return AgentStateSnapshot(kind)


def _drop_progress(status: Status) -> Status:
    if isinstance(status, ToolExecutionStatus.Running):
        return replace(status, progress=None, last_update_at="")
    return status


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
    if kind in (KIND_OF_STATE[ExecutingTools], KIND_OF_STATE[WaitingForApproval]):
        return _restore_round(snapshot, conversation)
    if kind == KIND_OF_STATE[Compacting]:
        present = conversation.compaction
        if not (present.through if present else 0) < snapshot.through <= len(conversation):
            raise UnknownEntryError("a snapshot compacts messages that are not there")
        cause = snapshot.cause or CompactionCause.REQUESTED
        return Compacting(conversation, snapshot.through, cause, snapshot.focus)
    if kind == KIND_OF_STATE[PostToolsHook]:
        request = build_request(config, conversation)
        return PostToolsHook(conversation, request, snapshot.completed_tools)
    if kind == KIND_OF_STATE[Error]:
        error = snapshot.error or LlmError(LlmErrorKind.INTERNAL)
        origin = snapshot.origin or ErrorOrigin.LLM
        return Error(conversation, error, snapshot.retries, origin, snapshot.delay_s)
    raise UnknownEntryError(f"a snapshot holds the state {kind!r}, which this version has not")


def _restore_round(
    snapshot: AgentStateSnapshot, conversation: Conversation
) -> ExecutingTools | WaitingForApproval:
    calls = conversation[-1].tool_calls if conversation else ()
    if not calls or [s.call_id for s in snapshot.executions] != [call.id for call in calls]:
        raise UnknownEntryError("a snapshot holds a round of calls that nobody asked for")
    if snapshot.kind == KIND_OF_STATE[ExecutingTools]:
        return ExecutingTools(conversation, snapshot.executions)
    pending = {one.call_id for one in snapshot.pending_tool_calls}
    if not snapshot.questions or not pending.issuperset(q.call.id for q in snapshot.questions):
        raise UnknownEntryError("a snapshot holds questions about calls that are not open")
    return WaitingForApproval(conversation, snapshot.executions, snapshot.questions)


def snapshot_conversation(conversation: Conversation) -> ConversationSnapshot:
    """The conversation as data. Costs time in proportion to it."""
    view = conversation.view
    return ConversationSnapshot(
        tuple(conversation), view.compaction, conversation.tokens, view.hidden, view.masking
    )


def restore_conversation(snapshot: ConversationSnapshot) -> Conversation:
    """The conversation that `snapshot_conversation` saw, with what of it was in view.

    Raises:
        UnknownEntryError: a summary of more messages than there are, or a view of them.
    """
    conversation = Conversation(snapshot.messages)
    view = View(len(conversation), snapshot.compaction, snapshot.hidden, snapshot.masking)
    if view != View(len(conversation)):
        if not conversation.can_show(view):
            raise UnknownEntryError("a snapshot holds a view of messages that are not there")
        conversation = conversation.rewind(view)
    return conversation.with_tokens(snapshot.tokens)
