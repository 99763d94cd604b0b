"""What a process and the gits that it starts did to their files, played again on the model disk.

What git writes into files that `fopen` opened (the message of a commit) is not in the trace.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from lab.model_disk import ModelDisk


class Named(Struct, frozen=True):
    """A commit that a record speaks of; `ref` keeps it, unless a branch does."""

    commit: str
    ref: str = ""


class GitReplay:
    """A trace, as the disks that a power cut may leave.

    Args:
        trace: what the shim wrote to `CRASH_TRACE`.
        folders: what is looked at; what they hold at the beginning is durable.
    """

    def __init__(self, trace: bytes, folders: list[Path]) -> None:
        self._trace = trace
        self._folders = [str(folder) for folder in folders]
        self._disk = ModelDisk()
        self._handles: dict[str, int] = {}
        for folder in folders:
            self._disk.make_folder(str(folder))
            for above, names, files in os.walk(folder):
                for name in names:
                    self._disk.make_folder(f"{above}/{name}")
                for name in files:
                    handle = self._disk.create(f"{above}/{name}")
                    self._disk.write(handle, Path(above, name).read_bytes())
                    self._disk.sync(handle)
                self._disk.sync_folder(above)

    def disks(self) -> Iterator[tuple[str, ModelDisk]]:
        """After each call, what it was and the disk as it was then; to be looked at at once."""
        trace = self._trace
        while trace:
            line, _, trace = trace.partition(b"\n")
            kind, path, to, size = os.fsdecode(line).split("\t")
            length = int(size) if kind == "w" else 0
            data, trace = trace[:length], trace[length:]
            if f"{path}/".startswith(tuple(f"{folder}/" for folder in self._folders)):
                self._take(kind, path, to, data, int(size))
                yield f"{kind} {path}", self._disk

    def _take(self, kind: str, path: str, to: str, data: bytes, size: int) -> None:
        disk, is_there = self._disk, self._disk.stat(path) is not None
        if kind == "m":
            disk.mkdir(path)
        elif kind == "c":
            self._handles[path] = disk.create(path)
        elif kind == "o" and to:
            disk.truncate(disk.open_append(path), 0)
        elif kind == "d":
            disk.sync_folder(path)
        elif not is_there:
            return  # made by a call that is not traced
        elif kind == "w":
            disk.write(disk.open_append(path), data, int(to))
        elif kind == "s":
            disk.sync(disk.open_append(path))
        elif kind == "t":
            disk.truncate(disk.open_append(path), size)
        elif kind == "u":
            disk.unlink(path)
        elif kind == "l":
            disk.link(path, to)
        elif kind == "r":
            disk.rename(path, to)


def is_in_round(disk: ModelDisk) -> bool:
    """Whether the last record of a journal is about calls, whose own gits may be unsynced yet."""
    journals = [data for path, data in disk.files().items() if path.endswith(".jsonl")]
    return any(b'"type":"tool_' in data[:-1].rpartition(b"\n")[2] for data in journals)


def named_commits(disk: ModelDisk) -> list[Named]:
    """The commits that the journals on a disk say there are."""
    found = []
    for path, data in disk.files().items():
        if not path.endswith(".jsonl") or "/threads/" not in path:
            continue
        for line in data.split(b"\n")[:-1]:
            try:
                event = json.loads(line)["event"]
            except ValueError:
                break
            if event["type"] == "files_saved":
                found.append(Named(event["commit"], f"refs/treadle/{Path(path).stem}"))
            elif event.get("commit"):
                found.append(Named(event["commit"]))
    return found


def put(files: Mapping[str, bytes], source: Path, target: Path) -> None:
    """Lay a folder of the model into a real one that is like it, in place of what is there."""
    shutil.rmtree(target)
    for name in ("refs", "objects"):
        Path(target, name).mkdir(parents=True)
    for path, data in files.items():
        if path.startswith(f"{source}/"):
            place = target / Path(path).relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def check_history(work: Path) -> list[str]:
    """Whether git reads all that HEAD leads to."""
    return _ask(work, [("rev-list", "--objects", "--verify-objects", "HEAD")])


def check_repository(work: Path, named: list[Named]) -> list[str]:
    """Whether git can work there, reads all that the records name, and has it where they say."""
    # What nothing leads to is nobody's promise: the agent's own git left it.
    asked: list[tuple[str, ...]] = [("status",), ("fsck", "--connectivity-only", "--no-dangling")]
    commits = [one.commit for one in named]
    asked.append(("rev-list", "--objects", "--verify-objects", "--all", "HEAD", *commits))
    asked += [("merge-base", "--is-ancestor", one.commit, one.ref or "HEAD") for one in named]
    return _ask(work, asked)


def _ask(work: Path, asked: list[tuple[str, ...]]) -> list[str]:
    found = []
    for command in asked:
        done = subprocess.run(("git", *command), cwd=work, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().partition("\n")[0]
            found.append(f"git {' '.join(command[:2])}: {said or done.returncode}")
    return found
