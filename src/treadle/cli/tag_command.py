"""`treadle tag`: put tags on a thread, or take them off."""

from __future__ import annotations

import click

from treadle.thread.safe_text import sanitize_text


@click.command("tag")
@click.argument("thread", metavar="ID")
@click.argument("tags", metavar="TAG...", nargs=-1)
@click.option("-r", "--remove", is_flag=True, help="Take the tags off.")
def command(thread: str, tags: tuple[str, ...], remove: bool) -> None:
    """Put tags on a thread, or take them off; without any, print those it has.

    \b
    treadle tag 7c1e93f0 login flaky
    treadle tag 7c1e93f0 --remove flaky
    treadle list --tag login
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.threads.annotations import tag_thread

    found = tag_thread(open_store(), thread, tags, remove=remove)
    click.echo(sanitize_text("\n".join(found)) if found else "", nl=bool(found))
