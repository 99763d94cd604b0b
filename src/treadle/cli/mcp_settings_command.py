"""`treadle mcp add` and `remove`: the servers of tools in the settings."""

from __future__ import annotations

import click

_URL_BEGINNINGS = ("https://", "http://")


@click.command("add")
@click.argument("name")
@click.argument("what", metavar="URL | -- COMMAND...", nargs=-1, required=True)
@click.option(
    "-e",
    "--env",
    "variables",
    metavar="NAME[=TEXT]",
    multiple=True,
    help="A variable that the command gets; NAME alone is your own of this name.",
)
@click.option(
    "-H", "--header", "headers", metavar="NAME: TEXT", multiple=True, help="One for the URL."
)
@click.option("--network", is_flag=True, help="The command reaches the network.")
@click.option("--write", is_flag=True, help="The command may change the folder it works in.")
def add(
    name: str,
    what: tuple[str, ...],
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    network: bool,
    write: bool,
) -> None:
    """Add a server of tools to your own settings.

    \b
    treadle mcp add files --network --write -- npx -y @modelcontextprotocol/server-filesystem .
    treadle mcp add issues -e ISSUES_TOKEN -- issues-server --stdio
    treadle mcp add docs https://mcp.example.com/mcp
    treadle mcp add docs https://mcp.example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}'

    The command runs in the sandbox, with what it is given here and nothing else of yours. No secret
    is kept in the settings: ${NAME} stands for a variable of yours.
    """  # noqa: D301  click reads the backspace
    from treadle.app.folders import user_folders
    from treadle.app.tool_servers.changes import add_tool_server
    from treadle.cli.notices import print_notice
    from treadle.config.mcp_servers import ServerSetting

    if len(what) == 1 and what[0].startswith(_URL_BEGINNINGS):
        if variables or network or write:
            raise click.UsageError("--env, --network and --write are for a command")
        setting = ServerSetting(url=what[0], headers=dict(map(_parse_header, headers)))
    else:
        if headers:
            raise click.UsageError("--header is for a URL, --env is for a command")
        command, *args = what
        env = dict(map(_parse_variable, variables))
        setting = ServerSetting(command, tuple(args), env, network=network, write=write)
    path = add_tool_server(user_folders(), name, setting)
    print_notice(f"{name} is in {path}; `treadle mcp test {name}` connects and names its tools")


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, value if equals else f"${{{name}}}"


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f"--header takes NAME: TEXT, not {text!r}")
    return name.strip(), value.strip()


@click.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Take a server of tools out of your own settings.

    \b
    treadle mcp remove files

    One that a project brings along is not used any more with `enabled = false` in your own
    [mcp.NAME], or when the project is trusted no longer.
    """  # noqa: D301  click reads the backspace
    from treadle.app.folders import user_folders
    from treadle.app.tool_servers.changes import remove_tool_server
    from treadle.cli.notices import print_notice

    path = remove_tool_server(user_folders(), name)
    print_notice(f"{name} is in {path} no longer")
