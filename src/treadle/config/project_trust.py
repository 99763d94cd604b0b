"""What of a repository its user trusts: its settings, its skills, its slash commands.

A repository is written by others. What would be used without being asked for counts only after its
user has looked at it and said so. The hash of what was looked at is kept, so that a changed file is
looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.config.project_file import (
    FILE_SIZE_MAX,
    SERVERS_NAME,
    ProjectFile,
    find_project_root,
)
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.paths import Places
from treadle.workspace.prompt_files.discovery import PromptFile

TRUST_FILE_NAME: Final = "trusted.json"

TrustState: TypeAlias = Literal["trusted", "changed", "new"]
"""Whether the user has looked at exactly these bytes, at others, or at none."""


class TrustedFiles(Struct, frozen=True):
    """What was looked at: digests of settings by the root of their project, and of prompts.

    Those of prompts are by root, then by the path of the file in it. `servers` are those of files
    that name servers of tools.
    """

    folders: Mapping[str, str] = {}
    prompts: Mapping[str, Mapping[str, str]] = {}
    servers: Mapping[str, str] = {}

    def find_prompt_state(self, file: PromptFile) -> TrustState:
        """Of a skill or a command; the user's own are trusted."""
        if file.root is None:
            return "trusted"
        return _compare(self.prompts.get(str(file.root), {}).get(file.key), file.digest)


def find_trust_state(places: Places, file: ProjectFile) -> TrustState:
    """Of the settings of a project, or of the file of its servers."""
    known = read_trusted_files(places)
    by_root = known.servers if file.name == SERVERS_NAME else known.folders
    return _compare(by_root.get(str(file.root)), file.digest)


def trust_project(
    places: Places,
    settings: ProjectFile | None,
    prompts: Iterable[PromptFile] = (),
    servers: ProjectFile | None = None,
) -> None:
    """Remember that the user has looked at these bytes.

    Raises:
        StoreError: it could not be read or written; what was trusted before still is.
    """
    known = read_trusted_files(places)
    if settings is not None:
        known = replace(known, folders={**known.folders, str(settings.root): settings.digest})
    if servers is not None:
        known = replace(known, servers={**known.servers, str(servers.root): servers.digest})
    for file in prompts:
        root = str(file.root)
        of_root = {**known.prompts.get(root, {}), file.key: file.digest}
        known = replace(known, prompts={**known.prompts, root: of_root})
    _write_trusted_files(places, known)


def distrust_project(places: Places, folder: Path) -> bool:
    """Forget the project that a folder belongs to; whether it was known.

    Raises:
        StoreError: it could not be read or written; what was trusted before still is.
    """
    known, root = read_trusted_files(places), str(find_project_root(folder))
    folders = {one: digest for one, digest in known.folders.items() if one != root}
    prompts = {one: files for one, files in known.prompts.items() if one != root}
    servers = {one: digest for one, digest in known.servers.items() if one != root}
    kept = TrustedFiles(folders, prompts, servers)
    if kept == known:
        return False
    _write_trusted_files(places, kept)
    return True


def read_trusted_files(places: Places) -> TrustedFiles:
    """All of it. A file that cannot be read or understood trusts nobody.

    Raises:
        DiskError: the machine fails to read it just now; it may be well, and is left alone.
    """
    path = places.state / TRUST_FILE_NAME
    try:
        known = json.loads(read_plain_file(path, 16 * FILE_SIZE_MAX).data)
        prompts = known.get("prompts", {})  # older programs know none
        return TrustedFiles(
            _read_digests(known["folders"]),
            {str(root): _read_digests(files) for root, files in prompts.items()},
            _read_digests(known.get("servers", {})),
        )
    except OSError as error:
        raise_machine_error(path, error)
        return TrustedFiles()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return TrustedFiles()


def _read_digests(by_name: Any) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in by_name.items()}


def _compare(known: str | None, digest: str) -> TrustState:
    if known is None:
        return "new"
    return "trusted" if known == digest else "changed"


def _write_trusted_files(places: Places, known: TrustedFiles) -> None:
    """Replace the file in one step, readable by its owner only."""
    target = str(places.state / TRUST_FILE_NAME)
    more = {"prompts": known.prompts, "servers": known.servers}
    told = {"folders": known.folders, **{name: one for name, one in more.items() if one}}
    data = json.dumps(told, indent=2, sort_keys=True).encode()
    replace_file(PosixDisk(), target, data)
