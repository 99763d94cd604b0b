"""`treadle du`: what takes how much room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.app.upkeep.disk_usage import StoreUsage, ThreadUsage
    from treadle.app.upkeep.state_disk_usage import FileStateUsage


@click.command("du")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Sizes in bytes, as a JSON object.")
def command(thread: str | None, as_json: bool) -> None:
    """Show what takes how much room: of everything, or of one thread.

    \b
    treadle du            the store, part by part
    treadle du 7c1e93f0   one thread

    Large outputs that several threads name are there once, and count for each of them. States of
    files are in the git repositories of the threads; what branches hold as well is not counted.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.upkeep.disk_usage import measure_store, measure_thread

    if thread is None:
        _show_store(measure_store(open_store(), notify=_warn), as_json=as_json)
    else:
        _show_thread(measure_thread(open_store(), thread, notify=_warn), as_json=as_json)


def _warn(problem: str) -> None:
    print_line(f"treadle: {problem}", err=True)


def _show_store(usage: StoreUsage, *, as_json: bool) -> None:
    import msgspec

    from treadle.app.sizes import human_size
    from treadle.cli.json_output import print_json
    from treadle.cli.renderers import make_printable

    if as_json:
        shares = {one.name: {"count": one.count, "size": one.size} for one in usage.shares}
        print_json({**msgspec.structs.asdict(usage), "shares": shares})
        return
    for share in usage.shares:
        _show_size(share.name, share.size, share.count)
    _show_size("in all", usage.size)
    _show_file_states(usage.file_states)
    if usage.biggest:
        click.echo("\nthe biggest threads")
    for one in usage.biggest:
        untitled = "(nothing said yet)" if one.is_read else "(not read: it is large)"
        print_line(make_printable(f"{one.id}  {human_size(one.size):>9}  {one.title or untitled}"))
    if usage.gc_frees:
        click.echo(f"`treadle gc` can free {human_size(usage.gc_frees)}", err=True)


def _show_thread(usage: ThreadUsage, *, as_json: bool) -> None:
    import msgspec

    from treadle.cli.json_output import print_json

    room = usage.room
    if as_json:
        fields = {**msgspec.to_builtins(room), "size": room.size}
        print_json({**fields, "file_states": usage.file_states})
        return
    print_line(f"{room.id}{' (in the trash)' if room.is_in_trash else ''}")
    _show_size("journal", room.journal_size)
    _show_size("snapshot", room.snapshot_size)
    _show_size("large outputs", room.blob_size, room.blob_count)
    _show_size("in all", room.size)
    _show_file_states(usage.file_states)


def _show_size(name: str, size: int, count: int | None = None) -> None:
    from treadle.app.sizes import human_size

    click.echo(f"{name:<16}  {'' if count is None else count:>6}  {human_size(size):>9}")


def _show_file_states(states: FileStateUsage | None) -> None:
    from treadle.app.sizes import human_size

    if states is not None:
        count = states.repositories
        where = f"in {count} repositor{'y' if count == 1 else 'ies'}"
        click.echo(f"\nfile states, {where}: {human_size(states.size)}")
