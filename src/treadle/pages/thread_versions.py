"""The versions of a thread, and what came between two of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from treadle.exchange.readable_thread import (
    ReadableCall,
    ReadableMessage,
    ReadableThread,
    find_heading,
    list_thread_properties,
)
from treadle.models.prices.usage_text import describe_usage
from treadle.pages.ports import ShownThread
from treadle.pages.thread_page import ITEM_COUNT, ItemView, list_item_views

TURN_COUNT: Final = 200
"""The newest turns that are listed."""

_ALWAYS_DIFFERS: Final = ("thread", "changed")


class TurnVersions(Struct, frozen=True):
    """A turn: the version before it, and the one that it has ended with, or has come to."""

    number: int
    heading: str
    at: str
    used: str
    before: int
    until: int


class Difference(Struct, frozen=True, kw_only=True):
    """What came between two versions.

    Args:
        id: of the thread.
        title: of the thread, now.
        since: the earlier version.
        until: the later one.
        properties: name, before, after; of those that differ.
        items: the first of those that came.
        more: how many more came.
        ended: calls that had begun before, and have a result since.
        gone: what was gone back from since.
    """

    id: str
    title: str
    since: int
    until: int
    properties: Sequence[tuple[str, str, str]]
    items: Sequence[ItemView]
    more: int
    ended: Sequence[ItemView]
    gone: Sequence[ItemView]

    @property
    def has_changes(self) -> bool:
        """Whether a change of a file came."""
        return any(item.has_change for item in (*self.items, *self.ended))


def list_turn_versions(story: ReadableThread) -> list[TurnVersions]:
    """The newest turns, the last one first; those before a fork began have no versions here."""
    found: list[TurnVersions] = []
    before = 0
    for turn in story.turns:
        versions = [item.version for item in turn.items if item.version]
        if not versions:
            continue
        used = describe_usage(turn.usage) if turn.usage and turn.usage.total_tokens else ""
        heading = find_heading(turn) or "(before the first prompt)"
        found.append(TurnVersions(turn.number, heading, turn.at, used, before, max(versions)))
        before = max(versions)
    return found[: -TURN_COUNT - 1 : -1]


def compare_versions(before: ShownThread, after: ShownThread) -> Difference:
    """What came between two versions of a thread.

    Args:
        before: the thread at the earlier one.
        after: the thread at the later one.
    """
    since, document = before.story.document.version, after.story.document
    old = {_get_key(item): item for item in _list_said(before.story)}
    came, ended, gone = [], [], []
    for view, item in list_item_views(after):
        if item.version > since:
            came.append(view)
            continue
        was = old.get(_get_key(item)) if isinstance(item, ReadableCall | ReadableMessage) else None
        if was is not None and view.is_hidden and not was.is_hidden:
            gone.append(view)
        if isinstance(was, ReadableCall) and was.result is None and view.result is not None:
            ended.append(view)
    return Difference(
        id=document.id,
        title=document.metadata.title or document.id,
        since=since,
        until=document.version,
        properties=list(_compare_properties(before.story, after.story)),
        items=came[:ITEM_COUNT],
        more=len(came) - len(came[:ITEM_COUNT]),
        ended=ended[:ITEM_COUNT],
        gone=gone[:ITEM_COUNT],
    )


def _list_said(story: ReadableThread) -> Iterator[ReadableCall | ReadableMessage]:
    for turn in story.turns:
        for item in turn.items:
            if isinstance(item, ReadableCall | ReadableMessage):
                yield item


def _get_key(item: ReadableCall | ReadableMessage) -> tuple[int, str]:
    """What tells an item from all others, at every version."""
    return item.index, item.call_id if isinstance(item, ReadableCall) else ""


def _compare_properties(
    before: ReadableThread, after: ReadableThread
) -> Iterator[tuple[str, str, str]]:
    old, new = (
        {"title": one.document.metadata.title or ""}
        | dict(list_thread_properties(one, describe_usage))
        for one in (before, after)
    )
    for name in {**old, **new}:
        if name not in _ALWAYS_DIFFERS and old.get(name, "") != new.get(name, ""):
            yield name, old.get(name, ""), new.get(name, "")
