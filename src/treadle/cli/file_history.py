"""What a thread's agent changed in its workspace, by the states of the files that were recorded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from treadle.errors import FileStateError
from treadle.store.local import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.facts import FilesSaved, ThreadCreated
from treadle.workspace.files.entries import Step
from treadle.workspace.files.states import FileStates


class Saved(Struct, frozen=True):
    """A state of the files, and the version that recorded it; 0 if the thread began with it."""

    version: int
    files: FilesSaved


def saved_states(store: LocalStore, thread_id: str) -> list[Saved]:
    """All states that a thread has recorded, in order; a fork begins with its base's last one.

    Raises: as `LocalStore.load`.
    """
    begun = store.beginning(thread_id).files
    found = [] if begun is None else [Saved(0, begun)]
    for record in store.scan(thread_id).records:
        # Decoding the few that matter: threads are long, and later kinds of records no obstacle.
        if b'"files_saved"' in bytes(record.event):
            entry = decode_entry(record.event)
            if isinstance(entry, FilesSaved):
                found.append(Saved(record.seq, entry))
    return found


def between(states: Sequence[Saved], after: int, through: int) -> list[FilesSaved]:
    """Those that were recorded after one version and up to another, and the one before them."""
    inside = [place for place, one in enumerate(states) if after < one.version <= through]
    if not inside:
        return []
    return [one.files for one in states[max(0, inside[0] - 1) : inside[-1] + 1]]


def open_states(header: ThreadCreated) -> FileStates:
    """The states of a thread's workspace.

    Raises:
        FileStateError: the thread has no workspace.
    """
    if header.workspace is None:
        raise FileStateError(f"thread {header.thread} works in no folder")
    return FileStates(header.workspace, header.thread)


async def steps_of(files: FileStates, saved: Sequence[FilesSaved]) -> list[Step]:
    """What changed from each of these states to the next; none if there are fewer than two.

    Raises:
        FileStateError: one of them is gone, or there is no repository any more.
    """
    return await files.steps(saved) if len(saved) > 1 else []
