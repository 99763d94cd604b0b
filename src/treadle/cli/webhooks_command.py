"""`treadle webhooks`: what the team server tells elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.api.webhook_types import WebhookEvent, WebhookLine

_EVENTS: Final = ("question", "finished", "failed")
_json_option: Final = click.option("--json", "as_json", is_flag=True, help="JSON.")


@click.group("webhooks")
def command() -> None:
    """Have the team server tell an address that an agent waits, is done or has failed.

    \b
    treadle webhooks add https://hooks.example.com/treadle --event question
    treadle webhooks test 3

    What is sent is signed, holds the thread's title and a link, and is tried again for days. The
    page of your account has the same.
    """  # noqa: D301  click reads the backspace


@command.command("add")
@click.argument("url")
@click.option(
    "--event", "events", type=click.Choice(_EVENTS), multiple=True, help="Of what.  [default: all]"
)
@_json_option
def add_webhook(url: str, events: tuple[WebhookEvent, ...], as_json: bool) -> None:
    """Make a webhook, and print what signs it: a secret that is shown this once."""
    from treadle.app import make_webhook, open_store

    made = make_webhook(open_store("treadle webhooks"), url, events or _EVENTS)
    if as_json:
        print_json(made)
        return
    click.echo(made.secret)
    print_line(f"webhook {made.id}, signed with this secret, which is not shown again", err=True)
    print_line(f"`treadle webhooks test {made.id}` sends a test", err=True)


@command.command("list")
@_json_option
def show_webhooks(as_json: bool) -> None:
    """List webhooks and how they fare."""
    from treadle.app import list_webhooks, open_store
    from treadle.thread.safe_text import sanitize_text

    found = list_webhooks(open_store("treadle webhooks"))
    if as_json:
        print_json(found)
        return
    for one in found:
        line = f"{one.id}  {one.url}  {', '.join(one.events)}  {_describe(one)}"
        click.echo(sanitize_text(line))


def _describe(one: WebhookLine) -> str:
    from treadle.app.threads.times import local_time

    if one.is_disabled:
        return f"disabled after days of failure: {one.problem}; a test enables it again"
    if one.failing_since:
        return f"fails since {local_time(one.failing_since)}: {one.problem}; {one.pending} to send"
    if one.delivered_at:
        return f"last taken {local_time(one.delivered_at)}"
    return "nothing was sent yet"


@command.command("test")
@click.argument("number", type=click.IntRange(1))
def send_test(number: int) -> None:
    """Send a test; one that was disabled is enabled by that."""
    from treadle.app import open_store, try_webhook

    try_webhook(open_store("treadle webhooks"), number)
    print_line("a test is on its way; `treadle webhooks list` says what came of it", err=True)


@command.command("remove")
@click.argument("number", type=click.IntRange(1))
def drop_webhook(number: int) -> None:
    """Have nothing sent there any more."""
    from treadle.app import open_store, remove_webhook

    remove_webhook(open_store("treadle webhooks"), number)
    print_line(f"removed the webhook {number}", err=True)
