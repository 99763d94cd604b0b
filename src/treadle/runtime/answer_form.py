"""The form an answer must have, and what is wrong with an answer that does not have it.

What is asked for is one JSON document: the value of a type (`AnswerForm.of_type`), or whatever fits
a JSON schema (`AnswerForm.of_schema`). White space around the document and one Markdown code fence
are allowed; models write them by habit. Anything else around it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

import msgspec

from treadle.errors import UsageError
from treadle.tools.value_types import make_decoder, make_schema

if TYPE_CHECKING:  # it takes a tenth of a second to import, and few threads need it
    from jsonschema import Draft202012Validator, SchemaError, ValidationError
    from referencing._core import Resolver

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
"""The one dialect of JSON schema that is understood, and the one that needs no `$schema`."""

FAULTS_MAX: Final = 5
"""So many faults of one answer are told; who mends them is told of the rest."""

_TEXT_LENGTH_MAX: Final = 300
_FENCE: Final = "```"
_TOO_DEEP: Final = "the document is nested too deeply"

T = TypeVar("T")
V = TypeVar("V")


class AnswerForm(Generic[T]):
    """What an answer must look like. Made by `of_type` or `of_schema`.

    `schema` is the JSON schema as it is recorded and told to the model; it may hold `$ref`s within
    itself.
    """

    def __init__(self, schema: dict[str, Any], read: Callable[[bytes], T]) -> None:
        self.schema: Final = schema
        self._read: Final = read

    @staticmethod
    def of_type(kind: type[V]) -> AnswerForm[V]:
        """The form of a type: any that `treadle.tools.value_types` knows.

        Raises:
            UsageError: JSON cannot say a value of this type; the message says why.
        """
        try:
            schema = _to_plain_json(make_schema(kind))
            decoder: msgspec.json.Decoder[V] = make_decoder(kind)
        except (TypeError, ValueError, RecursionError) as error:
            name = getattr(kind, "__name__", repr(kind))
            reason = " ".join(str(error).split())
            raise UsageError(f"{name} cannot be the form of an answer: {reason}") from error

        def read(document: bytes) -> V:
            try:
                return decoder.decode(document)
            except msgspec.DecodeError as error:
                _raise_mismatch(document, error)

        return AnswerForm(schema, read)

    @staticmethod
    def of_schema(schema: Mapping[str, Any]) -> AnswerForm[Any]:
        """The form of a JSON schema of draft 2020-12.

        `format` is not checked, as the draft has it. Nothing is fetched: a `$ref` leads to a place
        in the schema itself.

        Raises:
            UsageError: the schema is not valid, or one of its `$ref`s leads nowhere or in a circle;
                the message says what is wrong and where.
        """
        plain, validator = _compile_schema(schema)

        def read(document: bytes) -> Any:
            try:
                value = msgspec.json.decode(document)
            except msgspec.DecodeError as error:
                _raise_mismatch(document, error)
            try:
                # One more than is told, to know whether there are more.
                faults = [
                    _describe_fault(one)
                    for one in islice(validator.iter_errors(value), FAULTS_MAX + 1)
                ]
            except OverflowError:
                raise _FormMismatchError("a number in the document is too large") from None
            if len(faults) > FAULTS_MAX:
                faults[FAULTS_MAX:] = ["and more"]
            if faults:
                raise _FormMismatchError("\n".join(faults))
            return value

        return AnswerForm(plain, read)

    def find_fault(self, text: str) -> str:
        """What is wrong with an answer and where, for who mends it; empty if nothing.

        Args:
            text: the whole answer.
        """
        try:
            self._parse(text)
        except _FormMismatchError as unfit:
            return str(unfit)
        return ""

    def decode(self, text: str) -> T:
        """The value: typed for a type, plain data for a JSON schema.

        Args:
            text: the whole answer.

        Raises:
            UsageError: it does not have the form; `find_fault` tells so without raising.
        """
        try:
            return self._parse(text)
        except _FormMismatchError as unfit:
            raise UsageError(f"the answer does not have the form asked for: {unfit}") from None

    def _parse(self, text: str) -> T:
        try:
            return self._read(_strip_fence(text).encode())
        except UnicodeEncodeError:
            raise _FormMismatchError("the text contains half of a surrogate pair") from None
        except RecursionError:
            raise _FormMismatchError(_TOO_DEEP) from None


class _FormMismatchError(ValueError):
    """The answer does not have the form; the text says why."""


def _strip_fence(text: str) -> str:
    document = text.strip()
    if len(document) < 2 * len(_FENCE) or not document.startswith(_FENCE):
        return document
    if not document.endswith(_FENCE):
        return document
    document = document[len(_FENCE) : -len(_FENCE)]
    has_name = document[:4].lower() == "json"  # which begins no JSON document
    return (document[4:] if has_name else document).strip()


def _raise_mismatch(document: bytes, error: msgspec.DecodeError) -> NoReturn:
    """Says why `msgspec` does not take a document: its place and reason, or that it is no JSON."""
    if isinstance(error, msgspec.ValidationError):
        raise _FormMismatchError(str(error)) from None
    reason = "the answer is empty" if not document else _find_syntax_fault(document) or str(error)
    raise _FormMismatchError(
        f"not a JSON document: {reason}\nAnswer with one JSON document and nothing around it."
    ) from None


def _find_syntax_fault(document: bytes) -> str:
    """What the standard parser finds: it tells line and column. It takes more than `msgspec`."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        json.loads(document, parse_constant=refuse)
    except ValueError as error:
        return str(error)
    return ""


def _to_plain_json(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy made of nothing but JSON, as it will be recorded."""
    return msgspec.json.decode(msgspec.json.encode(schema), type=dict[str, Any])


def _describe_fault(error: ValidationError) -> str:
    """One fault in a line, with the fault below it that is the most telling."""
    from jsonschema.exceptions import best_match

    nearest = best_match([error])
    if nearest is None or nearest is error:
        return _format_fault(error)
    return f"{_format_fault(error)}; nearest: {_format_fault(nearest)}"


def _format_fault(error: ValidationError | SchemaError) -> str:
    return f"{_shorten(error.message)} - at `{_shorten(error.json_path)}`"


def _shorten(text: str) -> str:
    """The text without its middle, if it is long: what is wrong stands behind the value."""
    text = text.replace("\n", " ")
    half = _TEXT_LENGTH_MAX // 2
    return text if len(text) <= _TEXT_LENGTH_MAX else f"{text[:half]} … {text[-half:]}"


# ---- the schema itself -------------------------------------------------------------------------


def _compile_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Draft202012Validator]:
    from jsonschema import Draft202012Validator, SchemaError
    from referencing.jsonschema import EMPTY_REGISTRY

    try:
        plain = _to_plain_json(schema)
        draft = plain.get("$schema", DRAFT)
        if str(draft).rstrip("#") != DRAFT:
            raise UsageError(
                f"the schema is of {draft}; only {DRAFT} is understood",
                hint="most schemas are valid in that draft too: change or leave out `$schema`",
            )
        Draft202012Validator.check_schema(plain)
        _ReferenceChecker().check(plain)
    except SchemaError as error:
        raise _make_schema_error(_format_fault(error)) from error
    except (TypeError, ValueError) as error:
        raise _make_schema_error(str(error)) from error
    except RecursionError as error:
        raise _make_schema_error("it is nested too deeply") from error
    return plain, Draft202012Validator(plain, registry=EMPTY_REGISTRY)


def _make_schema_error(reason: str) -> UsageError:
    return UsageError(f"the JSON schema is not valid: {reason}")


class _ReferenceChecker:
    """Follows the references of a schema, so that a bad one is told before a model is asked.

    One that leads nowhere would stop the check of the first answer that gets there; a circle of
    schemas that all look at the same value would never end.
    """

    _LISTS: Final = ("allOf", "anyOf", "oneOf")
    _SINGLE: Final = ("not", "if", "then", "else")

    def __init__(self) -> None:
        self._same_value: Final[dict[int, list[int]]] = {}
        """From each schema to those that look at the same value; by `id`, as all of them live."""

    def check(self, schema: dict[str, Any]) -> None:
        from graphlib import CycleError, TopologicalSorter

        from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

        root = DRAFT202012.create_resource(schema)
        self._follow_schema(schema, EMPTY_REGISTRY.resolver_with_root(root))
        try:
            TopologicalSorter(self._same_value).prepare()
        except CycleError:
            raise _make_schema_error("a $ref leads back to itself, without end") from None

    def _follow_schema(self, schema: object, resolver: Resolver[Any]) -> None:
        from referencing.jsonschema import DRAFT202012

        if not isinstance(schema, dict) or id(schema) in self._same_value:
            return
        beside = self._same_value[id(schema)] = [
            id(one) for one in self._list_in_place_schemas(schema)
        ]
        references = [schema[key] for key in ("$ref", "$dynamicRef") if key in schema]
        beside.extend(self._follow_reference(reference, resolver) for reference in references)
        for below in DRAFT202012.create_resource(schema).subresources():
            self._follow_schema(below.contents, resolver.in_subresource(below))

    def _list_in_place_schemas(self, schema: dict[str, Any]) -> Iterator[object]:
        for key in self._LISTS:
            yield from schema.get(key, ())
        yield from (schema[key] for key in self._SINGLE if key in schema)
        yield from schema.get("dependentSchemas", {}).values()

    def _follow_reference(self, reference: str, resolver: Resolver[Any]) -> int:
        """Follow one reference; the `id` of where it leads."""
        from jsonschema import Draft202012Validator, SchemaError
        from referencing.exceptions import Unresolvable

        try:
            found = resolver.lookup(reference)
            # It may lead to a place that is no schema to whoever checked the whole.
            Draft202012Validator.check_schema(found.contents)
        except Unresolvable:
            raise _make_schema_error(f"the $ref {reference} leads nowhere within it") from None
        except SchemaError as error:
            raise _make_schema_error(
                f"the $ref {reference} leads to no schema: {_format_fault(error)}"
            ) from error
        self._follow_schema(found.contents, found.resolver)
        return id(found.contents)
