"""A look takes the index for what it is, also where somebody changes it meanwhile."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from treadle.workspace.files import git_index
from treadle.workspace.files.capture import Camera
from treadle.workspace.files.objects import Objects
from treadle.workspace.git import Repository
from treadle.workspace.status import Status
from workspace.repo import Repo


class AddsBetween(Objects):
    """Somebody adds a file when the index is listed, and what is not in it is not yet."""

    repo: Repo
    listed: asyncio.Event
    is_added = False

    async def out(self, *arguments: str, **more: Any) -> bytes:
        if "--others" in arguments and not self.is_added:
            await self.listed.wait()
            self.is_added = True
            await asyncio.to_thread(self.repo.git, "add", "mine.txt")
        said = await super().out(*arguments, **more)
        if "--stage" in arguments:
            self.listed.set()
        return said


async def test_a_file_that_goes_from_one_list_to_the_other_is_in_the_state(repo: Repo) -> None:
    objects = AddsBetween(Repository(repo.path))
    objects.repo, objects.listed = repo, asyncio.Event()
    repo.write("mine.txt", "mine\n")
    assert b"mine.txt" in (await Camera(objects).capture()).entries


async def test_what_git_has_said_is_not_taken_for_another_index(repo: Repo) -> None:
    repository = Repository(repo.path)
    repo.write("mine.txt", "mine\n")
    repo.git("add", "mine.txt")
    status = await repository.status()
    assert isinstance(status, Status)
    repository.keep_status(status)
    assert repository.take_status() is status
    repository.keep_status(status)
    repo.git("reset", "--quiet")
    assert repository.take_status() is None  # it does not name the file, nor does the index now


async def test_a_later_index_does_not_vouch_for_what_an_earlier_one_could_not(repo: Repo) -> None:
    """A file of the same moment as the index may have been written again since, as long as it is.

    Any git that refreshes the index then writes a later one.
    """
    objects = Objects(Repository(repo.path))
    index, found = repo.path / ".git/index", (repo.path / "a.py").lstat()
    repo.git("update-index", "--refresh", is_ok=False)
    os.utime(index, ns=(found.st_mtime_ns, found.st_mtime_ns))
    known = git_index.GitIndex(objects)
    await known.list_files(await objects.layout())
    os.utime(index, ns=(found.st_mtime_ns + 10**9, found.st_mtime_ns + 10**9))
    seen = found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
    files = {b"a.py": git_index.DiskFile("100644", found.st_size, seen)}
    assert await known.find_same(files) == {}
    await known.list_files(await objects.layout())
    assert files.keys() == (await known.find_same(files)).keys()
