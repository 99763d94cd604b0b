"""Two machines that went on with one thread: random histories from a random version on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from msgspec import Struct

from core.random_events import random_durable_event
from thread.journals import at, fold_of, random_batches, random_fact, records_of, write
from treadle.thread.branches import collect_record_ids
from treadle.thread.codec import Entry, decode_entry, encode_entry
from treadle.thread.facts import Merged
from treadle.thread.fold import ThreadFold
from treadle.thread.merge import make_merge_record
from treadle.thread.record import Head, JournalScanner, Record, encode_batch


class Sides(Struct, frozen=True):
    """The records both have, then those that the server has and those that we have."""

    common: list[Record]
    theirs: list[Record]
    ours: list[Record]

    @property
    def server(self) -> list[Record]:
        """All records of the server."""
        return [*self.common, *self.theirs]


def head_after(records: Sequence[Record]) -> Head:
    """Where a journal of these records ends; its size is not asked for."""
    last = records[-1]
    return Head(last.seq, last.hash, last.at)


def behind(records: Sequence[Record], entries: Iterable[Entry], tick: int) -> list[Record]:
    """The records of one write behind these."""
    head = head_after(records)
    lines, _ = encode_batch(head, at(tick), [encode_entry(entry)[1] for entry in entries])
    return JournalScanner(head).feed(lines)


def gone_on(
    records: Sequence[Record],
    random: Random,
    count: int,
    tick: int,
    next_entry: Callable[[Random, ThreadFold, int], Entry] | None = None,
) -> list[Record]:
    """So many random records behind these, as a machine with its own clock would write them."""
    fold, found = fold_of(records), list(records)
    for number in range(count):
        entry = (next_entry or _random_entry)(random, fold, tick + number)
        added = behind(found, [entry], tick + number)
        found += added
        fold.apply(added[0].seq, added[0].at, decode_entry(added[0].event))
    return found[len(records) :]


def _random_entry(random: Random, fold: ThreadFold, clock: int) -> Entry:
    if random.random() < 0.25:
        return random_fact(random, clock)
    return random_durable_event(random, fold.state, clock)


def random_sides(random: Random, length: int = 24) -> Sides:
    """A random history of two machines."""
    common = records_of(write(random_batches(random, random.randrange(1, length)))[0])
    theirs = gone_on(common, random, random.randrange(length), 1000)
    ours = gone_on(common, random, random.randrange(1, length), 2000)
    return Sides(common, theirs, ours)


def merge_of(sides: Sides, server: Sequence[Record]) -> Merged | None:
    """What is to be recorded behind the server's records, which may have grown."""
    return make_merge_record(
        fold_of(sides.common), sides.common[-1], sides.ours, collect_record_ids(server), "loom"
    )


def merged(sides: Sides, tick: int = 5000) -> list[Record]:
    """The server's records with ours merged behind them."""
    fact = merge_of(sides, sides.server)
    assert fact is not None
    return [*sides.server, *behind(sides.server, [fact], tick)]
