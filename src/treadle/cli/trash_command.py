"""`treadle trash`: threads out of sight, until `restore` or `gc`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from treadle.cli.notices import print_line


@click.command("trash")
@click.argument("threads", metavar="[ID]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="What is in the trash, as a JSON array.")
def command(threads: Sequence[str], as_json: bool) -> None:
    """Move threads to the trash; without an ID, list what is in it.

    \b
    treadle trash 7c1e93f0   put it away
    treadle trash            what is in it

    Nothing is lost: `treadle restore ID` brings a thread back, and only `treadle gc` removes what
    is in the trash. A thread's sub-agents go with it. A thread that is open somewhere stays.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.upkeep.trash import describe_move, trash_threads
    from treadle.cli.renderers import make_printable

    if threads and as_json:
        raise click.UsageError("--json lists the trash; it goes without an ID")
    if not threads:
        _show_trash(as_json=as_json)
        return
    moved = trash_threads(open_store("treadle trash"), threads)
    for one in moved:
        for line in describe_move(one, "moved to the trash"):
            print_line(make_printable(line), err=True)
    ids = " ".join(one.id for one in moved)
    print_line(f"to bring it back: treadle restore {ids}", err=True)


def _show_trash(*, as_json: bool) -> None:
    from treadle.app.stores import open_store
    from treadle.app.upkeep.trash import describe_trashed_thread, list_trash
    from treadle.cli.json_output import print_json
    from treadle.cli.renderers import make_printable

    lines = list_trash(open_store("treadle trash"))
    if as_json:
        print_json(lines)
        return
    if not lines:
        print_line("the trash is empty", err=True)
        return
    for line in lines:
        print_line(make_printable(describe_trashed_thread(line)))
    print_line("`treadle restore ID` brings one back, `treadle gc` removes them", err=True)
