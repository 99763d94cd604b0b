"""`treadle restore`: threads back from the trash."""

from __future__ import annotations

from collections.abc import Sequence

import click

from treadle.cli.notices import print_line


@click.command("restore")
@click.argument("threads", metavar="ID...", nargs=-1, required=True)
def command(threads: Sequence[str]) -> None:
    """Bring threads back from the trash, with their sub-agents' threads.

    \b
    treadle trash              what is in the trash
    treadle restore 7c1e93f0   bring it back

    `treadle trash` lists what is in it.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.upkeep.trash import describe_move, restore_threads
    from treadle.cli.renderers import make_printable

    for one in restore_threads(open_store("treadle restore"), threads):
        for line in describe_move(one, "restored"):
            print_line(make_printable(line), err=True)
