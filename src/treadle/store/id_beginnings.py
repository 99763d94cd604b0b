"""Ids of threads: new ones, and by their beginning or their end, as people write them."""

from __future__ import annotations

from typing import Final

from treadle.errors import AmbiguousThreadError, UnknownThreadError, UsageError
from treadle.store.folders import StoreFolders
from treadle.thread.ids import PREFIX, is_name_of

ID_LENGTH_MIN: Final = 4
"""So many characters of an id, without `T-`, must be given at least."""


def make_thread_id() -> str:
    """An id for a new thread; it begins with the time."""
    import uuid_utils

    return PREFIX + str(uuid_utils.uuid7())


def resolve_id(folders: StoreFolders, text: str, *, in_trash: bool = False) -> str:
    """The one thread whose id is, begins or ends with `text` (`T-` may be left out).

    Args:
        folders: where the threads are.
        text: the beginning of an id, or its end, which is what people are shown.
        in_trash: whether to look in the trash, and nowhere else.

    Raises:
        UsageError: it is too short to mean a thread.
        UnknownThreadError: there is none.
        AmbiguousThreadError: several do.
    """
    prefix = text if text.startswith(PREFIX) else PREFIX + text
    # An empty variable of a script, or a slip of the hand, begins every id.
    if len(prefix) - len(PREFIX) < ID_LENGTH_MIN:
        raise UsageError(
            f"{text!r} is too short to mean a thread",
            hint=f"give {ID_LENGTH_MIN} characters of the id or more; `treadle list` shows it",
        )
    ids = folders.ids(in_trash=in_trash)
    found = [thread_id for thread_id in ids if is_name_of(text, thread_id)]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousThreadError(text, found)
    if in_trash:
        raise UnknownThreadError(f"there is no thread {text!r} in the trash")
    if any(is_name_of(text, one) for one in folders.ids(in_trash=True)):
        raise UnknownThreadError(f"thread {text!r} is in the trash", hint=f"treadle restore {text}")
    raise UnknownThreadError(
        f"there is no thread {text!r}", hint="`treadle list` shows those there are"
    )
