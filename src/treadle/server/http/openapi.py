"""The OpenAPI document, made of the same table as the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Problem
from treadle.server.http.endpoints import JSON, Endpoint, IfMatch
from treadle.server.http.request_reader import PATH_PATTERNS
from treadle.version import __version__

OPENAPI_VERSION: Final = "3.1.0"

_REFERENCE_TEMPLATE: Final = "#/components/schemas/{name}"
_ETAG_HEADER: Final = {
    "description": "Which version this is; `If-Match` and `If-None-Match` take it.",
    "schema": {"type": "string"},
}
_PATH_DESCRIPTIONS: Final = {
    "thread_id": "The id of a thread; `ID@NAME` is that of the user NAME.",
    "sha256": "The SHA-256 of an output, in hex.",
    "token": "What stands at the end of a link.",
    "token_id": "The number of a token.",
    "invitation_id": "The number of an invitation.",
    "identity_id": "The number of an identity.",
    "request_id": "The id of a request.",
    "webhook_id": "The number of a webhook.",
    "hold_id": "The number of a legal hold.",
    "name": "The name of a user.",
}
_ANY_OBJECT: Final[dict[str, Any]] = {"type": "object"}


def make_openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document, as values of JSON.

    Args:
        endpoints: all there are.
    """
    types = [kind for one in endpoints for kind in _list_types(one)] + [Problem]
    unique = list({repr(kind): kind for kind in types}.values())
    schemas, components = msgspec.json.schema_components(
        unique, schema_hook=_describe_any, ref_template=_REFERENCE_TEMPLATE
    )
    named = dict(zip(map(repr, unique), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _make_operation(one, named, components)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Treadle",
            "version": __version__,
            "description": "Threads of many machines and people.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe_any(_: type) -> dict[str, Any]:
    """Of what has no shape of its own (`object`, raw JSON) nothing is said."""
    return {"description": "Any JSON."}


def _list_types(endpoint: Endpoint) -> list[Any]:
    found = [endpoint.body, endpoint.answer, endpoint.query]
    return [kind for kind in found if kind is not None and not isinstance(kind, str)]


def _make_operation(
    endpoint: Endpoint, schemas: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.about,
        "parameters": [*_make_parameters(endpoint, components)],
        "responses": _make_responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        schema = schemas.get(repr(endpoint.body), _ANY_OBJECT if endpoint.body == JSON else {})
        told["requestBody"] = {
            "required": not endpoint.is_body_optional,
            "content": {endpoint.body_media: {"schema": schema} if schema else {}},
        }
    if endpoint.is_open:
        told["security"] = (
            [{}, {"token": []}] if ErrorCode.UNAUTHORIZED in endpoint.all_codes else []
        )
    return told


def _make_parameters(endpoint: Endpoint, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", endpoint.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_DESCRIPTIONS[name],
            "schema": {"type": "string", "pattern": f"^{PATH_PATTERNS[name]}$"},
        }
    if endpoint.query is not None:
        yield from _make_query_parameters(endpoint.query, components)
    if endpoint.base is not IfMatch.NONE:
        yield {
            "name": "If-Match",
            "in": "header",
            "required": endpoint.base is IfMatch.MUST,
            "description": "The version that the change is about.",
            "schema": {"type": "string"},
        }


def _make_query_parameters(
    kind: type[Struct], components: dict[str, Any]
) -> Iterable[dict[str, Any]]:
    properties = components[kind.__name__]["properties"]
    for field in msgspec.structs.fields(kind):
        schema = dict(properties[field.encode_name])
        if schema.get("default") == []:
            del schema["default"]
        yield {
            "name": field.encode_name,
            "in": "query",
            "required": field.default is msgspec.NODEFAULT,
            "schema": schema,
        }


def _make_responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for status in (endpoint.status, *endpoint.more_statuses):
        one: dict[str, Any] = {"description": "As asked."}
        if endpoint.answer is not None and status not in (204, 304):
            schema = schemas.get(repr(endpoint.answer))
            one["content"] = {endpoint.answer_media: {"schema": schema} if schema else {}}
        if endpoint.has_tag:
            one["headers"] = {"ETag": _ETAG_HEADER}
        told[str(status)] = one
    refusals: dict[int, list[str]] = {}
    for code in sorted(endpoint.all_codes, key=lambda code: code.value):
        refusals.setdefault(code.status, []).append(code.value)
    for status, codes in sorted(refusals.items()):
        told.setdefault(
            str(status),
            {
                "description": f"Refused: {', '.join(codes)}.",
                "content": {JSON: {"schema": schemas[repr(Problem)]}},
            },
        )
    return told
