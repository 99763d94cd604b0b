"""`treadle help`: the page of the commands; all of them, or one."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every command and every option.")
@click.pass_context
def command(ctx: click.Context, /, name: str | None, is_all: bool) -> None:
    """Show what can be typed: on one screen, all of it, or about one command.

    \b
    treadle help                what is used most
    treadle help --all          every command, and the options of `treadle` itself
    treadle help rewind         the same as `treadle rewind --help`
    """  # noqa: D301  click reads the backspace
    from treadle.cli.main import cli, make_unknown_command_error

    top = ctx.find_root()
    if name is None:
        click.echo(cli.describe_all(top) if is_all else cli.get_help(top))
        return
    found = cli.get_command(top, name)
    if found is None:
        raise make_unknown_command_error(name)
    click.echo(found.get_help(click.Context(found, info_name=name, parent=top)))
