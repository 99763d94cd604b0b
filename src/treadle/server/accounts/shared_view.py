"""What a link shows of a thread: its conversation, and nothing of the machine it was had on.

Folder, repository, commits, notes of people and what the program noted beside the conversation
stay behind, as do the blocks that only models read. A fork is shown with the history it goes on
from, as its owner sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, select

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.core.messages import NOTE, Message
from treadle.exchange.readable_thread import (
    ReadableCall,
    ReadableItem,
    ReadableMessage,
    ReadableThread,
    ReadableTurn,
)
from treadle.pages.ports import ShownThread
from treadle.pages.renderer import render_template
from treadle.pages.thread_page import ItemLinks, make_thread_page
from treadle.server.data import schema
from treadle.server.data.fold_cache import FOLD_CACHE, load_fold
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.thread.document import AgentStateSnapshot, Thread, ThreadMetadata
from treadle.thread.safe_text import sanitize_text

_decode_thread: Final = msgspec.json.Decoder(Thread).decode


def read_shared_thread(db: Connection, thread: Row[Any]) -> ReadableThread:
    """The conversation of a thread, as it is told to who holds a link.

    Args:
        db: the transaction.
        thread: its row of `schema.threads`.

    Raises:
        Refusal: what it goes on from is not here any more.
    """
    document = read_document(db, thread)
    bare = Thread(
        id=document.id,
        version=document.version,
        created_at=document.created_at,
        updated_at=document.updated_at,
        last_activity_at=document.last_activity_at,
        conversation=document.conversation,
        agent_state=AgentStateSnapshot(document.agent_state.kind),
        metadata=ThreadMetadata(document.metadata.title),
    )
    return tell_document(bare)


def read_document(db: Connection, thread: Row[Any]) -> Thread:
    """A thread as one document, all of it.

    Raises:
        Refusal: what it goes on from is not here any more.
    """
    if thread.kind == "document":
        kept = schema.documents.c
        query = select(kept.body).where(
            kept.thread_id == thread.key, kept.version == thread.version
        )
        return _decode_thread(db.execute(query).scalar_one())
    return _fold_document(db, thread.key, Mark(thread.version, thread.hash))


def tell_document(document: Thread) -> ReadableThread:
    """What a document says of its conversation; it does not say when each message was."""
    return ReadableThread(document, tuple(_list_turns(document)))


def _fold_document(db: Connection, key: str, mark: Mark) -> Thread:
    try:
        folded = load_fold(db, key, mark)
    except Refusal as refusal:
        raise (
            make_not_found_refusal() if refusal.code is ErrorCode.UNFOLDABLE else refusal
        ) from None
    document = folded.fold.document()
    FOLD_CACHE.put(folded)
    return document


def encode_conversation(story: ReadableThread) -> dict[str, object]:
    """The conversation as JSON has it."""
    conversation = story.document.conversation
    messages = tuple(replace(message, native=None) for message in conversation.messages)
    told: dict[str, object] = msgspec.to_builtins(replace(conversation, messages=messages))
    return told


def render_page(story: ReadableThread, author: str, page: int) -> str:
    """A page of the conversation, as HTML.

    Args:
        story: of `read_shared_thread`.
        author: whose thread it is.
        page: which one, from 1.

    Raises:
        Refusal: there is no such page.
    """
    view = make_thread_page(ShownThread(story), page)
    if view is None:
        raise make_not_found_refusal()
    values = {"view": view, "author": author, "changed_at": story.document.updated_at}
    return render_template("share.html", **values, links=ItemLinks(page))


def _list_turns(document: Thread) -> Iterator[ReadableTurn]:
    """The turns of a conversation; when they were is said for the thread as a whole."""
    items: list[ReadableItem] = []
    number = 0
    for item in _list_items(document):
        if isinstance(item, ReadableMessage) and item.who == "user":
            if items:
                yield ReadableTurn(number, "", tuple(items))
            items, number = [], number + 1
        items.append(item)
    if items:
        yield ReadableTurn(number, "", tuple(items))


def _list_items(document: Thread) -> Iterator[ReadableItem]:
    """Every message and call; a result stands with its call, or by itself if it has none."""
    messages = document.conversation.messages
    hidden = _mark_hidden(document)
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    called = {call.id for message in messages for call in message.tool_calls}
    for index, message in enumerate(messages):
        is_hidden = bool(hidden[index])
        if message.role == "tool":
            if message.tool_call_id not in called:
                yield ReadableMessage(
                    "", "tool", sanitize_text(message.content), index, False, is_hidden
                )
            continue
        if message.content or not message.tool_calls:
            who, text = _speaker_name(message), sanitize_text(message.content)
            yield ReadableMessage("", who, text, index, message.interrupted, is_hidden)
        for call in message.tool_calls:
            result = results.get(call.id)
            yield ReadableCall(
                "",
                sanitize_text(call.id),
                sanitize_text(call.tool_name),
                sanitize_text(call.arguments_json),
                index,
                None if result is None else sanitize_text(result.content),
                is_hidden,
            )


def _mark_hidden(document: Thread) -> bytearray:
    """Of each message, whether a rewind took it out of view: one pass, whatever the spans are."""
    found = bytearray(len(document.conversation.messages))
    reached = 0
    for start, end in sorted(document.conversation.hidden):
        first, last = max(start, reached), min(end, len(found))
        if first < last:
            found[first:last] = b"\1" * (last - first)
            reached = last
    return found


def _speaker_name(message: Message) -> str:
    return NOTE if message.name == NOTE else message.role
