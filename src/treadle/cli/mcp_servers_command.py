"""`treadle mcp list` and `test`: which servers of tools there are, and what they offer."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from treadle.cli.options import find_folder, settings_folder_option

if TYPE_CHECKING:
    from treadle.app.tool_servers.configured import ToolServer


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@settings_folder_option
def list_servers(as_json: bool, folder: str) -> None:
    """List the servers of tools that the settings of this folder name; nothing is started."""
    import os

    from treadle.app.stores import user_redactor
    from treadle.app.tool_servers.configured import list_tool_servers
    from treadle.cli.json_output import print_json
    from treadle.cli.notices import print_notice
    from treadle.config.loader import load_settings

    loaded = load_settings(find_folder(folder), os.environ)
    for notice in loaded.notices:
        print_notice(notice)
    servers = list_tool_servers(loaded, os.environ)
    redact = user_redactor().redact
    if as_json:
        print_json([_make_plain(one, redact(one.setting.place)) for one in servers])
        return
    if not servers:
        click.echo("there are no servers; `treadle mcp add` adds one", err=True)
        return
    rows = [
        (
            one.name,
            one.problem or one.state,
            " ".join(redact(one.setting.place).split()),
            one.origin,
        )
        for one in servers
    ]
    _print_rows(rows)


def _make_plain(one: ToolServer, place: str) -> dict[str, object]:
    return {
        "name": one.name,
        "state": one.state,
        "problem": one.problem,
        "server": place,
        "origin": one.origin,
        "is_of_project": one.is_of_project,
    }


@click.command("test")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with the schemas of tools.")
@settings_folder_option
def test(name: str, as_json: bool, folder: str) -> None:
    """Connect with a server of tools, and name its tools as a model would be told of them.

    \b
    treadle mcp test files

    It is started as in a session: in the sandbox, in this folder, with what it was given. Behind
    each tool stands what a call does, and its risk, by your settings.
    """  # noqa: D301  click reads the backspace
    import asyncio
    import os

    from treadle.app.folders import user_folders
    from treadle.app.stores import user_redactor
    from treadle.app.tool_servers.trial import try_tool_server
    from treadle.cli.json_output import print_json
    from treadle.cli.notices import print_notice

    trial = try_tool_server(user_folders(), name, folder=find_folder(folder), environ=os.environ)
    found = asyncio.run(trial)
    redact = user_redactor().redact
    for words in found.left_out:
        print_notice(redact(words))
    if as_json:
        print_json(found)
        return
    rows = [
        (one.name, one.effect.value, one.risk.name.lower(), redact(_first_line(one.description)))
        for one in found.tools
    ]
    _print_rows(rows)
    if not rows:
        click.echo(f"{name} is there, and has no tools", err=True)


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    """A line each; a terminal gets what it has room for, a pipe all of it."""
    from treadle.terminal.columns import crop, fit_columns
    from treadle.thread.safe_text import sanitize_text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for text, rest in fit_columns(rows, None) if rows else ():
        line = sanitize_text(text + rest).rstrip()
        click.echo(line if width is None else crop(line, width))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
