"""Adds a server of tools to the user's own settings, and takes it out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict, replace

from treadle.app.setting_change import change_user_file
from treadle.config.mcp_servers import ServerSetting
from treadle.config.setting_edit import remove_table, set_value
from treadle.config.settings import find_faults, flatten_tables
from treadle.errors import UsageError
from treadle.store.paths import Places


def add_tool_server(places: Places, name: str, setting: ServerSetting) -> str:
    """Write a server into the user's own file, which is made if it is not there; its path.

    Args:
        places: the folders of the user.
        name: how its tools are to begin.
        setting: where it is, without tools. What is secret is named by variables: `${NAME}`.

    Raises:
        UsageError: it does not hold, or the file has one of this name; it stays as it was.
        ConfigError: the file is not valid; it stays as it was.
        DiskError: it cannot be read or written.
    """
    plain = replace(setting, env=dict(setting.env), headers=dict(setting.headers), tools={})
    told = {key: value for key, value in asdict(plain).items() if value}
    told |= {"args": [*setting.args]} if setting.args else {}
    if setting.enabled:
        del told["enabled"]
    table = {"mcp": {name: told}}
    for _, problem in find_faults(table):
        raise UsageError(problem, hint="docs/mcp.md describes servers")

    def add(text: str, tables: dict[str, Any]) -> str:
        if {"command", "url"} & tables.get("mcp", {}).get(name, {}).keys():
            raise UsageError(f"there is a server {name} already", hint=f"treadle mcp remove {name}")
        for path, value in flatten_tables(table):
            text = set_value(text, path, value)
        return text

    return change_user_file(places, add)


def remove_tool_server(places: Places, name: str) -> str:
    """Take a server out of the user's own file; its path. Raises as `add_tool_server`."""

    def remove(text: str, tables: dict[str, Any]) -> str:
        if name not in tables.get("mcp", {}):
            raise UsageError(
                f"your settings name no server {name}",
                hint="`treadle mcp list` says where each is written",
            )
        return remove_table(text, ("mcp", name))

    return change_user_file(places, remove)
