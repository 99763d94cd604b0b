"""A value that fits a JSON schema, the simplest there is: what a test says in a model's place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

Schema = Mapping[str, Any]

_TEXTS: Final = MappingProxyType(
    {
        "date": "2000-01-01",
        "date-time": "2000-01-01T00:00:00Z",
        "time": "00:00:00Z",
        "duration": "PT1S",
        "uuid": "00000000-0000-4000-8000-000000000000",
        "email": "a@example.com",
        "uri": "https://example.com/",
        "decimal": "1",
    }
)
"""By `format`."""


def make_sample(schema: Schema, root: Schema | None = None) -> Any:
    """A value of a schema: the first that it lists, else the least that it asks for.

    What only a pattern says is not met: there is nothing simple to make of one.

    Args:
        schema: the schema, or a part of it.
        root: the whole of it, where its references lead to.

    Raises:
        RecursionError: it asks for a value without end.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        return make_sample(_follow(schema["$ref"], root), root)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    for name in ("enum", "examples"):
        if schema.get(name):
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return make_sample({**schema, **schema[name][0], name: ()}, root)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    maker = _MAKERS.get(str(kind))
    return None if maker is None else maker(schema, root)


def _follow(reference: str, root: Schema) -> Schema:
    part: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        part = part[step] if step else part
    found: Schema = part
    return found


def _make_object(schema: Schema, root: Schema) -> dict[str, Any]:
    parts = schema.get("properties", {})
    return {name: make_sample(parts.get(name, {}), root) for name in schema.get("required", ())}


def _make_array(schema: Schema, root: Schema) -> list[Any]:
    first = [make_sample(one, root) for one in schema.get("prefixItems", ())]
    more = schema.get("minItems", 0) - len(first)
    return first + [make_sample(schema.get("items") or {}, root) for _ in range(more)]


def _make_text(schema: Schema, _: Schema) -> str:
    text: str = _TEXTS.get(schema.get("format", ""), "a")
    least: int = schema.get("minLength", 0)
    return text.ljust(least, "a")


def _make_number(schema: Schema, _: Schema) -> int | float:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum", min(0, schema.get("maximum", 0))))
    value: int | float = math.ceil(least / step) * step
    if value == schema.get("exclusiveMinimum"):
        value += step
    if value >= schema.get("exclusiveMaximum", math.inf):
        value = (value + schema.get("exclusiveMinimum", least)) / 2
    return value


_MAKERS: Final[Mapping[str, Callable[[Schema, Schema], Any]]] = MappingProxyType(
    {
        "object": _make_object,
        "array": _make_array,
        "string": _make_text,
        "integer": _make_number,
        "number": _make_number,
        "boolean": lambda _, __: False,
        "null": lambda _, __: None,
    }
)
