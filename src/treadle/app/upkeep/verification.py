"""Is every byte of every thread what it was? And does the index say the same as the threads?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from treadle.app.notices import Notify, ignore_notice
from treadle.app.stores import CREATOR
from treadle.app.threads.thread_lookup import list_all_ids, resolve_anywhere
from treadle.store.index.filters import ThreadFilters
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.store.replay import ReplayStep, VerificationReport, replay, verify_thread
from treadle.store.upkeep.foreign_files import list_foreign_files
from treadle.store.upkeep.interrupted_operations import finish_operations, list_stopped_scrubs
from treadle.store.upkeep.salvage import SalvageResult, salvage
from treadle.store.upkeep.trash import Trash
from treadle.thread.record import JournalCondition
from treadle.thread.safe_text import sanitize_text


def verify_threads(
    store: LocalStore,
    thread: str | None = None,
    *,
    notify: Notify = ignore_notice,
    has_trash: bool = False,
) -> Iterator[VerificationReport]:
    """Check a thread by the beginning or end of its id, or all, those in the trash if `has_trash`.

    Of all threads the last reports say where the index disagrees and which scrubs were stopped; a
    move or a creation of a thread that a crash has stopped is ended first. `notify` gets what
    the index has to say, and which files are not Treadle's.

    Raises:
        UsageError: there is no such thread, or several.
        StoreError: the threads cannot be listed.
    """
    if thread is not None:
        ids = [resolve_anywhere(store, thread)]
    else:
        finish_operations(store)
        ids = list_all_ids(store) if has_trash else store.ids()
    reports: list[VerificationReport] = []
    for thread_id in ids:
        reports.append(verify_thread(store, thread_id))
        yield reports[-1]
    _mark_damaged(store, reports, notify)
    if thread is not None:
        return
    for path in list_foreign_files(store.folders):
        notify(f"not Treadle's, and left alone: {sanitize_text(path)}")
    disagreeing = list(_find_disagreements(store, reports, notify, has_trash=has_trash))
    scrubs = [
        VerificationReport("scrub", "stopped", 0, False, text)
        for text, _ in list_stopped_scrubs(store)
    ]
    yield from (*disagreeing, *scrubs)


def replay_thread(store: LocalStore, thread: str) -> Iterator[ReplayStep]:
    """Fold the journal of a thread again from record 1; the last step has the verdict.

    Raises:
        UnknownThreadError: there is no thread whose id begins or ends so.
        UnknownEntryError: a record is from a newer version.
        DamagedJournalError: what it was forked from is not what it was.
    """
    return replay(store, store.resolve(thread))


def salvage_thread(store: LocalStore, thread_id: str) -> SalvageResult:
    """Save what is left of a damaged thread; none of its files is changed. Raises `StoreError`."""
    return salvage(store, thread_id, CREATOR)


def _mark_damaged(store: LocalStore, reports: Sequence[VerificationReport], notify: Notify) -> None:
    """Lists are to show what is damaged, also where a snapshot covers it and the file looks old."""
    damaged = [one.thread for one in reports if one.condition == JournalCondition.CORRUPT.value]
    if not damaged:
        return
    with closing(Index(store, notify)) as index:
        for thread_id in damaged:
            index.mark_stale(thread_id)


def _find_disagreements(
    store: LocalStore,
    reports: Sequence[VerificationReport],
    notify: Notify,
    *,
    has_trash: bool,
) -> Iterator[VerificationReport]:
    """Where the index says anything else than the threads themselves."""
    with closing(Index(store, notify)) as index:
        lines = index.list_threads()
        if has_trash:
            lines += index.list_threads(ThreadFilters(is_trashed=True))
    known = {line.id: line.version for line in lines}
    # A thread that is being moved, or made, is in no list yet.
    between = {
        *Trash(store).list_unfinished_moves(),
        *(one.thread for one in reports if not one.version),
    }
    for report in reports:
        version = known.get(report.thread)
        if report.is_good and version != report.version and report.thread not in between:
            # A thread that is in use goes on meanwhile.
            if version is not None and store.scan(report.thread).head.seq == version:
                continue
            text = f"the index has version {version}; remove index.sqlite, it is made anew"
            yield VerificationReport(report.thread, "index", report.version, False, text)
