"""`treadle note`: write something down about a thread, for people."""

from __future__ import annotations

import click


@click.command("note")
@click.argument("thread", metavar="ID")
@click.argument("text")
def command(thread: str, text: str) -> None:
    """Write something down about a thread: found by `treadle search`, shown by `treadle show`.

    Models never see it. `-` reads TEXT from standard input.

    \b
    treadle note 0190 "the fix is on the branch login-2; Ada has reviewed it"
    """  # noqa: D301  click reads the backspace
    import sys

    from treadle.app.threads.annotations import TEXT_LENGTH_MAX, mark
    from treadle.errors import UsageError
    from treadle.thread.facts import Annotated
    from treadle.thread.record import clean

    said = clean(sys.stdin.read() if text == "-" else text).strip()
    if not said:
        raise UsageError("the note is empty")
    if len(said) > TEXT_LENGTH_MAX:
        raise UsageError(f"a note has at most {TEXT_LENGTH_MAX} characters, not {len(said)}")
    fold = mark(thread, lambda _: Annotated(said))
    click.echo(f"noted in {fold.header.thread}", err=True)
