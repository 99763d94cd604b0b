"""What is to be done about a thread: a table over what is known of it. Pure."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Here(Enum):
    """What this machine has of a thread."""

    MISSING = "missing"
    PRIVATE = "private"
    """It, or what it hangs on, may not leave this machine."""
    UNREADABLE = "unreadable"
    """It is damaged, or a newer program's."""
    THERE = "there"


class Ours(Enum):
    """Where this machine's journal stands to the last record that both had."""

    NEVER = "never"
    """It was never sent from here, nor taken in: there is no such record."""
    SAME = "same"
    AHEAD = "ahead"
    BEHIND = "behind"
    """It ends before that record: it has lost its end, as after a backup was put back."""
    SCRUBBED = "scrubbed"
    """A scrub has changed that record here, and said so."""
    OFF = "off"
    """That record is another one here."""


class Theirs(Enum):
    """Where the server stands to that record."""

    UNKNOWN = "unknown"
    """It has nothing, as far as is known."""
    SAME = "same"
    MOVED = "moved"
    """It has other records, or more."""
    PURGED = "purged"
    """All of it was removed for good."""


class Operation(Enum):
    """What is to be done."""

    NOTHING = "nothing"
    PUSH = "push"
    FETCH = "fetch"
    """Take in a thread that is not here."""
    PULL = "pull"
    """Take in what the server has more."""
    MERGE = "merge"
    """Both have gone on: look where they part, and bring them together."""
    REPLACE = "replace"
    """Put the scrubbed journal in the place of the server's."""
    PURGE = "purge"
    """Have the server remove all of it."""
    TELL_PURGED = "tell_purged"
    """It was removed from the server elsewhere: keep it here, and say so once."""
    TELL_UNREADABLE = "tell_unreadable"
    WAIT = "wait"
    """Another process has it open: nothing is taken in until it ends."""
    PARKED = "parked"
    """It was held back or refused as it is, and nobody has asked for another try."""


class Facts(Struct, frozen=True):
    """What is known of a thread.

    `was_sent` says that something of it may be on the server. `is_told` says that a purge was told
    already, `is_wanted` that a person has asked for this very sync, `is_named` that they named the
    thread, `is_deleted` that the server has it in the trash, `is_trashed` that this machine has.
    """

    here: Here
    ours: Ours = Ours.NEVER
    theirs: Theirs = Theirs.UNKNOWN
    was_sent: bool = False
    is_told: bool = False
    is_busy: bool = False
    is_parked: bool = False
    is_wanted: bool = False
    is_named: bool = False
    is_deleted: bool = False
    is_trashed: bool = False


_MOVES = {
    (Ours.NEVER, Theirs.UNKNOWN): Operation.PUSH,
    (Ours.NEVER, Theirs.SAME): Operation.PUSH,
    (Ours.NEVER, Theirs.MOVED): Operation.MERGE,
    (Ours.SAME, Theirs.UNKNOWN): Operation.NOTHING,
    (Ours.SAME, Theirs.SAME): Operation.NOTHING,
    (Ours.SAME, Theirs.MOVED): Operation.PULL,
    (Ours.AHEAD, Theirs.UNKNOWN): Operation.PUSH,
    (Ours.AHEAD, Theirs.SAME): Operation.PUSH,
    (Ours.AHEAD, Theirs.MOVED): Operation.MERGE,
    (Ours.BEHIND, Theirs.UNKNOWN): Operation.PULL,
    (Ours.BEHIND, Theirs.SAME): Operation.PULL,
    (Ours.BEHIND, Theirs.MOVED): Operation.PULL,
    (Ours.SCRUBBED, Theirs.UNKNOWN): Operation.REPLACE,
    (Ours.SCRUBBED, Theirs.SAME): Operation.REPLACE,
    (Ours.SCRUBBED, Theirs.MOVED): Operation.MERGE,
    (Ours.OFF, Theirs.UNKNOWN): Operation.MERGE,
    (Ours.OFF, Theirs.SAME): Operation.MERGE,
    (Ours.OFF, Theirs.MOVED): Operation.MERGE,
}
"""Of a thread that is here and may leave: where the two stand, and what follows."""

WRITES = frozenset((Operation.PULL, Operation.MERGE))
"""What changes the thread here, and so waits until nobody has it open."""

SENDS = frozenset((Operation.PUSH, Operation.REPLACE))


def decide(facts: Facts) -> Operation:
    """What is to be done about a thread."""
    if facts.here is Here.PRIVATE:
        return Operation.PURGE if facts.was_sent else Operation.NOTHING
    if facts.here is Here.MISSING:
        # What lies in the trash there and was here once was removed from the trash here.
        is_unwanted = facts.is_deleted and facts.was_sent
        has_it = facts.theirs in (Theirs.SAME, Theirs.MOVED) and not is_unwanted
        return Operation.FETCH if has_it else Operation.NOTHING
    if facts.here is Here.UNREADABLE:
        return Operation.TELL_UNREADABLE
    if facts.theirs is Theirs.PURGED:
        if facts.is_named and facts.is_told:
            return Operation.PUSH
        return Operation.NOTHING if facts.is_told else Operation.TELL_PURGED
    if facts.is_trashed and not facts.was_sent and facts.theirs is Theirs.UNKNOWN:
        return Operation.NOTHING
    operation = _MOVES[facts.ours, facts.theirs]
    if operation in WRITES and facts.is_busy:
        return Operation.WAIT
    if operation in SENDS and facts.is_parked and not facts.is_wanted:
        return Operation.PARKED
    return operation
