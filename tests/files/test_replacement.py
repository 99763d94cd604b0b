"""A file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.files.replacement import replace_file

DRAFT = ".draft"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_it_is_made_or_replaced_and_its_permissions_are_what_is_asked(
    place: int, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        made = replace_file(place, "a", b"one", draft=DRAFT)
    finally:
        os.umask(before)
    assert (stat.S_IMODE(made.st_mode), made.st_size) == (0o644, 3)
    replace_file(place, b"a", b"two", draft=b".d", prepare=lambda file: os.fchmod(file, 0o600))
    assert (tmp_path / "a").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_the_last_check_raises_leaves_the_file_and_no_draft(
    place: int, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def refuse() -> None:
        assert (tmp_path / DRAFT).read_bytes() == b"new"
        raise RuntimeError("changed meanwhile")

    with pytest.raises(RuntimeError, match="changed meanwhile"):
        replace_file(place, "a", b"new", draft=DRAFT, check=refuse)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_draft_is_no_way_into_another_file(place: int, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / DRAFT).symlink_to("victim")
    replace_file(place, "a", b"new", draft=DRAFT)
    assert (tmp_path / "victim").read_bytes() == b"mine"
    assert not (tmp_path / "a").is_symlink()


def test_a_process_killed_before_the_rename_leaves_the_old_file_and_the_next_one_cleans_up(
    place: int, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    child = os.fork()
    if not child:
        replace_file(
            place, "a", b"new", draft=DRAFT, check=lambda: os.kill(os.getpid(), signal.SIGKILL)
        )
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "a").read_bytes() == b"old"
    assert (tmp_path / DRAFT).exists()
    replace_file(place, "a", b"newer", draft=DRAFT)
    assert (tmp_path / "a").read_bytes() == b"newer"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
