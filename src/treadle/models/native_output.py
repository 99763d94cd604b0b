"""The form of an answer as APIs take it that hold their models to one. Pure.

Each takes a part of JSON schema. A schema is put into that part if every answer which it lets
through is one of the schema's own, but for what only a value can break (a bound, a pattern): who
asks looks at the answer in any case. Words are left out, as the model reads them elsewhere. What
cannot be said like this (an object with any keys, a property that may only be left out, an answer
that is no object) is asked for in words alone.

The rules are those of OpenAI's guide "Structured outputs" and of the page of that name at
platform.claude.com, of November 2026.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits

Schema: TypeAlias = dict[str, Any]

NAME: Final = "answer"
"""What the form is called where an API wants a name."""

DEPTH_MAX: Final = 100
"""Levels of schemas within schemas; APIs take five to ten."""

_ROOT: Final = "#/$defs/"
_WORDS: Final = frozenset(
    ("$schema", "$defs", "$comment", "title", "description", "default", "examples", "deprecated")
)
_BOUNDS: Final = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems")
)
_TEXT_BOUNDS: Final = frozenset(("minLength", "maxLength", "pattern", "contentEncoding"))
_LEFT_OUT: Final = _WORDS | _BOUNDS | _TEXT_BOUNDS | {"maxItems", "uniqueItems", "discriminator"}
_TYPED: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "format")
)
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
_PLAIN: Final = frozenset(("integer", "number", "boolean", "null"))
_TYPE_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}


class SchemaRules(Struct, frozen=True):
    """Where APIs differ: whether all properties must be required, and schemas may hold themselves.

    All want `additionalProperties: false`, and an object as the whole.
    """

    all_required: bool = True
    takes_recursion: bool = True


OPENAI_RULES: Final = SchemaRules()
ANTHROPIC_RULES: Final = SchemaRules(all_required=False, takes_recursion=False)


def fit_native_schema(
    request: LlmRequest, traits: ModelTraits, rules: SchemaRules, *, beside_tools: bool
) -> LlmRequest:
    """The request with its schema as the API takes it; without one, if it cannot be held to it.

    Args:
        request: what is asked for.
        traits: of the model.
        rules: of the API.
        beside_tools: whether the model can still call tools. Servers that hold it to a grammar
            would keep it from that.
    """
    schema, has_tools = request.native_schema, traits.has_tools and bool(request.tools)
    if schema is None or traits.native_output is False or (has_tools and not beside_tools):
        return replace(request, native_schema=None)
    return replace(request, native_schema=make_native_schema(schema, rules))


def mark_native_output(event: ModelEvent) -> ModelEvent:
    """An answer that was held to its schema, marked so; other events as they are."""
    if not isinstance(event, LlmEvent.Completed) or event.response.tool_calls:
        return event
    message = replace(event.response.message, native_output=True)
    return replace(event, response=replace(event.response, message=message))


def make_native_schema(schema: Schema, rules: SchemaRules) -> Schema | None:
    """The schema as an API of these rules takes it; `None` if it cannot be said so."""
    try:
        return _Translation(schema, rules).translate()
    except _UnfitError:
        return None


class _UnfitError(Exception):
    """The schema says what the API has no words for."""


class _Translation:
    """One schema on its way; `$defs` that nothing leads to are left out."""

    def __init__(self, schema: Schema, rules: SchemaRules) -> None:
        self._schema = schema
        self._rules = rules
        self._made: dict[str, Schema] = {}
        self._open: list[str] = []
        """The definitions that are being translated, the outermost first."""

    def translate(self) -> Schema:
        whole = self._schema
        while "$ref" in whole:  # the whole itself has to be the object
            self._enter(whole["$ref"])
            whole = self._find(whole["$ref"])
        made = self._translate(whole, 0)
        if made.get("type") != "object":
            raise _UnfitError
        return {**made, "$defs": self._made} if self._made else made

    def _enter(self, reference: Any) -> None:
        if reference in self._open:
            raise _UnfitError
        self._open.append(reference)

    def _find(self, reference: Any) -> Schema:
        definitions = self._schema.get("$defs", {})
        name = str(reference).removeprefix(_ROOT)
        if reference != f"{_ROOT}{name}" or not isinstance(definitions.get(name), dict):
            raise _UnfitError
        found: Schema = definitions[name]
        return found

    def _translate(self, schema: Any, depth: int) -> Schema:
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            raise _UnfitError
        said = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
        if "enum" in said or "const" in said:
            return _make_choice(said)
        if {*said} == {"$ref"}:
            return self._refer(said["$ref"], depth)
        if {*said} in ({"anyOf"}, {"oneOf"}) and (several := next(iter(said.values()))):
            return {"anyOf": [self._translate(one, depth + 1) for one in several]}
        if {*said} == {"allOf"} and len(said["allOf"]) == 1:
            return self._translate(said["allOf"][0], depth + 1)
        if not {*said} <= _TYPED:
            raise _UnfitError
        kinds = said.get("type")
        if isinstance(kinds, list):
            return {"anyOf": [self._translate({**said, "type": one}, depth + 1) for one in kinds]}
        return self._translate_typed(said, kinds, depth)

    def _translate_typed(self, said: Schema, kind: Any, depth: int) -> Schema:
        if kind == "object":
            return self._translate_object(said, depth)
        if kind == "array":
            return {"type": kind, "items": self._translate(said.get("items"), depth + 1)}
        if kind == "string":
            named = said.get("format")
            return {"type": kind, "format": named} if named in _FORMATS else {"type": kind}
        if kind in _PLAIN:
            return {"type": kind}
        raise _UnfitError

    def _translate_object(self, said: Schema, depth: int) -> Schema:
        properties, required = said.get("properties"), said.get("required", [])
        is_open = said.get("additionalProperties", False) is not False
        if not isinstance(properties, dict) or is_open or not {*required} <= {*properties}:
            raise _UnfitError
        if self._rules.all_required:
            optional = [properties[name] for name in properties if name not in required]
            if not all(map(_may_be_required, optional)):
                raise _UnfitError
            required = [*properties]
        made = {name: self._translate(one, depth + 1) for name, one in properties.items()}
        wanted = [*required]
        return {
            "type": "object",
            "properties": made,
            "required": wanted,
            "additionalProperties": False,
        }

    def _refer(self, reference: Any, depth: int) -> Schema:
        found = self._find(reference)
        if reference in self._open and not self._rules.takes_recursion:
            raise _UnfitError
        name = reference.removeprefix(_ROOT)
        if name not in self._made:
            self._made[name] = {}  # one that leads back here finds it made
            self._open.append(reference)
            self._made[name] = self._translate(found, depth + 1)
            self._open.remove(reference)
        return {"$ref": reference}


def _may_be_required(schema: Any) -> bool:
    """Whether a property that could be left out says the same where it is not.

    It does if a value stands for its absence: a default, or `null`.
    """
    if not isinstance(schema, dict) or "default" in schema:
        return isinstance(schema, dict)
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return None in schema.get("enum", ()) or any(map(_may_be_required, schema.get("anyOf", ())))


def _make_choice(said: Schema) -> Schema:
    """One of several values; each type by itself, as each API wants a type that holds for all."""
    by_type: dict[str, list[Any]] = {}
    for value in [said["const"]] if "const" in said else said["enum"]:
        if type(value) not in _TYPE_NAMES:
            raise _UnfitError
        by_type.setdefault(_TYPE_NAMES[type(value)], []).append(value)
    if not by_type or not {*said} <= {"type", "enum", "const"}:
        raise _UnfitError
    parts = [
        {"type": kind} if kind == "null" else {"type": kind, "enum": values}
        for kind, values in by_type.items()
    ]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}
