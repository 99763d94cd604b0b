"""What must never be kept, or must be kept again: secrets, and what a scrub has removed."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from treadle.thread.facts import FilesSaved
from treadle.workspace.files.objects import Objects
from treadle.workspace.files.states import FileStates
from treadle.workspace.git import Repository
from workspace.files.messy import put
from workspace.repo import Repo

ID = "T-01890a5d-ac96-774b-bcce-b302099a8057"


def states_of(repo: Repo) -> FileStates:
    return FileStates(repo.path, ID)


def without_it(content: bytes) -> bytes:
    return content.replace(b"hunter2", b"x")


async def saved(states: FileStates) -> FilesSaved:
    made = await states.save("before", None)
    assert made is not None, states.problem
    return made


async def test_contents_that_a_scrub_of_another_thread_removed_are_kept_again(repo: Repo) -> None:
    """What a look remembers may have gone since: a state that lacks it would break `git gc`."""
    other, states = FileStates(repo.path, "T-other"), states_of(repo)
    repo.write("k.txt", "hunter2\n")
    theirs = await saved(other)
    await states.capture()
    while b"k.txt" not in states._camera._read:  # until it is older than the clock's tick
        await states.capture()
    done = await other.rewrite([theirs.commit], without_it)
    assert await other.purge(done) == {}
    made = await saved(states)
    assert repo.git("show", f"{made.commit}:k.txt") == "hunter2"
    repo.git("fsck", "--strict", "--no-dangling")
    repo.git("gc", "--prune=now", "--quiet")


class Watched(Objects):
    """Notes what was done while this repository was locked, and what while it was not."""

    seen: dict[str, bool]

    async def _watch(self, name: str) -> None:
        folder = os.open((await self.layout()).common_dir, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.seen[name] = False
        except BlockingIOError:
            self.seen[name] = True
        finally:
            os.close(folder)

    async def out(self, *arguments: str, **more: Any) -> bytes:
        await self._watch(arguments[0])
        return await super().out(*arguments, **more)

    async def write_tree(self, *arguments: Any) -> str:
        await self._watch("tree")
        return await super().write_tree(*arguments)

    async def commit(self, *arguments: Any) -> str:
        await self._watch("commit")
        return await super().commit(*arguments)


async def test_states_are_recorded_and_objects_removed_one_after_the_other(repo: Repo) -> None:
    states = states_of(repo)
    states._objects = watched = Watched(Repository(repo.path))
    watched.seen = {}
    repo.write("k.txt", "hunter2\n")
    made = await saved(states)
    assert watched.seen.pop("tree")
    assert watched.seen.pop("commit")
    assert await states.purge(await states.rewrite([made.commit], without_it)) == {}
    assert watched.seen["prune"]


async def test_a_new_file_with_a_known_secret_is_not_kept_and_is_named(repo: Repo) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2", "[REDACTED:key]")

    repo.write("tracked.txt", "hunter2 is in git anyway\n")
    repo.git("add", "tracked.txt")
    os.utime(repo.path / "tracked.txt")
    put(repo.path, b"k", b"\xff key = hunter2\n")
    (repo.path / "l").symlink_to("hunter2")
    repo.write("fine.txt", "fine\n")
    states = FileStates(repo.path, ID, redact=redact)
    for _ in range(2):
        made = await states.save("before", None)
        assert made is not None
        assert made.skipped == ("k", "l")
        entries = await states.entries(made.commit)
        assert [path for path, one in entries.items() if not one.is_kept] == [b"k", b"l"]
        assert entries[b"tracked.txt"].is_kept
        assert entries[b"fine.txt"].is_kept
    blob = repo.git("hash-object", "--no-filters", "k")
    assert not (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).exists()
    repo.write("k", "no more\n")
    again = await states.save("before", made)
    assert again is not None
    assert again.skipped == ("l",)
