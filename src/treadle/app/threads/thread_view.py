"""A thread as it stood at a version, and what its records tell beyond its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.notices import Notify, ignore_notice
from treadle.app.sync.sync_status import describe_sync
from treadle.app.threads.damaged_forks import load_intact_base
from treadle.app.threads.outputs import read_output
from treadle.app.threads.side_events import SideEventLine, list_side_events
from treadle.app.threads.version_selectors import VersionSelector, select_version
from treadle.core.llm import Usage
from treadle.errors import DamagedJournalError, DiskError, TreadleError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.document import Thread
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.history import NumberedEntry, Turn, list_merge_points, list_turn_starts
from treadle.thread.output_references import find_kept_output
from treadle.thread.usage import UsageEntry, find_asked_model, list_usage


class ThreadViewHistory(Struct, frozen=True):
    """What a thread's records tell beyond its document; empty where they cannot be read.

    `entries` are its own records, `said` is what happened between the messages, by the index of the
    message it stands before, `spent` what each request used, `inherited` how many messages a fork
    has from its base. `begun` holds its own turns by the index of the message that began each,
    `joined` the machine whose messages joined, by the index of the first of them, `kept` the thread
    that has the whole output of a call, for calls whose message has only a part.
    """

    entries: Sequence[NumberedEntry] = ()
    said: Mapping[int, list[SideEventLine]] = {}
    spent: Sequence[UsageEntry] = ()
    inherited: int = 0
    begun: Mapping[int, Turn] = {}
    joined: Mapping[int, str] = {}
    kept: Mapping[str, str] = {}


class ViewRequest(Struct, frozen=True):
    """What is to be read of a thread: the output of a `call`, or the thread as of some version.

    `wants_usage` asks for what each request used, `as_json` for what programs get: neither is
    told of a damaged thread.
    """

    selector: VersionSelector = VersionSelector()
    call: str | None = None
    wants_usage: bool = False
    as_json: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether a thread's document alone does not answer it."""
        asked = (self.selector.turn, self.selector.moment, self.selector.commit, self.call)
        return self.wants_usage or any(one is not None for one in asked)


class ThreadView(Struct, frozen=True):
    """A thread as it stood at a version; to show it, its store is not needed any more.

    `past` is what its records tell, where that was asked for. `synced` says how it stands with the
    server; empty if there is none. `is_here` is false for a thread of the server: what it waits for
    cannot be answered on this machine.
    """

    fold: ThreadFold
    document: Thread
    past: ThreadViewHistory
    synced: str = ""
    is_here: bool = True


def read_thread(
    store: LocalStore,
    thread_id: str,
    request: ViewRequest = ViewRequest(),  # noqa: B008  it is frozen
    *,
    notify: Notify = ignore_notice,
    is_here: bool = True,
) -> ThreadView | str:
    """Read all that is to be shown; of a call, its output.

    Args:
        store: where the thread is.
        thread_id: the thread.
        request: what is to be read.
        notify: gets lines about what is damaged or not known.
        is_here: whether it is a thread of this machine, not one that the server has sent.

    Raises:
        TimeTextError: what is to be a time is none.
        UsageError: there is no such version, or no such call.
        DamagedJournalError: it is damaged, and what is intact does not answer the request.
        StoreError: it cannot be read.
    """
    version = select_version(store, thread_id, request.selector)
    if request.call is not None:
        return read_output(store, thread_id, request.call)
    try:
        loaded = store.load(thread_id, version)
    except DamagedJournalError as error:
        if request.as_json or request.wants_usage or not is_here:
            raise
        loaded, said = load_intact_base(store, thread_id, error)
        notify(said)
    fold, document = loaded.fold, loaded.fold.document()
    if loaded.problem:
        notify(loaded.problem)
    if request.as_json and not request.wants_usage:
        return ThreadView(fold, document, ThreadViewHistory())
    past = _read_known_history(store, document, notify)
    if request.wants_usage:
        return ThreadView(fold, document, past)
    if is_here:
        return ThreadView(fold, document, past, describe_sync(store, fold))
    # The command that shows a whole output is told with the thread: it must ask the server, too.
    past = replace(past, kept={call: f"{part} --team" for call, part in past.kept.items()})
    return ThreadView(fold, document, past, is_here=False)


def _read_known_history(store: LocalStore, document: Thread, notify: Notify) -> ThreadViewHistory:
    """Up to the version that is shown: what comes after it may be of a newer program.

    What a damaged journal has lost is not told turn by turn.
    """
    why = "its records are damaged or missing"
    try:
        past = read_history(store, document.id, document.version, document.usage)
    except TreadleError as error:
        past = ThreadViewHistory()
        if isinstance(error, DiskError):  # they may be intact
            why = error.message
    if not past.spent and document.usage != Usage():
        notify(f"what each turn used is not known: {why}")
    return past


def read_history(store: LocalStore, thread_id: str, version: int, used: Usage) -> ThreadViewHistory:
    """What a thread's records tell, up to a version: its own, and those of what it was forked from.

    Args:
        store: where it is.
        thread_id: the thread.
        version: up to where.
        used: what the thread has used by its document; nothing is told of requests if the records
            say otherwise, because then some are lost.

    Raises:
        TreadleError: they are damaged or missing, or a newer Treadle wrote one of them.
    """
    parts = [(thread_id, _read_entries(store, thread_id, version))]
    while (base := _find_base(parts[-1][1])) is not None:
        parts.append((base.thread, _read_entries(store, base.thread, base.version)))
    said: dict[int, list[SideEventLine]] = {}
    joined: dict[int, str] = {}
    for part, entries in reversed(parts):
        for aside in list_side_events(store.load_initial_fold(part), entries):
            said.setdefault(aside.index, []).append(aside)
        joined.update(list_merge_points(store.load_initial_fold(part), entries))
    kept = {
        call: part for part, entries in reversed(parts) for call in _list_stored_outputs(entries)
    }
    own, beginning = parts[0][1], store.load_initial_fold(thread_id)
    inherited = len(beginning.conversation)
    spent = list(list_usage(own, find_asked_model(beginning)))
    is_whole = sum((one.usage for one in spent), beginning.usage) == used
    begun = dict(list_turn_starts(store.load_initial_fold(thread_id), own))
    return ThreadViewHistory(own, said, spent if is_whole else (), inherited, begun, joined, kept)


def _list_stored_outputs(entries: Sequence[NumberedEntry]) -> Iterator[str]:
    """The calls whose whole output stands beside the thread."""
    for _, _, entry in entries:
        if (kept := find_kept_output(entry)) is not None:
            yield kept[0]


def _read_entries(store: LocalStore, thread_id: str, version: int) -> list[NumberedEntry]:
    records = store.scan(thread_id).records[:version]
    return [(record.seq, record.at, decode_entry(record.event)) for record in records]


def _find_base(entries: Sequence[NumberedEntry]) -> Base | None:
    header = entries[0][2] if entries else None
    return header.base if isinstance(header, ThreadCreated) else None
