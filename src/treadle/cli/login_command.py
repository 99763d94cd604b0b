"""`treadle login`: set up who answers, or which server this machine syncs with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.thread.facts import Visibility

VISIBILITIES = ("organization", "private", "public")
"""As `treadle.thread.facts.Visibility` has them, which takes longer to import."""


@click.command("login")
@click.argument("target", metavar="[PROVIDER | URL]", required=False)
@click.option(
    "--key-stdin",
    "--token-stdin",
    "token_stdin",
    is_flag=True,
    help="Read the key, or the token of a server, from standard input.",
)
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default="organization",
    show_default=True,
    help="Who may see threads that are begun from now on.",
)
@click.option("--insecure", is_flag=True, help="Allow plain http to another machine.")
@click.option("--json", "as_json", is_flag=True, help="What was set up, as a JSON object.")
def command(
    target: str | None, token_stdin: bool, visibility: Visibility, insecure: bool, as_json: bool
) -> None:
    """Set up a model provider, or log in to a Treadle server; without a name you choose.

    \b
    treadle login                        from a list: what is on this machine, and a key to paste
    treadle login anthropic              its key, which nobody sees; its models answer from then on
    treadle login ollama                 a server of models on this machine
    treadle login openai --key-stdin < key
    treadle login https://treadle.example.org
    treadle login http://127.0.0.1:8080 --token-stdin < token

    A key is tried, and kept in a file of its own that nobody else can read; the provider's variable
    wins over it. A server's token, which its administrator gives, likewise. Nothing is sent by
    logging in to a server: threads that are here already wait for `treadle sync`; those that are
    begun from now on are sent while one works on them, unless the setting `sync` is "manual".
    """  # noqa: D301  click reads the backspace
    from treadle.cli.json_output import print_json
    from treadle.cli.model_login import find_login_target, log_in_to_provider
    from treadle.cli.renderers import make_printable

    found = find_login_target(target)
    if isinstance(found, str):
        _log_in_to_server(found, token_stdin, visibility, insecure, as_json)
        return
    done = log_in_to_provider(found, from_stdin=token_stdin)
    if as_json:
        print_json(done)
        return
    click.echo(make_printable(f"new threads use {done['model']}"))
    if done["key"]:
        click.echo(make_printable(done["key"]), err=True)


def _log_in_to_server(
    url: str, token_stdin: bool, visibility: Visibility, insecure: bool, as_json: bool
) -> None:
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
    from treadle.cli.model_login import ask_for_secret

    if from_stdin:
        return sys.stdin.readline(TOKEN_LINE_LENGTH_MAX), "standard input"
    return ask_for_secret(f"Token for {url}", "--token-stdin"), "the terminal"


_VISIBILITY_TEXTS = {
    "organization": "everybody in your organization",
    "private": "you alone",
    "public": "everybody",
}
