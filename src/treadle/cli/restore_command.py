"""`treadle restore`: threads back from the trash."""

from __future__ import annotations

from collections.abc import Sequence

import click


@click.command("restore")
@click.argument("threads", metavar="ID...", nargs=-1, required=True)
def command(threads: Sequence[str]) -> None:
    """Bring threads back from the trash, with their sub-agents' threads.

    \b
    treadle trash          what is in the trash
    treadle restore 0190   bring it back

    `treadle trash` lists what is in it.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.trash_command import tell
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.store.upkeep.trash import Trash

    trash = Trash(LocalStore(Places.find(), program="treadle restore"))
    tell(trash.take_back([trash.find(thread) for thread in threads]), "restored")
