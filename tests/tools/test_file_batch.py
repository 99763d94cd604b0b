"""Several files replaced: all or none, whoever refuses, writes besides, or dies."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.test_apply_patch import Files, files_of, make, patch
from treadle.tools.file_batch import FileRewrite, rewrite_all
from treadle.tools.paths import Root

THREE: Files = {"a": "a\n", "b": "b\n", "d/c": "c\n"}
CHANGES = [
    FileRewrite("a", b"a\n", b"A\n"),
    FileRewrite("b", b"b\n", None),
    FileRewrite("d/c", b"c\n", b"C\n"),
    FileRewrite("e/n", None, b"new\n"),
]


def count_steps(monkeypatch: pytest.MonkeyPatch, fail: Callable[[int], None]) -> None:
    """Calls `fail` with a number before each step that changes a name."""
    steps = iter(range(1000))
    for name in ("rename", "unlink", "fsync"):
        real = getattr(os, name)

        def step(*args: Any, real: Any = real, **more: Any) -> None:
            if not str(args[0]).endswith(".treadle-tmp") or real.__name__ == "rename":
                fail(next(steps))
            real(*args, **more)

        monkeypatch.setattr(os, name, step)


@pytest.mark.parametrize("at", range(9))
def test_a_disk_that_refuses_leaves_all_files_as_they_were(tmp_path: Path, at: int) -> None:
    folder = make(tmp_path / "ws", THREE)
    (folder / "a").chmod(0o751)
    refused: list[int] = []

    def refuse(step: int) -> None:
        if step == at:
            refused.append(step)
            raise OSError(errno.EIO, "Input/output error")

    with pytest.MonkeyPatch.context() as patches:
        count_steps(patches, refuse)
        try:
            rewrite_all(Root(folder), lambda read: CHANGES)
        except Exception as failure:  # noqa: BLE001  of what kind is said below
            message = getattr(failure, "message", repr(failure))
            assert "Input/output error" in message
            assert "could not be put back" not in message
            assert files_of(folder) == THREE
            assert refused
        else:
            assert files_of(folder) == {"a": "A\n", "d/c": "C\n", "e/n": "new\n"}
            assert not refused
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o751
    assert not [*folder.rglob("*.treadle-tmp")]


def test_a_process_that_dies_leaves_each_file_old_or_new(tmp_path: Path) -> None:
    after: Files = {"a": "A\n", "b": None, "d/c": "C\n", "e/n": "new\n"}
    seen = set()
    for at in range(12):
        folder = make(tmp_path / str(at), THREE)
        if not (child := os.fork()):
            with pytest.MonkeyPatch.context() as patches:
                count_steps(patches, lambda step, at=at: os._exit(9) if step == at else None)
                rewrite_all(Root(folder), lambda read: CHANGES)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        there = files_of(folder)
        for name, new in after.items():
            assert there.get(name) in (THREE.get(name), new), (at, name)
        seen.add(
            (
                os.waitstatus_to_exitcode(status),
                sum(there.get(n) == new for n, new in after.items()),
            )
        )
    assert {new for code, new in seen if code == 9} == {0, 1, 2, 3, 4}, "one died at each place"
    assert (0, 4) in seen


def test_a_process_that_dies_leaves_a_moved_file_under_a_name(tmp_path: Path) -> None:
    def list_moved(read: object) -> list[FileRewrite]:
        return [FileRewrite("a", b"a\n", None), FileRewrite("d/new", None, b"A\n", "a")]

    seen = set()
    for at in range(8):
        folder = make(tmp_path / str(at), THREE)
        if not (child := os.fork()):
            with pytest.MonkeyPatch.context() as patches:
                count_steps(patches, lambda step, at=at: os._exit(9) if step == at else None)
                rewrite_all(Root(folder), list_moved)
            os._exit(0)
        os.waitpid(child, 0)
        found = files_of(folder)
        seen.add((found.get("a"), found.get("d/new")))
    assert seen == {("a\n", None), ("a\n", "A\n"), (None, "A\n")}


def test_two_names_of_one_file_do_not_lose_it(tmp_path: Path) -> None:
    # As with `a` and `A`, where the disk takes them for one name.
    folder = make(tmp_path / "ws", {"a": "a\n"})
    rewrite_all(
        Root(folder),
        lambda read: [FileRewrite("./a", b"a\n", None), FileRewrite("a", b"a\n", b"A\n", "./a")],
    )
    assert files_of(folder) == {"a": "A\n"}


def test_somebody_who_writes_meanwhile_keeps_what_they_wrote(tmp_path: Path) -> None:
    folder = make(tmp_path / "ws", THREE)

    def plan(read: object) -> list[FileRewrite]:
        (folder / "d/c").write_text("theirs\n")
        return CHANGES

    with pytest.raises(Exception, match="was changed by somebody else meanwhile"):
        rewrite_all(Root(folder), plan)
    assert files_of(folder) == {**THREE, "d/c": "theirs\n"}


def test_a_moved_file_keeps_its_mode(tmp_path: Path) -> None:
    folder = make(tmp_path / "ws", {"run.sh": "echo 1\n"})
    (folder / "run.sh").chmod(0o755)
    patch(folder, "*** Update File: run.sh", "*** Move to: bin/run.sh", "@@", "-echo 1", "+echo 2")
    assert stat.S_IMODE((folder / "bin/run.sh").stat().st_mode) == 0o755
