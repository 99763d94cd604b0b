"""Taking a text out of threads, everywhere this machine keeps them: a secret that slipped in.

All is worked out and folded again before the first byte is written. What is written are whole
files, each replaced at once, so that a journal is the old one or the new one. Forks go before what
they go on from: as long as the text is still in a base, running the same again finds what is left
to be done. The order is: new blobs, new file states; quarantine, journal and snapshot of each
thread; and when no journal names them any more, the old blobs and file states.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import TreadleError, UsageError
from treadle.store.blobs import Blobs
from treadle.store.file_replacement import replace_file
from treadle.store.folders import SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors, sync_journal
from treadle.store.live_answer import remove_live_answer
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import apply_records, decode_header
from treadle.store.thread_requests import ThreadRequests
from treadle.store.upkeep.interrupted_operations import Sign, end_scrub, mark_scrub
from treadle.store.upkeep.text_scan import Redact, TextScanner, redact_bytes, redact_lines
from treadle.store.upkeep.trash import Trash
from treadle.thread.codec import UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import ChildStarted, FilesSaved, Scrubbed
from treadle.thread.fold import ThreadFold
from treadle.thread.record import JournalCondition, JournalScan, Record, encode_batch, scan_journal
from treadle.thread.scrub import RecordChange, ScrubbedJournal, scrub_journal
from treadle.thread.snapshot import decode_snapshot

_CHECKSUM: Final = b',\n  "checksum": "'


class FileStateScrubber(Protocol):
    """The saved states of a thread's files, kept elsewhere."""

    def rewrite(self, thread_id: str, workspace: str, commits: Sequence[str]) -> Mapping[str, str]:
        """Take the text out of the states; the old ones stay. New names by old ones.

        Names are those of commits and of their trees. What was done before is found again. The
        thread may have none, or have those of the thread it goes on from.
        """
        ...

    def remove_old(self) -> None:
        """Remove what `rewrite` has replaced, as no journal names it any more."""
        ...


class ScrubbedThread(Struct, frozen=True):
    """What was done to one thread, or would be: so many of its records were changed.

    None were if it goes on from a thread whose history was changed, and nothing else is the case.
    """

    thread: str
    count: int


class ScrubResult(Struct, frozen=True):
    """What a scrub did, or would do.

    `threads` were chained anew; `looked_at` are all that were looked at. `blob_count` and
    `file_count` count blobs and other files that held the text. `kept_blobs` hold it still, because
    the threads that are named with them do. `refused` are threads out of which the text cannot be
    taken, each with the reason.
    """

    threads: tuple[ScrubbedThread, ...]
    looked_at: tuple[str, ...]
    blob_count: int = 0
    file_count: int = 0
    kept_blobs: Mapping[str, tuple[str, ...]] = {}
    refused: Mapping[str, str] = {}


class _JournalPlan(Struct, frozen=True):
    """What becomes of one journal.

    `rest` is what stands after its intact records, without the text. `data` is the new file, `None`
    if it stays as it is; `snapshot` that of the snapshot, empty if it is removed.
    """

    thread: str
    path: str
    in_trash: bool
    found: JournalScan
    new: ScrubbedJournal
    rest: bytes = b""
    data: bytes | None = None
    snapshot: bytes | None = None


def scrub(
    store: LocalStore,
    thread_ids: Iterable[str],
    redact: Redact,
    *,
    is_rehearsal: bool = False,
    states: FileStateScrubber | None = None,
    wants_rest: bool = False,
    sign: Sign | None = None,
) -> ScrubResult:
    """Take a text out of threads and those of their sub-agents, in all forms that `redact` knows.

    What the threads of forks hold themselves stays; of the history they share, they know the first
    hash. Safe to be stopped anywhere and done again.

    Args:
        store: where the threads are.
        thread_ids: the threads; trashed ones too.
        redact: replaces the text in a string; idempotent.
        is_rehearsal: whether to write nothing, and only say what would be done.
        states: rewrites the saved states of files.
        wants_rest: whether to do all other threads where one has the text in a place it cannot be
            taken out of; by default nothing is done then.
        sign: marks the scrub until it has ended, so that one that was stopped is told.

    Raises:
        UnknownThreadError: there is no such thread; nothing was changed.
        UsageError: the text is a part of how a thread is written; nothing was changed.
        ThreadBusyError: one of the threads is open elsewhere; nothing was changed.
        DiskError: what was done so far stands; do it again.
    """
    with ExitStack() as held:
        work = _ScrubRun(store, redact, thread_ids, wants_rest=wants_rest)
        if not is_rehearsal:
            work.lock_threads(held)
        work.plan({})
        if is_rehearsal:
            return work.make_result()
        if sign is not None:
            mark_scrub(store, work.threads, sign)
        if states is not None:
            work.plan(work.rewrite_file_states(states))
        work.write()
        if states is not None:
            states.remove_old()
        if sign is not None:
            end_scrub(store, work.threads, sign)
        return work.make_result()


class _ScrubRun:
    """One scrub: the threads it is about, what becomes of each, and the writing of it."""

    def __init__(
        self, store: LocalStore, redact: Redact, thread_ids: Iterable[str], *, wants_rest: bool
    ) -> None:
        self._store = store
        self._disk = store.folders.disk
        self._redact = redact
        self._remains = TextScanner(store.folders, redact)
        self._targets = self._add_children(thread_ids)
        self._bases = self._remains.read_bases()
        self._order = self._order_with_forks()
        self._blobs: dict[str, bytes] = {}
        self._moved: Mapping[str, str] = {}
        self._sizes: Mapping[str, int] = {}
        self._old_blobs: list[str] = []
        self._kept_blobs: dict[str, tuple[str, ...]] = {}
        self._plans: dict[str, _JournalPlan] = {}
        self._file_count = 0
        self._wants_rest = wants_rest
        self._refused: dict[str, str] = {}

    @property
    def threads(self) -> tuple[str, ...]:
        """All threads concerned."""
        return tuple(self._order)

    # ---- which threads ---------------------------------------------------------------------

    def _add_children(self, thread_ids: Iterable[str]) -> set[str]:
        """The threads and those of their sub-agents, and of theirs."""
        found: set[str] = set()
        left = list(thread_ids)
        while left:
            thread_id = left.pop()
            path, _ = self._store.folders.find(thread_id)
            if thread_id in found:
                continue
            found.add(thread_id)
            for record in scan_journal(self._read_file(path)).records:
                if b'"child_started"' in bytes(record.event):
                    left += self._find_child(record)
        return found

    def _find_child(self, record: Record) -> list[str]:
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            return []
        if not isinstance(entry, ChildStarted) or not self._remains.list_journals(entry.thread):
            return []
        return [entry.thread]

    def _order_with_forks(self) -> list[str]:
        """The threads and all that go on from them, each after what it goes on from."""
        found: dict[str, None] = {}

        def add(thread_id: str, above: frozenset[str]) -> None:
            base = self._bases.get(thread_id)
            # What goes on from itself is damaged, and no business of this.
            if base is not None and base.thread in wanted and base.thread not in above:
                add(base.thread, above | {thread_id})
            found[thread_id] = None

        wanted = set(self._targets)
        while grown := {t for t, base in self._bases.items() if base.thread in wanted} - wanted:
            wanted |= grown
        for thread_id in sorted(wanted):
            add(thread_id, frozenset())
        return list(found)

    def lock_threads(self, held: ExitStack) -> None:
        """Hold the locks of all threads concerned; forks that were made meanwhile too."""
        trash = Trash(self._store)
        held.enter_context(trash.hold_lock())
        # A move that was cut has left two names of one file: written anew they were two threads.
        trash.finish_moves()
        locked: set[str] = set()
        while missing := set(self._order) - locked:
            for thread_id in sorted(missing):
                held.callback(self._disk.close, self._store.lock(thread_id))
                remove_live_answer(self._store.places, thread_id)
                requests = ThreadRequests(self._store.folders.disk, self._store.places, thread_id)
                requests.remove_all()
            locked |= missing
            self._targets = self._add_children(self._targets)
            self._bases = self._remains.read_bases()
            self._order = self._order_with_forks()

    # ---- what becomes of them --------------------------------------------------------------

    def plan(self, moved: Mapping[str, str]) -> None:
        """Work out all new bytes, and fold them. Raises as `scrub`.

        Args:
            moved: the new names of file states, as far as they are known.
        """
        # A thread that is refused keeps its blobs: then all is worked out anew, without it.
        while self._plan_all(moved):
            pass

    def _plan_all(self, moved: Mapping[str, str]) -> bool:
        """Whether threads were refused by that."""
        count = len(self._refused)
        self._plan_blobs()
        names = {old: sha256(self._blobs[old]).hexdigest() for old in self._blobs}
        sizes = {old: len(data) for old, data in self._blobs.items()}
        self._plans = {}
        self._moved, self._sizes = {**moved, **names}, sizes
        for thread_id in self._order:
            try:
                self._plan_thread(thread_id)
            except UsageError as error:
                if not self._wants_rest or thread_id not in self._targets:
                    raise
                self._targets.discard(thread_id)
                self._refused[thread_id] = error.message
                self._plan_thread(thread_id)
        return len(self._refused) > count

    def _plan_thread(self, thread_id: str) -> None:
        if thread_id in self._targets and self._redact(thread_id) != thread_id:
            raise UsageError(
                f"the text is a part of the id of thread {thread_id}, and of file names",
                hint="nothing was changed",
            )
        self._plans.pop(thread_id, None)
        for path, in_trash in self._remains.list_journals(thread_id):
            plan = self._plan_journal(thread_id, path, in_trash)
            self._plans.setdefault(thread_id, plan)
            self._plans[path] = plan
        self._check_fold(self._plans[thread_id])

    def _plan_blobs(self) -> None:
        """Which blobs get a new name, and which old ones nobody else names."""
        hot = self._remains.redact_blobs()
        naming = self._remains.find_threads_naming(hot)
        self._blobs = {name: data for name, data in hot.items() if naming[name] & self._targets}
        others = {name: sorted(naming[name] - self._targets) for name in hot}
        self._kept_blobs = {name: tuple(names) for name, names in others.items() if names}
        self._old_blobs = [name for name, names in others.items() if not names]

    def _plan_journal(self, thread_id: str, path: str, in_trash: bool) -> _JournalPlan:
        data = self._read_file(path)
        found = scan_journal(data)
        is_target = thread_id in self._targets
        redact = self._redact if is_target else _return_unchanged
        change = RecordChange(redact, self._moved, self._sizes)
        try:
            new = scrub_journal(data, change)
        except UsageError as error:
            raise UsageError(f"{error.message} of thread {thread_id}", hint=error.hint) from error
        rest = data[found.head.size :]
        clean_rest = redact_bytes(rest, redact)
        plan = _JournalPlan(thread_id, path, in_trash, found, new, clean_rest)
        has_changed = new.data != data[: found.head.size]
        if not has_changed and clean_rest == rest:
            return replace(plan, snapshot=self._make_snapshot(plan))
        written = new.data
        if found.condition is JournalCondition.CORRUPT:
            # What stands after damage cannot be chained: it is kept as it is, without the text.
            written += clean_rest
        elif has_changed:
            count = new.count if is_target else 0
            _, event = encode_entry(Scrubbed(count, found.head.hash, keeps_ids=True))
            written += encode_batch(new.head, self._store.now(), [event])[0]
        plan = replace(plan, data=written)
        return replace(plan, snapshot=self._make_snapshot(plan))

    def _make_snapshot(self, plan: _JournalPlan) -> bytes | None:
        """What becomes of the snapshot: of an intact journal, it is a cache and can go.

        One that knows more than its journal is all that is left of some records, and stays.
        """
        data = self._read_file(self._snapshot_path(plan))
        # That of a fork holds what it has from its base.
        changed = redact_lines(data, self._redact)
        if changed == data and (plan.data is None or not data):
            return None
        snapshot = decode_snapshot(data)
        if snapshot is None or snapshot.head.seq <= plan.found.head.seq:
            return b""
        if changed == data:
            return None
        sealed, mark, _ = changed.rpartition(_CHECKSUM)
        resealed = sealed + mark + sha256(sealed).hexdigest().encode() + b'"\n}\n'
        if decode_snapshot(resealed) is None:
            raise _make_format_error(f"the snapshot of {plan.thread} could not be read without it")
        return resealed

    def _snapshot_path(self, plan: _JournalPlan) -> str:
        return self._store.folders.path(plan.thread, SNAPSHOT_SUFFIX, in_trash=plan.in_trash)

    def _check_fold(self, plan: _JournalPlan) -> None:
        """The new records must fold to where the old ones do."""
        if not plan.new.records or plan.data is None:
            return
        try:
            self._store.load_initial_fold(plan.thread)  # a snapshot may hide that it does not fit
            before = self._store.load(plan.thread)
        except TreadleError:
            return  # it could not be folded, or is about to fit its base again
        if before.head.seq != plan.found.head.seq:
            return  # a snapshot stands for records that are lost
        fold, problem = self._fold_thread(plan.thread, plan.new.records)
        stands = (fold.version, fold.state_kind, len(list(fold.conversation)))
        stood = (before.fold.version, before.fold.state_kind, len(list(before.fold.conversation)))
        if (problem and not before.problem) or stands != stood:
            raise _make_format_error(f"{plan.thread} could not be folded without it")

    def _fold_thread(self, thread_id: str, records: Sequence[Record]) -> tuple[ThreadFold, str]:
        header = decode_header(records[0])
        base = header.base
        if base is None:
            fold = ThreadFold(header)
        elif base.thread in self._plans:
            known = self._plans[base.thread].new.records[: base.version]
            if known and known[-1].is_at(base.version, base.hash):
                fold = self._fold_thread(base.thread, known)[0].make_fork(header)
            else:  # a branch that another one has taken the place of: folded as it is still
                fold = self._store.load_initial_fold(thread_id)
        else:
            fold = self._store.load_initial_fold(thread_id)
        return fold, apply_records(fold, list(records))

    # ---- doing it --------------------------------------------------------------------------

    def rewrite_file_states(self, states: FileStateScrubber) -> dict[str, str]:
        """Rewrite the saved file states of all threads concerned: forks hold on to them too."""
        moved: dict[str, str] = {}
        for thread_id in self._order:
            plan = self._plans[thread_id]
            if not plan.found.records:
                continue
            workspace = decode_header(plan.found.records[0]).workspace
            commits = [
                entry.commit
                for record in plan.found.records
                if b'"files_saved"' in bytes(record.event)
                and isinstance(entry := decode_entry(record.event), FilesSaved)
            ]
            if workspace is not None:
                moved.update(states.rewrite(thread_id, workspace, commits))
        return {old: new for old, new in moved.items() if old != new}

    def write(self) -> None:
        """Write what was planned."""
        folders = self._store.folders
        for data in self._blobs.values():
            Blobs(folders).keep(data)
        for thread_id in reversed(self._order):
            if thread_id in self._targets:
                change = RecordChange(self._redact, self._moved, self._sizes)
                for path, data in self._remains.redact_quarantine(thread_id, change):
                    replace_file(self._disk, path, data)
                    self._file_count += 1
            for path, _ in self._remains.list_journals(thread_id):
                self._write_thread(self._plans[path])
            self._remains.remove_drafts(thread_id)
        for name in self._old_blobs:
            self._remains.remove_blob(name)
        if self._old_blobs:
            with convert_os_errors("sync", folders.blobs):
                self._disk.sync_folder(folders.blobs)

    def _write_thread(self, plan: _JournalPlan) -> None:
        if plan.data is not None:
            sync_journal(self._disk, plan.path)
            if plan.found.condition is JournalCondition.TORN:
                self._quarantine_tail(plan)
            replace_file(self._disk, plan.path, plan.data)
        self._write_snapshot(plan)

    def _quarantine_tail(self, plan: _JournalPlan) -> None:
        """An unfinished write is kept where opening the thread would have put it."""
        digest = sha256(plan.rest).hexdigest()[:12]
        name = f"{os.path.basename(plan.path)}.{plan.new.head.size}.{digest}"
        with convert_os_errors("make", self._store.folders.quarantine):
            self._disk.make_folder(self._store.folders.quarantine)
        path = os.path.join(self._store.folders.quarantine, name)
        replace_file(self._disk, path, plan.rest)

    def _write_snapshot(self, plan: _JournalPlan) -> None:
        path = self._snapshot_path(plan)
        if plan.snapshot:
            replace_file(self._disk, path, plan.snapshot)
        elif plan.snapshot is not None:
            with convert_os_errors("remove", path):
                self._disk.unlink(path)
                self._disk.sync_folder(os.path.dirname(path))
        self._file_count += plan.snapshot is not None

    def make_result(self) -> ScrubResult:
        """What was done, or would be."""
        done = {p.path: p for p in self._plans.values() if p.data is not None}
        return ScrubResult(
            tuple(
                ScrubbedThread(p.thread, p.new.count * (p.thread in self._targets))
                for p in done.values()
            ),
            tuple(self._order),
            len(self._old_blobs) + len(self._kept_blobs.keys() & self._blobs.keys()),
            self._file_count,
            self._kept_blobs,
            self._refused,
        )

    def _read_file(self, path: str) -> bytes:
        """The file's bytes; none if there is none."""
        with convert_os_errors("read", path):
            try:
                return self._disk.read(path)
            except FileNotFoundError:
                return b""


def _return_unchanged(text: str) -> str:
    return text


def _make_format_error(why: str) -> UsageError:
    return UsageError(
        f"the text is a part of how threads are written: {why}",
        hint="nothing was changed; give more of the secret, if there is more of it",
    )
