"""What this user has on this machine: folders, threads, and the secrets that are kept out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.version import __version__

if TYPE_CHECKING:
    from treadle.secrets.redaction import Redactor

Store: TypeAlias = LocalStore
"""The threads of this user. A face holds it and hands it to use cases; it asks it nothing."""

CREATOR: Final = f"treadle {__version__}"
"""The program and its version, as new threads record it."""


def open_store(program: str = "") -> Store:
    """The store of this user on this machine; nothing is read or made yet.

    Args:
        program: what people know this process by (`treadle run`); told to whoever finds a thread
            that this process has open.
    """
    return LocalStore(Places.find(), program=program)


def user_redactor() -> Redactor:
    """Takes out of texts the secrets that this machine knows, and what looks like one.

    Raises:
        OSError: there is no home folder, or it cannot be read.
    """
    from treadle.runtime.defaults import make_user_redactor

    return make_user_redactor()
