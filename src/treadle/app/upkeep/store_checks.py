"""What `treadle doctor` says of the data folder: threads, index, leftovers, who can read it.

It stays quick with tens of thousands of threads: the index answers for all of them, and only the
last few are read. `treadle verify --all` is the thorough one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from treadle.app.sizes import human_size
from treadle.app.upkeep.checks import Finding, failure, ok, warning
from treadle.errors import TreadleError
from treadle.platform.file_systems import find_type
from treadle.process.command import read_listing
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX
from treadle.store.index.filters import ThreadFilters
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.replay import verify_thread as verify
from treadle.store.thread_lock import find_holder
from treadle.store.upkeep.disk_usage import DiskUsage, measure_disk_usage
from treadle.store.upkeep.foreign_files import list_foreign_files
from treadle.store.upkeep.garbage import GarbageCollector
from treadle.store.upkeep.interrupted_operations import finish_operations, list_stopped_scrubs
from treadle.thread.codec import UnknownEntryError
from treadle.thread.document import ThreadSummary
from treadle.thread.record import JournalCondition
from treadle.workspace.unreadable import find_unreadable

THREAD_COUNT_MAX: Final = 50
SIZE_MAX: Final = 64 * 2**20
"""So many threads, last changed first, and so many bytes of journals are verified; blobs that
nothing needs are looked for if all journals together are not larger."""

NAMED_COUNT_MAX: Final = 10
"""So many of what is wrong are named, each on a line; the rest is counted."""

INDEX_SIZE_FACTOR: Final = 4
"""An index that takes so many times what the journals take has grown out of bounds."""

NETWORK_FILE_SYSTEMS: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs"),
        *("fuse.sshfs", "fuse.glusterfs"),
        *("afpfs", "webdav"),
    )
)
"""Types of file systems whose files other machines see."""


def check_store(store: LocalStore, places: Places) -> Iterator[Finding]:
    """All that is said of a data folder, if there is one."""
    yield from check_file_system(places)
    try:
        if not any(Path(one).is_dir() for one in (store.folders.threads, store.folders.trash)):
            yield ok("threads", "0")
            return
        yield from check_permissions(places)
        finish_operations(store)
        notices: list[str] = []
        index = Index(store, notices.append)
        try:
            lines, trashed = (
                index.list_threads(),
                index.list_threads(ThreadFilters(is_trashed=True)),
            )
        finally:
            index.close()
        scrubs = list_stopped_scrubs(store)
        for text, _ in scrubs:
            yield failure("scrub", text, "`treadle scrub`, as it was given before")
        concerned = {thread for _, threads in scrubs for thread in threads}
        yield from check_threads(store, lines, concerned)
        yield from check_unfinished(store, lines)
        yield from check_commits(store, lines)
        yield from check_leftovers(store, trashed)
        yield from check_index(store, notices, len(lines) + len(trashed))
    except (TreadleError, OSError) as error:
        yield failure("threads", str(error), getattr(error, "hint", "") or "see `treadle verify`")


def check_file_system(places: Places) -> Iterator[Finding]:
    """Whether other machines see the same files: locks may not keep them out."""
    kind = find_type(places.data, read_listing)
    if kind in NETWORK_FILE_SYSTEMS:
        yield warning(
            "file system",
            f"{places.data} is on a network ({kind})",
            "use it from one machine at a time, or set TREADLE_HOME to a folder on a local disk: "
            "locks may not hold between machines, and the search index is slow there",
        )


def check_permissions(places: Places) -> Iterator[Finding]:
    """Whether others can read what is in the data folder, which holds what agents have seen."""
    if places.data.stat().st_mode & 0o077 == 0:
        return  # nobody else gets in, whatever stands on what is inside
    found = [path for path in _walk_paths(places.data) if _is_open_to_others(path)]
    if found:
        text = f"{len(found)} files and folders can be read by others, such as {found[0]}"
        yield warning("privacy", text, f"chmod -R go= {places.data}")


def _walk_paths(folder: Path) -> Iterator[Path]:
    for above, _, names in os.walk(folder):
        yield from (Path(above), *(Path(above, name) for name in names))


def _is_open_to_others(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)


def check_threads(
    store: LocalStore, lines: list[ThreadSummary], concerned: Collection[str] = ()
) -> Iterator[Finding]:
    """What the index knows to be wrong, and the threads that were worked on last, read whole.

    Those concerned by a scrub that was stopped are left out: it is to be ended first.
    """
    lines = [line for line in lines if line.id not in concerned]
    recent = sorted(lines, key=lambda line: line.updated_at, reverse=True)
    chosen = list(_select_recent(store, recent))
    reports = {line.id: verify(store, line.id) for line in chosen}
    newer = [line.id for line in lines if line.problem and _is_newer(store, line.id)]
    bad = {line.id: line.problem for line in lines if line.problem and line.id not in newer}
    for report in reports.values():
        if not report.is_good and report.thread not in newer:
            bad[report.thread] = f"{report.condition}: {report.text}"
    for thread_id, text in list(bad.items())[:NAMED_COUNT_MAX]:
        advice = f"`treadle verify {thread_id} --salvage` saves what is intact; it can be shown"
        yield failure("threads", f"{thread_id} is {text}", advice)
    if len(bad) > NAMED_COUNT_MAX:
        text = f"{len(bad) - NAMED_COUNT_MAX} more are damaged"
        yield failure("threads", text, "`treadle verify --all` names all of them")
    if newer:
        text = f"{len(newer)} were written by a newer Treadle, such as {newer[0]}"
        yield warning("threads", text, "install that version: this one shows what it can read")
    if bare := [report.thread for report in reports.values() if report.absent_count]:
        text = f"{len(bare)} imported without their large outputs, such as {bare[0]}"
        advice = "export them again where they come from, and import that file: it adds the outputs"
        yield warning("outputs", text, advice)
    torn = sum(report.condition == "torn" for report in reports.values())
    words = f"; {torn} with an unfinished last write, which opening mends" if torn else ""
    rest = ", all verified" if len(reports) == len(lines) else f", the last {len(reports)} verified"
    if not bad and not newer:
        yield ok("threads", f"{len(lines)}{rest if lines else ''}{words}")


def _select_recent(store: LocalStore, lines: list[ThreadSummary]) -> Iterator[ThreadSummary]:
    """The first few, as long as reading them does not take long."""
    left = SIZE_MAX
    for line in lines[:THREAD_COUNT_MAX]:
        found = store.folders.disk.stat(store.folders.path(line.id, JOURNAL_SUFFIX))
        left -= 0 if found is None else found.size
        if left < 0:
            return
        yield line


def _is_newer(store: LocalStore, thread_id: str) -> bool:
    """Whether nothing is wrong with a thread but that this version cannot read all of it."""
    try:
        loaded = store.load(thread_id)
    except UnknownEntryError:
        return True
    except TreadleError:
        return False
    return bool(loaded.problem) and loaded.condition is not JournalCondition.CORRUPT


def check_unfinished(store: LocalStore, lines: list[ThreadSummary]) -> Iterator[Finding]:
    """Threads in which work stopped in the middle, and nobody is at it now."""
    stopped = [line for line in lines if line.is_unfinished and not line.questions]
    alone = [
        line.id
        for line in stopped[:NAMED_COUNT_MAX]
        if find_holder(store.folders.disk, store.folders.path(line.id, LOCK_SUFFIX)) is None
    ]
    if alone:
        more = " or more" if len(stopped) > NAMED_COUNT_MAX else ""
        text = f"{len(alone)}{more} stopped in the middle of work, such as {alone[0]}"
        yield warning("unfinished", text, "`treadle list --state unfinished`, `treadle resume ID`")
    waiting = [line.id for line in lines if line.questions]
    if waiting:
        text = f"{len(waiting)} wait for a person's yes, such as {waiting[0]}"
        yield warning("waiting", text, "`treadle list --state waiting`, `treadle approve ID`")


def check_commits(store: LocalStore, lines: list[ThreadSummary]) -> Iterator[Finding]:
    """Whether git reads what the last thread of each folder knows of: a power cut may break it."""
    recent = sorted(lines, key=lambda line: line.updated_at, reverse=True)
    last = {line.workspace_root: line.id for line in reversed(recent[:THREAD_COUNT_MAX])}
    for folder, thread_id in list(last.items())[-NAMED_COUNT_MAX:]:
        if not folder or not Path(folder).is_dir():
            continue
        try:
            commits = store.load(thread_id).fold.git.git_commits
        except TreadleError:
            continue  # told above
        found = asyncio.run(find_unreadable(folder, commits))
        if found is not None:
            yield failure("repository", f"{found.text} ({thread_id} knows it)", found.advice)


def check_leftovers(store: LocalStore, trashed: list[ThreadSummary]) -> Iterator[Finding]:
    """What takes room and is not needed, and what is not Treadle's."""
    room = measure_disk_usage(store, 0)
    shares = {share.name: share for share in room.shares}
    text = f"{human_size(room.size)} in all; {len(trashed)} threads in the trash take "
    yield ok("room", f"{text}{human_size(shares['trash'].size)}; `treadle du` says more")
    kept = shares["quarantine"]
    if kept.count:
        text = f"{kept.count} files with what was cut off or saved, {human_size(kept.size)}"
        advice = f"look at {store.folders.quarantine}; `treadle gc --quarantine` removes them"
        yield warning("quarantine", text, advice)
    drafts = shares["drafts"]
    if drafts.count:
        text = f"{drafts.count} drafts, {human_size(drafts.size)}, of writes under way or cut short"
        yield warning("drafts", text, "`treadle gc` removes those that nobody writes any more")
    if shares["large outputs"].count and shares["journals"].size <= SIZE_MAX:
        blobs = GarbageCollector(store).plan().blobs
        if blobs:
            size = human_size(sum(blob.size for blob in blobs))
            text = f"{len(blobs)} outputs that no thread names, {size}"
            yield warning("outputs", text, "`treadle gc` removes them")
    foreign = list(list_foreign_files(store.folders))
    if foreign:
        text = f"{len(foreign)} files that are not Treadle's, such as {foreign[0]}"
        yield warning("strangers", text, "move them elsewhere; Treadle leaves them alone")


def check_index(store: LocalStore, notices: list[str], count: int) -> Iterator[Finding]:
    """The search index, after it has answered: a cache that mends itself where it can."""
    for notice in notices:
        # As SQLite calls it, and as the system does.
        is_full = "disk is full" in notice or os.strerror(errno.ENOSPC) in notice
        if "newer Treadle" in notice:
            mend = "update this Treadle"
        else:
            mend = "make room on the disk" if is_full else "make the data folder writable"
        advice = f"{mend}; the index is only a cache and can be removed"
        yield warning("index", notice, advice)
    if notices:
        return
    room: DiskUsage = measure_disk_usage(store, 0)
    sizes = {share.name: share.size for share in room.shares}
    size, journals = sizes["search index"], sizes["journals"] + sizes["trash"]
    if size > SIZE_MAX and size > INDEX_SIZE_FACTOR * journals:
        text = f"{human_size(size)} for {human_size(journals)} of threads"
        advice = f"remove {store.places.data}/index.sqlite; the next list makes it anew"
        yield warning("index", text, advice)
    else:
        yield ok("index", f"{human_size(size)}, {count} threads in it")
