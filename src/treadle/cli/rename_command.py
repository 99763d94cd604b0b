"""`treadle rename`: give a thread a title."""

from __future__ import annotations

import click

from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text


@click.command("rename")
@click.argument("thread", metavar="ID")
@click.argument("title")
def command(thread: str, title: str) -> None:
    """Give a thread a title; an empty one is the first line of its first prompt again.

    \b
    treadle rename 7c1e93f0 "The flaky login test"
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.threads.annotations import rename_thread

    fold = rename_thread(open_store(), thread, title)
    print_line(
        f"{fold.header.thread}  {sanitize_text(fold.title() or '(nothing said yet)')}", err=True
    )
