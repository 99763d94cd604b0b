"""Git objects written without git, one file each, as git writes them.

An object is its kind, its size and its content, named by the digest of these three. It is durable
before its name is there; the names are made durable by who lets a ref lead to them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.errors import FileStateError
from treadle.workspace.files.entries import FileEntry

_COMPRESSION: Final = 1
_READABLE: Final = 0o444
"""Git's own mode of objects: nobody writes into one."""

_TREE: Final = b"40000"

_Folder = dict[bytes, "FileEntry | _Folder"]


class LooseObjects:
    """The folder of objects of a repository, or one beside it.

    Args:
        folder: where objects go; it is there.
        digest: what names them, `sha1` or `sha256`.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self._folder = folder
        self._digest = digest
        self._mode = stat.S_IMODE(folder.stat().st_mode)

    def has(self, oid: str) -> bool:
        """Whether this object lies here by itself; one in a pack does not."""
        return (self._folder / oid[:2] / oid[2:]).exists()

    def name(self, kind: str, content: bytes) -> str:
        """The id of an object, whether it is there or not."""
        head = f"{kind} {len(content)}\0".encode()
        return hashlib.new(self._digest, head + content, usedforsecurity=False).hexdigest()

    def write(self, kind: str, content: bytes) -> str:
        """Write an object unless it lies here by itself; its id.

        Raises:
            FileStateError: the disk refused.
        """
        oid = self.name(kind, content)
        if not self.has(oid):
            head = f"{kind} {len(content)}\0".encode()
            try:
                self._store(oid, zlib.compress(head + content, _COMPRESSION))
            except OSError as error:
                raise FileStateError(f"an object cannot be written: {error.strerror}") from error
        return oid

    def _store(self, oid: str, data: bytes) -> None:
        folder = self._folder / oid[:2]
        try:
            folder.mkdir()
            folder.chmod(self._mode)  # who shares a repository by a group says so there
        except FileExistsError:
            pass
        # A process that dies here leaves what `git gc` removes by this name.
        draft = folder / f"tmp_obj_{secrets.token_hex(6)}"
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), _READABLE & self._mode)
                os.fsync(file.fileno())
            draft.replace(folder / oid[2:])
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise


def format_trees(entries: Mapping[bytes, FileEntry], objects: LooseObjects) -> dict[str, bytes]:
    """The trees of these files by id, as git has them; the last is the root.

    Args:
        entries: the files by path; no path is a folder of another.
        objects: what names them.
    """
    root: _Folder = {}
    for path, entry in entries.items():
        *folders, name = path.split(b"/")
        here = root
        for folder in folders:
            below = here.setdefault(folder, {})
            assert isinstance(below, dict), "a file and a folder of one name have no tree"
            here = below
        here[name] = entry
    found: dict[str, bytes] = {}
    _format(root, objects, found)
    return found


def _format(folder: _Folder, objects: LooseObjects, found: dict[str, bytes]) -> str:
    lines: list[tuple[bytes, bytes]] = []
    for name, one in folder.items():
        # Git compares the names of folders as if they ended with a slash.
        if isinstance(one, dict):
            mode, oid, order = _TREE, _format(one, objects, found), name + b"/"
        else:
            mode, oid, order = one.mode.encode(), one.oid, name
        lines.append((order, mode + b" " + name + b"\0" + bytes.fromhex(oid)))
    content = b"".join(line for _, line in sorted(lines))
    oid = objects.name("tree", content)
    found.pop(oid, None)  # the root stands last, also where it is like one below
    found[oid] = content
    return oid
