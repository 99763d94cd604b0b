"""A value that fits a JSON schema, the simplest there is: what a test says in a model's place."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from treadle.models.scripted.pattern_sample import make_text_for_pattern

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

    A pattern is met where that is simple: look-arounds and back references are not.

    Args:
        schema: the schema, or a part of it.
        root: the whole of it, where its references lead to.

    Raises:
        RecursionError: it asks for a value without end.
    """
    return _make_value(schema, _Place(schema if root is None else root))


class _Place(Struct, frozen=True):
    """The whole of a schema, and the references that were followed to get to a part of it."""

    root: Schema
    followed: tuple[str, ...] = ()

    def follow(self, reference: str) -> _Place:
        if reference in self.followed:  # the least value never holds one of its own kind
            raise RecursionError(f"a value of {reference} has no end")
        return _Place(self.root, (*self.followed, reference))


def _make_value(schema: Schema, place: _Place) -> Any:
    if "$ref" in schema:
        reference = schema["$ref"]
        return _make_value(_follow(reference, place.root), place.follow(reference))
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    for name in ("enum", "examples"):
        if schema.get(name):
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _make_first(schema, name, place)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    maker = _MAKERS.get(str(kind))
    return None if maker is None else maker(schema, place)


def _make_first(schema: Schema, name: str, place: _Place) -> Any:
    """A value of the first of several schemas that has one with an end."""
    endless: RecursionError | None = None
    for one in schema[name]:
        try:
            return _make_value({**schema, **one, name: ()}, place)
        except RecursionError as error:
            endless = error
    assert endless is not None  # the list is not empty
    raise endless


def _follow(reference: str, root: Schema) -> Schema:
    part: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        part = part[step] if step else part
    found: Schema = part
    return found


def _make_object(schema: Schema, place: _Place) -> dict[str, Any]:
    parts = schema.get("properties", {})
    return {name: _make_value(parts.get(name, {}), place) for name in schema.get("required", ())}


def _make_array(schema: Schema, place: _Place) -> list[Any]:
    first = [_make_value(one, place) for one in schema.get("prefixItems", ())]
    more = schema.get("minItems", 0) - len(first)
    return first + [_make_value(schema.get("items") or {}, place) for _ in range(more)]


def _make_text(schema: Schema, _: _Place) -> str:
    is_binary = schema.get("contentEncoding") == "base64"
    text: str = "YWFh" if is_binary else _TEXTS.get(schema.get("format", ""), "a")
    least: int = schema.get("minLength", 0)
    if "pattern" in schema and not is_binary:
        length = range(least, schema.get("maxLength", sys.maxsize - 1) + 1)
        text = make_text_for_pattern(schema["pattern"], length) or text
    return text.ljust(least, "a")


def _make_number(schema: Schema, _: _Place) -> int | float:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum", min(0, schema.get("maximum", 0))))
    value: int | float = math.ceil(least / step) * step
    if value == schema.get("exclusiveMinimum"):
        value += step
    if value >= schema.get("exclusiveMaximum", math.inf):
        value = (value + schema.get("exclusiveMinimum", least)) / 2
    return value


_MAKERS: Final[Mapping[str, Callable[[Schema, _Place], Any]]] = MappingProxyType(
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
