"""What a person says about a thread: title, tags, pin, notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from treadle.errors import UsageError
from treadle.runtime.defaults import make_user_redactor
from treadle.store.local_store import LocalStore
from treadle.thread.facts import Annotated, Fact, Pinned, Renamed, Tagged
from treadle.thread.fold import ThreadFold
from treadle.thread.metadata import TITLE_LENGTH_MAX
from treadle.thread.record import replace_surrogates

TAG_LENGTH_MAX: Final = 64
TEXT_LENGTH_MAX: Final = 32 * 1024


def annotate(
    store: LocalStore, thread: str, facts_for: Callable[[ThreadFold], Fact | None]
) -> ThreadFold:
    """Open the thread, record a fact, close it; the thread as it stands then.

    Known secrets in the fact are replaced, as in everything that is recorded.

    Args:
        store: where the thread is.
        thread: the beginning or the end of its id.
        facts_for: what to record, seeing the thread as it is; `None` if it is so already.

    Raises:
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: the thread is busy, damaged, newer or in the trash, or the disk refused.
    """
    writer = store.open(store.resolve(thread))
    try:
        fact = facts_for(writer.fold)
        if fact is not None:
            writer.stage(fact, make_user_redactor().redact)
            writer.commit()
        return writer.fold
    finally:
        writer.close()


def rename_thread(store: LocalStore, thread: str, title: str) -> ThreadFold:
    """Give a thread a title; an empty one is the first line of its first prompt again.

    Raises:
        UsageError: it is more than one line, or too long.
        StoreError: as `annotate`.
    """
    wanted = _check_line(title, "a title", TITLE_LENGTH_MAX)
    return annotate(
        store,
        thread,
        lambda fold: None if (fold.metadata.title or "") == wanted else Renamed(wanted),
    )


def pin_thread(store: LocalStore, thread: str, *, is_pinned: bool = True) -> ThreadFold:
    """Have a thread stand first in lists, or no longer. Raises as `annotate`."""
    return annotate(
        store,
        thread,
        lambda fold: None if fold.metadata.is_pinned is is_pinned else Pinned(is_pinned=is_pinned),
    )


def tag_thread(
    store: LocalStore, thread: str, tags: Sequence[str], *, remove: bool = False
) -> tuple[str, ...]:
    """Add tags to a thread, or remove them; the tags that it has then. Without tags, read them.

    Raises:
        UsageError: a tag is more than a word, or too long.
        StoreError: as `annotate`.
    """
    wanted = tuple(dict.fromkeys(_check_line(tag, "a tag", TAG_LENGTH_MAX) for tag in tags))
    if any(not tag or set(tag) & set(" ,") for tag in wanted):
        raise UsageError("a tag is a word without spaces and commas", hint="use - or / inside it")
    if not wanted:
        return store.load(store.resolve(thread)).fold.metadata.tags

    def change(fold: ThreadFold) -> Tagged | None:
        has = fold.metadata.tags
        if remove:
            gone = tuple(tag for tag in wanted if tag in has)
            return Tagged(removed=gone) if gone else None
        new = tuple(tag for tag in wanted if tag not in has)
        return Tagged(new) if new else None

    return annotate(store, thread, change).metadata.tags


def add_note(store: LocalStore, thread: str, text: str) -> ThreadFold:
    """Write something down about a thread, for people; no model reads it.

    Raises:
        UsageError: it is empty, or over `TEXT_LENGTH_MAX` characters.
        StoreError: as `annotate`.
    """
    note = replace_surrogates(text).strip()
    if not note:
        raise UsageError("the note is empty")
    if len(note) > TEXT_LENGTH_MAX:
        raise UsageError(f"a note has at most {TEXT_LENGTH_MAX} characters, not {len(note)}")
    return annotate(store, thread, lambda _: Annotated(note))


def _check_line(text: str, what: str, length_max: int) -> str:
    """One line without control characters, as it was meant.

    Raises:
        UsageError: there is a line break or a control character in it, or it is too long.
    """
    text = text.strip()
    if not text.isprintable():
        raise UsageError(f"{what} is one line of printable characters")
    if len(text) > length_max:
        raise UsageError(f"{what} has at most {length_max} characters, not {len(text)}")
    return text
