"""`treadle login`: say which server this machine syncs with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.thread.facts import Visibility

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
def command(
    url: str, token_stdin: bool, visibility: Visibility, insecure: bool, as_json: bool
) -> None:
    """Log in to a Treadle server, with a token that its administrator gives.

    The token is checked, and kept in a file that nobody else can read. Nothing is sent by this:
    threads that are here already wait for `treadle sync`; those that are begun from now on are sent
    while one works on them, unless the setting `sync` is "manual".

    \b
    treadle login https://treadle.example.org
    treadle login http://127.0.0.1:8080 --token-stdin < token
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.sync.first_sync import find_unsent
    from treadle.app.sync.server_login import log_in, plan_login
    from treadle.cli.renderers import make_printable

    store = open_store()
    plan = plan_login(store, url, is_insecure=insecure)
    token = _read_token(plan.url, from_stdin=token_stdin)
    account, me = log_in(store, plan, *token, visibility)
    if as_json:
        from treadle.cli.json_output import print_json

        print_json(me)
    else:
        click.echo(make_printable(f"{me.user} of {me.organization} at {plan.url}"))
    if plan.previous_url:
        click.echo(make_printable(f"this machine synced with {plan.previous_url} before"), err=True)
    if me.token_expires_at is not None:
        click.echo(make_printable(f"the token expires at {me.token_expires_at}"), err=True)
    found = find_unsent(store, account)
    if count := len(found.lines):
        threads = "one thread is" if count == 1 else f"{count} threads are"
        click.echo(
            f"{threads} here already; nothing of that is sent before `treadle sync`", err=True
        )
    if found.private_count:
        from treadle.cli.sync_report import describe_private_count

        click.echo(f"{describe_private_count(found.private_count)} on this machine", err=True)
    click.echo(f"who may see new threads there: {_VISIBILITY_TEXTS[visibility]}", err=True)


def _read_token(url: str, *, from_stdin: bool) -> tuple[str, str]:
    """The token, and where it was read; it stands in no command line: others could see it there."""
    from treadle.app.sync.server_login import TOKEN_LINE_LENGTH_MAX
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError

    if from_stdin:
        return sys.stdin.readline(TOKEN_LINE_LENGTH_MAX), "standard input"
    if not is_interactive():
        raise UsageError("nobody can be asked for the token", hint="add --token-stdin")
    return str(click.prompt(f"Token for {url}", hide_input=True, err=True)), "the terminal"


_VISIBILITY_TEXTS = {
    "organization": "everybody in your organization",
    "private": "you alone",
    "public": "everybody",
}
