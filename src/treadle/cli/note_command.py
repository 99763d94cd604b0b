"""`treadle note`: write something down about a thread, for people."""

from __future__ import annotations

import click

from treadle.cli.notices import print_line


@click.command("note")
@click.argument("thread", metavar="ID")
@click.argument("text")
def command(thread: str, text: str) -> None:
    """Write something down about a thread: found by `treadle search`, shown by `treadle show`.

    Models never see it. `-` reads TEXT from standard input.

    \b
    treadle note 7c1e93f0 "the fix is on the branch login-2; Ada has reviewed it"
    """  # noqa: D301  click reads the backspace
    import sys

    from treadle.app.stores import open_store
    from treadle.app.threads.annotations import add_note

    fold = add_note(open_store(), thread, sys.stdin.read() if text == "-" else text)
    print_line(f"noted in {fold.header.thread}", err=True)
