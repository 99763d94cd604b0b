"""What a command has changed is put back, and never through what it has put in the way."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from treadle.sandbox.protected import find_protected
from treadle.sandbox.put_back import COPY_SIZE_MAX, Copies, undo


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace with a repository and settings, and a folder outside that has the same names."""
    for top in ("ws/.git", "outside"):
        (tmp_path / top / "hooks").mkdir(parents=True)
        (tmp_path / top / "config").write_text(f"[of {top}]\n")
        (tmp_path / top / "hooks/pre-commit").write_text("#!/bin/sh\n")
    (tmp_path / "ws/.git/hooks/pre-commit").chmod(0o755)
    (tmp_path / "ws/.git/hooks/linked").symlink_to("pre-commit")
    (tmp_path / "ws/.treadle").mkdir()
    (tmp_path / "ws/.treadle/config.toml").write_text("ours\n")
    return tmp_path / "ws"


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """All below a folder but what was put aside: kinds, modes, contents; links by their target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".put-aside" not in str(path):
            mode = path.lstat().st_mode
            text = str(path.readlink()) if path.is_symlink() else ""
            found[str(path)] = (mode, path.read_text() if stat.S_ISREG(mode) else text)
    return found


CHANGES = {
    "a link for the folder": "mv .git ../moved; ln -s ../outside .git",
    "a link for the hooks": "mv .git/hooks ../moved; ln -s ../../outside/hooks .git/hooks",
    "a link for a file": "mv .git/config ../moved; ln -s ../../outside/config .git/config",
    "a link for our settings": "mv .treadle ../moved; ln -s ../outside .treadle",
    "a file for the folder": "mv .git ../moved; echo gitdir: g > .git",
    "a file for the hooks": "mv .git/hooks ../moved; echo x > .git/hooks",
    "a folder for a file": "rm .git/config; mkdir -p .git/config/x",
    "other words": "echo '[evil]' > .git/config",
    "another mode": "chmod 600 .git/hooks/pre-commit",
    "another link": "ln -sf /bin/sh .git/hooks/linked",
    "a hook more": "echo evil > .git/hooks/post-commit",
    "nothing left": "mv .git ../moved",
}


@pytest.mark.parametrize("change", CHANGES)
def test_everything_is_as_it_was_and_nothing_outside_has_changed(ws: Path, change: str) -> None:
    watched = (ws / ".git", ws / ".treadle", ws.parent / "outside")
    before = [tree(folder) for folder in watched]
    copies = Copies(find_protected([str(ws)]).shut)
    subprocess.run(CHANGES[change], shell=True, cwd=ws, check=True)
    assert [tree(folder) for folder in watched] != before
    assert copies.restore()
    assert [tree(folder) for folder in watched] == before
    assert not any(path.is_symlink() for path in (ws / ".git", ws / ".git/hooks", ws / ".treadle"))


def test_what_was_put_aside_is_in_nobodys_way_however_large_it_is(ws: Path) -> None:
    """Beneath a folder that is kept, it would be more than can be kept."""
    protected = find_protected([str(ws)]).shut
    copies = Copies(protected)
    for name in ("new", "pre-commit"):
        with (ws / ".git/hooks" / name).open("wb") as file:
            file.truncate(COPY_SIZE_MAX + 1)
    assert len(copies.restore()) == 2
    assert len(list((ws / ".git/hooks").glob("*.put-aside"))) == 2
    assert Copies(protected).restore() == []


def test_what_may_not_be_is_put_aside_where_it_stands_and_nowhere_else(ws: Path) -> None:
    outside = ws.parent / "outside/commondir"
    outside.write_text("theirs")
    subprocess.run(CHANGES["a link for the folder"], shell=True, cwd=ws, check=True)
    assert undo([str(ws / ".git/commondir")]) == [str(ws / ".git")]
    assert outside.read_text() == "theirs"
    (ws / "commondir").write_text("evil")
    assert undo([str(ws / "commondir"), str(ws / "none")]) == [str(ws / "commondir")]
    assert not os.path.lexists(ws / "commondir")
