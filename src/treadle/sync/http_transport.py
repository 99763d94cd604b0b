"""HTTP as a server is spoken to: bounded in every way, and every failure one of three errors.

Whoever answers may be another program, or somebody in between. So nothing is read without a bound,
no redirect is followed (it would carry the token to where nobody wanted it), nothing compressed is
asked for, and what does not have the form of the API is refused as a whole.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from treadle.api.audit_types import ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.api.types import MACHINE_HEADER, PURPOSE_HEADER, Problem
from treadle.errors import (
    NotLoggedInError,
    RemoteBrokenError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    TreadleError,
)
from treadle.models.catalog import is_loopback_host
from treadle.models.failures import retry_after_s
from treadle.version import __version__

CONNECT_S_MAX: Final = 5.0
SILENCE_S_MAX: Final = 30.0
"""Seconds in which nothing is sent or received."""

ANSWER_S_BASE: Final = 60.0
BYTES_PER_S_MIN: Final = 1024
"""Bytes a second. An answer may take `ANSWER_S_BASE` and a second for each so many bytes of it: who
drips a byte now and then holds nobody for ever."""

ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of an answer that is one JSON document."""

REFUSAL_SIZE_MAX: Final = 256 * 1024

JSON_TYPE: Final = "application/json"
LINES_TYPE: Final = "application/x-ndjson"
BYTES_TYPE: Final = "application/octet-stream"

_MESSAGE_LENGTH_MAX: Final = 500
_RETRYABLE_STATUSES: Final = frozenset((408, 425, 429))

T = TypeVar("T")
RequestBody = bytes | Iterable[bytes] | None


class ServerTransport:
    """Requests to one server.

    Args:
        url: where it is, without a path.
        token: who asks.
        purpose: what others' threads are read for.
    """

    def __init__(self, url: str, token: str, purpose: ReadWay = "sync") -> None:
        host = urlsplit(url).hostname or ""
        limits = httpx2.Limits(max_connections=8, max_keepalive_connections=8)
        self.url = url
        self._client = httpx2.Client(
            base_url=url,
            timeout=httpx2.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX),
            limits=limits,
            # What is for this machine goes through no proxy: it would leave the machine.
            transport=httpx2.HTTPTransport(limits=limits) if is_loopback_host(host) else None,
            headers={
                "authorization": f"Bearer {token}",
                "user-agent": f"treadle/{__version__}",
                "accept-encoding": "identity",
                MACHINE_HEADER: os.uname().nodename.encode("ascii", "replace").decode(),
                PURPOSE_HEADER: purpose,
            },
        )

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    @contextmanager
    def stream_response(
        self,
        method: str,
        path: str,
        *,
        body: RequestBody = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        silence_s: float = SILENCE_S_MAX,
    ) -> Generator[httpx2.Response, None, None]:
        """The head of an answer that is no refusal; its body is read within.

        Raises:
            RemoteUnavailableError, RemoteRefusedError, NotLoggedInError: as `treadle.sync.ports`
                says; what goes wrong while the body is read too.
        """
        timeout = httpx2.Timeout(silence_s, connect=CONNECT_S_MAX)
        has_begun = False
        try:
            with self._client.stream(
                method, path, content=body, headers=headers, params=params, timeout=timeout
            ) as response:
                if not response.is_success:
                    raise self._make_status_error(response)
                encoding = response.headers.get("content-encoding", "identity")
                if encoding.lower() != "identity":
                    raise self.make_protocol_error("it compresses what nobody asked it to compress")
                has_begun = True
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError) as error:
            failure = self._make_transport_error(error)
            if has_begun and isinstance(failure, RemoteUnavailableError):
                raise RemoteBrokenError(failure.message, hint=failure.hint) from error
            raise failure from error

    def request_value(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        """What an answer holds: one JSON document of a type. Raises as `answer`."""
        with self.stream_response(method, path, **options) as response:
            if not _has_content_type(response, JSON_TYPE):
                raise self.make_protocol_error(f"it answers with {_content_type(response)}")
            return self._decode(self.read_body(response, ANSWER_SIZE_MAX), kind)

    def request_status(self, method: str, path: str, **options: Any) -> int:
        """The status of an answer in which nothing stands. Raises as `answer`."""
        with self.stream_response(method, path, **options) as response:
            self.read_body(response, REFUSAL_SIZE_MAX)
            return response.status_code

    def read_pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """The body as it comes; it may not come slower than `BYTES_PER_S_MIN`."""
        began, size = time.monotonic(), 0
        for piece in response.iter_raw():
            size += len(piece)
            if time.monotonic() - began > ANSWER_S_BASE + size / BYTES_PER_S_MIN:
                raise RemoteUnavailableError(f"{self.url} answers too slowly to be waited for")
            yield piece

    def read_body(self, response: httpx2.Response, size_max: int) -> bytes:
        """The body, which is refused if it is longer than `size_max` bytes."""
        parts, size = [], 0
        for piece in self.read_pieces(response):
            size += len(piece)
            if size > size_max:
                raise self.make_protocol_error(f"its answer is longer than {size_max} bytes")
            parts.append(piece)
        return b"".join(parts)

    def check_content_type(self, response: httpx2.Response, kind: str) -> None:
        """Refuse an answer of another content type."""
        if not _has_content_type(response, kind):
            raise self.make_protocol_error(f"it answers with {_content_type(response)}")

    def make_protocol_error(self, why: str, status: int = 0) -> RemoteRefusedError:
        """The error for who does not speak as the API says."""
        return RemoteRefusedError(
            f"{self.url} does not look like a Treadle server: {why}",
            hint="look at the address, and at what stands between; `treadle login URL` changes it",
            status=status,
        )

    def _decode(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.make_protocol_error(
                "its answer says something else than what was asked"
            ) from None

    def _make_status_error(self, response: httpx2.Response) -> TreadleError:
        """What a status that is no success means."""
        status = response.status_code
        if response.has_redirect_location or 300 <= status < 400:
            where = _to_printable_line(response.headers.get("location", "nowhere"))
            return self.make_protocol_error(f"it sends who asks elsewhere, to {where}", status)
        problem = self._read_problem(response)
        said = (
            _to_printable_line(problem.message) if problem else f"{status} {_status_phrase(status)}"
        )
        if status in _RETRYABLE_STATUSES or status >= 500:
            wait_s = retry_after_s(dict(response.headers))
            return RemoteUnavailableError(
                f"{self.url} cannot answer now: {said}", retry_after_s=wait_s
            )
        if status == 401:
            return NotLoggedInError(
                f"the token is not valid at {self.url}: {said}",
                hint=f"ask whoever runs the server for one; `treadle login {self.url}` takes it",
            )
        if problem is None:
            return self.make_protocol_error(f"it answers {status} {_status_phrase(status)}", status)
        text = f"{self.url} refuses: {said}"
        if problem.error == ErrorCode.CONFLICT.value:
            seq, found = problem.server_version, problem.server_hash
            if isinstance(seq, int) and seq >= 0 and isinstance(found, str):
                return RemoteConflictError(text, seq=seq, hash=found)
            seq = seq if isinstance(seq, int) else 0
        return RemoteRefusedError(
            text,
            hint=_to_printable_line(problem.hint),
            code=_to_printable_line(problem.error),
            status=status,
        )

    def _read_problem(self, response: httpx2.Response) -> Problem | None:
        """What the server says is wrong; `None` if it is not a Treadle server that says it."""
        if not _has_content_type(response, JSON_TYPE):
            return None
        try:
            return msgspec.json.decode(self.read_body(response, REFUSAL_SIZE_MAX), type=Problem)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RemoteRefusedError):
            return None

    def _make_transport_error(self, error: Exception) -> TreadleError:
        """What has gone wrong on the way. All of it can pass, but a request that cannot be sent."""
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return RemoteRefusedError(f"{self.url} is no address of a server")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return RemoteUnavailableError(
                f"{self.url} cannot prove that it is itself: {_to_printable_line(str(error))}",
                hint="its certificate must be one that this machine trusts",
            )
        why = next((text for kind, text in _FAILURE_TEXTS if isinstance(error, kind)), "it failed")
        return RemoteUnavailableError(f"{self.url} cannot be reached: {why}")


_FAILURE_TEXTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (httpx2.ConnectTimeout, f"no answer in {CONNECT_S_MAX:.0f} seconds"),
    (httpx2.PoolTimeout, "too many requests are under way"),
    (httpx2.TimeoutException, "it said nothing for too long"),
    (httpx2.ConnectError, "nobody answers there"),
    (httpx2.ProxyError, "the proxy refuses"),
    (httpx2.RemoteProtocolError, "it broke off, or does not speak HTTP"),
    (httpx2.SSEError, "its stream of changes has another form"),
    (httpx2.NetworkError, "the connection broke"),
)


def _has_content_type(response: httpx2.Response, kind: str) -> bool:
    return _content_type(response) == kind


def _content_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _to_printable_line(kind) or "nothing"


def _to_printable_line(text: str) -> str:
    """A short printable line of what a stranger has written."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown[:_MESSAGE_LENGTH_MAX].strip()


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no known status)"
