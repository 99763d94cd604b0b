"""`treadle verify`: is every byte of every thread what it was?"""

from __future__ import annotations

import click


@click.command("verify")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per thread.")
@click.pass_context
def command(ctx: click.Context, /, thread: str | None, as_json: bool) -> None:
    """Check chain, tail and snapshot of a thread, or of all. Changes nothing.

    clean: every byte is accounted for. torn: a last write was cut short by a crash; opening the
    thread mends it. corrupt: records are damaged or missing; exit code 1.
    """
    from treadle.store.local import LocalStore
    from treadle.store.places import Places
    from treadle.store.replay import check

    store = LocalStore(Places.find())
    threads = [store.resolve(thread)] if thread else store.ids()
    reports = [check(store, thread_id) for thread_id in threads]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(reports), indent=2))
    else:
        for report in reports:
            click.echo(f"{report.thread}  {report.condition:<8} {report.text}")
        if not reports:
            click.echo("no threads yet", err=True)
    ctx.exit(0 if all(report.is_good for report in reports) else 1)
