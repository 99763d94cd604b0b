"""Turns are counted as they were said; one can go back to wherever nothing was open."""

from __future__ import annotations

import pytest

from core.samples import CONFIG, answer, broken, call, ended, said
from thread.journals import HEADER, at, branch_record
from treadle.app.threads.side_events import list_side_events
from treadle.core.conversation import View
from treadle.core.events import CancelRequested, Rewound, ToolStarted
from treadle.core.llm import LlmErrorKind
from treadle.core.task.events import TaskGiven
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    CommandBegun,
    CommandShown,
    Configured,
    FilesSaved,
    Merged,
    Recovered,
    Renamed,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.history import (
    NumberedEntry,
    Rest,
    find_rest_after_turn,
    find_rest_at,
    list_merge_points,
    list_rests,
    list_turns,
)

STORY: tuple[Entry, ...] = (
    HEADER,  # 1
    Configured(CONFIG),  # 2
    said("one\nmore"),  # 3
    answer("first"),  # 4
    FilesSaved("a", "ta", "before"),  # 5
    said("two"),  # 6
    answer("", call("a")),  # 7
    ToolStarted("a"),  # 8
    ended("a"),  # 9
    answer("second"),  # 10
    FilesSaved("b", "tb", "after"),  # 11
    Rewound(4, View(2)),  # 12
    said("three"),  # 13
    answer("third"),  # 14
    Renamed("The loom"),  # 15
)


def numbered(*entries: Entry) -> list[NumberedEntry]:
    return [(seq, at(seq), entry) for seq, entry in enumerate(entries, 1)]


@pytest.fixture
def found() -> list[Rest]:
    return list(list_rests(ThreadFold(HEADER), numbered(*STORY)))


def test_turns_have_numbers_prompts_and_the_records_that_began_them() -> None:
    told = [(turn.number, turn.version, turn.prompt) for turn in list_turns(numbered(*STORY))]
    assert told == [(1, 3, "one\nmore"), (2, 6, "two"), (3, 13, "three")]
    assert [turn.prompt for turn in list_turns(numbered(TaskGiven("weave")))] == ["weave"]


def test_one_can_go_back_to_every_version_at_which_nothing_was_open(found: list[Rest]) -> None:
    assert [rest.version for rest in found] == [1, 2, 4, 5, 10, 11, 12, 14, 15]
    assert [rest.turn for rest in found] == [0, 0, 1, 1, 2, 2, 1, 3, 3]


def test_a_version_in_the_middle_of_a_turn_stands_for_the_place_before_it(
    found: list[Rest],
) -> None:
    places = {version: find_rest_at(found, version) for version in range(16)}
    assert places[0] is None
    versions = [rest.version for rest in places.values() if rest is not None]
    assert versions == [1, 2, 2, 4, 5, 5, 5, 5, 5, 10, 11, 12, 12, 14, 15]


def test_the_end_of_a_turn_is_where_it_ended_first_not_where_one_went_back_to(
    found: list[Rest],
) -> None:
    ends = {turn: find_rest_after_turn(found, turn) for turn in range(5)}
    versions = {turn: rest and rest.version for turn, rest in ends.items()}
    assert versions == {0: 2, 1: 5, 2: 11, 3: 15, 4: None}


def test_a_place_knows_its_view_and_its_files(found: list[Rest]) -> None:
    by_version = {rest.version: rest for rest in found}
    assert by_version[5].view == View(2)
    assert by_version[12].view == View(6, hidden=((2, 6),))
    assert by_version[4].files is None
    assert by_version[11].files == FilesSaved("b", "tb", "after")


def test_what_happened_between_messages_is_told_before_the_message_that_follows() -> None:
    story = (
        HEADER,
        Configured(CONFIG),
        said("one"),
        broken(LlmErrorKind.AUTHENTICATION),
        Annotated("ask Ada"),
        said("two"),
        Recovered("the process had died"),
        CancelRequested("I was", "enough"),
        Rewound(2, View(0)),
    )
    told = [
        (one.index, one.version, one.text)
        for one in list_side_events(ThreadFold(HEADER), numbered(*story))
    ]
    assert [(index, version) for index, version, _ in told] == [
        (1, 4),
        (1, 5),
        (2, 7),
        (3, 8),
        (3, 9),
    ]
    texts = [text for _, _, text in told]
    assert texts[0].startswith("the request failed")
    assert texts[1:] == [
        "note: ask Ada",
        "the process had died",
        "stopped: enough",
        "gone back to version 2",
    ]


def test_of_a_command_that_began_its_end_is_told_or_that_it_is_not_known() -> None:
    ended_there = (branch_record(9, CommandShown("make b", "", 0, "b")),)
    story = numbered(
        HEADER,
        *(CommandBegun(name, f"make {name}", "/w") for name in "abc"),
        CommandShown("make a", "built", 2, "a"),
        Merged(2, "0" * 32, ended_there, host="desktop"),
    )
    begun, ended, merged = (one.text for one in list_side_events(ThreadFold(HEADER), story))
    assert begun == (
        "a person began $ make c in /w: its end is not recorded here, and it is not run again"
    )
    assert ended == "a person ran $ make a (exit code 2)"
    assert merged.startswith("conflict, merged")


@pytest.mark.parametrize("is_open", [False, True])
def test_a_merge_is_told_where_its_messages_join(*, is_open: bool) -> None:
    theirs = (said("there").message, said("more").message)
    merged = Merged(3, "0" * 32, (), theirs, host="desktop")
    rest: tuple[Entry, ...] = (merged, answer("done")) if is_open else (answer("done"), merged)
    story = numbered(HEADER, Configured(CONFIG), said("one"), *rest, said("two"))
    [told] = list_side_events(ThreadFold(HEADER), story)
    assert told.text.startswith("conflict, merged: what was done on desktop")
    assert told.index == 2, "behind the prompt and its answer, before what joins"
    assert list(list_merge_points(ThreadFold(HEADER), story)) == [(2, "desktop")]
