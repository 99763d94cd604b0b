"""Answers on their way out: headers that every answer has, bodies in pieces, refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import msgspec

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Problem
from treadle.pages.renderer import render_refusal
from treadle.pages.site import HEADERS
from treadle.server.http.endpoints import HTML, JSON
from treadle.server.refusals import Refusal

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PIECE_SIZE: Final = 64 * 1024
"""What is given to a connection at a time: a reader is timed by piece, however long the answer."""

DEFAULT_HEADERS: Final = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
}
"""What is said here is for who asked: not for caches, frames, search engines, other sites."""


async def send_head(send: Send, status: int, media: str, headers: dict[str, str]) -> None:
    """Send the head of an answer."""
    told = {**DEFAULT_HEADERS, **{name.lower(): value for name, value in headers.items()}}
    if media:
        told["content-type"] = f"{media}; charset=utf-8" if media == HTML else media
    if media == HTML:
        told |= HEADERS
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def send_body(send: Send, data: bytes, *, is_last: bool) -> None:
    """Send a part of the body."""
    for piece in _split_pieces(data):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if is_last:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_response(
    send: Send, status: int, media: str, data: bytes, headers: dict[str, str] | None = None
) -> None:
    """Send a whole answer."""
    told = {**(headers or {})}
    if status not in (204, 304):
        told["content-length"] = str(len(data))
    await send_head(send, status, media, told)
    await send_body(send, data, is_last=True)


def wants_page(scope: Mapping[str, Any]) -> bool:
    """Whether a browser asks for what is no part of the API: it is told in a page what is wrong."""
    if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith("/api/"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


async def send_refusal(
    send: Send, refusal: Refusal, *, is_last: bool = False, is_page: bool = False
) -> None:
    """Say no.

    Args:
        send: of ASGI.
        refusal: what is said.
        is_last: whether the connection ends with it, because what was sent was not read to its end.
        is_page: whether it is said in a page.
    """
    headers = refusal.headers
    if refusal.code is ErrorCode.UNAUTHORIZED:
        headers = {"www-authenticate": "Bearer", **headers}
    if is_last:
        headers = {**headers, "connection": "close"}
    await _send_problem(send, refusal.code.status, refusal.problem, headers, is_page=is_page)


async def send_server_error(send: Send, request_id: str, *, is_page: bool = False) -> None:
    """Say that the server has a fault, and nothing about it."""
    problem = Problem(
        ErrorCode.INTERNAL.value,
        "the server has a fault; it is in its log",
        f"give this to who runs it: {request_id}",
    )
    await _send_problem(send, ErrorCode.INTERNAL.status, problem, {}, is_page=is_page)


_TITLES: Final[Mapping[str, str]] = {
    ErrorCode.NOT_FOUND.value: "Nothing is shown here",
    ErrorCode.GONE.value: "This link is over",
    ErrorCode.INTERNAL.value: "Something is wrong with the server",
    ErrorCode.UNAVAILABLE.value: "The server is busy",
    ErrorCode.TOO_MANY.value: "Too much was asked for",
}


def render_problem(problem: Problem) -> bytes:
    """The page that says what is wrong."""
    title = _TITLES.get(problem.error, "That cannot be done")
    return render_refusal(title, problem.message, problem.hint).encode()


async def _send_problem(
    send: Send, status: int, problem: Problem, headers: dict[str, str], *, is_page: bool
) -> None:
    if is_page:
        await send_response(send, status, HTML, render_problem(problem), headers)
    else:
        await send_response(send, status, JSON, msgspec.json.encode(problem), headers)


def _split_pieces(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    for start_at in range(0, len(data), PIECE_SIZE):
        yield bytes(view[start_at : start_at + PIECE_SIZE])
