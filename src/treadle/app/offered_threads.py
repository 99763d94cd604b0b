"""This machine's threads, as other agents may read them.

What is told here goes to somebody else's model. So nothing is told of a thread that may not leave
this machine, secrets are replaced by what is known of them now, and each answer has a bound.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from treadle.app.exchange.thread_export import export_thread
from treadle.app.files.provenance import RunOrigin, ThreadOrigin, find_line_origins
from treadle.app.threads.thread_lists import search_threads
from treadle.errors import (
    AmbiguousThreadError,
    PrivateThreadError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.runtime.defaults import make_user_redactor
from treadle.store.index.filters import ThreadFilters
from treadle.store.index.search import Hit
from treadle.store.local_store import LocalStore
from treadle.sync.shareable_thread import open_shareable
from treadle.thread.safe_text import sanitize_text

HIT_COUNT_MAX: Final = 50
"""Threads that one search names."""

PAGE_LENGTH: Final = 24_000
"""Characters of a page of a thread: about 6,000 tokens."""

RUN_COUNT_MAX: Final = 200
"""Groups of lines that one look at a file names."""

_SNIPPET_LENGTH_MAX: Final = 400
_HIT_COUNT_LOOKED_AT: Final = 200
_HASH_LENGTH: Final = 10


def find_offered_threads(
    store: LocalStore, query: str, workspace: str | None = None, *, limit: int = 20
) -> str:
    """What a search finds in threads that may leave this machine; best first, a paragraph each.

    Args:
        store: the threads of this machine.
        query: what to look for, as `search_threads` takes it.
        workspace: only threads that work in this folder or below it.
        limit: how many threads, `HIT_COUNT_MAX` at most.

    Raises:
        UsageError: there is nothing to look for.
        StoreError: the threads cannot be read.
    """
    limit = max(1, min(limit, HIT_COUNT_MAX))
    filters = ThreadFilters(workspace=workspace or None)
    hits = search_threads(store, query, filters, limit=_HIT_COUNT_LOOKED_AT).hits
    told = list[str]()
    for hit in hits:
        if len(told) > limit:
            break
        if _may_leave(store, hit.thread.id):
            told.append(_describe_hit(hit))
    if not told:
        return "nothing was found"
    more = ["there are more; search for more words"] if len(told) > limit else []
    return _make_safe("\n\n".join([*told[:limit], *more]))


def read_offered_thread(store: LocalStore, thread: str, page: int = 1) -> str:
    """A page of a thread that may leave this machine, as Markdown; then how to read on.

    Args:
        store: the threads of this machine.
        thread: its id, or how that begins or ends.
        page: which `PAGE_LENGTH` characters, counted from 1.

    Raises:
        UnknownThreadError: there is none that may leave this machine, or several.
        UsageError: it has no such page.
        StoreError: it cannot be read.
    """
    try:
        thread_id = store.resolve(thread)
        # Held while it is read: who makes it private at this moment waits, and is obeyed then.
        with open_shareable(store, thread_id):
            text = export_thread(store, thread_id, "markdown", with_secrets=True).data.decode()
    except (UnknownThreadError, AmbiguousThreadError, PrivateThreadError):
        # One answer to all three: whoever may not read a thread does not learn that there is one.
        raise UnknownThreadError(
            f"there is no thread {thread!r}, or it is not offered",
            hint="take a whole id that a search has named",
        ) from None
    # Before it is cut: a secret through which the cut runs would not be known any more.
    text = _make_safe(text)
    count = max(1, -(-len(text) // PAGE_LENGTH))
    if not 1 <= page <= count:
        raise UsageError(f"thread {thread_id} has {count} pages, not a page {page}")
    part = text[(page - 1) * PAGE_LENGTH : page * PAGE_LENGTH]
    if count == 1:
        return part
    onward = f"; page={page + 1} goes on" if page < count else ""
    return f"{part.rstrip()}\n\n(page {page} of {count}{onward})"


async def describe_offered_origins(
    store: LocalStore, file: Path, first: int = 1, last: int | None = None
) -> str:
    """Where lines of a file come from: a line for those in a row that came the same way.

    Commits are told with the threads behind them. Of a thread that may not leave this machine it is
    said that there is one, and no more. The text of the lines is not told.

    Args:
        store: the threads of this machine.
        file: the file, in a git repository.
        first: the first line, counted from 1.
        last: the last one; by default all from the first on.

    Raises: as `find_line_origins`.
    """
    found = await find_line_origins(store, file, first, last)
    allowed = {
        one.thread: one.place == "elsewhere" or _may_leave(store, one.thread)
        for run in found.runs
        for one in run.threads
    }
    rows = [_describe_run(run, allowed) for run in found.runs[:RUN_COUNT_MAX]]
    if len(found.runs) > RUN_COUNT_MAX:
        following = found.runs[RUN_COUNT_MAX].run.first
        rows.append(f"(there are more; first_line={following} goes on)")
    if found.notice:
        rows.append(f"({found.notice})")
    return _make_safe("\n".join(rows)) or "the file has no such lines"


def _may_leave(store: LocalStore, thread_id: str) -> bool:
    """Whether a thread may be told of: one that cannot be read may say that it is private."""
    try:
        with open_shareable(store, thread_id):
            return True
    except TreadleError:
        return False


def _make_safe(text: str) -> str:
    return sanitize_text(make_user_redactor().redact(text))


def _describe_hit(hit: Hit) -> str:
    line = hit.thread
    facts = [line.id, f"changed {line.updated_at[:16]}", line.workspace_root or "", line.state]
    snippet = " ".join(hit.snippet.split())[:_SNIPPET_LENGTH_MAX]
    title = " ".join((line.title or "(no title)").split())[:_SNIPPET_LENGTH_MAX]
    return "\n".join(
        [
            title,
            "  " + ", ".join(filter(None, facts)),
            f"  version {hit.version}, {hit.kind}: {snippet}",
        ]
    )


def _describe_run(origin: RunOrigin, allowed: dict[str, bool]) -> str:
    run = origin.run
    lines = f"line {run.first}" if run.first == run.last else f"lines {run.first}-{run.last}"
    commit = run.commit
    words = ["not committed"]
    if commit is not None:
        words = [f"commit {commit.hash[:_HASH_LENGTH]} {commit.at[:10]} {commit.author}"]
        words.append(commit.subject)
    words += [_describe_thread(one) if allowed[one.thread] else _UNTOLD for one in origin.threads]
    return f"{lines}: " + "; ".join(words)


_UNTOLD: Final = "a thread that is not offered"


def _describe_thread(one: ThreadOrigin) -> str:
    at = "" if one.version is None else f" at version {one.version}"
    return f"thread {one.thread}{at}, {one.summary}"
