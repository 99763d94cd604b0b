"""Logs a person in at a server of tools in their browser, and forgets the login."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from treadle.app.tool_servers.configured import find_tool_server
from treadle.app.tool_servers.confined_start import LOGINS
from treadle.config.loader import load_settings
from treadle.errors import NotConfiguredError, UsageError
from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.server import MCPServer
from treadle.store.paths import Places


async def log_in_at_tool_server(
    places: Places,
    name: str,
    *,
    folder: str | Path,
    environ: Mapping[str, str],
    show: Callable[[str], None],
) -> bool:
    """Have a person log in at a server, and keep the tokens; sessions go on with them.

    Args:
        places: the folders of the user.
        name: of the server.
        folder: whose settings name it.
        environ: the environment of the process.
        show: told the address at which the person says yes, in a browser of this machine.

    Returns:
        Whether there is a login now; if not, the server wants none.

    Raises:
        UsageError: there is no such server, or it is none at a URL.
        NotConfiguredError: it is not there, or the person or the server said no; says why.
    """
    server = _find_server(name, folder, environ)
    from treadle.mcp.connection import log_in

    try:
        return await log_in(server, places.state / LOGINS, show)
    except ConnectionFailed as failed:
        raise NotConfiguredError(f"nobody is logged in at {name}: {failed}") from failed


def forget_tool_server_login(
    places: Places, name: str, *, folder: str | Path, environ: Mapping[str, str]
) -> bool:
    """Keep no tokens of a server any more; whether there were some.

    Args:
        places: the folders of the user.
        name: of the server.
        folder: whose settings name it.
        environ: the environment of the process.

    Raises:
        UsageError: there is no such server, or it is none at a URL.
    """
    server = _find_server(name, folder, environ)
    from treadle.mcp.logins import LoginFile

    return LoginFile(places.state / LOGINS, server).forget()


def _find_server(name: str, folder: str | Path, environ: Mapping[str, str]) -> MCPServer:
    found = find_tool_server(load_settings(folder, environ), environ, name)
    if found.problem:
        raise UsageError(f"the server {name} cannot be used: {found.problem}")
    if not found.filled.url:
        raise UsageError(
            f"the server {name} is started by a command, and nobody logs in at it",
            hint="what it needs stands in its `env`",
        )
    return MCPServer(name, url=found.filled.url, headers=found.filled.headers)
