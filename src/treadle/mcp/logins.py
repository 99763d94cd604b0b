"""Logins at servers that want one: a person's yes in a browser, and tokens in a file of theirs.

The protocol's client knows OAuth. Here is what it leaves to others: where tokens are kept, so that
another process goes on with them, and how the browser comes back to us.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.server import MCPServer

LOGIN_S_MAX: Final = 300.0
"""Seconds that a person has in the browser."""
RENEWAL_S_MAX: Final = 30.0
"""Seconds that another process may take to renew a login."""
RENEWAL_LOOK_S: Final = 0.05
REQUEST_SIZE_MAX: Final = 16_384
"""Bytes of the request by which the browser comes back."""

_PAGE: Final = b"Treadle has what it needs. You can close this page.\n"


class LoginFile:
    """What is kept of a login at a server; for the protocol's client, its `TokenStorage`.

    Args:
        folder: where logins are kept; made if it is missing, for nobody but its owner.
        server: the server.
    """

    def __init__(self, folder: Path, server: MCPServer) -> None:
        digest = hashlib.sha256(server.url.encode()).hexdigest()[:32]
        self._path = folder / f"{digest}.json"
        self._url = server.url
        self._provider: OAuthClientProvider | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether somebody has logged in."""
        return bool(self._read().get("tokens"))

    def forget(self) -> bool:
        """Keep nothing of it any more; whether there was something."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def port(self) -> int:
        """The port at which the server has been told that the browser comes back; 0 if none."""
        try:
            known = OAuthClientInformationFull.model_validate(self._read()["client"])
            return (known.redirect_uris or [])[0].port or 0
        except (KeyError, IndexError, ValidationError):
            return 0

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Be the one process that renews; one that does not end is waited for no longer than 30 s.

        By the kernel, so that one that dies frees it.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + RENEWAL_S_MAX
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while loop.time() < until:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(RENEWAL_LOOK_S)
            yield
        finally:
            os.close(file)

    def restore(self, provider: OAuthClientProvider) -> None:
        """Tell a client what it does not read by itself: until when tokens hold, and who renews."""
        self._provider = provider
        data = self._read()
        with suppress(KeyError, ValidationError):
            provider.context.oauth_metadata = OAuthMetadata.model_validate(data["metadata"])
        until = data.get("until")
        provider.context.token_expiry_time = until if isinstance(until, int | float) else None

    async def get_tokens(self) -> OAuthToken | None:
        """See `TokenStorage`."""
        try:
            return OAuthToken.model_validate(self._read()["tokens"])
        except (KeyError, ValidationError):
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """See `TokenStorage`."""
        until = None if tokens.expires_in is None else time.time() + int(tokens.expires_in)
        found = None if self._provider is None else self._provider.context.oauth_metadata
        metadata = None if found is None else found.model_dump(mode="json", exclude_none=True)
        self._write(tokens=tokens.model_dump(mode="json"), until=until, metadata=metadata)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """See `TokenStorage`."""
        try:
            return OAuthClientInformationFull.model_validate(self._read()["client"])
        except (KeyError, ValidationError):
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See `TokenStorage`."""
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) and data.get("url") == self._url else {}

    def _write(self, **news: Any) -> None:
        data = {**self._read(), "url": self._url, **news}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(FileNotFoundError):  # of a process that had our number
            beside.unlink()
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as file:
            file.write(json.dumps(data, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._path)


class NoLogin(httpx2.Auth):
    """Says what is missing where a server wants a login, in place of its refusal.

    Args:
        server: the server.
        is_kept: whether a login would be kept for it.
    """

    def __init__(self, server: MCPServer, *, is_kept: bool = False) -> None:
        self._why = _explain_missing_login(server, is_kept=is_kept)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`."""
        response = yield request
        if response.status_code == 401:
            raise ConnectionFailed(self._why)


def make_auth(server: MCPServer, folder: Path | None) -> httpx2.Auth:
    """Who a server is told that we are: with the tokens of a login, if there is one."""
    kept = None if folder is None else LoginFile(folder, server)
    if kept is None or not kept.has_tokens:
        return NoLogin(server, is_kept=kept is not None)

    async def refuse(*_: object) -> None:
        raise ConnectionFailed(_explain_missing_login(server, is_kept=True))

    return SharedLogin(_make_provider(server, kept, refuse, refuse, kept.port), kept)


class SharedLogin(httpx2.Auth):
    """A login of several processes, of which one at a time renews its tokens.

    Many servers take the token that renews only once: of two processes that use it, the second one
    has lost the login. So whoever waited reads first what the other one has got.

    Args:
        provider: knows the tokens, and renews them.
        kept: where all find them.
    """

    requires_response_body = True

    def __init__(self, provider: OAuthClientProvider, kept: LoginFile) -> None:
        self._provider = provider
        self._kept = kept

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`."""
        flow = self._provider.async_auth_flow(request)
        async with aclosing(flow), AsyncExitStack() as renewing:
            if not self._provider.context.is_token_valid():
                await renewing.enter_async_context(self._kept.hold())
                self._kept.restore(self._provider)
                self._provider.context.current_tokens = await self._kept.get_tokens()
            with suppress(StopAsyncIteration):
                sent = await anext(flow)
                while True:
                    if sent is request:  # what comes before it renews
                        await renewing.aclose()
                    sent = await flow.asend((yield sent))


class Browser:
    """Where the browser comes back to: a port of the loopback, for one login. To be closed.

    Args:
        show: told the address at which the person says yes.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._state = ""
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None

    async def open(self, port: int) -> int:
        """Listen, at this port if it is free; the port that it is."""
        try:
            self._server = await asyncio.start_server(self._hear, "127.0.0.1", port)
        except OSError:
            self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def send(self, url: str) -> None:
        """Have the person look at an address."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._show(url)

    async def wait(self) -> AuthorizationCodeResult:
        """What the server says through the browser.

        Raises:
            ConnectionFailed: a no, or nothing in time.
        """
        try:
            async with asyncio.timeout(LOGIN_S_MAX):
                said = await self._answer
        except TimeoutError:
            raise ConnectionFailed(f"nobody logged in within {LOGIN_S_MAX:g} s") from None
        if "code" not in said:
            why = said.get("error_description") or said.get("error") or "no reason was given"
            raise ConnectionFailed(f"the login was refused: {why}")
        return AuthorizationCodeResult(
            code=said["code"], state=said.get("state"), iss=said.get("iss")
        )

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode() if len(head) <= REQUEST_SIZE_MAX else ""
            said = {name: one[0] for name, one in parse_qs(urlsplit(path).query).items()}
            # Whoever is on this machine may knock; only the server knows what we have asked with.
            is_ours = bool(self._state) and said.get("state") == self._state
            if is_ours and not self._answer.done():
                self._answer.set_result(said)
            status, page = (b"200 OK", _PAGE) if is_ours else (b"404 Not Found", b"")
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"
                b"Connection: close\r\n\r\n%s" % (status, len(page), page)
            )
            await writer.drain()
        except (OSError, ValueError, IndexError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            pass  # it is no browser
        finally:
            writer.close()


async def make_login(
    server: MCPServer, folder: Path, browser: Browser
) -> tuple[LoginFile, OAuthClientProvider]:
    """What a connection needs so that a person can log in; tokens are kept then."""
    kept = LoginFile(folder, server)
    known = kept.port
    port = await browser.open(known)
    if known and port != known:
        kept.forget()  # the server sends browsers nowhere else than it was told
    return kept, _make_provider(server, kept, browser.send, browser.wait, port)


def _make_provider(
    server: MCPServer, kept: LoginFile, send: Any, wait: Any, port: int
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="Treadle",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        token_endpoint_auth_method="none",  # noqa: S106  we keep no secret
    )
    provider = OAuthClientProvider(server.url, metadata, kept, send, wait)
    kept.restore(provider)
    return provider


def _explain_missing_login(server: MCPServer, *, is_kept: bool) -> str:
    how = f" (`treadle mcp login {server.name}`)" if is_kept else ""
    if server.headers:
        return f"it wants a login{how}, or other headers than it was given"
    return f"it wants a login{how}, or a token in its headers"
