"""Which threads an evaluation is of: by name, by a tag, by what was said in them, or listed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle.app.evaluation.values import TAG
from treadle.app.notices import Notify, ignore_notice
from treadle.app.threads.thread_lists import list_threads, search_threads
from treadle.errors import UsageError
from treadle.store.index.filters import ThreadFilters
from treadle.store.local_store import LocalStore
from treadle.thread.document import ThreadSummary


def choose_threads(
    store: LocalStore,
    names: Sequence[str] = (),
    *,
    search: str = "",
    tags: Sequence[str] = (),
    file: str = "",
    notify: Notify = ignore_notice,
) -> tuple[str, ...]:
    """The threads that are named, and those that are found, as `EvaluationRequest` takes them.

    What is found leaves out sub-agents and the threads of earlier evaluations.

    Args:
        store: the threads.
        names: ids, each perhaps with `:TURN`.
        search: words that were said, as `search_threads` takes them.
        tags: those that a found thread has; with `search`, both must hold.
        file: a file with a name in each line; what follows a `#` is for people.
        notify: gets a line while something takes long.

    Raises:
        UsageError: the file cannot be read.
        StoreError: the threads cannot be read.
    """
    found: list[ThreadSummary] = []
    filters = ThreadFilters(tags=tuple(tags))
    if search:
        found = [hit.thread for hit in search_threads(store, search, filters, notify=notify).hits]
    elif tags:
        found = list(list_threads(store, filters, notify=notify).threads)
    kept = [
        one.id
        for one in found
        if one.parent is None and not any(tag.startswith(TAG) for tag in one.tags)
    ]
    return tuple(dict.fromkeys((*names, *_read_names(file), *kept)))


def _read_names(file: str) -> list[str]:
    if not file:
        return []
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]
