"""Reading whole files and replacing them, all or nothing.

A file is written under a random name in its own folder, made durable, and renamed over the old one:
a reader sees the old content or the new, also after a power cut. The mode is kept, the owner where
permitted. Writers in this process take turns; that another process did not write in between is
checked as late as possible, right before the rename.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from treadle.core.tools import ToolErrorKind
from treadle.files.replacement import replace_file
from treadle.tool_failure import ToolFailure
from treadle.tools.paths import Root, as_failure, open_regular, sync_folder

EDIT_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a file that is edited in memory; generated files larger than this are for programs."""
CHUNK_SIZE: Final = 1024 * 1024

Change: TypeAlias = Callable[[bytes | None], bytes]
"""The content of a file, `None` if there is no file -> its new content."""
Check: TypeAlias = Callable[[str, bytes | None], None]
"""What `content_of` says of a file, and its content; `None` if there is no file, or too much."""

ABSENT: Final = "absent"
"""What `content_of` says where there is no file."""

turn: Final = Lock()
"""Writers of this process take turns."""


class Written(NamedTuple):
    """A file that was written: its name relative to the root without links, sizes in bytes.

    `size_before` is `None` where there was no file. `before` and `after` are what `content_of` says
    of it, `old` and `new` what it held and holds; `old` is `None` where there was no file, or one
    too large to be edited.
    """

    name: str
    size: int
    size_before: int | None
    before: str
    after: str
    old: bytes | None
    new: bytes


def content_of(root: Root, path: str) -> str:
    """A digest of the file as it is; of one that is too large to be edited, its size and times.

    Raises:
        ToolFailure: the path is refused.
        OSError: the file cannot be read.
    """
    try:
        fd = root.open_file(path)
    except ToolFailure as failure:
        if failure.kind is ToolErrorKind.FILE_NOT_FOUND:
            return ABSENT
        raise
    return _digest_and_close(fd)


def _digest_and_close(fd: int) -> str:
    try:
        about = os.fstat(fd)
        if about.st_size > EDIT_SIZE_MAX:
            return _of_large(about)
        digest = sha256()
        while chunk := os.read(fd, CHUNK_SIZE):
            digest.update(chunk)
        return digest.hexdigest()
    finally:
        os.close(fd)


def _of_large(about: os.stat_result) -> str:
    return f"{about.st_size}:{about.st_mtime_ns}:{about.st_ino}"


def _look_at(place: int, name: str, check: Check) -> tuple[str, bytes | None]:
    try:
        fd = open_regular(name, place)
    except FileNotFoundError:
        old, digest = None, ABSENT
    else:
        try:
            about = os.fstat(fd)
            is_large = about.st_size > EDIT_SIZE_MAX
            old = None if is_large else _read_all(fd, name)
            digest = _of_large(about) if is_large else digest_of(old)
        finally:
            os.close(fd)
    check(digest, old)
    return digest, old


def digest_of(content: bytes | None) -> str:
    """What `content_of` says of a file that holds this; `None` is none."""
    return ABSENT if content is None else sha256(content).hexdigest()


def rewrite(root: Root, path: str, change: Change) -> Written:
    """Replace a file by what `change` makes of its content; make it, and its folders, if missing.

    Args:
        root: the folder to stay in.
        path: the file, at most `EDIT_SIZE_MAX` bytes.
        change: may raise to leave everything as it is.

    Raises:
        ToolFailure: the path is refused, the file is too large, or another process changed the
            file meanwhile. The file is as it was (unless only its folder could not be synced),
            and no temporary file is left.
    """
    with turn, as_failure(path):
        old = read_if_there(root, path)
        new = change(old)
        return _put(root, path, new, lambda place, name: look_unchanged(place, name, path, old))


def overwrite(
    root: Root, path: str, content: bytes, check: Check = lambda digest, old: None
) -> Written:
    """Replace a file whatever it holds; make it, and its folders, if missing.

    Args:
        root: the folder to stay in.
        path: the file.
        content: all that it is to hold.
        check: may raise, right before the file goes, to leave everything as it is.

    Raises as `rewrite`, but not for what the file held.
    """
    with turn, as_failure(path):
        return _put(root, path, content, lambda place, name: _look_at(place, name, check))


def check_rewrite(root: Root, path: str, change: Change) -> None:
    """Raise what `rewrite` would, as things stand; nothing is written or made."""
    with as_failure(path):
        change(read_if_there(root, path))
    check_place(root, path)


def check_overwrite(root: Root, path: str, check: Check) -> None:
    """The same for `overwrite`."""
    check_place(root, path, check)


def check_place(root: Root, path: str, check: Check | None = None) -> None:
    """Raise where no file may be written, whatever it held; a folder that is missing is made."""
    with as_failure(path):
        try:
            with root.locate(path) as (place, name):
                root.refuse_protected(place, name, path)
                stat_writable(place, name)
                if check is not None:
                    _look_at(place, name, check)
        except ToolFailure as failure:
            folder = os.path.normpath(path).rpartition("/")[0]
            if failure.kind is not ToolErrorKind.FILE_NOT_FOUND:
                raise
            if folder.strip("/"):
                _check_folder(root, folder, path)


def _check_folder(root: Root, folder: str, path: str) -> None:
    """Raise where no folder may be made on the way to a file."""
    try:
        with root.locate(folder) as (place, name):
            root.refuse_protected(place, name, path)
    except ToolFailure as failure:
        above = folder.rpartition("/")[0]
        if failure.kind is not ToolErrorKind.FILE_NOT_FOUND:
            raise
        if above.strip("/"):
            _check_folder(root, above, path)


def read_if_there(root: Root, path: str) -> bytes | None:
    """What a file holds; `None` if there is none.

    Raises:
        ToolFailure: the path is refused, or the file is too large.
        OSError: the file cannot be read.
    """
    try:
        fd = root.open_file(path)
    except ToolFailure as failure:
        if failure.kind is ToolErrorKind.FILE_NOT_FOUND:
            return None
        raise
    try:
        return _read_all(fd, path)
    finally:
        os.close(fd)


def _read_all(fd: int, path: str) -> bytes:
    chunks: list[bytes] = []
    room = EDIT_SIZE_MAX + 1
    while room > 0 and (chunk := os.read(fd, min(room, CHUNK_SIZE))):
        chunks.append(chunk)
        room -= len(chunk)
    if room <= 0:
        raise ToolFailure(
            ToolErrorKind.FAILED,
            f"{path} is larger than {EDIT_SIZE_MAX} bytes: edit it with a command",
        )
    return b"".join(chunks)


def look_unchanged(place: int, name: str, path: str, old: bytes | None) -> tuple[str, bytes | None]:
    """The file as it is, if it is still what `change` was given; it is refused if not."""
    try:
        fd = open_regular(name, place)
    except FileNotFoundError:
        now = None
    else:
        try:
            now = _read_all(fd, path)
        finally:
            os.close(fd)
    if now != old:
        raise ToolFailure(
            ToolErrorKind.FAILED,
            f"{path} was changed by somebody else meanwhile and is left alone: read it again",
        )
    return digest_of(old), old


def make_draft_name() -> str:
    """A name under which a file is written first."""
    return f".{secrets.token_hex(8)}.treadle-tmp"


def _put(
    root: Root,
    path: str,
    content: bytes,
    look: Callable[[int, str], tuple[str, bytes | None]],
) -> Written:
    """Put the content in place; `look` says, right before, what the file is that goes."""
    with root.locate(path, create_parents=True) as (place, name):
        root.refuse_protected(place, name, path)
        before = stat_writable(place, name)
        temporary = make_draft_name()
        mode = 0o666 if before is None else 0o600
        digest, old = "", None

        def check() -> None:
            nonlocal digest, old
            digest, old = look(place, name)

        status = replace_file(
            place,
            name,
            content,
            draft=temporary,
            mode=mode,
            prepare=lambda file: None if before is None else keep_mode(file, before),
            check=check,
        )
        sync_folder(place)
    after = _of_large(status) if len(content) > EDIT_SIZE_MAX else digest_of(content)
    size_before = before and before.st_size
    return Written(root.name_of(path), len(content), size_before, digest, after, old, content)


def read_unless_large(fd: int) -> tuple[str, bytes | None]:
    """What `content_of` says of an open file, and all that it holds; `None` if that is too much."""
    about = os.fstat(fd)
    if about.st_size > EDIT_SIZE_MAX:
        return _of_large(about), None
    data = _read_all(fd, "the file")
    return digest_of(data), data


def stat_writable(place: int, name: str) -> os.stat_result | None:
    """The file to be replaced, if any; refused where writing into it would be.

    A rename asks only the folder for permission, so the file is asked by opening it.
    """
    try:
        os.close(open_regular(name, place))
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def keep_mode(fd: int, before: os.stat_result) -> None:
    """Give a draft the owner, where that is permitted, and the mode of the file it is for."""
    mode = stat.S_IMODE(before.st_mode)
    try:
        os.fchown(fd, before.st_uid, before.st_gid)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
        mode &= 0o777  # set-user-id for somebody else would be a gift
    os.fchmod(fd, mode)
