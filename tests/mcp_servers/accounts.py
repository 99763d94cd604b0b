"""The official server with accounts: everybody whose browser comes by may use it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

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


@pytest.fixture(name="accounts")
def make_accounts() -> Accounts:
    return Accounts()


@pytest.fixture(name="address")
def serve_accounts(accounts: Accounts) -> Iterator[str]:
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
