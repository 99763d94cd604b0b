"""Where the threads of this user are."""

from __future__ import annotations

from typing import Final

from treadle import __version__
from treadle.store.local import LocalStore
from treadle.store.paths import Places

CREATOR: Final = f"treadle {__version__}"
"""The program and its version, as new threads record it."""


def open_store(program: str = "") -> LocalStore:
    """The store of this user on this machine; nothing is read or made yet.

    Args:
        program: what people know this process by (`treadle run`); told to whoever finds a thread
            that this process has open.
    """
    return LocalStore(Places.find(), program=program)
