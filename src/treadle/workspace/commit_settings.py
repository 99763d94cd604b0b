"""What git's settings say of a commit: whose it is, and where its hooks are. One look for both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle import helper_programs
from treadle.workspace.git import Absent, Repository

_WANTED: Final = r"^(core\.hookspath|(user|author|committer)\.(name|email))$"
_NOTHING_FOUND: Final = 1
"""How `git config` ends where no such setting is."""


class CommitSettings(Struct, frozen=True):
    """Whether git knows whose a commit is, and the folder of hooks, which need not be there."""

    has_identity: bool
    hooks_folder: Path


async def read_commit_settings(repository: Repository) -> CommitSettings:
    """What holds for a commit now.

    Names and addresses that the settings or the environment give are believed without another
    question. Where one is missing or empty, git says itself whether it can do without.
    """
    layout = await repository.layout()
    ran = await repository.read("config", "-z", "--get-regexp", _WANTED)
    if isinstance(layout, Absent) or ran.status not in (0, _NOTHING_FOUND):
        return CommitSettings(await _is_known(repository), await find_hooks_folder(repository))
    found: dict[str, str] = {}
    for entry in ran.out.split(b"\0")[:-1]:
        key, _, value = os.fsdecode(entry).partition("\n")
        found[key.casefold()] = value  # the last one counts
    has_identity = _gives_identity(found, helper_programs.environment())
    folder = layout.common_dir / "hooks"
    if "core.hookspath" in found:
        folder = await find_hooks_folder(repository)
    return CommitSettings(has_identity or await _is_known(repository), folder)


async def find_hooks_folder(repository: Repository) -> Path:
    """Where the hooks are, if there are any."""
    ran = await repository.read("rev-parse", "--git-path", "hooks")
    return repository.folder / os.fsdecode(ran.out.rstrip(b"\n"))


def _gives_identity(settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether name and address of author and committer are given, and none of them is empty."""
    return all(
        (
            environment.get(f"GIT_{role}_{field}")
            or settings.get(f"{role}.{field}".lower())
            or settings.get(f"user.{field}".lower())
        )
        for role in ("AUTHOR", "COMMITTER")
        for field in ("NAME", "EMAIL")
    )


async def _is_known(repository: Repository) -> bool:
    known = await asyncio.gather(
        *(
            repository.read("-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT")
            for who in ("AUTHOR", "COMMITTER")
        )
    )
    return all(ran.status == 0 for ran in known)
