"""From what a server says of its tools to what a model is told: names, schemas, bounds.

All of it is the word of a stranger, and one tool that a provider refuses would fail every request.
So what no provider takes is left out, and people are told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from treadle.core.tools import RiskLevel, ToolDefinition
from treadle.mcp.server import ALL_TOOLS, MCPServer
from treadle.thread.safe_text import sanitize_text

TOOL_COUNT_MAX: Final = 200
"""Tools of a server that are offered."""
NAME_LENGTH_MAX: Final = 64
DESCRIPTION_LENGTH_MAX: Final = 8_000
SCHEMA_LENGTH_MAX: Final = 32_000
"""Characters of a schema as JSON."""
SCHEMA_DEPTH_MAX: Final = 24

READER: Final = "read_resource"
"""The name of the tool that reads what a server keeps, behind that of the server."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOP_KEYS: Final = ("properties", "required", "additionalProperties", "$defs", "definitions")
"""What stays at the top of a schema: not all providers take a choice of schemas there."""


class ListedTool(Struct, frozen=True):
    """A tool as its server lists it; `is_destructive` is what that claims."""

    name: str
    description: str
    schema: dict[str, Any]
    is_destructive: bool = False


class ServerOffer(Struct, frozen=True):
    """The tools of a server: what a model is told of each, and what their server calls them.

    `reader` is the tool that reads what the server keeps, if it keeps something: it is ours.
    `left_out` are words for people, one for each that cannot be offered.
    """

    definitions: tuple[ToolDefinition, ...] = ()
    names: dict[str, str] = {}
    reader: str = ""
    left_out: tuple[str, ...] = ()


def offer_tools(
    server: MCPServer, listed: Iterable[ListedTool], *, has_resources: bool = False
) -> ServerOffer:
    """What a model is told of a server's tools: in the order of their names, always the same.

    Args:
        server: the server.
        listed: its tools, as it says them.
        has_resources: whether it keeps something that can be read by its address.
    """
    definitions: list[ToolDefinition] = []
    names: dict[str, str] = {}
    left_out: list[str] = []
    for tool in sorted(listed, key=lambda one: one.name):
        name = name_tool(server, tool.name)
        schema = _take_schema(tool.schema)
        if isinstance(schema, str):
            why = schema
        elif name in names:
            why = "another one has its name"
        elif len(names) >= TOOL_COUNT_MAX:
            left_out.append(f"all behind the first {TOOL_COUNT_MAX} tools")
            break
        else:
            names[name] = tool.name
            definitions.append(_define(server, tool, name, schema))
            continue
        left_out.append(f"{sanitize_text(tool.name)[:80]} ({why})")
    reader = server.prefix + READER
    if not has_resources or reader in names:
        return ServerOffer(tuple(definitions), names, left_out=tuple(left_out))
    definitions.append(_define_reader(server, reader))
    return ServerOffer(tuple(definitions), names, reader, tuple(left_out))


def name_tool(server: MCPServer, tool: str) -> str:
    """What a model calls a tool: the same whatever else the server has.

    What providers do not take in a name is replaced, and a name that had to be changed ends in a
    digest of what it was, so that no two become one.
    """
    name = server.prefix + tool
    if tool and len(name) <= NAME_LENGTH_MAX and not _ODD.search(name):
        return name
    data = tool.encode(errors="surrogatepass")
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{_ODD.sub('_', name)[: NAME_LENGTH_MAX - 9]}_{digest}"


def _define(
    server: MCPServer, tool: ListedTool, name: str, schema: dict[str, Any]
) -> ToolDefinition:
    rule = server.rule_of(tool.name)
    risk = rule.risk
    # A claim to be harmless is worth nothing. One to be harmful is believed, if nobody knows more.
    if tool.is_destructive and not {tool.name, ALL_TOOLS} & {*server.rules}:
        risk = max(risk, RiskLevel.HIGH)
    description = sanitize_text(tool.description)[:DESCRIPTION_LENGTH_MAX].strip()
    return ToolDefinition(
        name, description or f"{tool.name} of {server.name}", schema, rule.effect, risk
    )


def _define_reader(server: MCPServer, name: str) -> ToolDefinition:
    """The same words for each server: what it keeps may change at any time, and is asked for."""
    words = f"Read what the server {server.name} keeps, by its address, or list what it keeps."
    address = {"type": "string", "description": "an address; without one, all are listed"}
    schema = {"type": "object", "properties": {"uri": address}}
    rule = server.rule_of(READER)
    return ToolDefinition(name, words, schema, rule.effect, rule.risk)


def _take_schema(given: dict[str, Any]) -> dict[str, Any] | str:
    """The schema as providers take it, or why none would."""
    if given.get("type", "object") != "object":
        return "its arguments are no object"
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema |= {key: given[key] for key in _TOP_KEYS if key in given}
    try:
        text = json.dumps(schema)
    except (ValueError, RecursionError):
        return "its schema is no JSON"
    if len(text) > SCHEMA_LENGTH_MAX:
        return f"its schema has more than {SCHEMA_LENGTH_MAX} characters"
    if _measure_depth(text) > SCHEMA_DEPTH_MAX:
        return f"its schema is deeper than {SCHEMA_DEPTH_MAX}"
    if not isinstance(schema["properties"], dict) or not all(
        _PROPERTY.fullmatch(key) for key in schema["properties"]
    ):
        return "its arguments have names that no provider takes"
    return schema if _is_schema(schema) else "its schema is none"


def _is_schema(schema: dict[str, Any]) -> bool:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def _measure_depth(text: str) -> int:
    """How deep the brackets of a JSON text are, those in strings included."""
    depth = deepest = 0
    for character in text:
        if character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest
