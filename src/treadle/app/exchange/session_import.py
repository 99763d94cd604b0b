"""Sessions of other programs, and threads that were exported, become threads here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import (
    DamagedJournalError,
    MissingBlobError,
    ReadOnlyThreadError,
    StoreError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.exchange.claude_code import find_agent_calls, find_first_prompt
from treadle.exchange.imported_ids import make_imported_id
from treadle.exchange.journal_builder import (
    RECORD_COUNT_KEY,
    ImportOptions,
    build_imported_thread,
    find_session_title,
)
from treadle.exchange.journal_files import (
    JournalPart,
    make_journal_part,
    read_outputs,
    split_journals,
)
from treadle.exchange.session_files import (
    TREADLE,
    SessionFile,
    default_folders,
    find_session_files,
    identify_file,
    read_sessions,
)
from treadle.exchange.session_steps import ImportedSession
from treadle.runtime.defaults import make_user_redactor
from treadle.store.blobs import Blobs
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.replica_update import update_replica
from treadle.store.thread_reader import decode_header
from treadle.thread.codec import decode_entry
from treadle.thread.facts import ExtraSet
from treadle.thread.output_references import list_output_references
from treadle.thread.record import JournalCondition, replace_surrogates
from treadle.workspace.remote import normalise_remote

_BEGINNING_SIZE: Final = 1024 * 1024
"""Bytes of a journal in which the number of records stands that its session had."""


class ImportOutcome(Struct, frozen=True, omit_defaults=True):
    """What became of one session or journal.

    `outcome` is `imported`, `would be imported`, `already here`, `grown` (it is here, shorter),
    `brought up`, `would be brought up` (to a later version), `empty` (nothing was said in it) or
    `failed`, with the `reason`; `is_for_later` if it may not fail again (the disk refused).
    """

    path: str
    outcome: str
    thread: str = ""
    source: str = ""
    title: str = ""
    messages: int = 0
    repaired: int = 0
    foreign: int = 0
    problems: tuple[str, ...] = ()
    reason: str = ""
    is_for_later: bool = False


def import_sessions(
    store: LocalStore,
    paths: Sequence[str],
    source: str,
    *,
    wants_copies: bool = False,
    is_dry: bool = False,
    is_private: bool = False,
    lender: str = "",
) -> Iterator[ImportOutcome]:
    """Import what files and folders hold, one thread after the other, each whole or not at all.

    What is wrong with one stops no other. What is imported twice is found again, not doubled.

    Args:
        store: where to.
        paths: files, and folders that are searched; if there are none, those of the program.
        source: which program the sessions are of, or `auto`.
        wants_copies: whether sessions that have grown are imported as new threads.
        is_dry: whether to change nothing, and only say what would be done.
        is_private: whether the new threads may never leave this machine.
        lender: the server that has these threads as another user's; see `LocalStore.adopt`.

    Raises:
        UsageError: nothing was named, there is nothing of that name, or it holds no session.
    """
    options = ImportOptions(make_user_redactor().redact, normalise_remote, store.now(), is_private)
    work = _SessionImporter(store, options, wants_copies=wants_copies, is_dry=is_dry, lender=lender)
    has_any = False
    for found in _find_files(paths, source):
        for outcome in [found] if isinstance(found, ImportOutcome) else work.add(found, source):
            has_any = True
            yield outcome
    if not has_any:
        raise UsageError("there is no session to import")


def _find_files(paths: Sequence[str], source: str) -> Iterator[SessionFile | ImportOutcome]:
    """What was named, and what stands in folders; files there that nobody knows are left alone.

    Raises:
        UsageError: nothing was named, or there is nothing of that name.
    """
    named = [Path(path).expanduser().absolute() for path in paths]
    if not named:
        folders = default_folders(source, os.environ, Path.home())
        named = [path for path in folders if path.is_dir()]
        if not folders:
            raise UsageError("there is nothing to import", hint="name a PATH, or --from a program")
        if not named:
            raise UsageError(f"{source} keeps no sessions here: there is no {folders[0]}")
    if {"-", "/dev/stdin"} & set(paths):
        raise UsageError(
            "sessions are read from files, not from stdin",
            hint="cat > session.jsonl, then treadle import session.jsonl",
        )
    missing = [path for path in named if not path.exists()]
    if missing:
        raise UsageError(f"there is no file or folder {missing[0]}; nothing was imported")
    for path in named:
        is_folder = path.is_dir()
        for file in find_session_files(path) if is_folder else [path]:
            try:
                found = identify_file(file)
            except (OSError, TreadleError, ValueError, RecursionError) as error:
                yield _make_failure(str(file), error)
                continue
            if is_folder and (not found.source or source not in ("auto", found.source)):
                continue
            yield found


class _SessionImporter:
    """Adds one file after the other; each thread whole or not at all."""

    def __init__(
        self,
        store: LocalStore,
        options: ImportOptions,
        *,
        wants_copies: bool,
        is_dry: bool,
        lender: str,
    ) -> None:
        self._store = store
        self._options = options
        self._wants_copies = wants_copies
        self._is_dry = is_dry
        self._lender = lender
        self._seen: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}

    def add(self, found: SessionFile, source: str) -> Iterator[ImportOutcome]:
        """What becomes of what a file holds. What is wrong with one stops no other."""
        path = replace_surrogates(str(found.path))
        try:
            if source not in ("auto", found.source):
                what = f"but of {found.source}" if found.source else "nor of a program known here"
                raise UsageError(f"{path} is no session of {source}, {what}")
            if found.source == TREADLE:
                yield from self._add_journals(found.path)
                return
            sessions = read_sessions(found)
        except (OSError, TreadleError, ValueError, RecursionError) as error:
            yield _make_failure(path, error)
            return
        for session in sessions:
            try:
                yield self._add_session(self._link_parent(session), path)
            except (OSError, TreadleError, ValueError, RecursionError) as error:
                yield _make_failure(path, error)

    def _link_parent(self, session: ImportedSession) -> ImportedSession:
        """A sub-agent's session in a file of its own belongs to one that was seen before it."""
        parent = session.parent
        if parent is None:
            begun_at, calls = session.started_at, find_agent_calls(session)
            self._seen.setdefault((session.source, session.name), (begun_at, calls))
            return session
        if parent.started_at:
            return session
        found = self._seen.get((session.source, parent.name))
        if found is None:
            return replace(session, parent=None)
        call_id = found[1].get(find_first_prompt(session.steps))
        return replace(session, parent=replace(parent, started_at=found[0], call_id=call_id))

    def _add_session(self, session: ImportedSession, path: str) -> ImportOutcome:
        """What is here is known by its id and by how many records the session had."""
        name = session.source, session.name, session.started_at
        thread, longer = make_imported_id(*name), make_imported_id(*name, session.record_count)
        known = _read_known_count(self._store, thread)
        if known is not None:
            if session.record_count <= known:
                return self._make_known_outcome(session, path, thread, "already here")
            if _read_known_count(self._store, longer) is not None:
                return self._make_known_outcome(session, path, longer, "already here")
            if not self._wants_copies:
                count = session.record_count
                reason = f"it has {count} records now, and had {known} when it was imported"
                return self._make_known_outcome(session, path, thread, "grown", reason)
        draft = build_imported_thread(session, path, self._options, again=known is not None)
        outcome = "would be imported" if self._is_dry else "imported"
        if not draft.message_count:
            outcome = "empty"
        elif not self._is_dry:
            for data in draft.kept:
                Blobs(self._store.folders).keep(data)
            self._store.adopt(draft.data)
        return ImportOutcome(
            path,
            outcome,
            draft.thread,
            session.source,
            draft.title,
            draft.message_count,
            draft.repaired,
            draft.foreign,
            draft.problems,
        )

    def _make_known_outcome(
        self, session: ImportedSession, path: str, thread: str, outcome: str, reason: str = ""
    ) -> ImportOutcome:
        title = self._options.redact(find_session_title(session))
        if not reason and self._store.folders.find(thread)[1]:
            reason = f"it is in the trash: treadle restore {thread}"
        return ImportOutcome(path, outcome, thread, session.source, title, reason=reason)

    def _add_journals(self, path: Path) -> Iterator[ImportOutcome]:
        """A thread that was exported, after those it goes on from."""
        if self._options.is_private:
            raise UsageError(
                f"{path} is a thread of Treadle, and says itself whether it is private",
                hint="leave --private out",
            )
        whole = path.read_bytes()
        outputs = read_outputs(whole)
        for data in split_journals(whole):
            try:
                yield self._add_journal(str(path), data, outputs)
            except TreadleError as error:
                yield _make_failure(str(path), error)
                return

    def _add_journal(self, path: str, data: bytes, outputs: Mapping[str, bytes]) -> ImportOutcome:
        part = make_journal_part(data)
        if not part.records or part.condition is not JournalCondition.CLEAN:
            why = part.reason or "it holds no record"
            raise UsageError(f"{path} holds no intact journal: {why}", hint="export it again")
        thread = decode_header(part.records[0]).thread
        reason = ""
        problems = self._store_outputs(part, outputs)
        if thread in (*self._store.ids(), *self._store.folders.ids(in_trash=True)):
            outcome, reason = self._update_thread(thread, part, path)
        elif self._is_dry:
            outcome = "would be imported"
        else:
            self._store.adopt(part.data, lender=self._lender)
            outcome = "imported"
        summary = None if self._is_dry else self._store.summary(thread)
        title, count = ("", 0) if summary is None else (summary.title, summary.message_count)
        return ImportOutcome(
            path, outcome, thread, TREADLE, title or "", count, problems=problems, reason=reason
        )

    def _store_outputs(self, part: JournalPart, outputs: Mapping[str, bytes]) -> tuple[str, ...]:
        """Keep the large outputs that a journal names, before it is here; what is to be said."""
        blobs, missing_count = Blobs(self._store.folders), 0
        for ref in {ref.sha256: ref for _, ref in list_output_references(part.records)}.values():
            data = outputs.get(ref.sha256)
            if data is not None:
                if not self._is_dry:
                    blobs.keep(data)
                continue
            try:
                blobs.read(ref)
            except MissingBlobError:
                missing_count += 1
        if not missing_count:
            return ()
        return (f"large outputs that are not in the file: {missing_count}",)

    def _update_thread(self, thread: str, part: JournalPart, path: str) -> tuple[str, str]:
        """What becomes of a thread that is here, and what to say: it may have grown elsewhere.

        Raises:
            UsageError: it has gone on differently here, or is in the trash.
            StoreError: it cannot be written to.
        """
        here, theirs = self._store.scan(thread).records, part.records
        common = sum(1 for mine, its in zip(here, theirs, strict=False) if mine.hash == its.hash)
        in_trash = self._store.folders.find(thread)[1]
        if common == len(theirs):
            return (
                "already here",
                f"it is in the trash: treadle restore {thread}" if in_trash else "",
            )
        if in_trash:
            raise UsageError(
                f"thread {thread} is in the trash, and goes on in {path}; it was not changed",
                hint=f"treadle restore {thread}",
            )
        if common < len(here):
            where = f"from version {common} on" if common else "from the beginning"
            raise UsageError(
                f"thread {thread} went on differently here and in {path}, {where}; it was not "
                "changed",
                hint="with TREADLE_HOME set to another folder the file is imported there; to have "
                f"it in place of what is here, `treadle trash {thread}` and `treadle gc` first",
            )
        if self._is_dry:
            return "would be brought up", f"from version {common} to version {len(theirs)}"
        update_replica(self._store, part.data, lender=self._lender)
        return "brought up", f"from version {common} to version {len(theirs)}"


def _read_known_count(store: LocalStore, thread: str) -> int | None:
    """How many records a session had when it became this thread; `None` if it is not here.

    It is recorded right behind the header, so the rest is not read.
    """
    try:
        path, _ = store.folders.find(thread)
    except UnknownThreadError:
        return None
    with convert_os_errors("read", path):
        data = store.folders.disk.read_range(path, 0, _BEGINNING_SIZE)
    for record in make_journal_part(data).records[:3]:
        entry = decode_entry(record.event)
        if isinstance(entry, ExtraSet) and isinstance(entry.extra.get(RECORD_COUNT_KEY), int):
            return int(entry.extra[RECORD_COUNT_KEY])
    return 0


def _make_failure(path: str, error: Exception) -> ImportOutcome:
    is_lasting = isinstance(error, DamagedJournalError | ReadOnlyThreadError)
    is_for_later = isinstance(error, StoreError) and not is_lasting
    why = getattr(error, "strerror", "") or error
    reason = getattr(error, "message", "") or f"cannot read {path}: {why}"
    hint = getattr(error, "hint", "")
    said = f"{reason} ({hint})" if hint else reason
    return ImportOutcome(path, "failed", reason=said, is_for_later=is_for_later)
