"""`treadle verify`: is every byte of every thread what it was?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treadle.store.local import LocalStore
    from treadle.store.replay import Report


@click.command("verify")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="All threads, those in the trash too.")
@click.option("--salvage", is_flag=True, help="Save what is left of a damaged thread.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per thread.")
@click.pass_context
def command(
    ctx: click.Context, /, thread: str | None, everything: bool, salvage: bool, as_json: bool
) -> None:
    """Check a thread, or all: chain, tail, snapshot, what it goes on from, outputs kept beside it.

    \b
    treadle verify             every thread
    treadle verify 0190        one
    treadle verify 0190 --salvage

    clean: every byte is accounted for. torn: a last write was cut short by a crash; opening the
    thread mends it. corrupt: records are damaged or missing. Of all threads, the index must agree
    too, files that are not Treadle's are named, and so is a scrub that was stopped. Nothing is
    changed, but a move or a creation of a thread that a crash has stopped is ended. Exit code 1 if
    anything is not as it must be.

    --salvage makes a new thread that goes on from the last intact version of a damaged one, and
    copies every record after the damage into a file. The damaged file itself is not touched.
    """  # noqa: D301  click reads the backspace
    from treadle.app.threads.thread_lookup import every_thread, resolve_anywhere
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store
    from treadle.store.upkeep.unfinished import settle

    store = own_store()
    if thread is not None and everything:
        raise UsageError("--all is all threads", hint="leave the ID out")
    if salvage:
        if thread is None:
            raise UsageError("which thread is to be salvaged?", hint="`treadle verify` finds it")
        ctx.exit(_salvage(store, resolve_anywhere(store, thread), as_json=as_json))
    if thread is not None:
        ids = [resolve_anywhere(store, thread)]
    else:
        settle(store)
        ids = every_thread(store) if everything else store.ids()
    reports: list[Report] = []
    for report in _reports(store, ids):
        reports.append(report)
        if not as_json:
            _show(report)
    _tell_index(store, reports)
    if thread is None:
        _name_strangers(store)
        disagreeing = list(_disagreeing(store, reports, in_trash=everything))
        disagreeing += _stopped_scrubs(store)
        reports += disagreeing
        for report in () if as_json else disagreeing:
            _show(report)
    if as_json:
        _print(reports)
    elif not reports:
        click.echo("no threads yet", err=True)
    ctx.exit(0 if all(report.is_good for report in reports) else 1)


def _reports(store: LocalStore, ids: Sequence[str]) -> Iterator[Report]:
    from treadle.store.replay import check

    for thread_id in ids:
        yield check(store, thread_id)


def _show(report: Report) -> None:
    from treadle.cli.render import printable

    click.echo(f"{report.thread}  {report.condition:<8} {printable(report.text)}")


def _print(value: object) -> None:

    from treadle.cli.json_output import print_json

    print_json(value)


def _name_strangers(store: LocalStore) -> None:
    from treadle.cli.render import printable
    from treadle.store.upkeep.foreign_files import strangers

    for path in strangers(store.folders):
        click.echo(f"not Treadle's, and left alone: {printable(path)}", err=True)


def _tell_index(store: LocalStore, reports: Sequence[Report]) -> None:
    """Lists are to show what is damaged, also where a snapshot covers it and the file looks old."""
    from treadle.store.index.lookup import Index
    from treadle.thread.record import Condition

    damaged = [one.thread for one in reports if one.condition == Condition.CORRUPT.value]
    if not damaged:
        return
    index = Index(store, lambda text: click.echo(text, err=True))
    try:
        for thread_id in damaged:
            index.doubt(thread_id)
    finally:
        index.close()


def _stopped_scrubs(store: LocalStore) -> Iterator[Report]:
    from treadle.store.replay import Report
    from treadle.store.upkeep.unfinished import stopped_scrubs

    for text, _ in stopped_scrubs(store):
        yield Report("scrub", "stopped", 0, False, text)


def _disagreeing(
    store: LocalStore, reports: Sequence[Report], *, in_trash: bool
) -> Iterator[Report]:
    """Where the index says anything else than the threads themselves."""
    from treadle.store.index.filters import Filters
    from treadle.store.index.lookup import Index
    from treadle.store.replay import Report
    from treadle.store.upkeep.trash import Trash

    index = Index(store, lambda text: click.echo(text, err=True))
    try:
        lines = index.threads()
        if in_trash:
            lines += index.threads(Filters(is_trashed=True))
    finally:
        index.close()
    known = {line.id: line.version for line in lines}
    # A thread that is being moved, or made, is in no list yet.
    between = {*Trash(store).unfinished(), *(one.thread for one in reports if not one.version)}
    for report in reports:
        version = known.get(report.thread)
        if report.is_good and version != report.version and report.thread not in between:
            # A thread that is in use goes on meanwhile.
            if version is not None and store.scan(report.thread).head.seq == version:
                continue
            text = f"the index has version {version}; remove index.sqlite, it is made anew"
            yield Report(report.thread, "index", report.version, False, text)


def _salvage(store: LocalStore, thread_id: str, *, as_json: bool) -> int:
    from treadle.app.stores import CREATOR
    from treadle.cli.render import printable
    from treadle.store.upkeep.salvage import salvage

    saved = salvage(store, thread_id, CREATOR)
    if as_json:
        _print(saved)
        return 0 if saved.fork else 1
    if saved.fork:
        click.echo(saved.fork)
        click.echo(
            f"goes on from {thread_id} at version {saved.version}, the last intact", err=True
        )
    else:
        click.echo(f"nothing to go on from: {printable(saved.problem)}", err=True)
    if saved.count:
        text = f"{saved.count} records stand after the damage; they are kept in {saved.path}"
        click.echo(printable(text), err=True)
    else:
        click.echo("no record stands after the damage", err=True)
    return 0 if saved.fork else 1
