"""Threads wherever they are: outside the trash, or in it."""

from __future__ import annotations

import os

from treadle.errors import UnknownThreadError
from treadle.store.local_store import LocalStore


def resolve_anywhere(store: LocalStore, text: str) -> str:
    """The one thread whose id begins with `text`; in the trash, if there is none outside.

    Raises:
        UnknownThreadError: there is none.
        AmbiguousThreadError: several do.
    """
    try:
        return store.resolve(text)
    except UnknownThreadError as error:
        try:
            return store.resolve(text, in_trash=True)
        except UnknownThreadError:
            raise error from None


def resolve_to_show(store: LocalStore, text: str) -> str:
    """As `resolve_anywhere`; who is logged in learns that the server may have what is not here."""
    try:
        return resolve_anywhere(store, text)
    except UnknownThreadError as error:
        from treadle.sync.credentials import is_logged_in

        if is_logged_in(store.places, os.environ):
            error.hint = f"{error.hint}; `treadle show {text} --team` asks the server for it"
        raise


def list_all_ids(store: LocalStore) -> list[str]:
    """All threads, newest first; each once."""
    return sorted({*store.ids(), *store.folders.ids(in_trash=True)}, reverse=True)
