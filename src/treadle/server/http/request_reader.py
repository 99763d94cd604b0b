"""A request as its endpoint wants it, or why it is none; looks at no database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from treadle.api.audit_types import CLIENT_PURPOSES, ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark, parse_tag, parse_version
from treadle.api.types import PURPOSE_HEADER
from treadle.server.http.endpoints import Endpoint, IfMatch
from treadle.server.http.limits import find_client_address
from treadle.server.http.settings import ServerConfig
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.server.threads.json_validation import check_json

SINGLE_HEADERS: Final = frozenset(
    ("authorization", "content-encoding", "content-type", "if-match", "accept", "last-event-id")
)
"""Headers that mean nothing when they stand twice."""

QUERY_FIELDS_MAX: Final = 20

_HOST_PATTERN: Final = re.compile(r"[A-Za-z0-9._\-:\[\]]{1,255}")
_LOCAL_HOST: Final = re.compile(
    r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE
)
_PROXY_HEADERS: Final = frozenset(
    ("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip")
)
_ENTITY_TAG: Final = re.compile(r'(?:W/)?"([^"]{0,100})"')
_ESCAPED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_CHARSETS: Final = ("", "charset=utf-8", 'charset="utf-8"')

PATH_PATTERNS: Final = {
    # Whose thread it is may stand behind the id: several people may have one of the same id.
    "thread_id": r"T-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"(@[A-Za-z0-9][A-Za-z0-9._@\-]{0,99})?",
    "sha256": r"[0-9a-f]{64}",
    "token": r"[A-Za-z0-9_]{1,200}",
    "request_id": r"[A-Za-z0-9_-]{16,64}",
    "token_id": r"[1-9][0-9]{0,17}",
    "invitation_id": r"[1-9][0-9]{0,17}",
    "identity_id": r"[1-9][0-9]{0,17}",
    "webhook_id": r"[1-9][0-9]{0,17}",
    "hold_id": r"[1-9][0-9]{0,17}",
    "name": r"[A-Za-z0-9][A-Za-z0-9._@\-]{0,99}",
}
"""What stands in a path; what does not fit names nothing that there could be."""


class RequestHead(Struct, frozen=True):
    """What stands in a request before its body, once each.

    Args:
        method: in upper case; `GET` also for `HEAD`.
        headers: names in lower case.
        bearer: the token it brings; `None` for none.
        address: where it comes from.
        origin: what it was asked under: scheme and host.
        is_local: the caller is on this machine, and no proxy stands between.
    """

    method: str
    headers: dict[str, str]
    bearer: str | None
    address: str
    origin: str
    is_local: bool


def read_head(scope: Mapping[str, Any], config: ServerConfig) -> RequestHead:
    """The head of an ASGI request.

    Raises:
        Refusal: a header stands twice that may not, or `Authorization` is no bearer token.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1").strip()
        if name not in headers:
            headers[name] = value
        elif name in SINGLE_HEADERS:
            raise Refusal(ErrorCode.BAD_REQUEST, f"the header {name} stands twice")
        else:
            headers[name] += f", {value}"
    client = scope.get("client")
    method = scope["method"]
    return RequestHead(
        "GET" if method == "HEAD" else method,
        headers,
        _parse_bearer(headers.get("authorization")),
        find_client_address(client, headers, is_behind_proxy=config.is_behind_proxy),
        _find_origin(scope, headers, config),
        not _is_proxied(headers, config)
        and client is not None
        and client[0] in ("127.0.0.1", "::1"),
    )


def read_purpose(headers: Mapping[str, str]) -> ReadWay:
    """What our own client reads others' threads for; of others it is the API."""
    told = headers.get(PURPOSE_HEADER, "")
    return told if told in CLIENT_PURPOSES else "api"


def has_body(scope: Mapping[str, Any]) -> bool:
    """Whether a request says that a body follows its headers."""
    told = dict(scope["headers"])
    return b"transfer-encoding" in told or told.get(b"content-length", b"0") != b"0"


def _is_proxied(headers: Mapping[str, str], config: ServerConfig) -> bool:
    """Whether a proxy stands between, or may: then the other end tells nothing of the caller.

    Who asks on this machine calls it by a name of this machine; a proxy passes on another one, or
    adds a header of its own.
    """
    is_passed_on = any(
        name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in headers
    )
    is_here = _LOCAL_HOST.fullmatch(headers.get("host", "")) is not None
    return config.is_behind_proxy or is_passed_on or not is_here


def _parse_bearer(header: str | None) -> str | None:
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not re.fullmatch(r"[\x21-\x7e]{1,500}", token.strip()):
        raise Refusal(ErrorCode.UNAUTHORIZED, "`Authorization` holds no bearer token")
    return token.strip()


def _find_origin(scope: Mapping[str, Any], headers: dict[str, str], config: ServerConfig) -> str:
    if config.base_url:
        return config.base_url.rstrip("/")
    scheme, host = scope.get("scheme", "http"), headers.get("host", "")
    if config.is_behind_proxy:
        told = headers.get("x-forwarded-proto", scheme)
        scheme = told if told in ("http", "https") else scheme
        host = headers.get("x-forwarded-host", host)
    return f"{scheme}://{host if _HOST_PATTERN.fullmatch(host) else 'localhost'}"


def check_path(values: Mapping[str, Any]) -> dict[str, str]:
    """The values of a path.

    Raises:
        Refusal: one of them names nothing that there could be.
    """
    for name, value in values.items():
        if not re.fullmatch(PATH_PATTERNS[name], value, re.ASCII):
            raise make_not_found_refusal()
    return dict(values)


def read_query(raw: bytes, kind: type[Struct] | None) -> Any:
    """What stands behind the `?`, as an object of this type; `None` without a type.

    Raises:
        Refusal: it has not the form that the type wants, a name stands twice or is not known.
    """
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_MAX,
        )
    except (UnicodeError, ValueError):
        raise Refusal(ErrorCode.BAD_REQUEST, "what stands behind the `?` cannot be read") from None
    fields = () if kind is None else msgspec.structs.fields(kind)
    known = {one.encode_name: one.default == () for one in fields}
    found: dict[str, Any] = {}
    for name, value in pairs:
        if known.get(name):
            found.setdefault(name, []).append(value)
        elif name in known and name not in found:
            found[name] = value
        else:
            raise Refusal(
                ErrorCode.BAD_REQUEST,
                "behind the `?` a name stands twice, or is not known here",
                hint=f"known are: {', '.join(sorted(known)) or 'none'}",
            )
    if any("\0" in value for _, value in pairs):
        raise Refusal(ErrorCode.BAD_REQUEST, "what stands behind the `?` holds NUL")
    if kind is None:
        return None
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(ErrorCode.BAD_REQUEST, f"what stands behind the `?`: {error}") from None


def read_if_match(endpoint: Endpoint, headers: Mapping[str, str]) -> Mark | int | None:
    """The place that `If-Match` names.

    Raises:
        Refusal: it names none, or is missing where it must be.
    """
    told = headers.get("if-match")
    if endpoint.base is IfMatch.NONE or (told is None and endpoint.base is IfMatch.MAY):
        return None
    if told is None:
        raise Refusal(
            ErrorCode.PRECONDITION_REQUIRED,
            "`If-Match` is missing: a change must say what it changes",
            hint='it is the `ETag` of what you have; of a thread that is not there yet, "0-000..."',
        )
    found = parse_tag(told) or parse_version(told)
    if found is None:
        raise Refusal(ErrorCode.BAD_REQUEST, "`If-Match` names no version")
    return found


def read_if_none_match(headers: Mapping[str, str]) -> frozenset[str]:
    """The tags that `If-None-Match` names, without quotes; `*` stands for any."""
    told = headers.get("if-none-match", "")
    return frozenset(("*",)) if told.strip() == "*" else frozenset(_ENTITY_TAG.findall(told))


def check_content_type(endpoint: Endpoint, headers: Mapping[str, str]) -> None:
    """Whether the body says that it is what the endpoint takes.

    Raises:
        Refusal: it says something else, or nothing.
    """
    media, _, rest = headers.get("content-type", "").partition(";")
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if endpoint.is_body_optional and is_empty:
        return
    if media.strip().lower() != endpoint.body_media or rest.strip().lower() not in _CHARSETS:
        raise Refusal(
            ErrorCode.UNSUPPORTED_MEDIA,
            "the body is not of the kind that is taken here",
            hint=f"Content-Type: {endpoint.body_media}",
            headers={"accept": endpoint.body_media},
        )


def read_body(endpoint: Endpoint, body: bytes) -> Any:
    """The body as the endpoint wants it.

    Raises:
        Refusal: it has not the form of the endpoint's type.
    """
    if isinstance(endpoint.body, str):
        return body
    if not body and endpoint.is_body_optional:
        return endpoint.body()
    check_json(body)
    if _ESCAPED_NUL.search(body):  # PostgreSQL has no text with one
        raise Refusal(ErrorCode.BAD_REQUEST, "the body holds NUL")
    try:
        return msgspec.json.decode(body, type=endpoint.body)
    except msgspec.ValidationError as error:
        # What the library says names the place and the expected type, and nothing of the body.
        raise Refusal(ErrorCode.BAD_REQUEST, f"the body is not what is expected: {error}") from None


def read_last_event_id(headers: Mapping[str, str]) -> int | None:
    """The change that `Last-Event-ID` names; `None` without it.

    Raises:
        Refusal: it names none.
    """
    told = headers.get("last-event-id", "")
    if not told:
        return None
    if not re.fullmatch(r"[0-9]{1,16}", told) or int(told) > SEQ_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, "`Last-Event-ID` names no change")
    return int(told)
