"""A repository with everything in it that people have, and eyes for all that must not change."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from workspace.repo import Repo

ODD_NAMES: Final = (
    b"a b.txt",
    b"line\nbreak.txt",
    b"\xff\xfe.bin",
    "grüße.txt".encode(),
    b'q"\\.t',
)

TRACKED: Final = {
    b"clean.txt": b"clean\n",
    b"dirty.txt": b"old\n",
    b"staged.txt": b"old\n",
    b"both.txt": b"old\n",
    b"gone.txt": b"old\n",
    b"removed.txt": b"old\n",
    b"binary.bin": bytes(range(256)) * 3,
    b"crlf.txt": b"one\r\ntwo\r\n",
    b"mixed.txt": b"one\r\ntwo\nthree\r\n",
    b"eol.dos": b"one\ntwo\n",
    b"ident.id": b"$Id$\n",
    b"smudged.up": b"text\n",
    b"tool.sh": b"#!/bin/sh\n",
    b"sub/deep/file.txt": b"deep\n",
    b".gitattributes": b"*.dos text eol=crlf\n*.id ident\n*.up filter=up\n",
    b".gitignore": b"*.log\n/ignored/\n",
}


def make_messy(path: Path, *options: str, autocrlf: str = "false") -> Repo:
    """The repository; `options` go to `git init`."""
    repo = Repo(path)
    repo.git("init", *options)
    repo.git("config", "core.autocrlf", autocrlf)
    for name, content in TRACKED.items():
        put(path, name, content)
    for name in ODD_NAMES:
        put(path, name, b"odd\n")
    (path / "tool.sh").chmod(0o755)
    (path / "link").symlink_to("clean.txt")
    (path / "dangling").symlink_to(os.fsdecode(b"no\nwhere \xff"))
    repo.git("-c", "core.safecrlf=false", "add", "--all")
    repo.git("commit", "-m", "chore: begin")
    repo.git("checkout", "-f", "HEAD", "--", "eol.dos", "ident.id")
    put(path, b"stashed.txt", b"for later\n")
    repo.git("stash", "push", "--include-untracked")
    _make_dirty(repo)
    return repo


def _make_dirty(repo: Repo) -> None:
    path = repo.path
    put(path, b"dirty.txt", b"dirty\n")
    put(path, b"staged.txt", b"staged\n")
    put(path, b"both.txt", b"staged\n")
    put(path, b"new-staged.txt", b"new\n")
    repo.git("-c", "core.safecrlf=false", "add", "staged.txt", "both.txt", "new-staged.txt")
    put(path, b"both.txt", b"staged and dirty\r\n")
    repo.remove("gone.txt")
    repo.git("rm", "--quiet", "removed.txt")
    put(path, b"untracked.txt", b"untracked\r\n\n\r")
    put(path, b"some/where/untracked.txt", b"here\n")
    put(path, b"run.log", b"ignored\n")
    put(path, b"ignored/deep.txt", b"ignored too\n")
    put(path, b"private.txt", b"mine alone\n")
    (path / "private.txt").chmod(0o600)
    nested = Repo(repo.path / "nested")
    nested.git("init")
    nested.write("inner.txt", "inner\n")
    nested.git("add", ".")
    nested.git("commit", "-m", "inner")


def at(top: Path, name: bytes) -> Path:
    """The place of a file of any name."""
    return top / os.fsdecode(name)


def put(top: Path, name: bytes, content: bytes) -> None:
    """Write a file of any name."""
    place = at(top, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def world(path: Path, *, with_times: bool = False) -> dict[bytes, object]:
    """Everything in the work tree, byte for byte, the repositories' own folders left out."""
    found: dict[bytes, object] = {}
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*names, *links):
            place = Path(folder, name)
            info = place.lstat()
            is_link = stat.S_ISLNK(info.st_mode)
            is_file = stat.S_ISREG(info.st_mode)
            content = os.fsencode(place.readlink()) if is_link else b""
            content = place.read_bytes() if is_file else content
            times = (info.st_mtime_ns, info.st_ino) if with_times else ()
            found[os.fsencode(place.relative_to(path))] = (info.st_mode, content, *times)
        found[os.fsencode(Path(folder).relative_to(path)) + b"/"] = None
    found.pop(b".git", None)
    return found


def files(path: Path) -> dict[bytes, object]:
    """The same without folders: git knows none that are empty."""
    return {name: found for name, found in world(path).items() if found is not None}


def own(path: Path) -> dict[str, bytes]:
    """What a person has in `.git`: all but objects and private refs."""
    top = path / ".git"
    return {
        name: place.read_bytes()
        for place in sorted(top.rglob("*"))
        if place.is_file()
        and not (name := place.relative_to(top).as_posix()).startswith(("objects/", "refs/treadle"))
    }


def _flip(place: Path) -> None:
    if not place.is_symlink():
        place.chmod(place.lstat().st_mode ^ 0o111)


def _edit(place: Path) -> None:
    if place.is_symlink():
        place.unlink()
        place.symlink_to("elsewhere")
    else:
        with place.open("ab") as file:
            file.write(b"agent\r\n")


def _to_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("clean.txt")


def _to_folder(place: Path) -> None:
    place.unlink()
    place.mkdir()
    (place / "inside").write_text("inside\n")


def _to_nothing(place: Path) -> None:
    """The file, and the folder around it if nothing else is there."""
    place.unlink()
    if not list(place.parent.iterdir()):
        place.parent.rmdir()


ACTIONS: Final[dict[str, Callable[[Path], None]]] = {
    "edit": _edit,
    "delete": Path.unlink,
    "delete with folder": _to_nothing,
    "flip the right to run": _flip,
    "make a link of": _to_link,
    "make a folder of": _to_folder,
}
"""What may happen to a file."""
