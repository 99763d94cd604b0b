"""What must hold of a store, said as functions that return the violations they find.

They look from outside: the journal is parsed and its chain recomputed here, without Treadle's own
reader, and everything is compared with what the world was told.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lab.agent import EFFECTS, may_repeat
from lab.approval_checks import check_approvals
from lab.model_disk import ModelDisk
from lab.script import journal_path, lab_store, recover
from lab.world import (
    Acked,
    Adopted,
    Allowed,
    Begun,
    Ended,
    Hidden,
    Note,
    Said,
    Scrubbed,
    Seen,
    World,
    digests_of,
)
from treadle.core.tools import EffectClass
from treadle.errors import StoreError, TreadleError, UnknownThreadError
from treadle.store.disk import Disk, PosixDisk
from treadle.store.local_store import LocalStore
from treadle.thread.facts import Recovered
from treadle.thread.fold import ThreadFold


class Record(Struct, frozen=True):
    """A line of a journal whose place in the chain is right."""

    seq: int
    hash: str
    event: dict[str, Any]
    end: int
    """The offset after it."""


@lru_cache(maxsize=10_000)
def _parsed(line: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def read_chain(data: bytes) -> tuple[list[Record], bytes]:
    """The records of a journal, and the bytes after the last intact one."""
    records: list[Record] = []
    previous, end = "0" * 32, 0
    while (stop := data.find(b"\n", end)) >= 0:
        line = data[end:stop]
        body, mark, seal = line.rpartition(b',"hash":"')
        digest = sha256(previous.encode() + body + b"}").hexdigest()[:32]
        if not mark or seal != digest.encode() + b'"}':
            break
        parsed = _parsed(line)
        if parsed["seq"] != len(records) + 1:
            break
        previous, end = digest, stop + 1
        records.append(Record(parsed["seq"], digest, parsed["event"], end))
    return records, data[end:]


class Demand(Struct, frozen=True):
    """What notes demand of one thread."""

    acked: tuple[Acked, ...] = ()
    seen: tuple[Seen, ...] = ()
    said: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    gone: str = ""
    """A text that was taken out; from then on hashes may be other ones."""


def demands_of(notes: Iterable[Note]) -> dict[str, Demand]:
    """What the notes demand of each thread that was acknowledged, or in which a call began."""
    acked: dict[str, dict[Acked, None]] = {}
    seen: dict[str, dict[Seen, None]] = {}
    said: dict[str, list[str]] = {}
    begun: dict[str, list[str]] = {}
    hidden: dict[str, list[str]] = {}
    gone = ""
    for note in notes:
        if isinstance(note, Scrubbed):
            # The threads are chained anew from here on: what was promised before stands by number.
            gone = note.text
            acked = {
                one: dict.fromkeys(replace(promise, hash="") for promise in promised)
                for one, promised in acked.items()
            }
            seen.clear()
            said = {
                one: [text for text in texts if gone not in text] for one, texts in said.items()
            }
        elif isinstance(note, Hidden):
            hidden.setdefault(note.thread, []).append(note.text)
        elif isinstance(note, Acked):
            acked.setdefault(note.thread, {})[note] = None
        elif isinstance(note, Seen):
            seen.setdefault(note.thread, {})[note] = None
        elif isinstance(note, Said):
            said.setdefault(note.thread, []).append(note.text)
        elif isinstance(note, Begun) and EFFECTS[note.tool] is not EffectClass.READ:
            begun.setdefault(note.thread, []).append(note.call)
    return {
        thread: Demand(
            tuple(acked.get(thread, ())),
            tuple(seen.get(thread, ())),
            tuple(said.get(thread, ())),
            tuple(begun.get(thread, ())),
            tuple(hidden.get(thread, ())),
            gone,
        )
        for thread in dict.fromkeys((*acked, *begun))
    }


def check_history(demand: Demand, records: Sequence[Record], fold: ThreadFold) -> list[str]:
    """Whether a thread holds everything it was relied on for."""
    found: list[str] = []
    for promised in demand.acked:
        if len(records) < promised.seq:
            found.append(f"lost: record {promised.seq} was acknowledged, {len(records)} are left")
        elif promised.hash not in ("", records[promised.seq - 1].hash):
            found.append(f"changed: record {promised.seq} is not the one that was acknowledged")
    messages = list(fold.conversation)
    digests = digests_of(messages)
    for seen in demand.seen:
        if len(messages) < seen.count:
            found.append(f"lost: {seen.count} messages were shown, {len(messages)} are left")
        elif digests[seen.count] != seen.digest:
            found.append(f"changed: the first {seen.count} messages differ from what was shown")
    kept = Counter(
        message.content for message in [*messages, *fold.queued] if message.role == "user"
    )
    found.extend(
        f"lost: or doubled, the input {text!r} is there {kept[text]} times"
        for text in dict.fromkeys(demand.said)
        if kept[text] != 1
    )
    shown = [message.content for message in fold.conversation.in_view]
    found.extend(
        f"shown: {text!r} was taken back" for text in demand.hidden if any(text in s for s in shown)
    )
    started = {r.event["call_id"] for r in records if r.event["type"] == "tool_started"}
    found.extend(
        f"unrecorded: call {call} was running and no record says so"
        for call in demand.begun
        if call not in started
    )
    return found


def check_effects(notes: Sequence[Note], records: Sequence[Record], thread: str) -> list[str]:
    """Whether every effect happened at most once, or was in doubt and said to be."""
    found: list[str] = []
    begun = [note for note in notes if isinstance(note, Begun) and note.thread == thread]
    runs = Counter(note.call for note in begun if not may_repeat(note.tool))
    doubts = Counter(r.event["call_id"] for r in records if r.event["type"] == "tool_uncertain")
    allowed = Counter(
        note.call for note in notes if isinstance(note, Allowed) and note.thread == thread
    )
    for call, count in runs.items():
        if count > 1 + min(doubts[call], allowed[call]):
            found.append(f"repeated: mutating call {call} ran {count} times")
    keys: dict[str, set[str]] = {}
    for note in begun:
        keys.setdefault(note.call, set()).add(note.key)
    found.extend(f"unstable: call {call} had several keys" for call in keys if len(keys[call]) > 1)
    found += check_approvals(notes, [record.event for record in records], thread)
    ended = {note.call for note in notes if isinstance(note, Ended) and note.thread == thread}
    results = {r.event["call_id"] for r in records if r.event["type"] == "tool_completed"}
    cancelled = any(r.event["type"] == "cancel_requested" for r in records)
    for call in runs:
        if call not in ended and call in results and not doubts[call]:
            found.append(f"unsaid: call {call} never ended, and no record says it is uncertain")
        if call not in results and not cancelled:
            found.append(f"open: call {call} has no result")
    return found


def check_outputs(disk: Disk, store: LocalStore, records: Iterable[Record]) -> list[str]:
    """Whether every large output that a record names is there, whole."""
    found: list[str] = []
    for record in records:
        blob = record.event.get("outcome", {}).get("blob")
        if blob is None:
            continue
        path = f"{store.folders.blobs}/{blob['sha256']}"
        try:
            digest = sha256(disk.read(path)).hexdigest()
        except OSError as error:
            digest = str(error)
        if digest != blob["sha256"]:
            found.append(f"missing: the output that record {record.seq} names: {digest}")
    return found


def open_and_close(store: LocalStore, thread: str) -> ThreadFold:
    """As the next process would."""
    writer = store.open(thread)
    problem = writer.close()
    if problem is not None:
        raise problem
    return writer.fold


def check_state(
    disk: ModelDisk, notes: Sequence[Note], attempted: Mapping[str, bytes]
) -> list[str]:
    """Whether a store opens what a crash left, keeps what it must, and goes on from there.

    Args:
        disk: what the crash left; is changed.
        notes: what the outside was told before the crash.
        attempted: every file as the program had written it, synced or not.
    """
    found: list[str] = []
    demands = demands_of(notes)
    for thread, demand in demands.items():
        found += check_thread(disk, thread, demand, attempted)
    store = lab_store(disk, first_id=1_000)
    for thread in store.ids():
        if thread in demands:
            continue
        try:
            open_and_close(store, thread)
        except UnknownThreadError:
            continue
        except StoreError as error:
            found.append(f"unopened: a thread never acknowledged: {error}")
    if disk.handle_count:
        found.append(f"leak: {disk.handle_count} handles were not given back")
    return found


def check_thread(
    disk: ModelDisk, thread: str, demand: Demand, attempted: Mapping[str, bytes]
) -> list[str]:
    """`check_state` for one thread that was acknowledged."""
    store = lab_store(disk)
    path = journal_path(thread)
    try:
        if store.read_snapshot(thread) == (True, None):
            return ["damaged: a snapshot under its final name is not whole"]
        fold = open_and_close(store, thread)
        first = _without_locks(disk.files())
        open_and_close(store, thread)
    except StoreError as error:
        return [f"unreadable: {type(error).__name__}: {error}"]
    except UnknownThreadError as error:
        return [f"unreadable: {error}"]
    found: list[str] = []
    if _without_locks(disk.files()) != first:
        found.append("restless: a second opening changed the files again")
    leftovers = [name for name in first if "/tmp/" in name and thread in name]
    if leftovers:
        found.append(f"leftover: {leftovers}")
    data = first.get(path, b"")
    records, rest = read_chain(data)
    if rest:
        found.append(f"dirty: {len(rest)} bytes after the last record")
    whole = attempted.get(path, b"")
    if data != whole[: len(data)]:
        found.append("invented: the journal holds what was never written there")
    found += check_history(demand, records, fold)
    found += check_appending(store, disk, thread, records)
    return found


def check_appending(
    store: LocalStore, disk: Disk, thread: str, before: Sequence[Record]
) -> list[str]:
    """Whether a thread goes on: one more record, after exactly those it had."""
    try:
        writer = store.open(thread)
        writer.stage(Recovered("the lab was here"))
        writer.commit()
        problem = writer.close()
        loaded = store.load(thread)
    except (StoreError, UnknownThreadError) as error:
        return [f"stuck: nothing can be appended: {error}"]
    records, rest = read_chain(disk.read(journal_path(thread)))
    if problem is not None or rest or list(records[:-1]) != list(before):
        return ["stuck: an append changed what stood before it"]
    if loaded.fold.version != len(before) + 1 or loaded.problem:
        return [f"stuck: version {loaded.fold.version} after {len(before) + 1} records"]
    return []


def check_recovery(
    disk: ModelDisk,
    notes: Sequence[Note],
    work: Callable[[LocalStore, World], Coroutine[Any, Any, None]] = recover,
) -> list[str]:
    """Whether the next process takes up what a crash left, and no effect happens twice unsaid."""
    world = World(notes)
    store = lab_store(disk, first_id=2_000)
    try:
        asyncio.run(work(store, world))
    except (TreadleError, AssertionError) as error:
        return [f"unrecoverable: {type(error).__name__}: {error}"]
    return check_end(disk, store, world.notes) + check_gone(disk.files(), world.notes)


def check_gone(files: Mapping[str, bytes], notes: Iterable[Note]) -> list[str]:
    """Whether what was taken out stands nowhere."""
    return [
        f"left: {note.text!r} still stands in {path}"
        for note in notes
        if isinstance(note, Scrubbed) and note.is_over
        for path in (*note.left, *(one for one in files if note.text.encode() in files[one]))
    ]


def check_end(disk: Disk, store: LocalStore, notes: Sequence[Note], root: str = "") -> list[str]:
    """Whether threads that were worked on to the end hold all that was relied on."""
    found: list[str] = []
    for thread, demand in demands_of(notes).items():
        path = journal_path(thread, root) if root else journal_path(thread)
        try:
            records, rest = read_chain(disk.read(path))
            loaded = store.load(thread)
        except (TreadleError, OSError) as error:
            found.append(f"unreadable: {type(error).__name__}: {error}")
            continue
        if rest:
            found.append(f"dirty: {len(rest)} bytes after the last record")
        if loaded.problem:
            found.append(f"unreadable: {loaded.problem}")
        found += check_history(demand, records, loaded.fold)
        found += check_effects(notes, records, thread)
        found += check_outputs(disk, store, records)
    found += [
        f"unmarked: nothing says that {note.thread} was made elsewhere"
        for note in notes
        if isinstance(note, Adopted)
        and note.thread in store.ids()
        and not store.adopted.is_foreign(note.thread)
    ]
    return found + check_sub_agents(store, notes)


def check_sub_agents(store: LocalStore, notes: Iterable[Note]) -> list[str]:
    """Whether each call of a sub-agent was worked on in one thread."""
    workers: dict[tuple[str, str], set[str]] = {}
    for thread in dict.fromkeys(note.thread for note in notes if isinstance(note, Begun)):
        with suppress(TreadleError):
            header = store.load(thread).fold.header
            if header.parent is not None:
                call = (header.parent, header.parent_call or "")
                workers.setdefault(call, set()).add(thread)
    return [
        f"repeated: call {call} was worked on in {len(threads)} threads"
        for (_, call), threads in workers.items()
        if len(threads) > 1
    ]


def check_folder(root: str, notes: Sequence[Note]) -> list[str]:
    """`check_end` for a real folder; nothing may be left over, and opening changes nothing."""
    disk = PosixDisk()
    store = lab_store(disk, root)
    drafts = Path(root, "data", "threads", "tmp")
    try:
        found = check_end(disk, store, notes, root)
        if drafts.is_dir() and (names := [path.name for path in drafts.iterdir()]):
            found.append(f"leftover: {names}")
        before = _contents(root)
        for thread in demands_of(notes):
            open_and_close(store, thread)
    except (TreadleError, OSError) as error:
        return [f"unreadable: {type(error).__name__}: {error}"]
    found += check_gone(before, notes)
    if _contents(root) != before:
        found.append("restless: opening a recovered thread changed its files")
    return found


def _without_locks(files: dict[str, bytes]) -> dict[str, bytes]:
    """Who held a lock last stands in it, and changes with each opening."""
    return {path: data for path, data in files.items() if not path.endswith(".lock")}


def _contents(root: str) -> dict[str, bytes]:
    files = (path for path in Path(root).rglob("*") if path.is_file())
    return _without_locks({str(path): path.read_bytes() for path in files})
