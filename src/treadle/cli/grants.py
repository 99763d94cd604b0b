"""What a person has allowed for the rest of a thread: shown, and taken back."""

from __future__ import annotations

import click

from treadle.app.threads.annotations import mark
from treadle.cli.json_output import print_json
from treadle.cli.questions import in_line
from treadle.core.approval import Grant
from treadle.errors import UsageError
from treadle.runtime.defaults import own_store
from treadle.thread.facts import Revoked
from treadle.thread.fold import ThreadFold
from treadle.thread.grants import grants_of


def show_grants(thread: str, *, as_json: bool) -> None:
    """Each grant that holds here in a line: the tool, the kind, the highest risk it is for.

    What was allowed in a thread that was taken in from elsewhere does not hold: it is told apart.

    Raises:
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: it cannot be read.
    """
    store = own_store()
    fold = store.load(store.resolve(thread)).fold
    grants = grants_of(fold.machine.config)
    if grants and store.adopted.is_foreign(fold.header.thread):
        names = ", ".join(map(in_words, grants))
        click.echo(f"allowed elsewhere, and not here, where nobody has said so: {names}", err=True)
        grants = ()
    if as_json:
        print_json(grants)
        return
    for grant in grants:
        click.echo(f"{in_words(grant)}, up to {grant.risk.name.lower()} risk")
    if grants:
        click.echo(
            f"to take one back: treadle approve {fold.header.thread} --revoke WHAT", err=True
        )
    else:
        click.echo("nothing is allowed for the rest of this thread", err=True)


def revoke(thread: str, what: str) -> None:
    """Take back a kind, or all of a tool, as `show_grants` names it.

    Raises:
        UsageError: nothing of that name is allowed, or several tools have a kind of that name.
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: the thread is busy, damaged, newer or in the trash, or the disk refused.
    """
    fold = mark(thread, lambda fold: _taken_back(fold, what))
    click.echo(f"{what} is not allowed unasked in {fold.header.thread} any more", err=True)


def in_words(grant: Grant) -> str:
    """What a grant is for, as `--revoke` takes it."""
    tool = in_line(grant.tool_name)
    return f"{tool}: {in_line(grant.kind)}" if grant.kind else tool


def _taken_back(fold: ThreadFold, what: str) -> Revoked:
    grants = grants_of(fold.machine.config)
    if any(one.tool_name == what for one in grants):
        return Revoked(what)
    found = [one for one in grants if what in (one.kind, in_words(one))]
    if len(found) == 1:
        return Revoked(found[0].tool_name, found[0].kind)
    known = ", ".join(in_words(one) for one in found or grants) or "nothing is"
    why = "several tools have" if found else "nothing is allowed by"
    raise UsageError(f"{why} the name {what!r} in this thread", hint=f"allowed: {known}")
