"""Commits that a thread recorded and that git cannot read any more: what a power cut breaks.

A commit of ours is durable before it is recorded. One that the person's own git made just before,
or an older version of this program, is not: its objects are empty then, and `git status` fails.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.workspace.files.entries import parse_changes
from treadle.workspace.git import Absent, Repository

LOOK_BACK_COUNT_MAX: Final = 50
"""Recorded commits that are tried, newest first, for one that can be read."""


class UnreadableCommit(Struct, frozen=True):
    """A commit that git cannot read, why, and the last recorded one that it can.

    `is_head` says that it is what HEAD names; `readable` is empty if there is none.
    """

    root: Path
    objects: Path
    commit: str
    why: str
    readable: str
    is_head: bool

    @property
    def text(self) -> str:
        """One line for people."""
        return f"git cannot read commit {self.commit[:7]} in {self.root}: {self.why}"

    @property
    def advice(self) -> str:
        """What to do about it."""
        git = f"git -C {shlex.quote(str(self.root))}"
        objects = shlex.quote(str(self.objects))
        if not self.is_head:
            return f"`{git} fsck` names what is broken; a copy of the repository may have it"
        if not self.readable:
            return f"`{git} fsck` names what is broken; fetch it from a copy of the repository"
        return (
            f"`find {objects} -type f -empty -delete && {git} update-ref HEAD "
            f"{self.readable} && {git} read-tree HEAD` goes back to the last commit that can be "
            "read and leaves the files as they are; then commit them again"
        )


async def find_unreadable(folder: str | Path, commits: Sequence[str]) -> UnreadableCommit | None:
    """What is broken of the commits a thread has seen; `None` where nothing is, or no repository.

    Only HEAD and the last one that is still kept are looked at: a commit that the person has
    replaced, and git has collected, is not missed.

    Args:
        folder: the workspace.
        commits: whole object ids, oldest first.
    """
    repository = Repository(folder)
    layout = await repository.layout()
    if isinstance(layout, Absent) or not commits:
        return None
    # The name alone, which git takes from the ref without reading what it names.
    ran = await repository.read("rev-parse", "--verify", "--quiet", "HEAD")
    head = ran.out.decode("ascii", "replace").strip()
    objects = layout.common_dir / "objects"
    newest = commits[-1]
    is_loose = (objects / newest[:2] / newest[2:]).is_file()
    asked = [*([head] if head in commits else []), *([newest] if is_loose else [])]
    for commit in dict.fromkeys(asked):
        if why := await _why_unreadable(repository, commit):
            for other in reversed(commits[-LOOK_BACK_COUNT_MAX:]):
                if other != commit and not await _why_unreadable(repository, other):
                    return UnreadableCommit(
                        layout.root, objects, commit, why, other, commit == head
                    )
            return UnreadableCommit(layout.root, objects, commit, why, "", commit == head)
    return None


async def _why_unreadable(repository: Repository, commit: str) -> str:
    """Why git cannot read what a commit has brought; empty if it can."""
    what = ("diff-tree", "-r", "-t", "-z", "--root", "--no-commit-id", "--raw", "--no-abbrev")
    ran = await repository.read(*what, "--no-renames", commit, "--", out_size_max=16 * 1024**2)
    if ran.status != 0:
        said = ran.err.decode("utf-8", "replace").strip().splitlines() or ["it is not there"]
        return said[0].removeprefix("error: ").removeprefix("fatal: ")
    brought = (one.new for one in parse_changes(ran.out))
    oids = [one.oid for one in brought if one is not None and one.mode != "160000"]
    data = "".join(f"{oid}\n" for oid in oids).encode()
    ran = await repository.read("cat-file", "--batch-check", data=data, out_size_max=16 * 1024**2)
    missing = [line for line in ran.out.decode().splitlines() if line.endswith(" missing")]
    return f"object {missing[0].split()[0]} is empty, damaged or missing" if missing else ""
