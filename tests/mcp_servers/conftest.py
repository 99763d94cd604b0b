"""Servers that are real processes, and the tools of them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_servers.desk import Desk
from treadle import LocalStore, MCPServer

PLAIN = Path(__file__).with_name("plain_server.py")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., MCPServer]:
    """Makes a server that is wrong in one way; see `plain_server.py`."""

    def make(how: str = "", name: str = "plain", **more: Any) -> MCPServer:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        args = (str(PLAIN), how, str(folder))
        return MCPServer(name, command=sys.executable, args=args, **more)

    return make


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    for one in made.opened:
        await one.aclose()
