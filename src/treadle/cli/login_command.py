"""`treadle login`: say which server this machine syncs with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.api.types import Me
    from treadle.sync.credentials import Account

VISIBILITIES = ("organization", "private", "public")
"""As `treadle.thread.facts.Visibility` has them, which takes longer to import."""


@click.command("login")
@click.argument("url", metavar="URL")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default="organization",
    show_default=True,
    help="Who may see threads that are begun from now on.",
)
@click.option("--insecure", is_flag=True, help="Allow plain http to another machine.")
@click.option("--json", "as_json", is_flag=True, help="Who one is there, as a JSON object.")
def command(url: str, token_stdin: bool, visibility: str, insecure: bool, as_json: bool) -> None:
    """Log in to a Treadle server, with a token that its administrator gives.

    The token is checked, and kept in a file that nobody else can read. Nothing is sent by this:
    threads that are here already wait for `treadle sync`; those that are begun from now on are sent
    while one works on them, unless the setting `sync` is "manual".

    \b
    treadle login https://treadle.example.org
    treadle login http://127.0.0.1:8080 --token-stdin < token
    """  # noqa: D301  click reads the backspace
    import os
    from typing import cast

    from treadle.errors import NotLoggedInError, UsageError
    from treadle.store.local import utc_now
    from treadle.store.paths import Places
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import Account, find_account, save_account, server_url
    from treadle.thread.facts import Visibility

    places = Places.find()
    checked = server_url(url, is_insecure=insecure)
    try:
        before = find_account(places, os.environ)
    except NotLoggedInError:
        before = None  # what cannot be used is replaced
    if before is not None and before.origin == "environment":
        raise UsageError(
            "TREADLE_SERVER_URL says which server this machine syncs with",
            hint="unset it to log in to another one",
        )
    account = Account(checked, _token(checked, from_stdin=token_stdin), is_insecure=insecure)
    with HttpRemote(account) as remote:
        me = remote.me()
    account = Account(
        checked,
        account.token,
        me.user,
        me.organization,
        cast(Visibility, visibility),
        utc_now(),
        insecure,
    )
    save_account(places, account)
    _tell(account, me, None if before is None else before.url, as_json=as_json)


def _token(url: str, *, from_stdin: bool) -> str:
    """The token, which stands in no command line: other users could see it there."""
    from treadle.cli.ask import is_somebody_there
    from treadle.errors import UsageError
    from treadle.sync.credentials import TOKEN_LENGTH_MAX, check_token

    if from_stdin:
        return check_token(sys.stdin.readline(TOKEN_LENGTH_MAX + 2), "standard input")
    if not is_somebody_there():
        raise UsageError("nobody can be asked for the token", hint="add --token-stdin")
    text = click.prompt(f"Token for {url}", hide_input=True, err=True)
    return check_token(str(text), "the terminal")


def _tell(account: Account, me: Me, before: str | None, *, as_json: bool) -> None:
    from treadle.cli.render import printable
    from treadle.cli.sync_job import never_sent
    from treadle.runtime.defaults import own_store

    if as_json:
        from treadle.cli.json_output import print_json

        print_json(me)
    else:
        click.echo(printable(f"{me.user} of {me.organization} at {account.url}"))
    if before not in (None, account.url):
        click.echo(printable(f"this machine synced with {before} before"), err=True)
    if me.token_expires_at is not None:
        click.echo(printable(f"the token expires at {me.token_expires_at}"), err=True)
    found = never_sent(own_store(), account)
    if count := len(found.lines):
        threads = "one thread is" if count == 1 else f"{count} threads are"
        click.echo(
            f"{threads} here already; nothing of that is sent before `treadle sync`", err=True
        )
    if count := found.private_count:
        stay = "one private thread stays" if count == 1 else f"{count} private threads stay"
        click.echo(f"{stay} on this machine", err=True)
    click.echo(f"who may see new threads there: {_WHO[account.visibility]}", err=True)


_WHO = {
    "organization": "everybody in your organization",
    "private": "you alone",
    "public": "everybody",
}
