"""Records what a person says about a thread: title, tags, pin, notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.errors import UsageError
from treadle.runtime.defaults import own_redactor, own_store
from treadle.thread.facts import Fact
from treadle.thread.fold import ThreadFold

TAG_LENGTH_MAX: Final = 64
TEXT_LENGTH_MAX: Final = 32 * 1024


def mark(thread: str, facts_for: Callable[[ThreadFold], Fact | None]) -> ThreadFold:
    """Open the thread, record a fact, close it; the thread as it stands then.

    Known secrets in the fact are replaced, as in everything that is recorded.

    Args:
        thread: the beginning of its id.
        facts_for: what to record, seeing the thread as it is; `None` if it is so already.

    Raises:
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: the thread is busy, damaged, newer or in the trash, or the disk refused.
    """
    store = own_store()
    writer = store.open(store.resolve(thread))
    try:
        fact = facts_for(writer.fold)
        if fact is not None:
            writer.stage(fact, own_redactor().redact)
            writer.commit()
        return writer.fold
    finally:
        writer.close()


def plain_line(text: str, what: str, length_max: int) -> str:
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
