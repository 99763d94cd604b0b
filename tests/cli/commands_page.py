"""Writes docs/commands.md: what every command says of itself. `make fmt` runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from treadle.cli.main import cli

HEAD = """\
# Commands

What `treadle help --all` and `treadle COMMAND --help` say, all of it on one page. This page is
generated: `make fmt` writes it, and a test holds it to the program.
"""
WIDTH = 96


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    """The section of a command, then those of what stands below it."""
    widths = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    settings = {**command.context_settings, **widths}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    words = cli.describe_all(context) if command is cli else command.get_help(context)
    yield f"## {context.command_path}\n\n```\n{words}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, context, below)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *commands(cli, None, "treadle")])


if __name__ == "__main__":
    sys.stdout.write(page())
