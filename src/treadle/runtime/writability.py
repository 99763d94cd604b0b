"""Whether a thread that was opened can still be worked on."""

from __future__ import annotations

from treadle.errors import StoreError
from treadle.runtime.ports import Writer


def check_writable(writer: Writer) -> None:
    """Raise `StoreError` if nothing can be written any more."""
    if not writer.is_usable:
        why = "this session is finished: it was closed, or the disk refused"
        raise StoreError(why, hint="open the thread again")
