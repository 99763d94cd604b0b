"""Session updates as the protocol has them."""

from __future__ import annotations

import base64
import re
from typing import Any, Final, TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    Cost,
    FileEditToolCallContent,
    ImageContentBlock,
    PlanEntry,
    PlanEntryStatus,
    SessionInfoUpdate,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from treadle.app.editors.session_updates import (
    Author,
    CallBegun,
    CallChanged,
    CommandPrinted,
    ContextUsed,
    MessagePicture,
    MessageText,
    PlanTold,
    ShownChange,
    TitleChosen,
)
from treadle.thread.plan import AgentPlan, StepStatus

ToolContent: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

_STEPS: Final[dict[StepStatus, PlanEntryStatus]] = {
    StepStatus.PENDING: "pending",
    StepStatus.IN_PROGRESS: "in_progress",
    StepStatus.DONE: "completed",
}


def make_chunk(
    author: Author, content: TextContentBlock | ImageContentBlock
) -> UserMessageChunk | AgentMessageChunk | AgentThoughtChunk:
    """A piece of a message."""
    if author == "person":
        return UserMessageChunk(session_update="user_message_chunk", content=content)
    if author == "thought":
        return AgentThoughtChunk(session_update="agent_thought_chunk", content=content)
    return AgentMessageChunk(session_update="agent_message_chunk", content=content)


def make_message(update: MessageText | MessagePicture) -> Any:
    """A piece of what somebody says or shows."""
    if isinstance(update, MessageText):
        return make_chunk(update.author, TextContentBlock(type="text", text=update.text))
    data = base64.b64encode(update.data).decode()
    picture = ImageContentBlock(type="image", data=data, mime_type=update.media_type)
    return make_chunk(update.author, picture)


def begin_call(update: CallBegun, folder: str, *, shows_terminals: bool) -> ToolCallStart:
    """A call that the editor has not heard of.

    Args:
        update: the call.
        folder: where its command runs, if it is one.
        shows_terminals: whether the editor shows the output of commands in a terminal of its own.
    """
    in_terminal = shows_terminals and bool(update.command)
    content: list[ToolContent] = []
    if in_terminal:
        content.append(TerminalToolCallContent(type="terminal", terminal_id=update.call_id))
    content += describe_call(update)
    told = {"terminal_info": {"terminal_id": update.call_id, "cwd": folder}}
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=update.call_id,
        title=update.title,
        kind=update.kind,
        status=update.status,
        content=content or None,
        locations=list_places(update) or None,
        raw_input=update.arguments,
        field_meta=told if in_terminal else None,
    )


def change_call(update: CallChanged, *, shows_terminals: bool) -> ToolCallProgress:
    """What has become of a call."""
    in_terminal = shows_terminals and update.is_command
    content: list[ToolContent] = []
    if update.text and not in_terminal:
        content.append(_make_text(fence(update.text)))
    meta: dict[str, Any] = {}
    if in_terminal and update.status in ("completed", "failed"):
        ended = {"exit_code": update.exit_code, "signal": None}
        meta["terminal_exit"] = {"terminal_id": update.call_id, **ended}
        if update.exit_code is None and update.text:  # it did not run to its end: why not
            meta["terminal_output"] = {"terminal_id": update.call_id, "data": update.text}
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=update.call_id,
        status=update.status,
        content=content or None,
        field_meta=meta or None,
    )


def print_output(update: CommandPrinted, *, shows_terminals: bool) -> ToolCallProgress:
    """What a call that runs has printed."""
    in_terminal = shows_terminals and update.is_command
    printed = {"terminal_output": {"terminal_id": update.call_id, "data": update.text}}
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=update.call_id,
        content=None if in_terminal else [_make_text(fence(update.so_far))],
        field_meta=printed if in_terminal else None,
    )


def describe_call(call: CallBegun) -> list[ToolContent]:
    """What there is to see of a call besides its title."""
    content: list[ToolContent] = []
    if call.command and f"$ {call.command}" != call.title:
        content.append(_make_text(fence(call.command)))
    content += map(_make_diff, call.changes)
    if call.text:
        content.append(_make_text(call.text))
    return content


def list_places(call: CallBegun) -> list[ToolCallLocation]:
    """The files that the call is about."""
    return [ToolCallLocation(path=path) for path in call.paths]


def make_plan(update: PlanTold) -> AgentPlanUpdate:
    """The plan; the protocol wants priorities, which ours have none of."""
    return AgentPlanUpdate(session_update="plan", entries=_list_entries(update.plan))


def make_usage(update: ContextUsed) -> UsageUpdate:
    """What was used of the context, and what the session has cost."""
    cost = None if update.cost_usd is None else Cost(amount=update.cost_usd, currency="USD")
    return UsageUpdate(session_update="usage_update", used=update.used, size=update.size, cost=cost)


def make_title(update: TitleChosen) -> SessionInfoUpdate:
    """What the session is called."""
    return SessionInfoUpdate(session_update="session_info_update", title=update.title)


def fence(text: str) -> str:
    """The text as it is, as Markdown shows it: nothing in it ends the block."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    text = text.removesuffix("\n")
    return f"{marks}\n{text}\n{marks}"


def _list_entries(plan: AgentPlan) -> list[PlanEntry]:
    return [
        PlanEntry(content=one.step, priority="medium", status=_STEPS[one.status])
        for one in plan.steps
    ]


def _make_text(text: str) -> ContentToolCallContent:
    block = TextContentBlock(type="text", text=text)
    return ContentToolCallContent(type="content", content=block)


def _make_diff(change: ShownChange) -> FileEditToolCallContent:
    return FileEditToolCallContent(
        type="diff", path=change.path, old_text=change.old, new_text=change.new
    )
