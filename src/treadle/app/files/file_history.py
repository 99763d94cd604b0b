"""What a thread's agent changed in its workspace, by the states of the files that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from treadle.app.files.hidden_paths import make_hidden_check
from treadle.core.chat.states import PostToolsHook
from treadle.core.tools import ToolExecutionStatus
from treadle.errors import FileStateError, UsageError
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.codec import decode_entry
from treadle.thread.facts import FilesNotSaved, FilesSaved
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Record
from treadle.workspace.files.entries import Step
from treadle.workspace.files.states import FileStates


class VersionedFileState(Struct, frozen=True):
    """A state of the files, and the version that recorded it; 0 if the thread began with it."""

    version: int
    files: FilesSaved


def list_saved_states(store: LocalStore, thread_id: str) -> list[VersionedFileState]:
    """All states that a thread has recorded, in order; a fork begins with its base's last one.

    Raises: as `LocalStore.load`.
    """
    begun = store.load_initial_fold(thread_id).files
    found = [] if begun is None else [VersionedFileState(0, begun)]
    for record in store.scan(thread_id).records:
        # Decoding the few that matter: threads are long, and later kinds of records no obstacle.
        if b'"files_saved"' in bytes(record.event):
            entry = decode_entry(record.event)
            if isinstance(entry, FilesSaved):
                found.append(VersionedFileState(record.seq, entry))
    return found


def select_states(
    states: Sequence[VersionedFileState], after: int, through: int
) -> list[FilesSaved]:
    """Those that were recorded after one version and up to another, and the one before them."""
    inside = [place for place, one in enumerate(states) if after < one.version <= through]
    if not inside:
        return []
    return [one.files for one in states[max(0, inside[0] - 1) : inside[-1] + 1]]


def find_gap(store: LocalStore, thread_id: str, after: int, through: int) -> str:
    """Why some of what a thread's agent changed is not known; empty if all of it is.

    Rounds whose files could not be kept are told by records after one version and up to another.

    Raises: as `LocalStore.load`.
    """
    why = ""
    count = 0
    for record in store.scan(thread_id).records[after:through]:
        if b'"files_not_saved"' in bytes(record.event):
            entry = decode_entry(record.event)
            if isinstance(entry, FilesNotSaved):
                why, count = entry.why, count + 1
    if not count:
        return ""
    rounds = "a round of calls" if count == 1 else f"{count} rounds of calls"
    return f"what the agent changed in {rounds} was not kept ({why})"


def open_states(
    fold: ThreadFold, folder: str | None = None, redact: Callable[[str], str] | None = None
) -> FileStates:
    """The states of a thread's workspace.

    Args:
        fold: the thread.
        folder: where that lies now, if a person says so.
        redact: replaces known secrets; files that hold one are not kept.

    Raises:
        FileStateError: the thread has no workspace, or that is gone.
        UsageError: the folder that a person named is none.
    """
    if folder is not None and not Path(folder).expanduser().is_dir():
        raise UsageError(f"{folder} is no folder", hint="-C takes the folder the agent works in")
    if folder is None and fold.workspace is None:
        raise FileStateError(f"thread {fold.header.thread} works in no folder")
    place = Path(folder or fold.workspace or ".").expanduser().resolve()
    if not place.is_dir():
        raise FileStateError(
            f"the folder of thread {fold.header.thread} is gone: {fold.workspace}",
            hint="-C FOLDER says where it is now",
        )
    hides = make_hidden_check(place, Places.find())
    return FileStates(place, fold.header.thread, redact=redact, hides=hides)


def explain_missing_states(fold: ThreadFold) -> str:
    """Why a thread that has recorded no state of its files may have none."""
    if fold.imported_from:
        why = f"it was imported from {fold.imported_from}, where none were kept"
    elif fold.workspace is None:
        why = "it works in no folder"
    elif fold.observed is None:
        why = "it works in no git repository, where they cannot be kept"
    else:
        why = "no call ran that may change files, or they could not be kept"
    return f"no states of its files are recorded: {why}"


def is_in_round(fold: ThreadFold) -> bool:
    """Whether calls have begun whose changes no state of the files shows yet."""
    pending = ToolExecutionStatus.Pending
    has_begun = any(not isinstance(status, pending) for _, status in fold.machine.round)
    return has_begun or isinstance(fold.state, PostToolsHook)


def find_write_end(records: Sequence[Record], version: int) -> int:
    """The last version that was written together with this one: all of a write has one time.

    A commit and the state of the files that belongs to it are written together.
    """
    for record in records[version:] if version else ():
        if record.at != records[version - 1].at:
            break
        version = record.seq
    return version


async def list_steps(files: FileStates, saved: Sequence[FilesSaved]) -> list[Step]:
    """What changed from each of these states to the next; none if there are fewer than two.

    Raises:
        FileStateError: one of them is gone, or there is no repository any more.
    """
    return await files.steps(saved) if len(saved) > 1 else []
