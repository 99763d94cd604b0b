"""The types that arguments, results and answers may have: their schemas, their values in JSON.

`msgspec` does it for what it knows: builtins, enums, dates, `Decimal`, dataclasses, `TypedDict`,
`NamedTuple`, `Struct`, constraints by `Annotated[..., Meta(...)]`. Where a program's types are of
pydantic, pydantic does it, and so it does for what `msgspec` refuses, such as a union of two
dataclasses. It is no dependency: it is looked for where a type needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache, reduce
from importlib.util import find_spec
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import Meta

FAULTS_MAX: Final = 5
"""So many faults of one value are told; who mends them is told of the rest."""

_LITERAL: Final = frozenset({"default", "enum", "const", "examples"})
"""Keywords of JSON schema that hold values, not schemas."""
_PYDANTIC: Final = frozenset({"pydantic", "annotated_types"})
"""Packages whose marks in an `Annotated` type only pydantic heeds."""


class _AnyInstance(type):
    """Of a class whose instance everything is: `msgspec` looks at what a hook has made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class PydanticValue(metaclass=_AnyInstance):
    """Stands in a type for the part that pydantic reads; made by `adapt_type`."""

    adapter: Any


def adapt_type(hint: Any) -> Any:
    """A type as `msgspec` takes it together with `schema_hook` and `dec_hook`.

    Raises:
        TypeError: JSON cannot say a value of this type, or not tell which of two it is.
    """
    hint = _mark_times(hint)
    if hint is object:
        raise TypeError("an object may be anything; Any is what takes every value of JSON")
    if not _mentions_pydantic(hint):
        try:
            msgspec.json.Decoder(hint, dec_hook=dec_hook)
            msgspec.json.schema_components([hint], schema_hook=schema_hook)
        except TypeError:
            if find_spec("pydantic") is None:
                raise
        else:
            return hint
    return _AnyInstance("PydanticValue", (PydanticValue,), {"adapter": _make_adapter(hint)})


@lru_cache
def _find_adapter(kind: type) -> Any:
    """Kept: a call decodes by it, and pydantic takes long to make one."""
    return kind.adapter if issubclass(kind, PydanticValue) else _make_adapter(kind)


def _make_adapter(hint: Any) -> Any:
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError:
        raise TypeError(f"{hint!r} needs pydantic, which is not installed") from None
    try:
        adapter = TypeAdapter(hint)
        adapter.json_schema()
    except PydanticUserError as error:
        raise TypeError(str(error).partition("\n")[0]) from None
    return adapter


def _mentions_pydantic(hint: Any) -> bool:
    """Whether a type is one of pydantic's, or holds one in its arguments."""
    if hasattr(hint, "__pydantic_core_schema__") or hasattr(hint, "__get_pydantic_core_schema__"):
        return True
    marks = getattr(hint, "__metadata__", ())
    if any(type(mark).__module__.partition(".")[0] in _PYDANTIC for mark in marks):
        return True
    return any(_mentions_pydantic(part) for part in get_args(hint))


def _mark_times(hint: Any) -> Any:
    """The type with times that say in the schema what they are; `msgspec` calls them texts."""
    if hint is datetime:
        return Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
    parts = get_args(hint)
    if datetime not in parts or get_origin(hint) is Annotated:
        return hint
    marked = tuple(map(_mark_times, parts))
    if isinstance(hint, UnionType):
        return reduce(or_, marked)
    return hint.copy_with(marked) if hasattr(hint, "copy_with") else get_origin(hint)[marked]


def make_schema(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type; it may have references within itself.

    Raises:
        TypeError: JSON cannot say a value of this type.
    """
    kind = adapt_type(hint)
    if isinstance(kind, _AnyInstance):
        return dict(kind.adapter.json_schema())  # type: ignore[attr-defined]
    return msgspec.json.schema(kind, schema_hook=schema_hook)


def make_decoder(hint: Any) -> msgspec.json.Decoder[Any]:
    """What reads values of a type. Raises as `make_schema`."""
    return msgspec.json.Decoder(adapt_type(hint), dec_hook=dec_hook)


def schema_hook(kind: type) -> dict[str, Any]:
    """The schema of what `msgspec` does not know, without references."""
    if not _mentions_pydantic(kind) and not issubclass(kind, PydanticValue):
        raise TypeError(f"nobody knows how JSON says a {kind.__qualname__}")
    schema: dict[str, Any] = _find_adapter(kind).json_schema(ref_template="{model}")
    plain: dict[str, Any] = inline_references(schema, schema.pop("$defs", {}))
    return plain


def dec_hook(kind: type, value: Any) -> Any:
    """The value of what `msgspec` does not know, of decoded JSON."""
    from pydantic import ValidationError

    try:
        return _find_adapter(kind).validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        raise ValueError(_describe_faults(error.errors(include_url=False))) from None


def _describe_faults(faults: list[Any]) -> str:
    told = [_describe_fault(one) for one in faults[:FAULTS_MAX]]
    return "; ".join([*told, *["and more"] * (len(faults) > FAULTS_MAX)])


def _describe_fault(fault: Mapping[str, Any]) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    return f"{fault['msg']}, in `{place}`" if place else str(fault["msg"])


def encode_value(value: Any) -> bytes:
    """A value as JSON.

    Raises:
        TypeError: JSON cannot say it.
    """
    return msgspec.json.encode(value, enc_hook=_enc_hook)


def _enc_hook(value: Any) -> Any:
    if hasattr(value, "__pydantic_serializer__"):
        from pydantic import TypeAdapter

        return TypeAdapter(type(value)).dump_python(value, mode="json")
    raise TypeError(f"JSON cannot say a {type(value).__qualname__}")


def inline_references(value: Any, components: Mapping[str, Any]) -> Any:
    """A schema without references and titles: not every model server follows them.

    Args:
        value: the schema, or a part of it.
        components: what its references lead to, by their whole text.

    Raises:
        RecursionError: one leads back to itself.
    """
    if isinstance(value, list | tuple):
        return [inline_references(item, components) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        told = {key: item for key, item in value.items() if key != "$ref"}
        return {**inline_references(components[value["$ref"]], components), **told}
    plain: dict[str, Any] = {}
    for key, part in value.items():
        if key == "properties":
            plain[key] = {name: inline_references(item, components) for name, item in part.items()}
        elif key not in ("title", "discriminator"):
            plain[key] = part if key in _LITERAL else inline_references(part, components)
    return plain
