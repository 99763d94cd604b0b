"""The servers of tools that the settings of a folder name, with their variables filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from treadle.config.loader import LoadedSettings
from treadle.config.mcp_servers import ServerSetting, fill_in_variables, names_variables
from treadle.errors import UsageError
from treadle.mcp.server import is_web_address
from treadle.models.catalog import is_loopback_host, suggest_name

ServerState: TypeAlias = Literal["used", "off", "refused"]
"""Whether a server is used; `off` by its settings, or refused, because something is missing."""


class ToolServer(Struct, frozen=True):
    """A server that the settings name.

    `setting` is as it is written, `filled` with the values of its variables: these are not to be
    shown. `origin` is where it is written, `FILE:LINE`. `problem` says why it is refused.
    """

    name: str
    setting: ServerSetting
    filled: ServerSetting
    origin: str
    is_of_project: bool
    state: ServerState
    problem: str = ""


def list_tool_servers(loaded: LoadedSettings, environ: Mapping[str, str]) -> tuple[ToolServer, ...]:
    """The servers of a folder, by name.

    What is said only of a server of some project is none.

    Args:
        loaded: the settings that hold there.
        environ: the environment of the process.
    """
    keys = {entry.key_env for entry in loaded.catalog.providers.values() if entry.key_env}
    found = []
    for name, setting in sorted(loaded.settings.mcp.items()):
        if not setting.is_whole:
            continue
        is_of_project = name in loaded.project_servers
        where = "command" if setting.command else "url"
        one = ToolServer(
            name=name,
            setting=setting,
            filled=setting,
            origin=loaded.origins[f"mcp.{name}.{where}"],
            is_of_project=is_of_project,
            state="used" if setting.enabled else "off",
        )
        kept = frozenset(keys) if is_of_project else frozenset[str]()
        try:
            filled = _fill_in(setting, environ, kept)
            if filled.url and not is_web_address(filled.url):
                raise UsageError("its url, with the values of its variables, is none")
            _refuse_network(filled, loaded)
            found.append(replace(one, filled=filled))
        except UsageError as error:
            state: ServerState = "refused" if setting.enabled else "off"
            found.append(replace(one, state=state, problem=error.message))
    return tuple(found)


def find_tool_server(loaded: LoadedSettings, environ: Mapping[str, str], name: str) -> ToolServer:
    """The server of a name.

    Raises:
        UsageError: there is none.
    """
    servers = {one.name: one for one in list_tool_servers(loaded, environ)}
    if name not in servers:
        advice = suggest_name(name, servers)
        raise UsageError(
            f"no server is called {name}{advice}", hint="`treadle mcp list` names those there are"
        )
    return servers[name]


def list_secrets(servers: tuple[ToolServer, ...]) -> dict[str, str]:
    """What of the servers' values is secret, by a name for it: it is kept out of all texts."""
    from treadle.secrets.environment import is_credential

    found: dict[str, str] = {}
    for one in servers:
        for part in ("env", "headers"):
            for name, text in getattr(one.filled, part).items():
                is_header = name.lower() in ("authorization", "cookie")
                if is_header or is_credential(name, text):
                    # `Bearer TOKEN` and the token alone.
                    found[f"{one.name}_{name}"] = text
                    found[f"{one.name}_{name}_value"] = text.split()[-1] if text.split() else ""
    return {name: text for name, text in found.items() if text}


def _refuse_network(setting: ServerSetting, loaded: LoadedSettings) -> None:
    """What is not to leave this machine is not for a server elsewhere either.

    Raises:
        UsageError: it would reach the network, which the settings forbid.
    """
    host = urlsplit(setting.url).hostname or ""
    is_elsewhere = bool(setting.url) and not is_loopback_host(host)
    if is_elsewhere and loaded.settings.local_only:
        raise UsageError("it is not on this machine, and local_only allows no other")
    if (is_elsewhere or setting.network) and loaded.settings.network == "off":
        raise UsageError('it reaches the network, which network = "off" forbids')


def _fill_in(
    setting: ServerSetting, environ: Mapping[str, str], kept: frozenset[str]
) -> ServerSetting:
    def fill_in(text: str) -> str:
        return fill_in_variables(text, environ, kept) if names_variables(text) else text

    return replace(
        setting,
        command=fill_in(setting.command),
        args=tuple(map(fill_in, setting.args)),
        env={name: fill_in(text) for name, text in setting.env.items()},
        url=fill_in(setting.url),
        headers={name: fill_in(text) for name, text in setting.headers.items()},
    )
