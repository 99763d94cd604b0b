"""`treadle mcp login` and `logout`: a person at a server of tools that wants one."""

from __future__ import annotations

import click

from treadle.cli.options import find_folder, settings_folder_option


@click.command("login")
@click.argument("name")
@settings_folder_option
def login(name: str, folder: str) -> None:
    """Log in at a server of tools, in a browser of this machine.

    \b
    treadle mcp login issues

    The address is printed, and the browser comes back to this command. The tokens are kept in a
    file of yours; sessions go on with them, and renew them.
    """  # noqa: D301  click reads the backspace
    import asyncio
    import os

    from treadle.app.folders import user_folders
    from treadle.app.tool_servers.logins import log_in_at_tool_server
    from treadle.cli.notices import print_notice
    from treadle.thread.safe_text import sanitize_text

    def show(url: str) -> None:
        print_notice("open this address in a browser of this machine:")
        click.echo(sanitize_text(url))

    is_in = asyncio.run(
        log_in_at_tool_server(
            user_folders(), name, folder=find_folder(folder), environ=os.environ, show=show
        )
    )
    print_notice(f"you are logged in at {name}" if is_in else f"{name} wants no login")


@click.command("logout")
@click.argument("name")
@settings_folder_option
def logout(name: str, folder: str) -> None:
    """Keep no tokens of a server of tools any more.

    \b
    treadle mcp logout issues

    The server is not told: what it has given it takes back itself.
    """  # noqa: D301  click reads the backspace
    import os

    from treadle.app.folders import user_folders
    from treadle.app.tool_servers.logins import forget_tool_server_login
    from treadle.cli.notices import print_notice

    was_in = forget_tool_server_login(
        user_folders(), name, folder=find_folder(folder), environ=os.environ
    )
    print_notice(f"the login at {name} is forgotten" if was_in else f"there was no login at {name}")
