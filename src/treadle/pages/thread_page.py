"""What one page of a thread shows: some of its items, and where the others are. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import Attachment, BlobRef
from treadle.exchange.readable_thread import (
    THINKING,
    ReadableCall,
    ReadableItem,
    ReadableMessage,
    ReadableNote,
    find_heading,
    list_thread_properties,
)
from treadle.models.prices.usage_text import describe_usage
from treadle.pages.call_blocks import BlockKind, CallView, make_call_view
from treadle.pages.markdown_html import render_markdown
from treadle.pages.pictures import is_picture
from treadle.pages.ports import ShownThread
from treadle.thread.safe_text import sanitize_text

ITEM_COUNT: Final = 200
"""Items of a page: messages, calls and notes."""
COMMIT_COUNT: Final = 200
"""Commits of a page of them."""
SUBJECT_LENGTH_MAX: Final = 200
"""Characters of the subject of a commit."""
TEXT_SIZE_MAX: Final = 100_000
"""Characters of a text that stand on a page; the rest is read on a page of its own."""


class PageSize(Struct, frozen=True):
    """How much stands on a page: items, the newest prompts in its contents, letters of a text."""

    items: int
    prompts: int
    letters: int


SCREEN: Final = PageSize(ITEM_COUNT, 100, TEXT_SIZE_MAX)
WHOLE_THREAD: Final = PageSize(sys.maxsize, sys.maxsize, sys.maxsize)


class CommitView(Struct, frozen=True, kw_only=True):
    """A commit that was made after a round of calls.

    Args:
        hash: as much of it as is known.
        subject: of its message; empty if that is not known.
        file_count: how many files it has; 0 if that is not known.
        at: when it was told of, in UTC.
        version: the one that tells of it; 0 if it is another thread's.
        number: of the item that tells of it.
        first: the number of the item with which its round begins.
        turn: the number of its turn; 0 before the first.
        heading: of that turn.
        page: of the table in which it stands.
    """

    hash: str
    subject: str
    file_count: int
    at: str
    version: int
    number: int
    first: int
    turn: int
    heading: str
    page: int


class ItemView(Struct, frozen=True, kw_only=True):
    """Something that happened.

    Args:
        number: from 0, the same on every page and for ever: items are only added.
        kind: `prompt`, `answer`, `thinking`, `note` or `call`.
        at: when, in UTC.
        title: a line; of a note all of it, if `text` is empty.
        text: as it was written.
        html: the same as HTML that is safe; empty if it is shown as it was written.
        call: of a call, what it did.
        result: of a call, what it gave; `None` if it has none yet.
        output: of a call, where all that it put out is kept, if the result is less.
        call_id: its id.
        is_hidden: whether somebody has gone back from it.
        is_cut: whether the text is longer, or was interrupted.
        turn: the number of the turn that begins here; 0 if none does.
        used: of the first item of a turn, what the turn used.
        version: the version of the thread with it; 0 if it is another thread's.
        picture: what can be shown of what it tells of.
        commit: what was committed after the round that it belongs to.
    """

    number: int
    kind: str
    at: str
    title: str = ""
    text: str = ""
    html: str = ""
    call: CallView | None = None
    result: str | None = None
    output: BlobRef | None = None
    call_id: str = ""
    is_hidden: bool = False
    is_cut: bool = False
    turn: int = 0
    used: str = ""
    version: int = 0
    picture: Attachment | None = None
    commit: CommitView | None = None

    @property
    def has_change(self) -> bool:
        """Whether it is the change of a file."""
        return self.call is not None and any(one.kind is BlockKind.DIFF for one in self.call.blocks)


class ItemLinks(Struct, frozen=True):
    """Where the links of items lead, and how changes are laid out.

    Args:
        page: the page on which they stand; 0 where there is only one.
        thread: the path of the thread; empty where nothing but the page can be had.
        version: the one that is looked at; 0 for the newest.
        is_split: whether what was and what is stand side by side.
        pictures: where pictures are, by their digests, where there is no such path.
    """

    page: int = 0
    thread: str = ""
    version: int = 0
    is_split: bool = False
    pictures: Mapping[str, str] = {}

    @property
    def here(self) -> str:
        """What stands before the # of a link to an item of this page."""
        return self.find_page(self.page) if self.page else ""

    def find_page(self, page: int) -> str:
        """The address of another page."""
        version = f"version={self.version}&" if self.version else ""
        return f"?{version}page={page}"

    def find_picture(self, picture: Attachment) -> str:
        """The address of a picture; empty if it cannot be had."""
        if self.thread:
            return f"{self.thread}/pictures/{picture.blob.sha256}"
        return self.pictures.get(picture.blob.sha256, "")


class PromptPlace(Struct, frozen=True):
    """A prompt in the list of contents."""

    turn: int
    heading: str
    page: int
    number: int


class ThreadPageView(Struct, frozen=True, kw_only=True):
    """A page of a thread; pages are counted from 1."""

    id: str
    title: str
    version: int
    properties: Sequence[tuple[str, str]]
    items: Sequence[ItemView]
    prompts: Sequence[PromptPlace]
    page: int
    page_count: int
    item_count: int
    problem: str

    @property
    def has_changes(self) -> bool:
        """Whether a change of a file stands on the page."""
        return any(item.has_change for item in self.items)


def make_thread_page(
    shown: ShownThread, page: int | None, size: PageSize = SCREEN
) -> ThreadPageView | None:
    """A page of a thread.

    Args:
        shown: the thread.
        page: which one; `None` for the last.
        size: how much stands on one.

    Returns:
        `None` if there is no such page.
    """
    story = shown.story
    places = _list_places(shown)
    count = max(1, -(-len(places) // size.items))
    page = count if page is None else page
    if not 1 <= page <= count:
        return None
    first = (page - 1) * size.items
    document = story.document
    commits = {
        number: one for one in _list_commits(places) for number in range(one.first, one.number + 1)
    }
    return ThreadPageView(
        id=document.id,
        title=document.metadata.title or document.id,
        version=document.version,
        properties=list(list_thread_properties(story, describe_usage)),
        items=[
            replace(_make_item(number, place, shown, size.letters), commit=commits.get(number))
            for number, place in enumerate(places[first : first + size.items], first)
        ],
        prompts=_list_prompts(places, size),
        page=page,
        page_count=count,
        item_count=len(places),
        problem=story.problem,
    )


def list_item_views(shown: ShownThread) -> Iterator[tuple[ItemView, ReadableItem]]:
    """Every item of a thread as a page has it, and what it is made of."""
    for number, place in enumerate(_list_places(shown)):
        yield _make_item(number, place, shown, TEXT_SIZE_MAX), place.item


def number_calls(shown: ShownThread) -> dict[str, int]:
    """The numbers of calls, by their ids."""
    items = (place.item for place in _list_places(shown))
    return {
        item.call_id: number for number, item in enumerate(items) if isinstance(item, ReadableCall)
    }


def list_commits(shown: ShownThread) -> list[CommitView]:
    """What a thread has committed, in order."""
    return _list_commits(_list_places(shown))


class _PlacedItem(Struct, frozen=True):
    """An item, and the turn that begins with it."""

    item: ReadableItem
    turn: int = 0
    used: str = ""
    heading: str = ""


def _list_places(shown: ShownThread) -> list[_PlacedItem]:
    found: list[_PlacedItem] = []
    for turn in shown.story.turns:
        used = describe_usage(turn.usage) if turn.usage and turn.usage.total_tokens else ""
        first = _PlacedItem(turn.items[0], turn.number, used, find_heading(turn) or "(no text)")
        found += [first, *(_PlacedItem(item) for item in turn.items[1:])]
    return found


def _list_commits(places: Sequence[_PlacedItem]) -> list[CommitView]:
    found: list[CommitView] = []
    turn, heading, first, index = 0, "", 0, -1
    for number, place in enumerate(places):
        item = place.item
        if place.heading:
            turn, heading, index = place.turn, place.heading, -1
        if isinstance(item, ReadableCall) or (
            isinstance(item, ReadableMessage) and item.who == "assistant"
        ):
            first, index = (first if item.index == index else number), item.index
        elif isinstance(item, ReadableNote) and item.commit is not None:
            commit = CommitView(
                hash=sanitize_text(item.commit.hash),
                subject=sanitize_text(item.commit.subject)[:SUBJECT_LENGTH_MAX],
                file_count=item.commit.file_count,
                at=item.at,
                version=item.version,
                number=number,
                first=number if index < 0 else first,
                turn=turn,
                heading=heading,
                page=len(found) // COMMIT_COUNT + 1,
            )
            found.append(commit)
            index = -1
    return found


def _list_prompts(places: Sequence[_PlacedItem], size: PageSize) -> list[PromptPlace]:
    found = [
        PromptPlace(place.turn, place.heading, 1 + number // size.items, number)
        for number, place in enumerate(places)
        if place.turn
    ]
    return found[-size.prompts :]


def _make_item(number: int, place: _PlacedItem, shown: ShownThread, letters: int) -> ItemView:
    item = place.item
    view = ItemView(
        number=number,
        kind="note",
        at=item.at,
        turn=place.turn,
        used=place.used,
        version=item.version,
    )
    if isinstance(item, ReadableCall):
        result = item.result if item.result is None else item.result[:letters]
        return replace(
            view,
            kind="call",
            call=make_call_view(item),
            result=result,
            output=shown.story.kept.get(item.call_id),
            call_id=item.call_id,
            is_hidden=item.is_hidden,
            is_cut=item.result is not None and len(item.result) > letters,
        )
    if isinstance(item, ReadableMessage):
        kind = {"user": "prompt", "assistant": "answer"}.get(item.who, "note")
        text = item.text[:letters]
        html = render_markdown(text) if kind == "answer" else None
        return replace(
            view,
            kind=kind,
            title="" if kind != "note" else item.who,
            text=text,
            html=html or "",
            is_hidden=item.is_hidden,
            is_cut=item.is_cut or len(item.text) > letters,
        )
    kind = "thinking" if item.text == THINKING else "note"
    picture = item.attachment if is_picture(item.attachment) else None
    return replace(view, kind=kind, title=item.text, text=item.detail[:letters], picture=picture)
