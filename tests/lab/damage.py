"""The suites in which neither a crash nor an error is to blame: rot, other writers, halted ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from random import Random

from lab.checks import read_chain
from lab.model_disk import ModelDisk
from lab.script import Witness, journal_path, lab_store, play, small_snapshots
from lab.suites import Examiner, Recorder, Report
from lab.world import World, digest_of
from treadle.errors import (
    DamagedJournalError,
    StaleWriterError,
    StoreError,
    ThreadBusyError,
    UnknownThreadError,
)
from treadle.thread.facts import Recovered
from treadle.thread.record import JournalCondition

THREAD = "T-00000000-0000-7000-8000-000000000001"
JOURNAL = journal_path(THREAD)
SNAPSHOT = JOURNAL.removesuffix("l")

Damage = Callable[[bytes], bytes]


def flip(bit: int) -> Damage:
    """One bit is the other way round."""

    def change(data: bytes) -> bytes:
        place = bit // 8 % len(data)
        return data[:place] + bytes([data[place] ^ 1 << bit % 8]) + data[place + 1 :]

    return change


def damages(random: Random, size: int, count: int) -> Iterator[tuple[str, Damage]]:
    """Random ones of each kind: flipped bits, runs of zeros, lines dropped, doubled, fused."""
    for _ in range(count):
        bit = random.randrange(size * 8)
        yield f"bit {bit} flipped", flip(bit)
    for _ in range(count // 8):
        start, length = random.randrange(size), random.choice((1, 64, 512, 4096))
        yield f"{length} zeros at {start}", _zeros(start, length)
    for _ in range(count // 8):
        pick = random.random()
        for name, kind in (("dropped", _dropped), ("doubled", _doubled), ("fused", _fused)):
            yield f"line at {pick:.3f} {name}", kind(pick)


def _zeros(start: int, length: int) -> Damage:
    return lambda data: (data[:start] + bytes(length) + data[start + length :])[: len(data)]


def _dropped(pick: float) -> Damage:
    return lambda data: _relined(data, pick, lambda line: b"")


def _doubled(pick: float) -> Damage:
    return lambda data: _relined(data, pick, lambda line: line * 2)


def _fused(pick: float) -> Damage:
    return lambda data: _relined(data, pick, lambda line: line[:-1])


def _relined(data: bytes, pick: float, change: Damage) -> bytes:
    lines = data.splitlines(keepends=True)
    place = int(pick * (len(lines) - 1))  # never the last: that is a cut at the end of a record
    lines[place] = change(lines[place])
    return b"".join(lines)


def finished_session() -> ModelDisk:
    """The disk after the whole session."""
    disk = ModelDisk()
    with small_snapshots():
        asyncio.run(play(lab_store(disk), World()))
    return next(disk.crash_states(1))


def rot_suite(*, count: int = 400, seed: int = 1, until: str = "") -> Report:
    """Damage anywhere: nothing false is shown, and nothing acknowledged is cut."""
    report = Report()
    whole = finished_session()
    truth = digest_of(list(lab_store(whole).load(THREAD).fold.conversation))
    random = Random(seed)
    files = whole.files()
    for path in (JOURNAL, SNAPSHOT):
        for name, damage in damages(random, len(files[path]), count):
            data = damage(files[path])
            if data == files[path]:
                continue
            report.run_count += 1
            judge = rotten_journal if path == JOURNAL else rotten_snapshot
            found = judge(whole, data, truth)
            report.violations += [f"{path.rpartition('.')[2]}, {name}: {text}" for text in found]
            if report.has(until):
                return report
    return report


def every_flip(path: str) -> Iterator[tuple[int, list[str]]]:
    """Every bit of a file, flipped; for the long run."""
    whole = finished_session()
    truth = digest_of(list(lab_store(whole).load(THREAD).fold.conversation))
    data = whole.files()[path]
    judge = rotten_journal if path == JOURNAL else rotten_snapshot
    for bit in range(len(data) * 8):
        yield bit, judge(whole, flip(bit)(data), truth)


def rotten_journal(whole: ModelDisk, data: bytes, truth: str) -> list[str]:
    """A damaged journal without a snapshot."""
    before, _ = read_chain(whole.read(JOURNAL))
    disk = _replaced(whole, JOURNAL, data)
    disk.unlink(SNAPSHOT)
    store = lab_store(disk)
    try:
        scan = store.scan(THREAD)
        records = [(record.seq, record.hash) for record in scan.records]
        if records != [(r.seq, r.hash) for r in before[: len(records)]]:
            return ["false: a damaged record is shown as if it were whole"]
        if scan.condition is JournalCondition.CLEAN:
            return ["silent: the damage is not noticed"]
        writer = store.open(THREAD)
    except (DamagedJournalError, UnknownThreadError):
        return [] if disk.read(JOURNAL) == data else ["cut: a damaged journal was changed"]
    writer.close()
    left, _ = read_chain(disk.read(JOURNAL))
    if any(line in data for line in _later_writes(whole.read(JOURNAL), len(left))):
        return [f"cut: {len(left)} records are left, though records stood after the damage"]
    if not writer.note:
        return ["silent: bytes were cut and nobody is told"]
    return []


def _later_writes(data: bytes, kept: int) -> list[bytes]:
    """The lines of later writes than that of the first record not kept.

    If none of them is left either, the damage looks like a torn write, and may be cut.
    """
    lines = data.splitlines(keepends=True)[kept:]
    first = kept + 1
    return [
        line for line in lines if (found := json.loads(line)).get("batch", found["seq"]) > first
    ]


def rotten_snapshot(whole: ModelDisk, data: bytes, truth: str) -> list[str]:
    """A damaged snapshot beside a whole journal: nothing is lost by it."""
    disk = _replaced(whole, SNAPSHOT, data)
    try:
        writer = lab_store(disk).open(THREAD)
    except StoreError as error:
        return [f"lost: {error}"]
    if digest_of(list(writer.fold.conversation)) != truth:
        return ["false: the messages are not those of the journal"]
    if writer.fold.version != len(read_chain(whole.read(JOURNAL))[0]):
        return ["false: the version is not that of the journal"]
    writer.close()
    return []


def _replaced(whole: ModelDisk, path: str, data: bytes) -> ModelDisk:
    disk = whole.after_kill()
    handle = disk.open_append(path)
    disk.truncate(handle, 0)
    disk.write(handle, data)
    disk.sync(handle)
    disk.close(handle)
    return disk


def two_writers_suite() -> Report:
    """Somebody else writes to the journal: one writer is refused, the other's records stand."""
    report = Report(run_count=2)
    disk = ModelDisk()
    store = lab_store(disk)
    first = store.create("lab 1")
    try:
        store.open(first.thread_id)
        report.violations.append("shared: a second writer was let in")
    except ThreadBusyError:
        pass
    other = lab_store(disk.after_kill())  # a process that does not know of the lock
    second = other.open(first.thread_id)
    second.stage(Recovered("the second writer"))
    second.commit()
    handle = disk.open_append(JOURNAL)
    disk.write(handle, other._disk.read(JOURNAL)[disk.size(handle) :])
    disk.close(handle)
    first.stage(Recovered("the first writer"))
    try:
        first.commit()
        report.violations.append("fused: a stale writer wrote")
    except StaleWriterError:
        first.close()
    records, rest = read_chain(disk.read(JOURNAL))
    if rest or len(records) != 2:
        report.violations.append(f"fused: {len(records)} records and {len(rest)} bytes are left")
    return report


def halted_writer_suite() -> Report:
    """A program is stopped between write and sync, and closes its thread; then the power goes."""
    disk, world = ModelDisk(), World()
    recorder = Recorder(disk, world)
    writer = Witness(lab_store(disk).create("lab 1"), world)
    writer.acknowledge()
    for text in ("one", "two"):
        writer.stage(Recovered(text))
        writer.write()
        if text == "one":
            writer.sync()
    writer.close()
    examiner = Examiner()
    for cut in recorder.cuts:
        examiner.examine(cut, world.notes, 4_000, 1)
    return examiner.report
