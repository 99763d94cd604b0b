"""A tool as a family of models is told of it: our schema under their names, and their words back.

What a call gives is restored by the shape itself (`core/tool_families.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from treadle.core.tool_families import OfferedTool

_COUNTED: Final = ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
"""What of the schema of a number is a number of the same kind."""
_BOUND: Final = re.compile(r"([<>]=?) ([\d.]+)(?= - at )")
_QUOTED: Final = re.compile(r"`([^`]*)`")


def show_schema(schema: Mapping[str, Any], shape: OfferedTool) -> dict[str, Any]:
    """The schema of the arguments as the shape has them.

    Args:
        schema: ours, of type `object`, without references; it is not changed.
        shape: what is other.
    """
    shown = _rename_fields(schema, shape, "")
    spread = shown["properties"].pop(shape.spread, None) if shape.spread else None
    if spread is not None:
        item = _rename_fields(spread["items"], shape, f"{shape.spread}.")
        shown["properties"] |= item["properties"]
        shown["required"] = [
            *(name for name in shown.get("required", ()) if name != shape.spread),
            *item.get("required", ()),
        ]
    return shown


def _rename_fields(schema: Mapping[str, Any], shape: OfferedTool, start: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        path = f"{start}{name}"
        if path in shape.fixed:
            continue
        properties[shape.name_of(path) if path != shape.spread else name] = _show(part, shape, path)
    shown = {**schema, "properties": properties}
    if "required" in schema:
        required = [name for name in schema["required"] if f"{start}{name}" not in shape.fixed]
        shown["required"] = [
            name if name == shape.spread else shape.name_of(f"{start}{name}") for name in required
        ]
    return shown


def _show(part: Mapping[str, Any], shape: OfferedTool, path: str) -> dict[str, Any]:
    shown = dict(part)
    if path in shape.described:
        shown["description"] = shape.described[path]
    if factor := shape.factors.get(path):
        shown = _multiply(shown, factor)
    has_others = any(one.startswith(f"{path}.") for one in shape.arguments)
    if has_others and path != shape.spread:
        shown["items"] = _rename_fields(part["items"], shape, f"{path}.")
    return shown


def _multiply(part: Mapping[str, Any], factor: int) -> dict[str, Any]:
    """The schema of a number, or of one among others, that is shown so many times as large."""
    shown: dict[str, Any] = {
        key: value * factor if key in _COUNTED and isinstance(value, int | float) else value
        for key, value in part.items()
    }
    if "anyOf" in shown:
        shown["anyOf"] = [_multiply(one, factor) for one in shown["anyOf"]]
    return shown


def translate_names(message: str, shape: OfferedTool) -> str:
    """What is said of arguments that do not fit, in the names that the model knows."""
    factor = next((n for ours, n in shape.factors.items() if f"`$.{ours}`" in message), 1)
    message = _BOUND.sub(lambda found: f"{found[1]} {float(found[2]) * factor:g}", message)
    return _QUOTED.sub(lambda found: f"`{_translate(found[1], shape)}`", message)


def _translate(token: str, shape: OfferedTool) -> str:
    """A name, or a place such as `$.edits[0].old_str`."""
    if not token.startswith("$"):
        leaves = (one for one in shape.arguments if one.rpartition(".")[2] == token)
        path = token if token in shape.arguments else next(leaves, token)
        return shape.name_of(path)
    place, steps = "$", list[str]()
    for step in token.split(".")[1:]:
        name, bracket, rest = step.partition("[")
        steps.append(name)
        if ".".join(steps) != shape.spread:
            place += f".{shape.name_of('.'.join(steps))}{bracket}{rest}"
    return place
