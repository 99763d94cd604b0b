"""`treadle pin`: keep a thread on top of lists."""

from __future__ import annotations

import click

from treadle.cli.notices import print_line


@click.command("pin")
@click.argument("thread", metavar="ID")
@click.option("--off", is_flag=True, help="No longer.")
def command(thread: str, off: bool) -> None:
    """Keep a thread on top of lists, or no longer.

    \b
    treadle pin 7c1e93f0
    treadle pin 7c1e93f0 --off
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.threads.annotations import pin_thread

    fold = pin_thread(open_store(), thread, is_pinned=not off)
    print_line(f"{fold.header.thread} is {'not pinned' if off else 'pinned'}", err=True)
