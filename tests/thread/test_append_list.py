"""What is added to a thread costs its own size to fold, however much there is already."""

from __future__ import annotations

from collections.abc import Callable

from case_tables import for_every_row
from core.samples import said
from thread.journals import HEADER, at
from treadle.core.tools import RiskLevel
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    ChildStarted,
    ExtraSet,
    GitObserved,
    Granted,
    InputQueued,
    Merged,
    Tagged,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.grants import GRANT_COUNT_MAX
from treadle.thread.metadata import TAG_COUNT_MAX, TAG_LENGTH_MAX
from treadle.thread.record import Head
from treadle.thread.snapshot import decode_snapshot, encode_snapshot, restore_fold

COUNT = 200


class Counted(str):
    """A text that counts how often any of them is looked at."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)


def fold(*entries: Entry) -> ThreadFold:
    made = ThreadFold(HEADER)
    for seq, entry in enumerate((HEADER, *entries), 1):
        made.apply(seq, at(seq), entry)
    return made


def looks_of(*entries: Entry) -> int:
    Counted.looks = 0
    fold(*entries)
    return Counted.looks


@for_every_row(
    "entry",
    [
        lambda text: Tagged((text,)),
        lambda text: ExtraSet({text: 1}),
        lambda text: GitObserved("main", text),
        lambda text: Merged(1, "0" * 32, ()),
    ],
)
def test_one_more_looks_at_none_of_those_before(entry: Callable[[str], Entry]) -> None:
    commits = [GitObserved("main", Counted(number)) for number in range(COUNT)]
    entries = [entry(Counted(number)) for number in range(COUNT)]
    assert looks_of(*commits, *entries) <= 16 * COUNT


def test_what_goes_is_looked_for_once() -> None:
    come = tuple(Counted(f"a{number}") for number in range(COUNT))
    gone = tuple(Counted(f"b{number}") for number in range(COUNT))
    assert looks_of(Tagged(come, gone)) <= 16 * COUNT


def test_a_child_is_put_beside_the_others() -> None:
    made = fold(ChildStarted("a", "T-a"))
    children = made.children
    made.apply(3, at(3), ChildStarted("b", "T-b"))
    assert made.children is children == {"a": "T-a", "b": "T-b"}


def test_a_thread_has_so_many_tags_of_such_a_length() -> None:
    many = tuple(f"t{number}" for number in range(TAG_COUNT_MAX + 1))
    made = fold(Tagged(("x" * (TAG_LENGTH_MAX + 1), "x" * TAG_LENGTH_MAX)), Tagged(many))
    assert made.metadata.tags == ("x" * TAG_LENGTH_MAX, *many[: TAG_COUNT_MAX - 1])
    made.apply(4, at(4), Tagged(("new",), many[:1]))
    assert made.metadata.tags[-1] == "new"


def test_so_many_tools_are_allowed_and_further_ones_asked_for() -> None:
    grants = [Granted(f"t{number}", RiskLevel.LOW) for number in range(GRANT_COUNT_MAX + 1)]
    made = fold(*grants, Granted("t0", RiskLevel.HIGH))
    assert len(made.machine.config.granted) == GRANT_COUNT_MAX
    assert made.machine.config.granted["t0"] is RiskLevel.HIGH


ONE_OF_EACH: tuple[Entry, ...] = (
    Tagged(("a",)),
    ExtraSet({"a": 1}),
    Annotated("note"),
    GitObserved("main", "beef"),
    InputQueued(said("next").message),
    ChildStarted("a", "T-a"),
)


def test_a_document_stays_as_it_was_when_more_is_added() -> None:
    made = fold(*ONE_OF_EACH)
    document, git, queued = made.document(), made.git, made.queued
    told = repr((document, git, queued))
    again = (Tagged(("b",), ("a",)), ExtraSet({"a": None}), Annotated("x"))
    for entry in (*again, GitObserved("main", "cafe"), InputQueued(said("y").message)):
        made.apply(9, at(9), entry)
    assert repr((document, git, queued)) == told
    assert made.git.git_commits == ("beef", "cafe")


def test_of_two_folds_of_a_snapshot_neither_changes_the_other() -> None:
    made = fold(*ONE_OF_EACH)
    snapshot = decode_snapshot(encode_snapshot(made, Head(7, "0" * 32, at(7), 1)))
    assert snapshot is not None
    one, other = restore_fold(snapshot), restore_fold(snapshot)
    assert one is not None
    assert other is not None
    told = repr((other.document(), other.children, other.queued))
    for entry in (Tagged(("b",)), ExtraSet({"b": 2}), ChildStarted("b", "T-b")):
        one.apply(8, at(8), entry)
    assert repr((other.document(), other.children, other.queued)) == told
    assert repr((made.document(), made.children, made.queued)) == told
