"""`treadle share`: say who may see a thread on the server, and bring it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.login_command import VISIBILITIES

if TYPE_CHECKING:
    from treadle.store.local import LocalStore
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import Account
    from treadle.sync.cursors import Cursors
    from treadle.sync.engine import Engine
    from treadle.thread.facts import Visibility
    from treadle.thread.fold import ThreadFold

_WHO: Final = {
    "organization": "everybody in your organization can read it: {}",
    "private": "you alone can read it",
    "public": "everybody can read it, at this address without an account: with one, {}",
}


@click.command("share")
@click.argument("thread", metavar="ID")
@click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see it.")
@click.option("--link", is_flag=True, help="Make a link: who has it can read, without a login.")
@click.option(
    "--expires", metavar="TIME", help="Of the link: 12h, 7d, 2w or a date.  [default: 30 days]"
)
@click.option("--support", is_flag=True, help="Let the server's support read it, for 31 days.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as a JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    thread: str,
    visibility: Visibility | None,
    link: bool,
    expires: str | None,
    support: bool,
    as_json: bool,
) -> None:
    """Share a thread: it is sent now, and this waits until the server has it.

    A link is told once; another one ends the one before it. `treadle unshare` takes back what can
    be taken back.

    Exit codes: 0 done, 1 it is private, held back or refused, 5 not logged in, 75 the server cannot
    be reached, or the thread is open in another process.

    \b
    treadle share 0190 --visibility organization
    treadle share 0190 --link --expires 7d
    """  # noqa: D301  click reads the backspace
    import os

    from treadle.app.sync.sync_engine import open_engine
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store
    from treadle.sync.credentials import needed_account
    from treadle.sync.shareable import spoken_of

    if sum((visibility is not None, link, support)) != 1:
        raise UsageError(
            "how is it to be shared?", hint="give one of --visibility, --link and --support"
        )
    if expires is not None and not link:
        raise UsageError("--expires is about a link", hint="add --link")
    store = own_store("treadle share")
    thread_id = store.resolve(thread)
    account = needed_account(store.places, os.environ)
    refuse_private(store, thread_id)
    expires_at = None if expires is None else expiry(expires, store.now())
    with open_engine(store, account) as (engine, cursors, remote):
        # What was sent before is looked at as well: more is known today.
        engine.look(thread_id)
        if visibility is not None or support:
            _record(thread_id, visibility, with_support=support)
        _send(engine, cursors, thread_id)
        with spoken_of(store, thread_id):
            told = _share(remote, account, thread_id, visibility, expires_at, with_support=support)
    if as_json:
        print_json(told)
        return
    click.echo(told["url"])
    click.echo(told["told"], err=True)
    ctx.exit(0)


def _share(
    remote: HttpRemote,
    account: Account,
    thread_id: str,
    visibility: Visibility | None,
    expires_at: str | None,
    *,
    with_support: bool,
) -> dict[str, str | None]:
    """What the server is asked for besides, and what to tell of it; `url` is how others read it."""
    from treadle.app.threads.local_times import local_time

    url = f"{account.url}/api/threads/{thread_id}"
    if visibility is not None:
        told = _WHO[visibility].format(f"`treadle show {thread_id} --team`")
        return {"thread": thread_id, "url": url, "visibility": visibility, "told": told}
    if with_support:
        access = remote.grant_support(thread_id)
        until = access.expires_at or ""
        told = f"support can read it until {local_time(until)}; `treadle unshare` ends that"
        return {"thread": thread_id, "url": url, "expires_at": until, "told": told}
    share = remote.share(thread_id, expires_at)
    told = (
        f"who has this link can read the thread as it is and will be, until "
        f"{local_time(share.expires_at)}; it is not shown again"
    )
    return {"thread": thread_id, "url": share.url, "expires_at": share.expires_at, "told": told}


def expiry(text: str, now: str) -> str:
    """The moment a person means by `7d`, `12h`, `2w` from now, or by a date or time.

    Raises:
        click.BadParameter: it is no time, or has passed.
    """
    import re
    from datetime import datetime, timedelta

    from treadle.cli.thread_filters import end_of_moment

    found = re.fullmatch(r"(\d{1,4})\s*([hdw])", text.strip().lower(), re.ASCII)
    if found is not None:
        unit = {"h": "hours", "d": "days", "w": "weeks"}[found[2]]
        then = datetime.fromisoformat(now) + timedelta(**{unit: int(found[1])})
        at = then.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    else:
        at = end_of_moment(text, now)
    if at <= now:
        raise click.BadParameter(f"{text!r} has passed: write 12h, 7d, 2w or a date to come")
    return at


def refuse_private(store: LocalStore, thread_id: str) -> None:
    """Nothing of a private thread leaves, not even the question whether it may.

    Raises:
        PrivateThreadError: it is private, or hangs on one that is.
    """
    from treadle.errors import PrivateThreadError
    from treadle.sync.survey import Survey

    survey = Survey(store)
    if survey.is_private(thread_id):
        above = survey.private_above(thread_id)
        why = "" if above is None else f", as {above} is, which it hangs on"
        raise PrivateThreadError(
            f"thread {thread_id} is private{why}: it never leaves this machine; nothing was sent",
            hint=f"`treadle private {above or thread_id} --off` takes that back",
        )


def _record(thread_id: str, visibility: Visibility | None, *, with_support: bool) -> None:
    """Say it in the thread, where every machine reads it."""
    from treadle.app.threads.annotations import annotate
    from treadle.thread.facts import Shared

    def wanted(fold: ThreadFold) -> Shared | None:
        if with_support:
            return None if fold.is_shared_with_support else Shared(with_support=True)
        return None if fold.visibility == visibility else Shared(visibility)

    annotate(thread_id, wanted)


def _send(engine: Engine, cursors: Cursors, thread_id: str) -> None:
    """Bring the thread to the server, and wait for it.

    Raises:
        HeldBackError: a secret was found in it, or it has become private.
        RemoteRefusedError: the server says no.
        RemoteUnavailableError: it cannot be reached; it is tried again.
    """
    from treadle.errors import HeldBackError, RemoteRefusedError, RemoteUnavailableError

    report = engine.save_and_sync(thread_id)
    for problem in report.held:
        if problem.thread_id == thread_id:
            what = "; ".join(problem.found)
            raise HeldBackError(
                f"thread {thread_id} was not sent: a secret was found in it"
                + (f" ({what})" if what else f": {problem.why}"),
                hint=f"`treadle scrub {thread_id} --found` takes it out for good",
            )
    for problem in report.refused:
        if problem.thread_id == thread_id:
            raise RemoteRefusedError(f"thread {thread_id} was not taken: {problem.why}")
    why = next((one.why for one in report.waiting if one.thread_id == thread_id), "")
    if why or report.unreachable:
        raise RemoteUnavailableError(
            f"thread {thread_id} is not shared yet: {why or report.unreachable}",
            hint="who may see it is recorded; it is sent with the next sync",
        )
    cursor = cursors.get(thread_id)
    if cursor is None or cursor.is_purged or not cursor.seq:
        note = next((one for one in report.notes if one.startswith(thread_id)), "")
        raise HeldBackError(
            f"thread {thread_id} was not sent, so that nothing of it is shared",
            hint=note or f"`treadle sync {thread_id}` says why",
        )
