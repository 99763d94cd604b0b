"""`treadle mcp`: this machine's threads for other agents, by the Model Context Protocol."""

from __future__ import annotations

import click

from treadle.cli.mcp_serve_command import serve


@click.group("mcp")
def command() -> None:
    """Speak the Model Context Protocol (MCP) with other programs.

    \b
    treadle mcp serve              what an agent starts that is to read threads

    docs/mcp.md has the settings of other agents.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.extras import require_extra

    require_extra("mcp")


command.add_command(serve)
