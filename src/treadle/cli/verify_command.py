"""`treadle verify`: is every byte of every thread what it was?"""

from __future__ import annotations

from functools import partial

import click

from treadle.cli.notices import print_line


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
    treadle verify            every thread
    treadle verify 7c1e93f0   one
    treadle verify 7c1e93f0 --salvage

    clean: every byte is accounted for. torn: a last write was cut short by a crash; opening the
    thread mends it. corrupt: records are damaged or missing. Of all threads, the index must agree
    too, files that are not Treadle's are named, and so is a scrub that was stopped. Nothing is
    changed, but a move or a creation of a thread that a crash has stopped is ended. Exit code 1 if
    anything is not as it must be.

    --salvage makes a new thread that goes on from the last intact version of a damaged one, and
    copies every record after the damage into a file. The damaged file itself is not touched.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.upkeep.verification import verify_threads
    from treadle.cli.json_output import print_json
    from treadle.cli.renderers import make_printable
    from treadle.errors import UsageError

    store, say = open_store(), partial(print_line, err=True)
    if thread is not None and everything:
        raise UsageError("--all is all threads", hint="leave the ID out")
    if salvage:
        if thread is None:
            raise UsageError("which thread is to be salvaged?", hint="`treadle verify` finds it")
        ctx.exit(_salvage_thread(thread, as_json=as_json))
    reports = []
    for report in verify_threads(store, thread, notify=say, has_trash=everything):
        reports.append(report)
        if not as_json:
            print_line(f"{report.thread}  {report.condition:<8} {make_printable(report.text)}")
    if as_json:
        print_json(reports)
    elif not reports:
        click.echo("no threads yet", err=True)
    ctx.exit(0 if all(report.is_good for report in reports) else 1)


def _salvage_thread(thread: str, *, as_json: bool) -> int:
    from treadle.app.stores import open_store
    from treadle.app.threads.thread_lookup import resolve_anywhere
    from treadle.app.upkeep.verification import salvage_thread
    from treadle.cli.json_output import print_json
    from treadle.cli.renderers import make_printable

    store = open_store()
    thread_id = resolve_anywhere(store, thread)
    saved = salvage_thread(store, thread_id)
    if as_json:
        print_json(saved)
        return 0 if saved.fork else 1
    if saved.fork:
        print_line(saved.fork)
        print_line(
            f"goes on from {thread_id} at version {saved.version}, the last intact", err=True
        )
    else:
        print_line(f"nothing to go on from: {make_printable(saved.problem)}", err=True)
    if saved.count:
        text = f"{saved.count} records stand after the damage; they are kept in {saved.path}"
        print_line(make_printable(text), err=True)
    else:
        click.echo("no record stands after the damage", err=True)
    return 0 if saved.fork else 1
