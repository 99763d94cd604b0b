"""The files of a recorded turn in a git worktree of their own, beside nobody's work."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from treadle.app.evaluation.recorded_turns import NotRunError, RecordedTurn
from treadle.app.files.hidden_paths import make_hidden_check
from treadle.app.files.name_text import format_names
from treadle.app.files.worktrees import CHECKOUT_S_MAX
from treadle.errors import FileStateError
from treadle.store.paths import Places
from treadle.workspace.files.entries import NOT_KEPT, compare
from treadle.workspace.files.states import FileStates
from treadle.workspace.git import Absent, Layout, Repository
from treadle.workspace.hooks import summarize_output


class RestoredFiles(Struct, frozen=True):
    """Where the files are: `folder`, the workspace in it. `note` says what is not as it was."""

    folder: Path
    note: str = ""


@asynccontextmanager
async def restored_files(
    turn: RecordedTurn, source: str | None, place: Path, places: Places
) -> AsyncIterator[RestoredFiles]:
    """The files as they were before a turn, as long as the block lasts.

    Nothing is checked out as a branch, so no commit in it moves one, and no hook runs. What a
    process that died has left in the place is removed first.

    Args:
        turn: the turn.
        source: a folder of the repository, if it is not where it was.
        place: where they are put; its parent is made.
        places: which folders are hidden from tools.

    Raises:
        NotRunError: the repository, the commit or a content is gone.
    """
    if (folder := source or turn.workspace) is None:
        raise NotRunError("it worked in no folder")
    repository = Repository(folder)
    layout = await repository.layout()
    if isinstance(layout, Absent):
        hint = "-C FOLDER says where its repository is now"
        raise NotRunError(f"its files cannot be restored from {folder}: {layout.text}", hint=hint)
    await _remove(repository, place)
    try:
        yield await _lay_out(turn, repository, layout, place, places)
    finally:
        await _remove(repository, place)


async def remove_left_files(places: Sequence[Path]) -> None:
    """Remove what processes that died have left, and what its repositories know of it."""
    for place in places:
        await _remove(Repository(place), place)


async def _lay_out(
    turn: RecordedTurn, repository: Repository, layout: Layout, place: Path, places: Places
) -> RestoredFiles:
    commits = [turn.commit] if turn.files is None else [turn.commit, turn.files.commit]
    for commit in filter(None, commits):
        known = await repository.read("cat-file", "-e", f"{commit}^{{commit}}")
        if known.status == 0:
            break
    else:
        raise NotRunError(f"{' and '.join(filter(None, commits))}: not in the repository any more")
    try:
        await asyncio.to_thread(place.parent.mkdir, 0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotRunError(f"{place.parent} cannot be made: {error.strerror}") from error
    what = ("worktree", "add", "--detach", "--force", str(place), commit)
    ran = await repository.change(*what, timeout_s=CHECKOUT_S_MAX)
    if ran.status != 0:
        raise NotRunError(f"git worktree add failed: {summarize_output(ran)}")
    folder = place / layout.prefix
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    if turn.files is None:
        return RestoredFiles(folder)
    states = FileStates(folder, turn.thread, hides=make_hidden_check(folder, places))
    try:
        wanted = await states.entries(turn.files.commit)
        changes = compare((await states.capture()).entries, wanted)
        left = await states.restore(changes)
    except FileStateError as error:
        raise NotRunError(f"its files cannot be restored: {error.message}") from error
    if left:
        names = format_names([one.name for one in left])
        raise NotRunError(f"its files cannot be restored: {names}")
    gone = [one.name for one in changes if one.new is not None and one.new.mode == NOT_KEPT]
    return RestoredFiles(folder, f"without {format_names(gone)}, not kept" if gone else "")


async def _remove(repository: Repository, place: Path) -> None:
    """Remove a worktree, and what git knows of it, whatever is left of either.

    One that git takes for none is of a process that died while it made it.
    """
    await asyncio.to_thread(_open_folders, place)
    for _ in range(2):
        what = ("worktree", "remove", "--force", "--force", str(place))
        await repository.change(*what, timeout_s=CHECKOUT_S_MAX)
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _open_folders(place: Path) -> None:
    """A command may have shut them."""
    for folder, names, _ in os.walk(place):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(0o700)
