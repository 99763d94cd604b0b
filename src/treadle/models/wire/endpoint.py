"""One endpoint of a provider: where it is, what goes with each request, and a request at a time.

The official SDKs would do the same. To import one of them takes longer than all else that a turn
does before its request leaves; so they are the judges of the tests (headers, paths, bodies, what a
stream means), and nothing that runs needs them. Nothing is taken from the environment but proxies
and certificates, and nothing is tried again: the machine decides on that.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import httpx2
import msgspec

from treadle.core.llm import LlmErrorKind
from treadle.models.failures import WireError
from treadle.models.wire.stream import StreamedResponse, find_compression, make_client
from treadle.version import __version__

_HEADERS: Final = {
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": f"treadle/{__version__}",
}


_allowed_hosts: frozenset[str] | None = None


def restrict_hosts(hosts: Collection[str] | None) -> frozenset[str] | None:
    """Let requests of this process reach these hosts only, or all again (`None`): for tests.

    Returns:
        What held before.
    """
    global _allowed_hosts
    before, _allowed_hosts = _allowed_hosts, None if hosts is None else frozenset(hosts)
    return before


class StatusError(Exception):
    """A request was refused; `make_llm_error` makes data of it.

    `body` is the object that came, else its text.
    """

    def __init__(self, response: httpx2.Response, body: Any) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.status_code = response.status_code
        self.response = response
        self.body = body


class ModelEndpoint:
    """Makes requests of one address with one key.

    Args:
        key: sent as a bearer token; empty for none.
        base_url: the paths of requests are put behind it.
        headers: go with every request, in place of those of the same names that all requests have.
        query: goes with every request.
    """

    def __init__(
        self, key: str, base_url: str, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> None:
        self._client = make_client(base_url)
        self._base_url = base_url.rstrip("/")
        self._headers = httpx2.Headers(_HEADERS)
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._headers.update(headers)
        self._query = dict(query)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send a JSON object, when the answer is entered.

        Raises:
            Exception: there is no such JSON or no such address; nothing was sent.
        """
        data = msgspec.json.encode(body)
        return self._send(self._make_request("POST", path, data, headers or {}, timeout_s))

    def get(self, path: str, timeout_s: float) -> AbstractAsyncContextManager[StreamedResponse]:
        """Ask for what is there; as `post`."""
        return self._send(self._make_request("GET", path, None, {}, timeout_s))

    async def aclose(self) -> None:
        """Free connections."""
        await self._client.aclose()

    def _make_request(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> httpx2.Request:
        host = httpx2.URL(self._base_url).host
        if _allowed_hosts is not None and host not in _allowed_hosts:
            what = f"this process may not reach {host}: a test may with the mark `real_models`"
            raise WireError(LlmErrorKind.PERMISSION, what)
        own = httpx2.Headers(self._headers)
        own.update(headers)
        timeout = self._client.timeout if timeout_s is None else httpx2.Timeout(timeout_s)
        return self._client.build_request(
            method,
            self._base_url + path,
            content=data,
            headers=own,
            params=self._query or None,
            timeout=timeout,
        )

    @asynccontextmanager
    async def _send(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Response, None]:
        response = await self._client.send(request, stream=True)
        try:
            if not response.is_success:
                raise StatusError(response, await _read_refusal(response))
            yield response
        finally:
            await response.aclose()


async def _read_refusal(response: httpx2.Response) -> Any:
    """What a refusal says, as far as it came and can be read; that it is one, its status says."""
    data = b""
    with suppress(httpx2.TransportError):
        async for chunk in response.aiter_raw():
            data += chunk
    text = "" if find_compression(response) else data.decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
