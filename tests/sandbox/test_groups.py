"""A group ends with all that is in it, and those of programs that are gone are swept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from treadle.sandbox import groups
from treadle.sandbox.groups import JOIN, make_group, remove_group, sweep


@pytest.fixture
def group() -> str:
    made = make_group(20)
    if made is None:
        pytest.skip("no control group can be made here")
    return made


def test_a_group_ends_with_its_members_and_they_are_not_more_than_it_lets_be(group: str) -> None:
    command = "for i in $(seq 40); do sleep 60 & done; echo told; wait"
    with subprocess.Popen(
        [*JOIN, group, "bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        assert started.stdout is not None
        assert "fork" in started.stdout.readline()
        count = len(Path(group, "cgroup.procs").read_text().split())
        assert 2 < count <= 20
        remove_group(group)
        assert started.wait(60) == -9
    assert not Path(group).exists()
    remove_group(group)


def test_a_folder_that_is_not_of_the_kernel_is_no_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_ABOVE", (str(tmp_path),))
    assert make_group(20) is None
    assert list(tmp_path.iterdir()) == []


def test_only_empty_old_groups_of_programs_that_are_gone_are_swept(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    swept = tmp_path / f"treadle-{gone.pid}-00000000"
    kept = [
        tmp_path / f"treadle-{os.getpid()}-00000000",
        tmp_path / f"treadle-{gone.pid}-other",
        tmp_path / f"{gone.pid}",
        tmp_path / f"treadle-{gone.pid}-00000001/member",
    ]
    for path in (swept, *kept):
        path.mkdir(parents=True)
    sweep(str(tmp_path))
    assert swept.exists()  # it is too young
    sweep(str(tmp_path), fresh_s=-1)
    assert not swept.exists()
    assert all(path.exists() for path in kept)
    sweep(str(tmp_path / "none"))
