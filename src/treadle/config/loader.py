"""Puts the layers of settings on one another and remembers where each value comes from.

Lowest first: what is built in, the user's file, the project's file (if the user trusts it), the
environment. The flags of a command are no layer: it applies them by itself, to what it finds here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle import helper_programs
from treadle.config.mcp_servers import read_foreign_servers
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.config.project_file import (
    FILE_NAME,
    FILE_SIZE_MAX,
    SERVERS_NAME,
    SETTINGS_NAME,
    ProjectFile,
    find_project_faults,
    find_project_file,
    is_own_server,
)
from treadle.config.project_trust import find_trust_state
from treadle.config.saved_keys import SAVED_ORIGIN, list_saved_keys
from treadle.config.settings import (
    TOP_LEVEL_RULES,
    KeyPath,
    Settings,
    find_faults,
    flatten_tables,
    format_dotted_key,
)
from treadle.config.toml_file import TomlFile, parse_toml
from treadle.errors import ConfigError, NotConfiguredError, UsageError
from treadle.models.catalog import Catalog, make_catalog, read_defaults
from treadle.store.paths import Places

DEFAULT_ORIGIN: Final = "default"
"""The origin of what nobody has set."""


def _read_bool(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


ENVIRONMENT: Final[Mapping[str, tuple[KeyPath, Callable[[str], Any]]]] = MappingProxyType(
    {
        "TREADLE_MODEL": (("models", "default"), str),
        "TREADLE_APPROVAL_MODE": (("approval_mode",), str),
        "TREADLE_AUTO_COMMIT": (("auto_commit",), _read_bool),
        "TREADLE_MAX_STEPS": (("max_steps",), int),
        "TREADLE_MAX_TOKENS": (("max_tokens",), int),
        "TREADLE_COMPACT_AT": (("compact_at",), int),
        "TREADLE_TEMPERATURE": (("temperature",), float),
        "TREADLE_REASONING": (("reasoning",), str),
        "TREADLE_WEB_SEARCH": (("web_search",), _read_bool),
        "TREADLE_LOCAL_ONLY": (("local_only",), _read_bool),
        "TREADLE_NOTIFY": (("notify",), _read_bool),
        "TREADLE_REMOTE": (("remote",), str),
        "TREADLE_REMOTE_CRITICAL": (("remote_critical",), _read_bool),
        "TREADLE_SYNC": (("sync",), str),
        "TREADLE_SANDBOX": (("sandbox",), str),
        "TREADLE_NETWORK": (("network",), str),
        "TREADLE_READ": (("read",), str),
        "TREADLE_KEYS": (("keys",), str),
        "TREADLE_THEME": (("theme",), str),
    }
)
"""What each variable sets, and how its text is read."""


_REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"providers": ("api", "base_url"), "hooks": ("on", "command")}
)
"""The keys without which an entry of a table is of no use."""


class LoadedSettings(Struct, frozen=True):
    """The settings that hold, and where they come from.

    `values` and `origins` are by dotted key, in one order, and tell everything that holds, for
    people: `None` is not set, and a key command is not told. An origin is `default`, `FILE:LINE`
    or `environment NAME`. `notices` are for the person, a line each. `project_servers` are
    the names of those servers of tools that the project brings along. The flags of a command win
    over all of it, for that run; they are not in here.
    """

    settings: Settings
    catalog: Catalog
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    notices: tuple[str, ...] = ()
    project_servers: frozenset[str] = frozenset()

    def list_changed(self) -> tuple[str, ...]:
        """The keys that somebody has set, in the order of all."""
        return tuple(key for key in self.values if self.origins[key] != DEFAULT_ORIGIN)

    def find_exclusion(
        self, provider: str, environ: Mapping[str, str]
    ) -> NotConfiguredError | None:
        """Why `local_only` allows no request to a provider; `None` if it does.

        Raises:
            UsageError: there is no such provider, or a variable holds no base URL.
        """
        if not self.settings.local_only or self.catalog.is_local(provider, environ):
            return None
        return NotConfiguredError(
            f"{provider} is not on this machine, and local_only allows no other",
            hint="choose a local model, or set local_only = false",
        )


class _SettingLayers:
    """The tables so far, with the origin of every value."""

    def __init__(self) -> None:
        plain = msgspec.structs.asdict(Settings())
        self.tables = {key: plain[key] for key in TOP_LEVEL_RULES if plain[key] is not None}
        self.tables.update(read_defaults())
        self.origins = {path: DEFAULT_ORIGIN for path, _ in flatten_tables(self.tables)}
        self.project_servers: set[str] = set()

    def add(self, tables: Mapping[str, Any], origin: Callable[[KeyPath], str]) -> None:
        for path, value in flatten_tables(tables):
            *above, key = path
            table = self.tables
            for name in above:
                table = table.setdefault(name, {})
            table[key] = value
            self.origins[path] = origin(path)

    def add_file(self, file: TomlFile) -> None:
        for path, problem in find_faults(file.tables):
            raise file.make_error(path, problem)
        self.add(file.tables, file.format_location)
        for kind, needed in _REQUIRED_KEYS.items():
            for name in file.tables.get(kind, {}):
                # A table without keys has not come into the settings.
                entry = self.tables.get(kind, {}).get(name, {})
                if missing := [key for key in needed if key not in entry]:
                    path = (kind, name)
                    raise file.make_error(
                        path, f"{format_dotted_key(path)} needs {' and '.join(missing)}"
                    )
        for name, entry in file.tables.get("mcp", {}).items():
            if {"command", "url"} <= entry.keys():
                path = ("mcp", name)
                why = "has a command and a url: give one of them"
                raise file.make_error(path, f"{format_dotted_key(path)} {why}")

    def list_chosen_keys(self) -> set[str]:
        """Top-level keys that somebody has set."""
        return {
            key
            for key in TOP_LEVEL_RULES
            if self.origins.get((key,), DEFAULT_ORIGIN) != DEFAULT_ORIGIN
        }


def load_settings(folder: str | FilePath, environ: Mapping[str, str]) -> LoadedSettings:
    """The settings that hold in a folder; from then on no helper program is looked for there.

    Args:
        folder: the working folder; it says which project's file counts.
        environ: the environment of the process.

    Raises:
        ConfigError: a value is not valid, or a file cannot be read; says where.
        DiskError: the machine fails to read a file that may be well.
    """
    places = Places.find(environ)
    layers = _SettingLayers()
    if user := _read_user_file(places):
        layers.add_file(user)
    _add_saved_keys(layers, places)
    notices = _add_project(layers, places, FilePath(folder))
    for variable, path, value in _read_environment(environ):
        _add_value(layers, path, value, f"environment {variable}", variable)
    catalog = make_catalog(layers.tables)
    notices += _add_addresses(layers, catalog, environ)
    chosen = {key: layers.tables[key] for key in Settings.__struct_fields__ if key in layers.tables}
    unset = {key: None for key in TOP_LEVEL_RULES if key not in layers.tables}
    told = {
        **unset,
        **{
            format_dotted_key(path): _hide_secret(path, value)
            for path, value in flatten_tables(layers.tables)
        },
    }
    origins = {format_dotted_key(path): origin for path, origin in layers.origins.items()}
    settings = msgspec.convert(chosen, Settings)
    # Before a key is asked for: its command may be a name in PATH.
    helper_programs.exclude(folder, *settings.sandbox_writable)
    return LoadedSettings(
        settings,
        catalog,
        told,
        {key: origins.get(key, DEFAULT_ORIGIN) for key in told},
        tuple(notices),
        frozenset(layers.project_servers),
    )


def _hide_secret(path: KeyPath, value: Any) -> Any:
    """The value, unless it may hold a secret among its words."""
    is_hidden = path[0] == "providers" and ("key_command" in path[2:] or "headers" in path[2:-1])
    # A project's file may hold one, as other programs take it.
    is_hidden |= path[0] == "mcp" and path[2] in ("args", "env", "headers", "url")
    return "(set, not shown)" if is_hidden else value


def _read_user_file(places: Places) -> TomlFile | None:
    path = places.config / FILE_NAME
    try:
        return parse_toml(read_plain_file(path, FILE_SIZE_MAX).data, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise_machine_error(path, error)
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


def _add_saved_keys(layers: _SettingLayers, places: Places) -> None:
    """Names the files that `treadle login` made, where the settings say nothing else."""
    for name, path in list_saved_keys(places).items():
        entry = layers.tables["providers"].get(name)
        if entry is not None and not {"key_file", "key_command"} & set(entry):
            layers.add({"providers": {name: {"key_file": str(path)}}}, lambda _: SAVED_ORIGIN)


def check_user_file(file: TomlFile) -> None:
    """Whether the user's file would hold, if this stood in it.

    Raises:
        ConfigError: it would not; says where.
    """
    _SettingLayers().add_file(file)


def check_project_file(file: ProjectFile, environ: Mapping[str, str]) -> None:
    """Whether a project's file would hold, if it were trusted.

    Raises:
        ConfigError: it, or the user's file below it, is not valid; says where.
    """
    layers = _SettingLayers()
    if user := _read_user_file(Places.find(environ)):
        layers.add_file(user)
    add = _add_project_servers if file.name == SERVERS_NAME else _add_project_file
    add(layers, file)


def _add_project(layers: _SettingLayers, places: Places, folder: FilePath) -> list[str]:
    """Lays the project's files, those that are trusted; says why others are not."""
    own_servers = {name for name, one in layers.tables.get("mcp", {}).items() if is_own_server(one)}
    notices: list[str] = []
    for name, add in ((SETTINGS_NAME, _add_project_file), (SERVERS_NAME, _add_project_servers)):
        try:
            file = find_project_file(folder, name)
        except ConfigError as error:
            notices.append(f"{error.message}; it is not used")
            continue
        if file is None:
            continue
        why_not = _explain_distrust(places, file)
        notices += [why_not] if why_not else add(layers, file)
    all_servers = {name for name, one in layers.tables.get("mcp", {}).items() if is_own_server(one)}
    layers.project_servers = all_servers - own_servers
    return notices


def _explain_distrust(places: Places, file: ProjectFile) -> str:
    """Why a project's file is not used; empty if it is trusted."""
    state = find_trust_state(places, file)
    if state == "trusted":
        return ""
    reasons = {"new": "nobody has trusted it yet", "changed": "it changed since it was trusted"}
    return f"{file.path} is not used: {reasons[state]}; `treadle config trust` looks at it"


def _add_project_servers(layers: _SettingLayers, file: ProjectFile) -> list[str]:
    """Lays the servers of a file that other agents read too; says which are not used."""
    tables, notices = read_foreign_servers(file.data, str(file.path))
    for name, table in tables.items():
        if is_own_server(layers.tables.get("mcp", {}).get(name, {})):
            notices.append(f"{file.path}: the server {name} is not used: another one is called so")
        else:
            layers.add({"mcp": {name: table}}, lambda _: str(file.path))
    return notices


def _add_project_file(layers: _SettingLayers, file: ProjectFile) -> list[str]:
    found = parse_toml(file.data, str(file.path))
    if next(find_faults(found.tables), None) is None:
        for path, problem in find_project_faults(
            found.tables, layers.tables, layers.list_chosen_keys()
        ):
            raise found.make_error(path, problem)
    layers.add_file(found)
    return []


def _read_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, KeyPath, Any]]:
    for variable, (path, read) in ENVIRONMENT.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            value = read(text)
        except (ValueError, KeyError):
            value = text  # which the rule of the key refuses, in its own words
        yield variable, path, value


def _add_value(layers: _SettingLayers, path: KeyPath, value: Any, origin: str, name: str) -> None:
    tables: Any = value
    for key in reversed(path):
        tables = {key: tables}
    for _, problem in find_faults(tables):
        raise ConfigError(f"{name}: {problem}")
    layers.add(tables, lambda _: origin)


def _add_addresses(
    layers: _SettingLayers, catalog: Catalog, environ: Mapping[str, str]
) -> Iterator[str]:
    """Shows the addresses that variables replace; the catalog finds them by itself."""
    for name, entry in catalog.providers.items():
        try:
            url = entry.url(environ)
        except UsageError as error:
            yield f"the provider {name} cannot be used: {error.message}"
            continue
        if url != entry.base_url:
            _add_value(
                layers,
                ("providers", name, "base_url"),
                url,
                f"environment {entry.base_url_env}",
                entry.base_url_env,
            )
