"""Which changed files do not parse any more: a commit of them would be one that does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from treadle.syntax.check import SIZE_MAX, Source, SyntaxFault, find_faults, find_language
from treadle.workspace.git import Repository
from treadle.workspace.status import StatusEntry

CHECKED_COUNT_MAX: Final = 50
"""Files that are looked at after a round; one that changes more is no slip in an edit."""


async def find_broken_files(
    repository: Repository, changes: Sequence[StatusEntry]
) -> dict[str, str]:
    """Why files should not be committed, by name: they do not parse, and HEAD's version does.

    Files that are new, or of a language that nobody here parses, are not among them.
    """
    checked = [one for one in changes if not one.is_untracked and find_language(one.path)]
    sources = await asyncio.to_thread(_read_all, repository, checked[:CHECKED_COUNT_MAX])
    faults = await _check(sources)
    broken = {name: fault for name, fault in faults.items() if fault is not None}
    before = {name: await _read_committed(repository, name) for name in broken}
    did_parse = await _check({name: data for name, data in before.items() if data})
    name_by_path = {change.path: change.name for change in checked}
    return {
        name_by_path[path]: _explain(broken[path])
        for path, fault in did_parse.items()
        if fault is None
    }


def _read_all(repository: Repository, changes: Sequence[StatusEntry]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for change in changes:
        path = repository.path_of(change)
        with suppress(OSError):  # usually: it was removed
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= SIZE_MAX:
                found[change.path] = path.read_bytes()
    return found


async def _read_committed(repository: Repository, path: str) -> bytes:
    """What HEAD has of a file; nothing if it has none, or too much."""
    ran = await repository.read("cat-file", "blob", f"HEAD:{path}", out_size_max=SIZE_MAX)
    return b"" if ran.status or ran.is_cut else ran.out


async def _check(sources: dict[str, bytes]) -> dict[str, SyntaxFault | None]:
    given = [Source(name, data) for name, data in sources.items()]
    faults = await asyncio.to_thread(find_faults, given)
    return dict(zip(sources, faults, strict=True))


def _explain(fault: SyntaxFault) -> str:
    where = f" at line {fault.line}" if fault.line else ""
    return f"(does not parse any more as {fault.language}{where}: waits until it does)"
