"""`treadle du`: what takes how much room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from treadle.app.upkeep.state_disk_usage import StateRoom
    from treadle.store.local import LocalStore
    from treadle.store.upkeep.disk_usage import Room

SHOWN_COUNT_MAX: Final = 10
"""Threads that are named."""
TITLE_SIZE_MAX: Final = 64 * 2**20
"""A thread that takes more is not read for its title."""
READ_SIZE_MAX: Final = 256 * 2**20
READ_BY_GC: Final = ("journals", "trash", "quarantine", "kept branches")
"""Bytes of these that are read to say what gc can free: a second or two."""


@click.command("du")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Sizes in bytes, as a JSON object.")
def command(thread: str | None, as_json: bool) -> None:
    """Show what takes how much room: of everything, or of one thread.

    \b
    treadle du           the store, part by part
    treadle du 0190      one thread

    Large outputs that several threads name are there once, and count for each of them. States of
    files are in the git repositories of the threads; what branches hold as well is not counted.
    """  # noqa: D301  click reads the backspace
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    store = LocalStore(Places.find())
    if thread is None:
        _show_all(store, as_json=as_json)
    else:
        _show_one(store, thread, as_json=as_json)


def _show_all(store: LocalStore, *, as_json: bool) -> None:
    from treadle.app.sizes import human_size
    from treadle.cli.render import printable
    from treadle.store.upkeep.disk_usage import room_of

    states = _state_room(store)
    room = room_of(store, SHOWN_COUNT_MAX)
    free_size = _free_size(store, room)
    named = [(one, size, _title(store, one, size)) for one, size in room.biggest]
    if as_json:
        shares = {one.name: {"count": one.count, "size": one.size} for one in room.shares}
        biggest = [{"id": one, "size": size, "title": title} for one, size, title in named]
        told = {"size": room.size, "gc_frees": free_size, "shares": shares, "biggest": biggest}
        _print_json({**told, "file_states": states})
        return
    for share in room.shares:
        click.echo(f"{share.name:<16}  {share.count:>6}  {human_size(share.size):>9}")
    click.echo(f"{'in all':<16}  {'':>6}  {human_size(room.size):>9}")
    if states is not None:
        click.echo("\n" + _told(states))
    if named:
        click.echo("\nthe biggest threads")
        for thread_id, size, title in named:
            untitled = "(nothing said yet)" if size <= TITLE_SIZE_MAX else "(not read: it is large)"
            shown = title or untitled
            click.echo(printable(f"{thread_id}  {human_size(size):>9}  {shown}"))
    if free_size:
        click.echo(f"`treadle gc` can free {human_size(free_size)}", err=True)


def _title(store: LocalStore, thread_id: str, size: int) -> str | None:
    summary = store.summary(thread_id) if size <= TITLE_SIZE_MAX else None
    return None if summary is None else summary.title


def _state_room(store: LocalStore, thread_id: str | None = None) -> StateRoom | None:
    """What the states of files take; `None` where it cannot be known. What is not counted is told.

    That is no reason to be silent about the rest.
    """
    from treadle.app.upkeep.state_disk_usage import state_room
    from treadle.cli.render import printable
    from treadle.errors import StoreError

    try:
        states = state_room(store, thread_id)
    except StoreError as error:
        click.echo(f"treadle: what file states take is not known: {error.message}", err=True)
        return None
    for one in states.skipped:
        click.echo(printable(f"treadle: file states that are not counted: {one}"), err=True)
    return states


def _told(states: StateRoom) -> str:
    from treadle.app.sizes import human_size

    count = states.repositories
    where = f"in {count} repositor{'y' if count == 1 else 'ies'}"
    return f"file states, {where}: {human_size(states.size)}"


def _free_size(store: LocalStore, room: Room) -> int | None:
    """What gc could free, in bytes; `None` where that is not known.

    Such as where a file cannot be read, or so much would have to be read that sizes, which are
    known at once, would have to wait. That is no reason to be silent about the rest.
    """
    from treadle.app.sizes import human_size
    from treadle.errors import StoreError
    from treadle.store.upkeep.garbage import Garbage

    size = sum(one.size for one in room.shares if one.name in READ_BY_GC)
    if size > READ_SIZE_MAX:
        text = f"what gc can free is not known: it would read {human_size(size)}"
        click.echo(f"treadle: {text}; `treadle gc --dry-run` does", err=True)
        return None
    try:
        return Garbage(store).plan().size
    except StoreError as error:
        click.echo(f"treadle: what gc can free is not known: {error.message}", err=True)
        return None


def _show_one(store: LocalStore, thread: str, *, as_json: bool) -> None:
    from treadle.app.sizes import human_size
    from treadle.errors import UnknownThreadError
    from treadle.store.upkeep.disk_usage import room_of_thread

    try:
        thread_id = store.resolve(thread)
    except UnknownThreadError:
        thread_id = store.resolve(thread, in_trash=True)
    room, states = room_of_thread(store, thread_id), _state_room(store, thread_id)
    if as_json:
        import msgspec

        _print_json({**msgspec.to_builtins(room), "size": room.size, "file_states": states})
        return
    where = " (in the trash)" if room.is_in_trash else ""
    click.echo(f"{thread_id}{where}")
    click.echo(f"{'journal':<16}  {'':>6}  {human_size(room.journal_size):>9}")
    click.echo(f"{'snapshot':<16}  {'':>6}  {human_size(room.snapshot_size):>9}")
    click.echo(f"{'large outputs':<16}  {room.blob_count:>6}  {human_size(room.blob_size):>9}")
    click.echo(f"{'in all':<16}  {'':>6}  {human_size(room.size):>9}")
    if states is not None:
        click.echo("\n" + _told(states))


def _print_json(value: object) -> None:

    from treadle.cli.json_output import print_json

    print_json(value)
