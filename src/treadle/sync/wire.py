"""HTTP as a server is spoken to: bounded in every way, and every failure one of three errors.

Whoever answers may be another program, or somebody in between. So nothing is read without a bound,
no redirect is followed (it would carry the token to where nobody wanted it), nothing compressed is
asked for, and what does not have the form of the API is refused as a whole.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from treadle import __version__
from treadle.api.codes import Code
from treadle.api.types import Problem
from treadle.errors import (
    NotLoggedInError,
    RemoteBrokenError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    TreadleError,
)
from treadle.models.catalog import is_this_machine
from treadle.models.failures import retry_after_s

CONNECT_S_MAX: Final = 5.0
SILENCE_S_MAX: Final = 30.0
"""Seconds in which nothing is sent or received."""

PATIENCE_S: Final = 60.0
PACE_MIN: Final = 1024
"""Bytes a second. An answer may take `PATIENCE_S` and a second for each so many bytes of it: who
drips a byte now and then holds nobody for ever."""

ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of an answer that is one JSON document."""

REFUSAL_SIZE_MAX: Final = 256 * 1024

JSON_TYPE: Final = "application/json"
LINES_TYPE: Final = "application/x-ndjson"
BYTES_TYPE: Final = "application/octet-stream"

_MESSAGE_LENGTH_MAX: Final = 500
_CAN_PASS: Final = frozenset((408, 425, 429))

T = TypeVar("T")
Body = bytes | Iterable[bytes] | None


class Wire:
    """Requests to one server.

    Args:
        url: where it is, without a path.
        token: who asks.
    """

    def __init__(self, url: str, token: str) -> None:
        host = urlsplit(url).hostname or ""
        limits = httpx2.Limits(max_connections=8, max_keepalive_connections=8)
        self.url = url
        self._client = httpx2.Client(
            base_url=url,
            timeout=httpx2.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX),
            limits=limits,
            # What is for this machine goes through no proxy: it would leave the machine.
            transport=httpx2.HTTPTransport(limits=limits) if is_this_machine(host) else None,
            headers={
                "authorization": f"Bearer {token}",
                "user-agent": f"treadle/{__version__}",
                "accept-encoding": "identity",
            },
        )

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
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
                    raise self._refusal(response)
                encoding = response.headers.get("content-encoding", "identity")
                if encoding.lower() != "identity":
                    raise self.stranger("it compresses what nobody asked it to compress")
                has_begun = True
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError) as error:
            failure = self._failure(error)
            if has_begun and isinstance(failure, RemoteUnavailableError):
                raise RemoteBrokenError(failure.message, hint=failure.hint) from error
            raise failure from error

    def value(self, method: str, path: str, kind: type[T], **how: Any) -> T:
        """What an answer holds: one JSON document of a type. Raises as `answer`."""
        with self.answer(method, path, **how) as response:
            if not _is_type(response, JSON_TYPE):
                raise self.stranger(f"it answers with {_kind_of(response)}")
            return self._decoded(self.whole(response, ANSWER_SIZE_MAX), kind)

    def done(self, method: str, path: str, **how: Any) -> int:
        """The status of an answer in which nothing stands. Raises as `answer`."""
        with self.answer(method, path, **how) as response:
            self.whole(response, REFUSAL_SIZE_MAX)
            return response.status_code

    def pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """The body as it comes; it may not come slower than `PACE_MIN`."""
        began, size = time.monotonic(), 0
        for piece in response.iter_raw():
            size += len(piece)
            if time.monotonic() - began > PATIENCE_S + size / PACE_MIN:
                raise RemoteUnavailableError(f"{self.url} answers too slowly to be waited for")
            yield piece

    def whole(self, response: httpx2.Response, size_max: int) -> bytes:
        """The body, which is refused if it is longer than `size_max` bytes."""
        parts, size = [], 0
        for piece in self.pieces(response):
            size += len(piece)
            if size > size_max:
                raise self.stranger(f"its answer is longer than {size_max} bytes")
            parts.append(piece)
        return b"".join(parts)

    def expect(self, response: httpx2.Response, kind: str) -> None:
        """Refuse an answer of another content type."""
        if not _is_type(response, kind):
            raise self.stranger(f"it answers with {_kind_of(response)}")

    def stranger(self, why: str, status: int = 0) -> RemoteRefusedError:
        """The error for who does not speak as the API says."""
        return RemoteRefusedError(
            f"{self.url} does not look like a Treadle server: {why}",
            hint="look at the address, and at what stands between; `treadle login URL` changes it",
            status=status,
        )

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.stranger("its answer says something else than what was asked") from None

    def _refusal(self, response: httpx2.Response) -> TreadleError:
        """What a status that is no success means."""
        status = response.status_code
        if response.has_redirect_location or 300 <= status < 400:
            where = _line(response.headers.get("location", "nowhere"))
            return self.stranger(f"it sends who asks elsewhere, to {where}", status)
        problem = self._problem(response)
        said = _line(problem.message) if problem else f"{status} {_phrase(status)}"
        if status in _CAN_PASS or status >= 500:
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
            return self.stranger(f"it answers {status} {_phrase(status)}", status)
        text = f"{self.url} refuses: {said}"
        if problem.error == Code.CONFLICT.value:
            seq, found = problem.server_version, problem.server_hash
            if isinstance(seq, int) and seq >= 0 and isinstance(found, str):
                return RemoteConflictError(text, seq=seq, hash=found)
            seq = seq if isinstance(seq, int) else 0
        return RemoteRefusedError(
            text, hint=_line(problem.hint), code=_line(problem.error), status=status
        )

    def _problem(self, response: httpx2.Response) -> Problem | None:
        """What the server says is wrong; `None` if it is not a Treadle server that says it."""
        if not _is_type(response, JSON_TYPE):
            return None
        try:
            return msgspec.json.decode(self.whole(response, REFUSAL_SIZE_MAX), type=Problem)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RemoteRefusedError):
            return None

    def _failure(self, error: Exception) -> TreadleError:
        """What has gone wrong on the way. All of it can pass, but a request that cannot be sent."""
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return RemoteRefusedError(f"{self.url} is no address of a server")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return RemoteUnavailableError(
                f"{self.url} cannot prove that it is itself: {_line(str(error))}",
                hint="its certificate must be one that this machine trusts",
            )
        why = next((text for kind, text in _FAILURES if isinstance(error, kind)), "it failed")
        return RemoteUnavailableError(f"{self.url} cannot be reached: {why}")


_FAILURES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (httpx2.ConnectTimeout, f"no answer in {CONNECT_S_MAX:.0f} seconds"),
    (httpx2.PoolTimeout, "too many requests are under way"),
    (httpx2.TimeoutException, "it said nothing for too long"),
    (httpx2.ConnectError, "nobody answers there"),
    (httpx2.ProxyError, "the proxy refuses"),
    (httpx2.RemoteProtocolError, "it broke off, or does not speak HTTP"),
    (httpx2.SSEError, "its stream of changes has another form"),
    (httpx2.NetworkError, "the connection broke"),
)


def _is_type(response: httpx2.Response, kind: str) -> bool:
    return _kind_of(response) == kind


def _kind_of(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _line(kind) or "nothing"


def _line(text: str) -> str:
    """A short printable line of what a stranger has written."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown[:_MESSAGE_LENGTH_MAX].strip()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no known status)"
