"""A thread's past: its turns, and the places one can go back to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from treadle.core.conversation import View
from treadle.core.events import Rewound, UserInput
from treadle.core.task.events import TaskGiven
from treadle.thread.codec import Entry, Event
from treadle.thread.facts import FilesSaved, Merged
from treadle.thread.fold import ThreadFold
from treadle.thread.typed_words import strip_additions

NumberedEntry: TypeAlias = tuple[int, str, Entry]
"""Sequence number, time and content of a record."""


class Turn(Struct, frozen=True):
    """A turn: its number from 1, the record that began it, and what the person said.

    `prompt` is without the commands that the person ran before, of which the message tells too.
    """

    number: int
    version: int
    at: str
    prompt: str


class Rest(Struct, frozen=True):
    """A version at which nothing was open.

    `turn` is the number of the last turn in view, 0 before the first; `view` what a model would
    have been shown, `files` the newest state of the files that was saved. Versions with nothing but
    facts between them have one `stretch`.
    """

    version: int
    at: str
    turn: int
    view: View
    files: FilesSaved | None
    stretch: int


def list_turns(entries: Iterable[NumberedEntry]) -> Iterator[Turn]:
    """The turns of a thread, in order; a task is one."""
    number = 0
    for seq, at, entry in entries:
        if isinstance(entry, UserInput | TaskGiven):
            number += 1
            if isinstance(entry, TaskGiven):
                prompt = entry.task
            else:
                prompt = strip_additions(entry.message.content)
            yield Turn(number, seq, at, prompt)


def list_turn_starts(
    fold: ThreadFold, entries: Iterable[NumberedEntry]
) -> Iterator[tuple[int, Turn]]:
    """The turns of a thread, each with the index of the message that began it.

    Args:
        fold: the thread before the first of the entries; it is used up.
        entries: the thread's records.
    """
    entries = list(entries)
    begun = {turn.version: turn for turn in list_turns(entries)}
    for seq, at, entry in entries:
        before = len(fold.conversation)
        fold.apply(seq, at, entry)
        if seq in begun:  # a task is given before its first message is there
            yield max(before, len(fold.conversation) - 1), begun[seq]


def list_merge_points(
    fold: ThreadFold, entries: Iterable[NumberedEntry]
) -> Iterator[tuple[int, str]]:
    """Where messages of other machines have joined: the index of the first, and which machine.

    Args:
        fold: the thread before the first of the entries; it is used up.
        entries: the thread's records.
    """
    waiting: list[Merged] = []
    for seq, at, entry in entries:
        count = len(fold.joining_messages)
        fold.apply(seq, at, entry)
        if isinstance(entry, Merged) and entry.messages:
            waiting.append(entry)
            count += len(entry.messages)
        if waiting and not fold.joining_messages:
            index = len(fold.conversation) - count
            for merged in waiting:
                yield index, merged.host or "another machine"
                index += len(merged.messages)
            waiting.clear()


def list_rests(fold: ThreadFold, entries: Iterable[NumberedEntry]) -> Iterator[Rest]:
    """Each version where nothing was open, in order.

    Args:
        fold: the thread before the first of the entries; it is used up.
        entries: the thread's records.
    """
    count = turn = stretch = 0
    turn_at: dict[int, int] = {}
    for seq, at, entry in entries:
        fold.apply(seq, at, entry)
        if isinstance(entry, UserInput | TaskGiven):
            count += 1
            turn = count
        if isinstance(entry, Rewound):
            turn = turn_at.get(entry.to, 0)
        stretch += isinstance(entry, Event)
        if fold.is_idle:
            turn_at[seq] = turn
            yield Rest(seq, at, turn, fold.conversation.view, fold.files, stretch)


def find_rest_at(rests: Iterable[Rest], version: int) -> Rest | None:
    """The last place at or before a version."""
    return max((r for r in rests if r.version <= version), key=lambda r: r.version, default=None)


def find_rest_after_turn(rests: Iterable[Rest], turn: int) -> Rest | None:
    """Where a turn had ended; 0 for the beginning. `None` if there is no such turn."""
    of_turn = [rest for rest in rests if rest.turn == turn]
    stretches = [rest for rest in of_turn if rest.stretch == of_turn[0].stretch]
    return stretches[-1] if stretches else None
