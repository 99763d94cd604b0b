"""The line of a thread in a list, whatever has become of the thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

from msgspec.structs import replace

from treadle.errors import DiskError, TreadleError, UnknownThreadError, UsageError
from treadle.store.thread_reader import ThreadReader
from treadle.thread.codec import UnknownEntryError
from treadle.thread.document import ThreadSummary

DAMAGED: Final = "damaged"
UNREADABLE: Final = "unreadable"
UNSUPPORTED: Final = "unsupported"
"""The states, in lists, of threads of which nothing can be shown: what is there is not intact, the
disk refuses to read it just now, or another version of Treadle wrote it."""


class ListFilters(TypedDict, total=False):
    """Which threads a list is of; all that is said must hold.

    `is_waiting`: whether a call waits for a person's yes. `key`: a program's own name for it.
    `tag`: one that it has. `title`: what its title contains, in capital letters or not. `extra`:
    values that programs keep with it.
    """

    is_waiting: bool
    key: str
    tag: str
    title: str
    extra: Mapping[str, Any]


def list_summaries(
    reader: ThreadReader, thread_ids: Iterable[str], wanted: ListFilters
) -> list[ThreadSummary]:
    """The lines of these threads that are wanted, last changed first.

    Raises:
        UsageError: something else is wanted than a list can be of.
    """
    if unknown := ", ".join(wanted.keys() - ListFilters.__annotations__.keys()):
        known = ", ".join(ListFilters.__annotations__)
        raise UsageError(f"no list of threads is by {unknown}", hint=f"by {known}")
    lines = [line for one in thread_ids if (line := summarize(reader, one)) is not None]
    found = [line for line in lines if _is_wanted(line, wanted)]
    if "extra" in wanted:
        found = [line for line in found if _has_extra(reader, line, wanted["extra"])]
    return sorted(found, key=lambda line: (line.updated_at, line.id), reverse=True)


def _is_wanted(line: ThreadSummary, wanted: ListFilters) -> bool:
    return (
        wanted.get("is_waiting", bool(line.questions)) == bool(line.questions)
        and wanted.get("key", line.key) == line.key
        and ("tag" not in wanted or wanted["tag"] in line.tags)
        and wanted.get("title", "").lower() in (line.title or "").lower()
    )


def _has_extra(reader: ThreadReader, line: ThreadSummary, wanted: Mapping[str, Any]) -> bool:
    if line.problem:  # it may not be readable
        return False
    extra = reader.load(line.id).fold.metadata.extra
    return all(name in extra and extra[name] == value for name, value in wanted.items())


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
