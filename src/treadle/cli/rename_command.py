"""`treadle rename`: give a thread a title."""

from __future__ import annotations

import click

from treadle.thread.safe_text import legible


@click.command("rename")
@click.argument("thread", metavar="ID")
@click.argument("title")
def command(thread: str, title: str) -> None:
    """Give a thread a title; an empty one is the first line of its first prompt again.

    \b
    treadle rename 0190 "The flaky login test"
    """  # noqa: D301  click reads the backspace
    from treadle.app.threads.annotations import mark, plain_line
    from treadle.thread.append_list import TITLE_LENGTH_MAX
    from treadle.thread.facts import Renamed

    wanted = plain_line(title, "a title", TITLE_LENGTH_MAX)
    fold = mark(
        thread,
        lambda fold: None if (fold.metadata.title or "") == wanted else Renamed(wanted),
    )
    click.echo(f"{fold.header.thread}  {legible(fold.title() or '(nothing said yet)')}", err=True)
