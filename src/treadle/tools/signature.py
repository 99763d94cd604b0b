"""From a function's signature and docstring to a JSON schema, and from JSON text to arguments.

Arguments that do not fit are taken as other agents' tools have them, where that leaves no doubt
(`argument_names.py`); else they are refused.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from treadle.core.tool_families import OfferedTool
from treadle.core.tools import ToolErrorKind
from treadle.errors import UsageError
from treadle.tool_failure import ToolFailure
from treadle.tools.argument_names import ArgumentConflictError, adapt_arguments
from treadle.tools.shown_schema import show_schema, translate_names
from treadle.tools.value_types import adapt_type, dec_hook, inline_references, schema_hook

DEPTH_MAX: Final = 64
"""Levels of nesting in arguments, as in records; what is deeper breaks whoever walks over it."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET: Final = re.compile(rb"[][{}]")
_SECTION: Final = re.compile(r"(Args|Arguments|Returns|Yields|Raises|Examples?|Notes?):\s*\Z")
_ENTRY: Final = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)")
_PLACE: Final = re.compile(r" - at `(\$[^`]*)`\Z")
_STEP: Final = re.compile(r"\.(\w+)|\[")


class Signature:
    """What a function takes, in the words of JSON.

    Args:
        function: annotated, with a Google-style docstring: what stands before `Args:` is the
            description, the entries of `Args:` describe the parameters.
        context: the type of an optional first parameter that is not the model's to give.
        shape: how a family of models is told of it, if other than it is.

    Raises:
        UsageError: something is missing or cannot be said in JSON; the message says what.
    """

    def __init__(
        self, function: Callable[..., Any], context: type, shape: OfferedTool | None = None
    ) -> None:
        self._shape: Final = shape
        self._name = function.__name__
        hints = self._hints(function)
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_self: Final = _is_method(function, parameters, hints)
        del parameters[: self.takes_self]
        first = hints.get(parameters[0].name) if parameters else None
        self.takes_context: Final = first is context or typing.get_origin(first) is context
        self.deps: Final = next(iter(typing.get_args(first)), None) if self.takes_context else None
        self.description, described = _read_docstring(inspect.getdoc(function) or "")
        if not self.description:
            raise self._fault("has no docstring; the model needs it to know what the tool does")
        if self.takes_context:
            described.pop(parameters[0].name, None)
        fields = [
            self._field(parameter, hints, described.pop(parameter.name, None))
            for parameter in parameters[self.takes_context :]
        ]
        if described:
            raise self._fault(f"describes parameters it does not have: {', '.join(described)}")
        try:
            self._arguments = msgspec.defstruct(
                self._name, fields, forbid_unknown_fields=True, kw_only=True, frozen=True
            )
            self._schema: Final = _make_schema(self._arguments)
        except (TypeError, RecursionError) as error:
            raise self._fault(f"takes what JSON cannot say: {error}") from error
        self.schema: Final = self._schema if shape is None else show_schema(self._schema, shape)
        self._decoder = msgspec.json.Decoder(self._arguments, dec_hook=dec_hook)
        self._check_result(hints.get("return"))

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """The arguments by name, defaults filled in.

        Args:
            arguments_json: as the model wrote it. Empty text is what is left of a call that was
                cut before its arguments came; a call without arguments has `{}`.

        Raises:
            ToolFailure: INVALID_ARGUMENTS, with the place (`$.edits[0].old_str`) and the reason.
        """
        try:
            data = arguments_json.encode()
            if _is_deep(data):
                raise msgspec.DecodeError(f"the JSON is nested deeper than {DEPTH_MAX} levels")
            if not data.strip():
                raise msgspec.DecodeError("the arguments are missing: the answer was cut")
            found = self._decode(data)
        except UnicodeEncodeError:
            reason = "the text contains half of a surrogate pair"
        except msgspec.ValidationError as error:
            reason = self._explain(str(error))
        except (msgspec.DecodeError, ArgumentConflictError) as error:
            reason = str(error)
        else:
            return {name: getattr(found, name) for name in found.__struct_fields__}
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, reason)

    def _decode(self, data: bytes) -> Struct:
        """The arguments; those that do not fit are read once more as other tools have them."""
        try:
            if self._shape is None:
                return self._decoder.decode(data)
            given = msgspec.json.decode(data, type=dict[str, Any])
            return self._convert(self._shape.restore(given))
        except msgspec.ValidationError as error:
            try:
                given = msgspec.json.decode(data)
            except msgspec.DecodeError:  # a number that is too large for anything
                raise error from None
            return self._convert(self.adapt(given))

    def _convert(self, given: Any) -> Struct:
        return msgspec.convert(given, self._arguments, dec_hook=dec_hook)

    def adapt(self, arguments: Any) -> Any:
        """The arguments of a call, decoded, under the names and in the types that they have here.

        Raises:
            ArgumentConflictError: two of them say different things of one.
        """
        if not isinstance(arguments, dict):
            return arguments
        restored = arguments if self._shape is None else self._shape.restore(arguments)
        return adapt_arguments(restored, self._schema)

    def _explain(self, message: str) -> str:
        if self._shape is not None:
            message = translate_names(message, self._shape)
        if "unknown field" not in message:
            return message
        place = _PLACE.search(message)
        schema: Any = self.schema
        for step in _STEP.finditer(place[1] if place else ""):
            schema = schema.get("properties", {}).get(step[1]) if step[1] else schema.get("items")
            if not isinstance(schema, dict):
                return message
        accepted = ", ".join(schema.get("properties", ())) or "none"
        return f"{message} (accepted: {accepted})"

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function, include_extras=True)
        except NameError as error:
            raise self._fault(f"has an annotation that its module does not know: {error}") from None

    def _field(
        self, parameter: inspect.Parameter, hints: Mapping[str, Any], description: str | None
    ) -> tuple[Any, ...]:
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise self._fault(f"cannot be called by names alone: {parameter}")
        if name not in hints:
            raise self._fault(f"does not annotate {name}")
        try:
            hint = adapt_type(hints[name])
        except TypeError as error:
            raise self._fault(f"takes for `{name}` what JSON cannot say: {error}") from error
        if description:
            hint = Annotated[hint, Meta(description=description)]
        has_default = parameter.default is not parameter.empty
        return (name, hint, *[_make_default(parameter.default)] * has_default)

    def _check_result(self, hint: Any) -> None:
        """Raise for a type of the result whose values JSON cannot say, as far as that is known."""
        if hint is None or hint is Any or isinstance(hint, TypeVar):
            return
        try:
            adapt_type(hint)
        except TypeError as error:
            raise self._fault(f"returns what JSON cannot say: {error}") from error

    def _fault(self, what: str) -> UsageError:
        return UsageError(f"the tool {self._name} {what}")


def _is_deep(data: bytes) -> bool:
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > DEPTH_MAX:
            return True
    return False


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the entries of the `Args:` section, each as one line."""
    description: list[str] = []
    described: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section = heading[1]
        elif not section:
            description.append(line)
        elif section.startswith("Arg") and line.strip():
            depth = len(line) - len(line.lstrip())
            entry = _ENTRY.match(line.strip())
            if entry and (not name or depth <= indent):
                name, indent = entry[1], depth
                described[name] = entry[2]
            elif name:
                described[name] = f"{described[name]} {line.strip()}".strip()
    return "\n".join(description).strip(), described


def _is_method(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> bool:
    """Whether it was declared in a class, where its first parameter is the object."""
    place = function.__qualname__.rpartition(".")[0]
    is_in_class = bool(place) and not place.endswith("<locals>") and not inspect.ismethod(function)
    return is_in_class and bool(parameters) and parameters[0].name not in hints


def _make_default(value: Any) -> Any:
    """The default of a field; each call has one of its own of what can be changed in place."""
    is_filled = isinstance(value, list | dict | set) and bool(value)
    if is_filled or hasattr(value, "__pydantic_serializer__"):
        return msgspec.field(default_factory=partial(deepcopy, value))
    return value


def _make_schema(arguments: type[Struct]) -> dict[str, Any]:
    (top,), components = msgspec.json.schema_components(
        [arguments], ref_template="{name}", schema_hook=schema_hook
    )
    schema: dict[str, Any] = inline_references(top, components)
    schema.pop("description", None)
    return schema
