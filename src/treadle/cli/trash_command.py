"""`treadle trash`: threads out of sight, until `restore` or `gc`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.store.upkeep.trash import Moved, Trash, TrashedThread


@click.command("trash")
@click.argument("threads", metavar="[ID]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="What is in the trash, as a JSON array.")
def command(threads: Sequence[str], as_json: bool) -> None:
    """Move threads to the trash; without an ID, list what is in it.

    \b
    treadle trash 0190    put it away
    treadle trash         what is in it

    Nothing is lost: `treadle restore ID` brings a thread back, and only `treadle gc` removes what
    is in the trash. A thread's sub-agents go with it. A thread that is open somewhere stays.
    """  # noqa: D301  click reads the backspace
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.store.upkeep.trash import Trash

    if threads and as_json:
        raise click.UsageError("--json lists the trash; it goes without an ID")
    store = LocalStore(Places.find(), program="treadle trash")
    trash = Trash(store)
    if not threads:
        _show(trash, as_json=as_json)
        return
    moved = trash.put([store.resolve(thread) for thread in threads])
    tell(moved, "moved to the trash")
    ids = " ".join(one.id for one in moved)
    click.echo(f"to bring it back: treadle restore {ids}", err=True)


def tell(moved: Sequence[Moved], what: str) -> None:
    """Say which threads were moved, and what went with them."""
    from treadle.cli.render import printable

    for one in moved:
        click.echo(f"{one.id}: {what}", err=True)
        for child in one.children:
            click.echo(f"  with its sub-agent's thread {child}", err=True)
        for note in one.notes:
            click.echo(printable(f"  {note}"), err=True)


def _show(trash: Trash, *, as_json: bool) -> None:
    lines = trash.lines()
    if as_json:
        from treadle.cli.json_output import print_json

        print_json(lines)
        return
    if not lines:
        click.echo("the trash is empty", err=True)
        return
    for line in lines:
        click.echo(describe(line))
    click.echo("`treadle restore ID` brings one back, `treadle gc` removes them", err=True)


def describe(line: TrashedThread) -> str:
    """A line of the trash in one line: id, when, size, title."""
    from treadle.app.sizes import human_size
    from treadle.cli.render import printable

    at = line.trashed_at[:16].replace("T", " ") or "unknown"
    title = line.title or ("(damaged)" if line.problem else "(nothing said yet)")
    return printable(f"{line.id}  {at:<16}  {human_size(line.size):>9}  {title}")
