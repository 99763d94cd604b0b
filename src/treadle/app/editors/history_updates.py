"""A whole session as an editor is told of it that loads it: all that was said and done so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from treadle.app.editors.call_updates import begin_call, end_call, end_call_with
from treadle.app.editors.session_updates import (
    CallChanged,
    CallStatus,
    MessagePicture,
    MessageText,
    PlanTold,
    SessionUpdate,
)
from treadle.core.messages import Message, ToolCall, describe_attachment, is_by_person
from treadle.core.tools import FAILURE_HEAD, ToolExecutionStatus
from treadle.errors import TreadleError
from treadle.store.local_store import LocalStore
from treadle.thread.fold import ThreadFold
from treadle.thread.plan import find_plan, read_plan_call
from treadle.thread.thoughts import list_thoughts
from treadle.thread.typed_words import strip_additions


class _History(Struct, frozen=True):
    """What the updates of a history are made of."""

    store: LocalStore
    fold: ThreadFold
    folder: str
    count_call: Callable[[str], str]
    name_call: Callable[[str], str]


def list_history(
    store: LocalStore,
    fold: ThreadFold,
    folder: str,
    count_call: Callable[[str], str],
    name_call: Callable[[str], str],
) -> Iterator[SessionUpdate]:
    """All of a thread, oldest first; what was gone back from is not in it any more.

    Args:
        store: where the bytes of pictures are.
        fold: the thread.
        folder: the absolute path of its workspace.
        count_call: gives a call of this id the id by which the editor is to know it.
        name_call: the one it was given last.
    """
    history = _History(store, fold, folder, count_call, name_call)
    conversation = fold.conversation
    calls: dict[str, ToolCall] = {}
    for index, message in enumerate(conversation):
        if conversation.has_said(index):
            yield from _list_message(history, message, calls)
    yield from _list_round(history, calls)
    for queued in fold.undelivered.queued:
        yield from _list_said(history, queued.message)
    if (plan := find_plan(conversation)) is not None:
        yield PlanTold(plan)


def _list_message(
    history: _History, message: Message, calls: dict[str, ToolCall]
) -> Iterator[SessionUpdate]:
    if is_by_person(message):
        yield from _list_said(history, message)
    elif message.role == "assistant":
        yield from (MessageText("thought", one) for one in list_thoughts(message))
        if message.content:
            yield MessageText("agent", message.content)
        for call in message.tool_calls:
            calls[call.id] = call
            if read_plan_call(call) is None:
                name = history.count_call(call.id)
                yield begin_call(call, name, "pending", history.folder)
    elif message.role == "tool" and message.tool_call_id is not None:
        told = calls.pop(message.tool_call_id, None)
        if told is None or read_plan_call(told) is not None:
            return
        failed = message.content.startswith(FAILURE_HEAD)
        name = history.name_call(told.id)
        yield end_call_with(told, name, message.content, has_failed=failed)


def _list_said(history: _History, message: Message) -> Iterator[SessionUpdate]:
    """What a person has said, as they typed it, and the pictures that they have shown."""
    if text := strip_additions(message.content):
        yield MessageText("person", text)
    for one in message.attachments:
        data = b""
        with suppress(TreadleError):  # of a thread from elsewhere, whose bytes did not come along
            data = history.store.read_blob(one.blob) if one.kind == "image" else b""
        if data:
            yield MessagePicture("person", one.media_type, data)
        else:
            yield MessageText("person", f"\n[{describe_attachment(one)}]")


def _list_round(history: _History, calls: dict[str, ToolCall]) -> Iterator[SessionUpdate]:
    """How the calls stand that are not over, or whose round is not."""
    standing = {call.id: status for call, status in history.fold.machine.round}
    for call in calls.values():
        if read_plan_call(call) is not None:
            continue
        name, status = history.name_call(call.id), standing.get(call.id)
        if isinstance(status, ToolExecutionStatus.Completed):
            yield end_call(call, name, status.outcome)
            continue
        is_running = isinstance(status, ToolExecutionStatus.Running)
        shown: CallStatus = "in_progress" if is_running else "pending"
        yield CallChanged(name, shown)
