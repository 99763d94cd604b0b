"""Servers that want a login: the official one with accounts, a browser, tokens in a file."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import httpx2
import pytest

from mcp_servers.accounts import Accounts, make_accounts, serve_accounts  # noqa: F401  fixtures
from mcp_servers.desk import Desk
from treadle import MCPServer, ToolCall
from treadle.mcp.connection import log_in
from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.logins import LoginFile
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.tools.registry import Registry


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


async def test_of_processes_that_renew_a_login_at_once_none_loses_it(
    desk: Desk, accounts: Accounts, address: str, tmp_path: Path
) -> None:
    """The server takes each token that renews once, as many do."""
    folder, server, person = tmp_path / "logins", MCPServer("far", url=address), Person()
    accounts.lifetime_s = -10
    assert await log_in(server, folder, person.show)
    accounts.lifetime_s = 3600
    said = await asyncio.gather(*(call(desk, server, folder) for _ in range(4)))
    assert said == [("mine", [])] * 4
    assert accounts.renewals == 1


async def test_a_login_that_is_refused_keeps_nothing_and_says_why(
    accounts: Accounts, address: str, tmp_path: Path
) -> None:
    accounts.says_no = True
    server, person = MCPServer("far", url=address), Person()
    with pytest.raises(ConnectionFailed, match="the login was refused: not you"):
        await log_in(server, tmp_path, person.show)
    await asyncio.gather(*person.looks)
    assert not LoginFile(tmp_path, server).has_tokens
