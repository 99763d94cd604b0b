"""What a person or a program says of a server: where it is, and what its tools may do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from treadle.core.tools import EffectClass, RiskLevel
from treadle.errors import UsageError

SEPARATOR: Final = "__"
"""Stands between the name of a server and that of its tool: `files__read_file`."""

ALL_TOOLS: Final = "*"
"""The name in `MCPServer.rules` that stands for every tool without a rule of its own."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]|_(?!_)){0,30}(?<!_)")


class MCPRule(Struct, frozen=True, omit_defaults=True):
    """What you know of a tool, which its server could only claim.

    `effect` is what repeating a call would do, and decides what happens after a crash; `risk` is
    how much harm it can do, and decides who is asked.
    """

    effect: EffectClass = EffectClass.MUTATE
    risk: RiskLevel = RiskLevel.MEDIUM


class MCPServer(Struct, frozen=True, omit_defaults=True):
    """A server of the Model Context Protocol, whose tools an agent gets: one of `Agent(tools=)`.

    It is a program that is started (`command`, spoken with over its standard input and output) or
    one that is there already (`url`, over streamable HTTP). Nothing happens before the first
    request to a model that needs its tools. These are called `NAME__TOOL`. A tool counts as one
    that may change something, with medium risk, whatever its server says of it; `rules` say
    otherwise.

    `name` has letters, digits, `-` and single `_`, 32 characters at most. `command` is a program
    and `args` its arguments; it gets `env`, besides that PATH, HOME, LANG and the like and nothing
    else, and runs in `folder` (that of this process if empty). `headers` go with each request to
    `url`. `start_s_max` are the seconds that it has to say what its tools are.

    Raises:
        UsageError: it cannot be a server like this; the message says why.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = MappingProxyType({})
    rules: Mapping[str, MCPRule] = MappingProxyType({})
    start_s_max: float = 30.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} cannot be the name of an MCP server",
                hint="letters, digits, - and single _, 32 characters at most",
            )
        if bool(self.command) == bool(self.url):
            raise UsageError(
                f"the MCP server {self.name} needs a command or a url, and not both",
                hint='MCPServer("files", command="npx", args=("-y", "PACKAGE"))',
            )
        if self.url and not is_web_address(self.url):
            raise UsageError(f"{self.url!r} is no address of an MCP server: http(s)://HOST/PATH")
        if self.url and (self.args or self.env or self.folder):
            raise UsageError(f"the MCP server {self.name} at a url takes no args, env or folder")
        if self.command and self.headers:
            raise UsageError(f"the MCP server {self.name} is started and takes no headers")
        if not 0 < self.start_s_max <= 600:
            raise UsageError(f"the MCP server {self.name} has 600 s at most to start")

    @property
    def prefix(self) -> str:
        """How the names of all its tools begin."""
        return f"{self.name}{SEPARATOR}"

    def rule_of(self, tool: str) -> MCPRule:
        """What is known of a tool, by the name that the server has for it."""
        return self.rules.get(tool) or self.rules.get(ALL_TOOLS) or MCPRule()


def is_web_address(url: str) -> bool:
    """Whether a server can be there."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False
