"""Ids of threads for people: short, and longer where the store has several that would fit."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.errors import TreadleError
from treadle.store.local_store import LocalStore
from treadle.thread.ids import ShortIds, find_ids


def list_short_ids(store: LocalStore, more: Iterable[str] = ()) -> ShortIds:
    """How the ids of a store are shown.

    Args:
        store: the threads; if it cannot be read, only what is shown together is told apart.
        more: ids of threads that are not there.
    """
    known = set(more)
    for in_trash in (False, True):
        try:
            known.update(store.folders.ids(in_trash=in_trash))
        except (TreadleError, OSError):
            continue
    return ShortIds(known)


def shorten_ids(store: LocalStore, text: str) -> str:
    """A text for people, with the ids of threads among its words short.

    The folders are listed only if there is an id.
    """
    found = find_ids(text)
    return list_short_ids(store, found).shorten_in(text) if found else text
