"""Servers that want a login: the official one with accounts, a browser, tokens in a file."""

from __future__ import annotations

import asyncio
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer as JudgeServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from mcp_servers.desk import Desk
from treadle import MCPServer, ToolCall
from treadle.mcp.connection import log_in
from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.logins import LoginFile
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.tools.registry import Registry


class Accounts:
    """Who may use the server: everybody whose browser comes by; tokens hold `lifetime_s`."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.valid: set[str] = set()
        self.lifetime_s = 3600
        self.renewals = 0
        self.says_no = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        where = str(params.redirect_uri)
        if self.says_no:
            why = {"error": "access_denied", "error_description": "not you"}
            return construct_redirect_uri(where, state=params.state, **why)
        code = secrets.token_hex(20)
        assert client.client_id is not None
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=2**40,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(where, code=code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._make_tokens()

    def _make_tokens(self) -> OAuthToken:
        access, refresh = f"a-{secrets.token_hex(20)}", f"r-{secrets.token_hex(20)}"
        self.valid |= {access, refresh}
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lifetime_s)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token not in self.valid:
            return None
        return RefreshToken(token=refresh_token, client_id=client.client_id, scopes=[])

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.valid.discard(refresh_token.token)
        self.renewals += 1
        return self._make_tokens()

    async def load_access_token(self, token: str) -> AccessToken | None:
        if token not in self.valid:
            return None
        return AccessToken(token=token, client_id="any", scopes=[])

    async def revoke_token(self, token: Any) -> None:
        self.valid.discard(token.token)


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def address(accounts: Accounts) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        judge = JudgeServer(
            "judge",
            auth_server_provider=accounts,
            auth=AuthSettings(
                issuer_url=base,  # type: ignore[arg-type]
                resource_server_url=f"{base}/mcp",  # type: ignore[arg-type]
                validate_token_resource=False,
                client_registration_options=ClientRegistrationOptions(enabled=True),
            ),
        )
        judge.add_tool(lambda: "mine", "mine")
        config = uvicorn.Config(
            judge.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"{base}/mcp"
        server.should_exit = True
        thread.join()


class Person:
    """Opens each address in a browser."""

    def __init__(self) -> None:
        self.looks: list[asyncio.Task[str]] = []

    def show(self, url: str) -> None:
        self.looks.append(asyncio.ensure_future(self._look(url)))

    async def _look(self, url: str) -> str:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            origin = httpx2.URL(url).params["redirect_uri"]
            assert (await browser.get(f"{origin}?code=x&state=guessed")).status_code == 404
            return (await browser.get(url)).text


async def call(desk: Desk, server: MCPServer, folder: Path) -> tuple[str, list[str]]:
    tools = McpTools(Registry([]), [ServerTools(server, logins=folder)])
    try:
        told = list(await tools.prepare())
        outcome = await tools.execute(
            ToolCall("c1", "far__mine", "{}"), key="t:c1", progress=lambda _: None
        )
        return getattr(outcome, "output", ""), told
    finally:
        await tools.aclose()


async def test_a_person_logs_in_once_and_every_process_goes_on_with_it(
    desk: Desk, accounts: Accounts, address: str, tmp_path: Path
) -> None:
    folder, server, person = tmp_path / "logins", MCPServer("far", url=address), Person()
    said, told = await call(desk, server, folder)
    assert said == ""
    assert "far is not there: it wants a login" in told[0]
    assert not accounts.clients, "nobody is registered unasked"

    accounts.lifetime_s = -10  # over at once: the next process renews it
    assert await log_in(server, folder, person.show)
    assert "close this page" in await person.looks[0]
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    accounts.lifetime_s = 3600
    assert await call(desk, server, folder) == ("mine", [])
    assert accounts.renewals == 1
    assert await call(desk, server, folder) == ("mine", [])
    assert accounts.renewals == 1
    assert len(person.looks) == 1

    accounts.valid.clear()  # the server has forgotten us
    said, told = await call(desk, server, folder)
    assert "it wants a login" in told[0]
    assert await log_in(server, folder, person.show)
    assert len(accounts.clients) == 1, "the browser comes back to the port that it knows"
    assert await call(desk, server, folder) == ("mine", [])
    assert LoginFile(folder, server).forget()
    assert not LoginFile(folder, server).forget()


async def test_a_login_that_is_refused_keeps_nothing_and_says_why(
    accounts: Accounts, address: str, tmp_path: Path
) -> None:
    accounts.says_no = True
    server, person = MCPServer("far", url=address), Person()
    with pytest.raises(ConnectionFailed, match="the login was refused: not you"):
        await log_in(server, tmp_path, person.show)
    await asyncio.gather(*person.looks)
    assert not LoginFile(tmp_path, server).has_tokens
