"""Folders that last as long as a `with`, with processes that are really killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WORKS = """
import sys
from pathlib import Path
from treadle.scratch_folders import scratch_folder
with scratch_folder() as folder:
    Path(folder, "inner", "shut").mkdir(parents=True)
    Path(folder, "inner", "shut", "file").write_text("x")
    Path(folder, "inner", "link").symlink_to(sys.argv[1])
    Path(folder, "inner", "shut").chmod(0)
    print(folder, flush=True)
    sys.stdin.read()
"""


def start(place: Path, outside: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that works in a folder until its input ends, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS, str(outside)],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    place, outside = tmp_path / "tmp", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("x")
    killed, left = start(place, outside)
    living, used = start(place, outside)
    killed.kill()
    killed.communicate()
    assert left.is_dir()
    others = [place / name for name in ("treadle-scratch-notes", "treadle-demo-abcdefgh")]
    for folder in others:
        folder.mkdir()
    link, file = place / "treadle-scratch-aaaaaaaa", place / "treadle-scratch-bbbbbbbb"
    link.symlink_to(outside)
    file.write_text("x")
    foreign = place / "treadle-scratch-cccccccc"
    if os.geteuid() == 0:
        foreign.mkdir()
        os.chown(foreign, 65534, 65534)
        others.append(foreign)
    last, fresh = start(place, outside)
    assert not left.exists()
    kept = [used, fresh, link, file, *others, outside / "kept"]
    assert [path for path in kept if not path.exists()] == []
    for process, folder in ((living, used), (last, fresh)):
        process.communicate()
        assert not folder.exists()
    assert (outside / "kept").exists()


TAKEN = """
import os, sys, warnings
from treadle.scratch_folders import PREFIX, scratch_folder
warnings.simplefilter("error")
taken = []

def take(event, arguments):
    entries = os.scandir(os.environ["TMPDIR"])
    made = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    if event == sys.argv[1] and made and not taken:
        taken.extend(made)
        os.rmdir(made[0])

with scratch_folder():  # the folders that others left are looked for, once
    pass
sys.addaudithook(lambda event, arguments: take(event, arguments) if event == sys.argv[1] else None)
with scratch_folder() as folder:
    print(folder in taken, len(taken), os.path.isdir(folder))
"""


def test_a_folder_that_another_process_takes_for_a_left_one_is_made_again(tmp_path: Path) -> None:
    """It looks for unlocked ones, and a new one is unlocked for a moment."""
    for moment in ("open", "fcntl.flock"):
        done = subprocess.run(
            [sys.executable, "-c", TAKEN, moment],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (done.stdout, done.stderr) == ("False 1 True\n", ""), moment
        assert not list(tmp_path.iterdir())
