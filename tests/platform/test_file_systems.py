"""The type of a file system: of this machine's own, and of lists as each system writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from treadle.platform.file_systems import (
    choose_find_type,
    find_type,
    find_type_by_program,
    find_type_in_proc,
    parse_mount_list,
)
from treadle.process.command import read_listing

LINUX = """\
35 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw
36 35 98:0 / {folder}/on\\040net rw - nfs4 server:/x rw
37 36 98:1 / {folder}/on\\040net/local rw - xfs /dev/sdb rw
38 35 98:2 / {folder}/on rw - tmpfs tmpfs rw
garbage
"""
MAC = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
//ann@server/on%20net on {folder}/on net (smbfs, nodev, nosuid, mounted by ann)
/dev/disk4s1 on {folder}/on net/local (apfs, local, journaled)
map on of (x) on {folder}/on (autofs)
garbage
"""
PLACES = {
    # of a path: the type in the first list, and in the second
    "on net/a": ("nfs4", "smbfs"),
    "on net": ("nfs4", "smbfs"),
    "on net/local/a": ("xfs", "apfs"),
    "on network": ("ext4", "apfs"),
    "on": ("tmpfs", "autofs"),
}


def print_mounts(tmp_path: Path, text: str, code: int = 0) -> str:
    """A program that prints this, as `mount` does."""
    program = tmp_path / "mount"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
    program.chmod(0o700)
    return str(program)


def test_the_innermost_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(LINUX.format(folder=tmp_path))
    program = print_mounts(tmp_path, MAC.format(folder=tmp_path))
    found = {
        name: (
            find_type_in_proc(tmp_path / name, mounts),
            find_type_by_program(tmp_path / name, read_listing, program),
        )
        for name in PLACES
    }
    assert found == PLACES


def test_what_cannot_be_known_is_empty(tmp_path: Path) -> None:
    assert find_type_in_proc(tmp_path, tmp_path / "missing") == ""
    assert find_type_by_program(tmp_path, read_listing, str(tmp_path / "missing")) == ""
    assert find_type_by_program(tmp_path, read_listing, print_mounts(tmp_path, MAC, code=1)) == ""
    assert list(parse_mount_list("x on y (apfs)\n\n on\n(apfs)")) == []


def test_each_system_has_its_own_way(tmp_path: Path) -> None:
    program = print_mounts(tmp_path, MAC.format(folder=tmp_path))
    assert choose_find_type("linux", read_listing) is find_type_in_proc
    on_a_mac = choose_find_type("darwin", lambda _: read_listing([program]))
    assert on_a_mac(tmp_path / "on net") == "smbfs"
    said = subprocess.run(
        ["stat", "--file-system", "--format=%T", "/proc"], capture_output=True, text=True
    ).stdout.strip()
    assert find_type(Path("/proc"), read_listing) == said == "proc"
