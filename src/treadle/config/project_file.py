"""The settings a repository brings along: where they are, and what they may say.

A repository is written by others. Its file is read only after its user has looked at it and said
so (`project_trust.py`). Even then it may not widen what the user allowed, and has no say in where a
key goes.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from treadle.config.approval_modes import is_wider
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.config.settings import Fault, format_dotted_key
from treadle.errors import ConfigError

FILE_SIZE_MAX: Final = 1024 * 1024
FOLDER_NAME: Final = ".treadle"
FILE_NAME: Final = "config.toml"
SETTINGS_NAME: Final = f"{FOLDER_NAME}/{FILE_NAME}"
SERVERS_NAME: Final = ".mcp.json"
"""Where other agents look for the servers of a project too."""

_KEY_SETTINGS: Final = ("base_url_env", "key_env", "key_file", "key_command")
_BOUNDS: Final = ("max_steps", "max_tokens", "compact_at")


class ProjectFile(Struct, frozen=True):
    """The settings file of a project, or that of its servers, as it stood when it was read.

    `name` is its path in the project.
    """

    root: Path
    data: bytes
    name: str = SETTINGS_NAME

    @property
    def path(self) -> Path:
        """Where it was read."""
        return self.root / self.name

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


def find_project_file(folder: Path, name: str = SETTINGS_NAME) -> ProjectFile | None:
    """The settings file of the project that a folder belongs to, or another one, if it has it.

    Raises:
        ConfigError: something stands there that cannot be read as one. A symbolic link is not
            followed: what it shows is not the repository's.
        DiskError: the machine fails to read a file that may be well.
    """
    root = find_project_root(folder)
    path = root / name
    try:
        if path.parent != root and path.parent.is_symlink():
            raise OSError(errno.ELOOP, "", str(path.parent))
        data = read_plain_file(path, FILE_SIZE_MAX, may_be_link=False).data
        return ProjectFile(root, data, name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise_machine_error(path, error)
        reason = "a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise ConfigError(f"cannot read {path}: {reason}") from error


# ---- what it may say ---------------------------------------------------------------------------

_NOT_FOR_PROJECTS: Final = {
    **dict.fromkeys(
        ("sandbox", "network", "read", "sandbox_writable", "sandbox_readable"),
        "what holds its commands is for its user to say",
    ),
    **dict.fromkeys(
        ("remote", "remote_critical"), "who may speak for its user is for that user to say"
    ),
}


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
    for key, why in _NOT_FOR_PROJECTS.items():
        if key in tables:
            yield (key,), f"a project's file may not set {key}: {why}"
    for name in tables.get("hooks", {}):
        why = "commands that run by themselves are its user's business"
        yield ("hooks", name), f"a project's file may not set hooks.{name}: {why}"
    for name, entry in tables.get("mcp", {}).items():
        yield from _find_server_faults(name, entry, below.get("mcp", {}).get(name, {}))
    for key in _BOUNDS:
        if key in chosen and tables.get(key, 0) > below[key]:
            yield (key,), f"a project's file may not raise {key} above its user's {below[key]}"
    for name, entry in tables.get("providers", {}).items():
        yield from _find_provider_faults(name, entry, below["providers"])


def _find_server_faults(
    name: str, entry: Mapping[str, Any], own: Mapping[str, Any]
) -> Iterator[Fault]:
    path = ("mcp", name)
    for key in ("tools", "network", "write"):
        if key in entry:
            why = "what a server may do unasked is for its user to say"
            yield (*path, key), f"a project's file may not set mcp.{name}.{key}: {why}"
    if is_own_server(own):
        yield (
            path,
            f"a project's file may not change mcp.{name}: its user has a server of this name",
        )


def is_own_server(entry: Mapping[str, Any]) -> bool:
    """Whether a user's table says where a server is, and not only what one of a project may do."""
    return bool({"command", "url"} & entry.keys())


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
