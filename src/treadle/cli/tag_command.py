"""`treadle tag`: put tags on a thread, or take them off."""

from __future__ import annotations

import click

from treadle.thread.safe_text import legible


@click.command("tag")
@click.argument("thread", metavar="ID")
@click.argument("tags", metavar="TAG...", nargs=-1)
@click.option("-r", "--remove", is_flag=True, help="Take the tags off.")
def command(thread: str, tags: tuple[str, ...], remove: bool) -> None:
    """Put tags on a thread, or take them off; without any, print those it has.

    \b
    treadle tag 0190 login flaky
    treadle tag 0190 --remove flaky
    treadle list --tag login
    """  # noqa: D301  click reads the backspace
    from treadle.app.threads.annotations import TAG_LENGTH_MAX, mark, plain_line
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store
    from treadle.thread.facts import Tagged
    from treadle.thread.fold import ThreadFold

    wanted = tuple(dict.fromkeys(plain_line(tag, "a tag", TAG_LENGTH_MAX) for tag in tags))
    if any(not tag or set(tag) & set(" ,") for tag in wanted):
        raise UsageError("a tag is a word without spaces and commas", hint="use - or / inside it")

    def change(fold: ThreadFold) -> Tagged | None:
        has = fold.metadata.tags
        if remove:
            gone = tuple(tag for tag in wanted if tag in has)
            return Tagged(removed=gone) if gone else None
        new = tuple(tag for tag in wanted if tag not in has)
        return Tagged(new) if new else None

    if wanted:
        found = mark(thread, change).metadata.tags
    else:
        store = own_store()
        found = store.load(store.resolve(thread)).fold.metadata.tags
    click.echo(legible("\n".join(found)) if found else "", nl=bool(found))
