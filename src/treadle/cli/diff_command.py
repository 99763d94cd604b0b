"""`treadle diff`: what a thread's agent changed in its workspace."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_notice
from treadle.cli.options import folder_option
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.files.file_diff import FileDiff


@click.command("diff")
@click.argument("thread", metavar="ID")
@click.argument("span", metavar="[V1..V2]", required=False)
@click.option("--stat", "wants_stat", is_flag=True, help="How many lines of which files.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of files, with line counts.")
@click.option("--color/--no-color", default=None, help="Default: if a person is looking.")
@folder_option
def command(
    thread: str,
    span: str | None,
    wants_stat: bool,
    as_json: bool,
    color: bool | None,
    cwd: str | None,
) -> None:
    """Show what the agent changed, by tools and by commands: each file before and after.

    \b
    treadle diff ID              all of the thread
    treadle diff ID 12..40       what it changed after version 12, up to version 40
    treadle diff ID 12..         since version 12

    What you changed before the agent first touched a file is not shown, nor what you changed after
    the last time; what you changed in between is part of it, and those files are named. Needs the
    repository, where the states of the files are kept, but nothing of what is checked out; -C says
    where it is if the folder has another name now.
    """  # noqa: D301  click reads the backspace
    from treadle.app.files.file_diff import SpanError, find_diff
    from treadle.app.stores import open_store

    async def show() -> None:
        found = await find_diff(open_store(), thread, span, folder=cwd, notify=print_notice)
        if as_json:
            await _print_json(found)
        else:
            await _show_diff(found, wants_stat=wants_stat, color=color)

    try:
        asyncio.run(show())
    except SpanError as error:
        raise click.UsageError(str(error)) from error


async def _print_json(found: FileDiff) -> None:
    """The files on stdout; what else there is to know beside them."""
    if found.has_states and found.notice:
        print_notice(found.notice)
    print_json(await found.files())
    if not found.has_states:
        print_notice(found.notice)


async def _show_diff(found: FileDiff, *, wants_stat: bool, color: bool | None) -> None:
    """The differences on stdout; what else there is to know beside them."""
    from treadle.app.files.name_text import format_names

    if found.notice:
        print_notice(found.notice)
    if found.is_empty:
        if found.has_touched:
            print_notice("what the agent changed is as it was")
        elif not found.notice:
            print_notice("the agent changed no file")
        return
    out = await found.text(is_stat=wants_stat)
    is_seen = sys.stdout.isatty()
    is_colored = color
    if is_colored is None:
        is_colored = is_seen and click.get_current_context().color is not False
    shown = _format_for_terminal(out, is_colored=is_colored) if is_seen or is_colored else out
    click.echo(shown, nl=False, color=True)
    if found.shared_names:
        names = format_names(found.shared_names)
        print_notice(f"others changed these between the agent's changes, or later: {names}")
    if found.unsaved_names:
        names = format_names(found.unsaved_names)
        print_notice(f"not shown, their contents were not saved: {names}")


def _format_for_terminal(out: bytes, *, is_colored: bool) -> str:
    """Colored by us, if at all: what steers a terminal is taken out of the text first."""
    lines = [sanitize_text(line) for line in out.decode("utf-8", "replace").split("\n")[:-1]]
    if is_colored:
        lines = [click.style(line, **_find_line_style(line)) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def _find_line_style(line: str) -> dict[str, Any]:
    return next((style for head, style in _LINE_STYLES if line.startswith(head)), {})


_LINE_STYLES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("diff ", {"bold": True}),
    ("index ", {"bold": True}),
    ("--- ", {"bold": True}),
    ("+++ ", {"bold": True}),
    ("@@", {"fg": "cyan"}),
    ("+", {"fg": "green"}),
    ("-", {"fg": "red"}),
)
"""How a line looks, by how it begins; the first that fits."""
