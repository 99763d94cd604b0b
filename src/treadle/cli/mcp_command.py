"""`treadle mcp`: servers of tools, and this machine's threads for other agents."""

from __future__ import annotations

import click

from treadle.cli.mcp_login_command import login, logout
from treadle.cli.mcp_serve_command import serve
from treadle.cli.mcp_servers_command import list_servers, test
from treadle.cli.mcp_settings_command import add, remove


@click.group("mcp")
def command() -> None:
    """Name servers of tools, or offer threads to other agents: the Model Context Protocol.

    \b
    treadle mcp add files --network --write -- npx -y @modelcontextprotocol/server-filesystem .
    treadle mcp test files         connects, and names its tools
    treadle mcp list               those that the settings of this folder name
    treadle mcp serve              what an agent starts that is to read threads

    docs/mcp.md says how servers are held, and has the settings of other agents.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.extras import require_extra

    require_extra("mcp")


for _part in (add, list_servers, test, remove, login, logout, serve):
    command.add_command(_part)
