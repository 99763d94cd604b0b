"""The settings a repository brings along: where they are, who trusts them, what they may say.

A repository is written by others. Its file is read only after its user has looked at it and said
so; the hash of what was looked at is kept, so that a changed file is looked at again. Even then it
may not widen what the user allowed, and has no say in where a key goes.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from treadle.config.approval_modes import is_wider
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.config.settings import Fault, format_dotted_key
from treadle.errors import ConfigError
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.paths import Places

FILE_SIZE_MAX: Final = 1024 * 1024
FOLDER_NAME: Final = ".treadle"
FILE_NAME: Final = "config.toml"
TRUST_FILE_NAME: Final = "trusted.json"

_KEY_SETTINGS: Final = ("base_url_env", "key_env", "key_file", "key_command")
_BOUNDS: Final = ("max_steps", "max_tokens", "compact_at")


class ProjectFile(Struct, frozen=True):
    """The settings file of a project, as it stood when it was read."""

    root: Path
    data: bytes

    @property
    def path(self) -> Path:
        """Where it was read."""
        return self.root / FOLDER_NAME / FILE_NAME

    @property
    def digest(self) -> str:
        """What is remembered of a trusted file."""
        return hashlib.sha256(self.data).hexdigest()


def find_project_root(folder: Path) -> Path:
    """The nearest folder, from this one upwards, with a `.git`; else this one."""
    folder = folder.resolve()
    for candidate in (folder, *folder.parents):
        with suppress(OSError):
            (candidate / ".git").lstat()
            return candidate
    return folder


def find_project_file(folder: Path) -> ProjectFile | None:
    """The settings file of the project that a folder belongs to, if it has one.

    Raises:
        ConfigError: something stands there that cannot be read as one. A symbolic link is not
            followed: what it shows is not the repository's.
        DiskError: the machine fails to read a file that may be well.
    """
    root = find_project_root(folder)
    path = root / FOLDER_NAME / FILE_NAME
    try:
        if path.parent.is_symlink():
            raise OSError(errno.ELOOP, "", str(path.parent))
        return ProjectFile(root, read_plain_file(path, FILE_SIZE_MAX, may_be_link=False).data)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise_machine_error(path, error)
        reason = "a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise ConfigError(f"cannot read {path}: {reason}") from error


# ---- who trusts it -----------------------------------------------------------------------------


def find_trust_state(places: Places, file: ProjectFile) -> Literal["trusted", "changed", "new"]:
    """Whether the user has looked at exactly these bytes, at others, or at none."""
    known = _read_trusted(places).get(str(file.root))
    if known is None:
        return "new"
    return "trusted" if known == file.digest else "changed"


def trust_project_file(places: Places, file: ProjectFile) -> None:
    """Remember that the user has looked at these bytes.

    Raises:
        StoreError: it could not be read or written; what was trusted before still is.
    """
    _write_trusted(places, {**_read_trusted(places), str(file.root): file.digest})


def distrust_project(places: Places, folder: Path) -> bool:
    """Forget the project that a folder belongs to; whether it was known.

    Raises:
        StoreError: it could not be read or written; what was trusted before still is.
    """
    known = _read_trusted(places)
    if known.pop(str(find_project_root(folder)), None) is None:
        return False
    _write_trusted(places, known)
    return True


def _read_trusted(places: Places) -> dict[str, str]:
    """Digests by folder. A file that cannot be read or understood trusts nobody.

    Raises:
        DiskError: the machine fails to read it just now; it may be well, and is left alone.
    """
    path = places.state / TRUST_FILE_NAME
    try:
        folders = json.loads(read_plain_file(path, 16 * FILE_SIZE_MAX).data)["folders"]
        return {str(folder): str(digest) for folder, digest in folders.items()}
    except OSError as error:
        raise_machine_error(path, error)
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _write_trusted(places: Places, folders: Mapping[str, str]) -> None:
    """Replace the file in one step, readable by its owner only."""
    target = str(places.state / TRUST_FILE_NAME)
    data = json.dumps({"folders": folders}, indent=2, sort_keys=True).encode()
    replace_file(PosixDisk(), target, data)


# ---- what it may say ---------------------------------------------------------------------------


def find_project_faults(
    tables: Mapping[str, Any], below: Mapping[str, Any], chosen: Container[str]
) -> Iterator[Fault]:
    """What a project's file may not say, although it is trusted.

    Args:
        tables: those of the project's file, valid in themselves.
        below: those of the layers below it.
        chosen: top-level keys that the user has set.
    """
    mode, allowed = tables.get("approval_mode"), below["approval_mode"]
    if mode is not None and is_wider(mode, allowed):
        yield (
            ("approval_mode",),
            f'a project\'s file may not set approval_mode = "{mode}": what the agent may do is for '
            f'its user to say, whose own mode is "{allowed}"',
        )
    for key, value, why in (
        ("local_only", False, "it must not let the agent's context leave this machine"),
        ("web_search", True, "what leaves this machine is for the user to say"),
        ("auto_commit", True, "what is committed is for the user to say"),
        ("sync", "auto", "what leaves this machine is for the user to say"),
    ):
        if tables.get(key) == value:
            shown = json.dumps(value)
            yield (key,), f"a project's file may not set {key} = {shown}: {why}"
    for key in ("sandbox", "network", "read", "sandbox_writable", "sandbox_readable"):
        if key in tables:
            why = "what holds its commands is for its user to say"
            yield (key,), f"a project's file may not set {key}: {why}"
    for name in tables.get("hooks", {}):
        why = "commands that run by themselves are its user's business"
        yield ("hooks", name), f"a project's file may not set hooks.{name}: {why}"
    for key in _BOUNDS:
        if key in chosen and tables.get(key, 0) > below[key]:
            yield (key,), f"a project's file may not raise {key} above its user's {below[key]}"
    for name, entry in tables.get("providers", {}).items():
        yield from _find_provider_faults(name, entry, below["providers"])


def _find_provider_faults(
    name: str, entry: Mapping[str, Any], known: Container[str]
) -> Iterator[Fault]:
    path = ("providers", name)
    if name in known:
        yield (
            path,
            f"a project's file may not change {format_dotted_key(path)}: "
            "its key would go elsewhere",
        )
    for key in _KEY_SETTINGS:
        if key in entry:
            yield (*path, key), f"a project's file may not set {key}: keys are its user's business"
    if entry.get("needs_key") is not False:
        yield (
            path,
            f"{format_dotted_key(path)} needs `needs_key = false` in a project's file: "
            "it gets no key",
        )
