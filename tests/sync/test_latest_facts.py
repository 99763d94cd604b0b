"""After a merge holds what was said last by its time, whichever machine was merged first."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from thread.branching import behind
from thread.journals import HEADER, fold_of, records_of, write
from treadle.sync.latest_facts import add_latest_facts
from treadle.thread.branches import collect_record_ids
from treadle.thread.codec import Entry
from treadle.thread.facts import Annotated, ExtraSet, Pinned, Renamed, Shared, Tagged
from treadle.thread.fold import ThreadFold
from treadle.thread.merge import make_merge_record
from treadle.thread.record import Record

randoms = st.randoms(use_true_random=True)

COMMON = records_of(write([[HEADER], [Renamed("first"), Tagged(("a",))]])[0])


def random_entry(random: Random) -> Entry:
    tags = random.sample("abc", 2)
    return random.choice(
        (
            Renamed(random.choice(("", "loom", "reed"))),
            Pinned(random.random() < 0.5),
            Tagged((tags[0],), (tags[1],)),
            ExtraSet({key: random.choice((1, 2, None)) for key in random.sample("xyz", 2)}),
            Shared(random.choice((None, "public", "private")), random.choice((None, True, False))),
            Annotated("a note"),
        )
    )


def grown(timed: list[tuple[int, Entry]]) -> list[Record]:
    """The records of a machine that said this after what all have in common."""
    records = list(COMMON)
    for tick, entry in timed:
        records += behind(records, [entry], tick)
    return records


def state_of(fold: ThreadFold) -> object:
    said = fold.metadata
    return (
        (said.title, said.is_pinned, set(said.tags), said.extra),
        (fold.visibility, fold.is_shared_with_support),
    )


@settings(max_examples=300)
@given(randoms)
def test_machines_that_are_merged_in_any_order_end_as_one_that_said_it_all(
    random: Random,
) -> None:
    ticks = random.sample(range(1000, 2000), random.randrange(2, 16))
    timed = [(tick, random_entry(random)) for tick in sorted(ticks)]
    branches: list[list[tuple[int, Entry]]] = [[], [], [], []]
    for one in timed:
        random.choice(branches).append(one)

    server = grown(branches[0])
    for number, branch in enumerate(branches[1:3]):
        server = joined(server, grown(branch), 3000 + number)
    # An older backup was put back on the server, and another machine went on with that.
    server = joined(grown(branches[3]), server, 4000)

    assert state_of(fold_of(server)) == state_of(fold_of(grown(timed)))
    notes = [one for _, one in timed if isinstance(one, Annotated)]
    assert len(fold_of(server).metadata.annotations) == len(notes)


def joined(theirs: list[Record], ours: list[Record], tick: int) -> list[Record]:
    """The server's journal with ours merged behind it; what it holds again is what must be."""
    common = len(COMMON)
    fact = make_merge_record(
        fold_of(COMMON), COMMON[-1], ours[common:], collect_record_ids(theirs), "loom"
    )
    if fact is None:
        return theirs
    whole = add_latest_facts(fact, theirs[common:])
    assert len({one.hash for one in fact.records}) == len(fact.records)
    assert whole.records[: len(fact.records)] == fact.records
    records = [*theirs, *behind(theirs, [whole], tick)]
    nothing_more = add_latest_facts(replace(whole, records=()), records[common:])
    assert nothing_more.records == ()
    return records
