"""`treadle share`: say who may see a thread on the server, and bring it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.login_command import VISIBILITIES

if TYPE_CHECKING:
    from treadle.thread.facts import Visibility

_VISIBILITY_TEXTS: Final = {
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
def command(
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
    treadle share 7c1e93f0 --visibility organization
    treadle share 7c1e93f0 --link --expires 7d
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.sync.share_access import find_share_target, share_thread
    from treadle.errors import UsageError

    if sum((visibility is not None, link, support)) != 1:
        raise UsageError(
            "how is it to be shared?", hint="give one of --visibility, --link and --support"
        )
    if expires is not None and not link:
        raise UsageError("--expires is about a link", hint="add --link")
    store = open_store("treadle share")
    target = find_share_target(store, thread)
    expires_at = None if expires is None else parse_expiry(expires, store.now())
    done = share_thread(
        store, target, visibility=visibility, with_support=support, expires_at=expires_at
    )
    shown: dict[str, str | None] = {"thread": target.thread_id, "url": done.url}
    if visibility is not None:
        shown["visibility"] = visibility
        words = _VISIBILITY_TEXTS[visibility].format(f"`treadle show {target.thread_id} --team`")
    else:
        shown["expires_at"] = done.expires_at
        words = _describe_expiry(done.expires_at or "", with_support=support)
    if as_json:
        print_json({**shown, "told": words})
        return
    click.echo(done.url)
    click.echo(words, err=True)


def _describe_expiry(expires_at: str, *, with_support: bool) -> str:
    from treadle.app.threads.times import local_time

    end = local_time(expires_at)
    if with_support:
        return f"support can read it until {end}; `treadle unshare` ends that"
    return (
        f"who has this link can read the thread as it is and will be, until {end}; it is not "
        "shown again"
    )


def parse_expiry(text: str, now: str) -> str:
    """The moment a person means by `7d`, `12h`, `2w` from now, or by a date or time.

    Raises:
        click.BadParameter: it is no time, or has passed.
    """
    import re
    from datetime import datetime, timedelta

    from treadle.cli.thread_filters import parse_moment_end

    found = re.fullmatch(r"(\d{1,4})\s*([hdw])", text.strip().lower(), re.ASCII)
    if found is not None:
        unit = {"h": "hours", "d": "days", "w": "weeks"}[found[2]]
        then = datetime.fromisoformat(now) + timedelta(**{unit: int(found[1])})
        at = then.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    else:
        at = parse_moment_end(text, now)
    if at <= now:
        raise click.BadParameter(f"{text!r} has passed: write 12h, 7d, 2w or a date to come")
    return at
