"""Threads as pages tell them, made of what the database has; those that were read last are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from treadle.api.marks import Mark
from treadle.core.messages import BlobRef
from treadle.exchange.journal_files import JournalPart, make_journal_part
from treadle.exchange.readable_thread import ReadableThreadBuilder
from treadle.pages.ports import ShownThread
from treadle.server.accounts import access
from treadle.server.accounts.shared_view import read_document, tell_document
from treadle.server.context import Context, Verb
from treadle.server.data.fold_cache import (
    BASE_COUNT_MAX,
    decode_header,
    decode_record,
    find_base_key,
    find_base_mark,
    find_mark,
    read_lines,
    read_records,
)
from treadle.server.data.schema import blobs, threads
from treadle.server.refusals import make_not_found_refusal

STORY_COUNT_MAX: Final = 8
STORY_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of the records of a thread that is kept as it was read."""

Place: TypeAlias = tuple[str, int, str]
"""The key of a thread, and the mark up to which it is told."""


class Story(Struct, frozen=True):
    """A thread, and the keys of the rows that it was made of: its own is the last."""

    shown: ShownThread
    keys: tuple[str, ...]


class _KeptStory(Struct, frozen=True, eq=False):
    """A story, the marks of what it was made of, and what goes on with it; `size` in bytes."""

    story: Story
    places: tuple[Place, ...]
    builder: ReadableThreadBuilder
    size: int


class _Telling:
    """Held while a story is made."""

    def __init__(self) -> None:
        self.lock = Lock()


class StoryCache:
    """Stories by all the marks that they were made of. Safe for threads.

    A scrub moves the mark of what it rewrites, so no story that holds its text is found again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._telling: WeakValueDictionary[str, _Telling] = WeakValueDictionary()
        self._stories: OrderedDict[str, _KeptStory] = OrderedDict()

    def find(self, places: tuple[Place, ...]) -> Story | None:
        """The story of these journals."""
        key = places[-1][0]
        with self._lock:
            found = self._stories.get(key)
            if found is None or found.places != places:
                return None
            self._stories.move_to_end(key)
            return found.story

    def take_earlier(self, places: tuple[Place, ...]) -> _KeptStory | None:
        """Take out a story that these journals may go on from: all marks but the last are the same.

        Who takes it goes on with it, so nobody else finds it; that its last mark still is one of
        the thread is to be looked at.
        """
        key, version, _ = places[-1]
        with self._lock:
            found = self._stories.get(key)
            if found is None or found.places[:-1] != places[:-1] or found.places[-1][1] >= version:
                return None
            return self._stories.pop(key)

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Make the story of a thread alone."""
        with self._lock:
            telling = self._telling.setdefault(key, _Telling())
        with telling.lock:
            yield

    def put(self, kept: _KeptStory) -> None:
        """Keep one in place of what is known of the thread by now."""
        with self._lock:
            self._stories[kept.places[-1][0]] = kept
            self._stories.move_to_end(kept.places[-1][0])
            while len(self._stories) > STORY_COUNT_MAX:
                self._stories.popitem(last=False)


STORY_CACHE: Final = StoryCache()
"""The stories that this process has in memory."""


def find_shown_thread(context: Context, thread_id: str) -> Row[Any]:
    """The row of a thread that has a page for the caller: one that he may read, and that is there.

    Raises:
        Refusal: there is no such thread.
    """
    row = access.find_thread(context, thread_id, Verb.PULL)
    if access.get_deletion_state(row) is not access.DeletionState.LIVE:
        raise make_not_found_refusal()
    return row


def read_story(context: Context, thread_id: str, version: int | None = None) -> Story:
    """A thread that the caller may read, with what it goes on from.

    Args:
        context: whose request it is.
        thread_id: the thread.
        version: up to where; by default as it is now.

    Raises:
        Refusal: there is no such thread or version, or what it goes on from is not here any more.
    """
    row = find_shown_thread(context, thread_id)
    if version not in (None, row.version):
        # An earlier one is told for who asks, and not kept in place of what others look at.
        places = _list_places(context.db, row) if row.kind == "records" else None
        mark = None if places is None else find_mark(context.db, row.key, version)
        if mark is None or places is None:
            raise make_not_found_refusal()
        return _tell(context.db, (*places[:-1], (row.key, mark.seq, mark.hash)), None).story
    return _read_newest(context.db, row)


def read_story_at(db: Connection, key: str, version: int) -> ShownThread | None:
    """A thread at a version, for those who were found to be let in at that version.

    Returns:
        `None` if it is another version by now: who may read that was not looked at.
    """
    row = db.execute(select(threads).where(threads.c.key == key)).one_or_none()
    if row is None or row.version != version:
        return None
    if access.get_deletion_state(row) is not access.DeletionState.LIVE:
        return None
    return _read_newest(db, row).shown


def _read_newest(db: Connection, row: Row[Any]) -> Story:
    places = _list_places(db, row) if row.kind == "records" else None
    if places is None:
        return Story(ShownThread(tell_document(read_document(db, row))), (row.key,))
    found = STORY_CACHE.find(places)
    if found is not None:
        return found
    # All who watch ask at once when something has come: one tells it, the others wait for that.
    with STORY_CACHE.hold(row.key):
        found = STORY_CACHE.find(places)
        if found is not None:
            return found
        kept = _tell(db, places, STORY_CACHE.take_earlier(places))
        if kept.size <= STORY_SIZE_MAX:
            STORY_CACHE.put(kept)
        return kept.story


def _tell(db: Connection, places: tuple[Place, ...], earlier: _KeptStory | None) -> _KeptStory:
    """Tell a thread, or go on with what was told of it: who watches has each record told once."""
    builder, size, starts = ReadableThreadBuilder(), 0, [0] * len(places)
    if earlier is not None:
        key, version, chain_hash = earlier.places[-1]
        # Not after a scrub, or where another branch was taken in place of this one.
        if find_mark(db, key, version) == Mark(version, chain_hash):
            builder, size = earlier.builder, earlier.size
            starts = [*(seq for _, seq, _ in places[:-1]), version]
    for place, start in zip(places, starts, strict=True):
        key, version, _ = place
        for record, length in read_records(db, key, start, version):
            builder.add_records((record,), is_own=place is places[-1])
            size += length
    story = Story(ShownThread(builder.build()), tuple(key for key, _, _ in places))
    return _KeptStory(story, places, builder, size)


def _read_parts(db: Connection, places: tuple[Place, ...]) -> list[JournalPart]:
    data = (
        b"".join(line + b"\n" for line in read_lines(db, key, 0, version))
        for key, version, _ in places
    )
    return [make_journal_part(one) for one in data]


def read_story_journals(context: Context, thread_id: str) -> list[JournalPart]:
    """The journal of a thread that the caller may read, behind those that it goes on from.

    Returns:
        Nothing if it is kept as a document, or goes on from what is not here any more.

    Raises:
        Refusal: there is no such thread.
    """
    row = find_shown_thread(context, thread_id)
    places = _list_places(context.db, row) if row.kind == "records" else None
    return [] if places is None else _read_parts(context.db, places)


def read_whole_output(context: Context, thread_id: str, call_id: str) -> bytes:
    """All that a call has put out.

    Raises:
        Refusal: there is no such thread or call that the caller may read.
    """
    story = read_story(context, thread_id)
    kept = story.shown.story.kept.get(call_id)
    body = None if kept is None else _find_blob(context.db, story, kept)
    if body is not None:
        return body
    for result in story.shown.list_results(call_id):
        return result.encode("utf-8", "replace")
    raise make_not_found_refusal()


def read_kept_blob(context: Context, thread_id: str, ref: BlobRef) -> bytes:
    """What a record of a thread names that is kept beside it.

    Raises:
        Refusal: there is no such thing that the caller may read.
    """
    body = _find_blob(context.db, read_story(context, thread_id), ref)
    if body is None:
        raise make_not_found_refusal()
    return body


def _find_blob(db: Connection, story: Story, ref: BlobRef) -> bytes | None:
    query = select(blobs.c.body).where(
        blobs.c.thread_id.in_(story.keys), blobs.c.sha256 == ref.sha256
    )
    body = db.execute(query.limit(1)).scalar_one_or_none()
    return None if body is None else bytes(body)


def _list_places(db: Connection, row: Row[Any]) -> tuple[Place, ...] | None:
    """The journals of a thread, its own last; `None` if one goes on from a branch that gave way."""
    found: list[Place] = [(row.key, row.version, row.hash)]
    owner_id: int | None = row.owner_id
    while len(found) <= BASE_COUNT_MAX:
        first = next(iter(read_lines(db, found[0][0], 0, 1)))
        base = decode_header(decode_record(first)).base
        if base is None:
            return tuple(found)
        key = find_base_key(db, base, owner_id)
        mark: Mark | None = None if key is None else find_base_mark(db, key, base)
        if key is None or mark is None:
            return None
        found.insert(0, (key, mark.seq, mark.hash))
        query = select(threads.c.owner_id).where(threads.c.key == key)
        owner_id = db.execute(query).scalar_one_or_none()
    return None
