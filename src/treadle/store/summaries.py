"""The line of a thread in a list, whatever has become of the thread."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from treadle.errors import DiskError, TreadleError, UnknownThreadError
from treadle.store.thread_reader import ThreadReader
from treadle.thread.codec import UnknownEntryError
from treadle.thread.document import ThreadSummary

DAMAGED: Final = "damaged"
UNREADABLE: Final = "unreadable"
UNSUPPORTED: Final = "unsupported"
"""The states, in lists, of threads of which nothing can be shown: what is there is not intact, the
disk refuses to read it just now, or another version of Treadle wrote it."""


def summarize(reader: ThreadReader, thread_id: str) -> ThreadSummary | None:
    """The thread's line in a list; `None` if it holds no intact record. Never raises.

    Args:
        reader: of its store.
        thread_id: which.
    """
    try:
        loaded = reader.load(thread_id)
    except UnknownThreadError:
        return None
    except TreadleError as error:
        others = {DiskError: UNREADABLE, UnknownEntryError: UNSUPPORTED}
        state = next((others[kind] for kind in others if isinstance(error, kind)), DAMAGED)
        return ThreadSummary(thread_id, 0, "", "", None, state, 0, problem=error.message)
    # The file's name decides: what a foreign file says it is may be another thread.
    return replace(loaded.fold.summary(loaded.problem), id=thread_id)
