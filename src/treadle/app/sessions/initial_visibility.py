"""What a new thread records about who may see it."""

from __future__ import annotations

import os

from treadle.errors import TreadleError
from treadle.store.paths import Places
from treadle.sync.credentials import find_account, is_logged_in
from treadle.thread.facts import Shared


def find_initial_visibility(places: Places, *, is_private: bool) -> list[Shared]:
    """What a new thread records about who may see it on the server; nothing if that is the usual.

    If the login cannot be read, nobody else may: what it says may be just that.
    """
    if is_private or not is_logged_in(places, os.environ):
        return []
    try:
        account = find_account(places, os.environ)
    except TreadleError:
        return [Shared("private")]
    if account is None or account.visibility == "organization":
        return []
    return [Shared(account.visibility)]
