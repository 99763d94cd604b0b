"""Replacing several files, all or none.

All are written beside those that they replace, and made durable, before the first one is renamed.
So what can fail has failed by then; if a rename does all the same, those before it are undone. What
goes is removed last. A process that dies between two of them leaves each file old or new, as a
whole, and one that is moved under one of its names at least; its call is uncertain then, as that of
any tool that changes something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple, TypeAlias

from treadle.core.tools import ToolErrorKind
from treadle.files.replacement import replace_file, write_draft
from treadle.tool_failure import ToolFailure
from treadle.tools.files import (
    Written,
    check_place,
    digest_of,
    keep_mode,
    look_unchanged,
    make_draft_name,
    read_if_there,
    stat_writable,
    turn,
)
from treadle.tools.paths import Root, as_failure, sync_folder

FileReader: TypeAlias = Callable[[str], bytes | None]
"""What a file holds; `None` if there is none."""


class FileRewrite(NamedTuple):
    """What becomes of one file; `None` is none there. A new one has the mode of its `origin`."""

    path: str
    old: bytes | None
    new: bytes | None
    origin: str = ""


class _Placed(NamedTuple):
    """A change, with where its file stands, how it is now, and under which name it is written."""

    change: FileRewrite
    place: int
    name: str
    before: os.stat_result | None
    draft: str


def rewrite_all(root: Root, plan: Callable[[FileReader], Sequence[FileRewrite]]) -> list[Written]:
    """Replace, make and remove files; missing folders are made.

    Args:
        root: the folder to stay in.
        plan: gets what reads a file, and says what becomes of which. It
            may raise to leave everything as it is. It names no file twice.

    Returns:
        What was written, in the order of the plan; of a file that was removed, nothing is new.

    Raises:
        ToolFailure: a path is refused, a file is too large, another process has changed one
            meanwhile, or the disk refused. All files are as they were, unless the message says of
            one that it could not be put back; folders may have been made.
    """
    with turn, ExitStack() as held:
        changes = [
            one for one in plan(_make_reader(root)) if one.old is not None or one.new is not None
        ]
        with _say_nothing_changed():
            placed = {one.path: _locate(root, one, held) for one in changes if one.old is not None}
            # Folders are made when nothing that is there stands in the way any more.
            placed |= {one.path: _locate(root, one, held) for one in changes if one.old is None}
            ordered = [placed[one.path] for one in changes if one.old != one.new]
            _write_drafts(ordered, held)
            for one in ordered:
                with as_failure(one.change.path):
                    look_unchanged(one.place, one.name, one.change.path, one.change.old)
        _replace_all(ordered)
        return [_describe(root, one) for one in ordered]


def check_all(root: Root, plan: Callable[[FileReader], Sequence[FileRewrite]]) -> None:
    """Raise what `rewrite_all` would, as things stand; nothing is written or made."""
    changes = plan(_make_reader(root))
    for one in changes:
        if one.old != one.new:
            with _say_nothing_changed():
                check_place(root, one.path)


def _make_reader(root: Root) -> FileReader:
    def read(path: str) -> bytes | None:
        with as_failure(path):
            return read_if_there(root, path)

    return read


@contextmanager
def _say_nothing_changed() -> Iterator[None]:
    """Add that to what refuses one file: it is so of the others, too."""
    try:
        yield
    except ToolFailure as failure:
        failure.message += "; no file was changed"
        raise


def _locate(root: Root, change: FileRewrite, held: ExitStack) -> _Placed:
    with as_failure(change.path):
        is_new = change.old is None
        located = root.locate(change.path, create_parents=is_new)
        place, name = held.enter_context(located)
        root.refuse_protected(place, name, change.path)
        return _Placed(change, place, name, stat_writable(place, name), make_draft_name())


def _write_drafts(placed: Sequence[_Placed], held: ExitStack) -> None:
    """Write all that is new beside what it replaces; what is left of that goes with `held`."""
    origins = {one.change.path: one.before for one in placed}
    drafts: list[_Placed] = []
    held.callback(_remove_drafts, drafts)
    for one in placed:
        if one.change.new is not None:
            drafts.append(one)
            _write_draft(one, one.before or origins.get(one.change.origin))


def _write_draft(one: _Placed, like: os.stat_result | None) -> None:
    with as_failure(one.change.path):
        write_draft(
            one.place,
            one.change.new or b"",
            draft=one.draft,
            mode=0o666 if like is None else 0o600,
            prepare=lambda file: None if like is None else keep_mode(file, like),
        )


def _remove_drafts(drafts: Iterable[_Placed]) -> None:
    for one in drafts:
        with suppress(OSError):
            os.unlink(one.draft, dir_fd=one.place)


def _replace_all(placed: Sequence[_Placed]) -> None:
    done: list[_Placed] = []
    path = ""
    written: set[tuple[int, int]] = set()
    # What a file was moved to is durable before its origin goes: who dies between loses nothing.
    steps = (
        [one for one in placed if one.change.new is not None],
        [one for one in placed if one.change.new is None],
    )
    try:
        for step in steps:
            for one in step:
                path = one.change.path
                if one.change.new is not None:
                    os.rename(one.draft, one.name, src_dir_fd=one.place, dst_dir_fd=one.place)
                    written.add(_identify(one))
                # On a disk that takes `a` and `A` for one name, the new file may have it.
                elif _identify(one) not in written:
                    os.unlink(one.name, dir_fd=one.place)
                done.append(one)
            for one in step:
                path = one.change.path
                sync_folder(one.place)
    except OSError as error:
        lost = [one.change.path for one in reversed(done) if not _undo(one)]
        why = f"{path}: {error.strerror or error}"
        if lost:
            why += f"; these could not be put back, and are changed: {', '.join(lost)}"
        else:
            why += "; all files are as they were"
        raise ToolFailure(ToolErrorKind.IO, why) from error


def _identify(one: _Placed) -> tuple[int, int]:
    found = os.stat(one.name, dir_fd=one.place, follow_symlinks=False)
    return found.st_dev, found.st_ino


def _undo(one: _Placed) -> bool:
    """Put back what was there; returns whether it is."""
    change, before = one.change, one.before
    try:
        if change.old is None or before is None:
            os.unlink(one.name, dir_fd=one.place)
        else:
            replace_file(
                one.place,
                one.name,
                change.old,
                draft=make_draft_name(),
                mode=0o600,
                prepare=lambda file: keep_mode(file, before),
            )
            sync_folder(one.place)
    except OSError:
        return False
    return True


def _describe(root: Root, one: _Placed) -> Written:
    change = one.change
    new = change.new or b""
    size_before = None if change.old is None else len(change.old)
    before, after = digest_of(change.old), digest_of(change.new)
    return Written(root.name_of(change.path), len(new), size_before, before, after, change.old, new)
