"""Putting files back as they were: each at once or not at all, and nothing that was not asked for.

Folders are opened one by one beneath the repository, and no link is followed, so that nothing
outside is reached. A file is written beside its place, made durable and renamed; so whoever looks,
and whoever comes after a power cut, finds the old file or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from treadle.errors import FileStateError
from treadle.files.replacement import replace_file
from treadle.workspace.files.entries import LINK, FileChange, FileEntry

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_IN_THE_WAY: Final = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EXDEV}
)
"""Something else stands where a file or its folder was: a conflict, and no failure of the disk."""


class Put(NamedTuple):
    """A file to be put back: from `change.old`, as it is now, to `change.new` with its content."""

    change: FileChange
    content: bytes = b""


class _ConflictError(Exception):
    """The file is not as it was said to be, or cannot be reached without following a link."""


def put_back(root: Path, prefix: str, puts: Sequence[Put]) -> list[FileChange]:
    """Put files back. Deletions come first: a folder may have to make room for a file.

    A file that is already as it is to be is not touched, so that this can be done again after it
    was cut short. A file keeps its permissions, but for the right to run it.

    Args:
        root: the root of the repository.
        prefix: where the workspace lies in it; nothing outside is touched.
        puts: what is to be done.

    Returns:
        Those that were left as they are: not what they were said to be, or behind a link.

    Raises:
        FileStateError: the disk refused; what was put back until then is whole.
    """
    left = []
    top = os.fsencode(prefix)
    deletions = sorted((one for one in puts if one.change.new is None), reverse=True)
    for put in (*deletions, *(one for one in puts if one.change.new is not None)):
        try:
            _put(root, top, put)
        except _ConflictError:
            left.append(put.change)
        except OSError as error:
            if error.errno not in _IN_THE_WAY:
                raise FileStateError(
                    f"{put.change.name} cannot be put back: {error.strerror}",
                    hint="mend the cause and run the same command again: it goes on from there",
                ) from error
            left.append(put.change)
    return left


def _put(root: Path, top: bytes, put: Put) -> None:
    path, old, new = put.change
    *folders, name = path.split(b"/")
    is_odd = any(part in (b"", b".", b"..") or part.lower() == b".git" for part in (*folders, name))
    if is_odd or not path.startswith(top):
        raise _ConflictError
    try:
        with _open_folder(root, folders, is_made=new is not None) as place:
            if new is not None:
                with suppress(OSError):  # an empty folder makes room, and nothing else does
                    os.rmdir(name, dir_fd=place)
            now = _entry_at(place, name, old or new)
            if now not in (old, new):
                raise _ConflictError
            if now != new:
                _change(place, name, put)
    except FileNotFoundError:
        if new is None:  # not even its folder is there
            return
        raise
    if new is None:
        _remove_emptied(root, folders, top.count(b"/"))


def _change(place: int, name: bytes, put: Put) -> None:
    if put.change.new is None:
        os.unlink(name, dir_fd=place)
    else:
        _write(place, name, put.change.new, put.content)
    os.fsync(place)


@contextmanager
def _open_folder(root: Path, folders: Sequence[bytes], *, is_made: bool) -> Iterator[int]:
    """The descriptor of a folder beneath the root, reached through no link."""
    here = os.open(root, _FOLDER)
    try:
        for name in folders:
            if is_made:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                    os.fsync(here)
            above, here = here, os.open(name, _FOLDER, dir_fd=here)
            os.close(above)
        yield here
    finally:
        os.close(here)


def _entry_at(place: int, name: bytes, like: FileEntry | None) -> FileEntry | None:
    """What stands there, named as git does; `None` if nothing does."""
    try:
        info = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(info.st_mode):
        return FileEntry(LINK, _digest(os.readlink(name, dir_fd=place), like))
    if not stat.S_ISREG(info.st_mode):
        raise _ConflictError
    file = os.open(name, _READ, dir_fd=place)
    with os.fdopen(file, "rb") as reader:
        content = reader.read()
    mode = "100755" if info.st_mode & stat.S_IXUSR else "100644"
    return FileEntry(mode, _digest(content, like))


def _digest(content: bytes, like: FileEntry | None) -> str:
    """The object id of a blob, in the format of this other one."""
    of = hashlib.sha256 if like is not None and len(like.oid) == 64 else hashlib.sha1
    return of(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _write(place: int, name: bytes, entry: FileEntry, content: bytes) -> None:
    """Write it beside its place, make it durable, and rename it."""
    draft = b"." + entry.oid[:16].encode() + b".treadle-tmp"
    if entry.mode != LINK:
        replace_file(
            place,
            name,
            content,
            draft=draft,
            mode=0o777 if entry.mode == "100755" else 0o666,
            prepare=lambda file: _keep_permissions(file, place, name, entry),
        )
        return
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=place)  # of a process that died here
    try:
        os.symlink(content, draft, dir_fd=place)
        os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=place)
        raise


def _keep_permissions(file: int, place: int, name: bytes, entry: FileEntry) -> None:
    """Give the new file the permissions of the one it replaces; git knows only who may run it."""
    try:
        info = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(info.st_mode):
        return
    kept = stat.S_IMODE(info.st_mode) & 0o777
    is_run, is_to_run = bool(kept & stat.S_IXUSR), entry.mode == "100755"
    if is_run != is_to_run:
        kept = kept | (kept & 0o444) >> 2 if is_to_run else kept & ~0o111
    os.fchmod(file, kept)


def _remove_emptied(root: Path, folders: Sequence[bytes], kept_count: int) -> None:
    """Remove folders that the deletion left empty, as git does; never the workspace itself."""
    for count in range(len(folders), kept_count, -1):
        try:
            with _open_folder(root, folders[: count - 1], is_made=False) as place:
                os.rmdir(folders[count - 1], dir_fd=place)
        except OSError:
            return
