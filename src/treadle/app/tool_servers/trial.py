"""Connects with one server of tools, to see whether it works and what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from treadle.app.tool_servers.configured import find_tool_server
from treadle.app.tool_servers.confined_start import make_server_tools
from treadle.config.loader import load_settings
from treadle.core.tools import ToolDefinition
from treadle.errors import NotConfiguredError
from treadle.store.paths import Places


class ServerTrial(Struct, frozen=True):
    """What a server offers: its tools as a model would be told of them.

    `left_out` are words for tools that cannot be offered, and for what else a person should know.
    """

    name: str
    tools: tuple[ToolDefinition, ...]
    left_out: tuple[str, ...] = ()


async def try_tool_server(
    places: Places, name: str, *, folder: str | Path, environ: Mapping[str, str]
) -> ServerTrial:
    """Start a server as a session would, ask for its tools, and end it.

    One that is turned off is tried all the same.

    Args:
        places: the folders of the user.
        name: of the server.
        folder: whose settings name it, and where it runs.
        environ: the environment of the process.

    Raises:
        UsageError: there is no such server, or something is missing.
        NotConfiguredError: it does not start, or does not say its tools; says why.
    """
    loaded = load_settings(folder, environ)
    server = find_tool_server(loaded, environ, name)
    if server.problem:
        raise NotConfiguredError(f"the server {name} cannot be used: {server.problem}")
    settings = loaded.settings
    place = _resolve(folder)
    tried = make_server_tools(server, settings, places, place, settings.sandbox)
    try:
        said = await tried.refresh()
        if tried.problem:
            hint = ""
            if server.setting.command and not server.setting.network:
                hint = f"it has no network; mcp.{name}.network = true gives it one"
            raise NotConfiguredError("; ".join(said) or tried.problem, hint=hint)
        return ServerTrial(name, tuple(tried.offered.definitions), tuple(said))
    finally:
        await tried.close()


def _resolve(folder: str | Path) -> str:
    return str(Path(folder).resolve())
