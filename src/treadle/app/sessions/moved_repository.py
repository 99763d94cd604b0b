"""Whether a folder has the repository that a thread works in, which lay elsewhere before."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from treadle.thread.facts import GitObserved
from treadle.workspace.git import Repository


def has_same_remote(folder: str, remote: str | None) -> bool:
    """Whether a folder is in a repository with this remote, as `GitFields` has it; asks git.

    May be called where an event loop runs, which waits meanwhile.
    """
    if not remote:
        return False
    with ThreadPoolExecutor(1) as beside:
        seen = beside.submit(lambda: asyncio.run(Repository(folder).observe())).result()
    return isinstance(seen, GitObserved) and seen.remote == remote
