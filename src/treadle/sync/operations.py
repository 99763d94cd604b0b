"""What is to be done about a thread: a table over what is known of it. Pure."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class LocalAvailability(Enum):
    """What this machine has of a thread."""

    MISSING = "missing"
    PRIVATE = "private"
    """It, or what it hangs on, may not leave this machine."""
    UNREADABLE = "unreadable"
    """It is damaged, or a newer program's."""
    THERE = "there"


class LocalPosition(Enum):
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


class ServerPosition(Enum):
    """Where the server stands to that record."""

    UNKNOWN = "unknown"
    """It has nothing, as far as is known."""
    SAME = "same"
    MOVED = "moved"
    """It has other records, or more."""
    PURGED = "purged"
    """All of it was removed for good."""


class SyncOperation(Enum):
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


class ThreadComparison(Struct, frozen=True):
    """What is known of a thread.

    `was_sent` says that something of it may be on the server. `is_told` says that a purge was told
    already, `is_wanted` that a person has asked for this very sync, `is_named` that they named the
    thread, `is_deleted` that the server has it in the trash, `is_trashed` that this machine has,
    `is_borrowed` that it is another user's there, and was not gone on with here.
    """

    here: LocalAvailability
    ours: LocalPosition = LocalPosition.NEVER
    theirs: ServerPosition = ServerPosition.UNKNOWN
    was_sent: bool = False
    is_told: bool = False
    is_busy: bool = False
    is_parked: bool = False
    is_wanted: bool = False
    is_named: bool = False
    is_deleted: bool = False
    is_trashed: bool = False
    is_borrowed: bool = False


_OPERATIONS = {
    (LocalPosition.NEVER, ServerPosition.UNKNOWN): SyncOperation.PUSH,
    (LocalPosition.NEVER, ServerPosition.SAME): SyncOperation.PUSH,
    (LocalPosition.NEVER, ServerPosition.MOVED): SyncOperation.MERGE,
    (LocalPosition.SAME, ServerPosition.UNKNOWN): SyncOperation.NOTHING,
    (LocalPosition.SAME, ServerPosition.SAME): SyncOperation.NOTHING,
    (LocalPosition.SAME, ServerPosition.MOVED): SyncOperation.PULL,
    (LocalPosition.AHEAD, ServerPosition.UNKNOWN): SyncOperation.PUSH,
    (LocalPosition.AHEAD, ServerPosition.SAME): SyncOperation.PUSH,
    (LocalPosition.AHEAD, ServerPosition.MOVED): SyncOperation.MERGE,
    (LocalPosition.BEHIND, ServerPosition.UNKNOWN): SyncOperation.PULL,
    (LocalPosition.BEHIND, ServerPosition.SAME): SyncOperation.PULL,
    (LocalPosition.BEHIND, ServerPosition.MOVED): SyncOperation.PULL,
    (LocalPosition.SCRUBBED, ServerPosition.UNKNOWN): SyncOperation.REPLACE,
    (LocalPosition.SCRUBBED, ServerPosition.SAME): SyncOperation.REPLACE,
    (LocalPosition.SCRUBBED, ServerPosition.MOVED): SyncOperation.MERGE,
    (LocalPosition.OFF, ServerPosition.UNKNOWN): SyncOperation.MERGE,
    (LocalPosition.OFF, ServerPosition.SAME): SyncOperation.MERGE,
    (LocalPosition.OFF, ServerPosition.MOVED): SyncOperation.MERGE,
}
"""Of a thread that is here and may leave: where the two stand, and what follows."""

WRITING_OPERATIONS = frozenset((SyncOperation.PULL, SyncOperation.MERGE))
"""What changes the thread here, and so waits until nobody has it open."""

SENDING_OPERATIONS = frozenset((SyncOperation.PUSH, SyncOperation.REPLACE))


def choose_operation(comparison: ThreadComparison) -> SyncOperation:
    """What is to be done about a thread."""
    if comparison.here is LocalAvailability.PRIVATE:
        return SyncOperation.PURGE if comparison.was_sent else SyncOperation.NOTHING
    if comparison.here is LocalAvailability.MISSING:
        # What lies in the trash there and was here once was removed from the trash here.
        is_unwanted = comparison.is_deleted and comparison.was_sent
        has_it = (
            comparison.theirs in (ServerPosition.SAME, ServerPosition.MOVED) and not is_unwanted
        )
        return SyncOperation.FETCH if has_it else SyncOperation.NOTHING
    if comparison.here is LocalAvailability.UNREADABLE:
        return SyncOperation.TELL_UNREADABLE
    if comparison.theirs is ServerPosition.PURGED:
        if comparison.is_named and comparison.is_told:
            return SyncOperation.PUSH
        return SyncOperation.NOTHING if comparison.is_told else SyncOperation.TELL_PURGED
    if (
        comparison.is_trashed
        and not comparison.was_sent
        and comparison.theirs is ServerPosition.UNKNOWN
    ):
        return SyncOperation.NOTHING
    if comparison.is_borrowed and not comparison.is_named:
        return SyncOperation.NOTHING
    operation = _OPERATIONS[comparison.ours, comparison.theirs]
    if operation in WRITING_OPERATIONS and comparison.is_busy:
        return SyncOperation.WAIT
    if operation in SENDING_OPERATIONS and comparison.is_parked and not comparison.is_wanted:
        return SyncOperation.PARKED
    return operation
