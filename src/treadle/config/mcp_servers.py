"""What settings say of a server of tools (MCP), and what the file says that many agents read.

A text of a server's may name variables: `${NAME}`, or `${NAME:-TEXT}` for one that may not be set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from treadle.errors import ConfigError, UsageError

Effect: TypeAlias = Literal["read", "idempotent", "mutate"]
"""The names of `EffectClass`; a test holds them together."""
Risk: TypeAlias = Literal["low", "medium", "high", "critical"]
"""The names of `RiskLevel`; a test holds them together."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]|_(?!_)){0,31}(?<!_)")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ADDRESS: Final = re.compile(r"(https?://[^\s/]|\$\{)\S*")


class ToolSetting(Struct, frozen=True, forbid_unknown_fields=True):
    """What a person knows of a tool: what repeating a call does, and how much harm it can do."""

    effect: Effect = "mutate"
    risk: Risk = "medium"


class ServerSetting(Struct, frozen=True):
    """A server: a program that is started (`command`, `args`, `env`), or one at a `url`.

    One that is started reads what commands may read; it reaches the network with `network` alone,
    and changes the workspace with `write` alone. `headers` go with each request to
    a `url`. `tools` are by the names that the server has for them; `*` is every other one.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    url: str = ""
    headers: Mapping[str, str] = MappingProxyType({})
    enabled: bool = True
    network: bool = False
    write: bool = False
    tools: Mapping[str, ToolSetting] = MappingProxyType({})

    @property
    def is_whole(self) -> bool:
        """Whether it says where the server is; else it says what holds for one of a project."""
        return bool(self.command or self.url)

    @property
    def place(self) -> str:
        """The program or the address, as it is written: what people know it by."""
        return self.url or " ".join((self.command, *self.args))


def is_server_name(name: str) -> bool:
    """Whether a server may be called so; as `MCPServer` has it."""
    return _NAME.fullmatch(name) is not None


def is_server_address(text: str) -> bool:
    """Whether a server can be there; it may name variables."""
    return _ADDRESS.fullmatch(text) is not None


def names_variables(text: str) -> bool:
    """Whether variables stand in a text."""
    return _VARIABLE.search(text) is not None


def leave_out_variables(text: str) -> str:
    """What is written of a text, without what variables would put there."""
    return _VARIABLE.sub(lambda found: found[2] or "", text)


def fill_in_variables(
    text: str, environ: Mapping[str, str], kept: frozenset[str] = frozenset()
) -> str:
    """A text with the values of the variables that it names.

    Args:
        text: as the settings have it.
        environ: the variables.
        kept: those that it does not get.

    Raises:
        UsageError: one is not set, or kept; names it.
    """

    def fill_in(found: re.Match[str]) -> str:
        name, otherwise = found[1], found[2]
        if name in kept:
            raise UsageError(f"{name} is a key of a provider, which no server of a project gets")
        value = environ.get(name, "")
        if not value and otherwise is None:
            raise UsageError(f"the variable {name} is not set")
        return value or (otherwise or "")

    return _VARIABLE.sub(fill_in, text)


# ---- the file that many agents read ------------------------------------------------------------


class _ForeignServer(Struct):
    """A server as other programs write it; what else they say of one is theirs."""

    command: Annotated[str, Meta(min_length=1)] | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    type: str = ""
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False


def read_foreign_servers(data: bytes, path: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The servers of a `.mcp.json`, as tables of settings, and lines about those that are not used.

    Args:
        data: the file.
        path: where it is, for people.

    Raises:
        ConfigError: it is none.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"))["mcpServers"]
        entries = dict(found.items())
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ConfigError(
            f'{path}: this is no JSON object with a table "mcpServers"', hint="docs/mcp.md has one"
        ) from None
    tables: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    for name, entry in entries.items():
        table = _convert_foreign(name, entry)
        if isinstance(table, str):
            notices.append(f"{path}: the server {name!r} is not used: {table}")
        else:
            tables[name] = table
    return tables, notices


def _convert_foreign(name: str, entry: object) -> dict[str, Any] | str:
    """The table of a server, or why there is none."""
    try:
        found = msgspec.convert(entry, _ForeignServer)
    except msgspec.ValidationError as error:
        return str(error)
    if not is_server_name(name):
        return "a name has letters, digits, - and single _, 32 characters at most"
    if (found.command is None) == (found.url is None):
        return "it needs a command or a url, and not both"
    if found.type == "sse":
        return "it speaks an old form of the protocol (sse)"
    if found.url is not None and not is_server_address(found.url):
        return "its url is none"
    told = {key: value for key, value in asdict(found).items() if value}
    told.pop("type", None)
    if told.pop("disabled", False):
        told["enabled"] = False
    return told
