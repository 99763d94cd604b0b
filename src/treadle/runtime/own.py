"""What an agent has where nothing else is said: this user's threads, and their secrets kept out."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.errors import UsageError
from treadle.runtime.ports import Store, Writer
from treadle.secrets.redaction import Redactor, collect_secrets
from treadle.store.local import LocalStore
from treadle.store.places import Places


def own_store(program: str = "") -> LocalStore:
    """The threads of this user; `program` is told to whoever finds one open here."""
    return LocalStore(Places.find(), program=program)


def open_own(store: Store, thread_id: str) -> Writer:
    """Open a thread to go on with it, if nobody else began it.

    Raises:
        UsageError: it was taken in from elsewhere: what was allowed there nobody here has allowed.
        StoreError: as `Store.open`.
    """
    if isinstance(store, LocalStore) and store.adopted.is_foreign(thread_id):
        raise UsageError(
            f"thread {thread_id} was taken in from elsewhere; what is open in it, and what was "
            "allowed for it, nobody here has said yes to",
            hint=f"`treadle show {thread_id}` tells it; begin the task anew",
        )
    return store.open(thread_id)


def own_redactor() -> Redactor:
    """Knows the credentials in the environment and in the well-known files of the home folder."""
    return Redactor(collect_secrets(os.environ, Path.home(), files=[Places.find().remote]))
