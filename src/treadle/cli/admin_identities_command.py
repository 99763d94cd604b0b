"""`treadle admin identities`: who at a provider of OpenID Connect is which user of a server."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    describe_user,
    format_day,
    json_option,
    print_answer,
    run_as_operator,
)


@click.group("identities")
def identities() -> None:
    """Who at a provider of OpenID Connect is which user."""


@identities.command("list")
@database_option
@json_option
def list_identities(database: str | None, as_json: bool) -> None:
    """List who at a provider is which user."""
    from treadle.server.accounts import identities as work

    found = run_as_operator(database, work.list_identities, is_write=False)
    rows = [
        (str(one.id), one.user, one.subject, one.issuer, one.email, format_day(one.created_at, ""))
        for one in found.identities
    ]
    print_answer(found, rows, as_json=as_json)


@identities.command("add")
@click.argument("user")
@click.argument("subject")
@click.option(
    "--issuer", metavar="URL", default="", help="By default that of the server's last start."
)
@database_option
def add_identity(user: str, subject: str, issuer: str, database: str | None) -> None:
    """Link a user to a SUBJECT: what the provider calls somebody, not an e-mail address."""
    from treadle.api.types import NewIdentity
    from treadle.server.accounts import identities as work

    new = NewIdentity(user, subject, issuer)
    made = run_as_operator(
        database, lambda context: work.add_identity(context, new), about=describe_user(user)
    )
    click.echo(f"{made.subject} at {made.issuer} signs in as {made.user}", err=True)


@identities.command("remove")
@click.argument("number", type=click.IntRange(1, 2**63 - 1))
@database_option
def remove_identity(number: int, database: str | None) -> None:
    """Let nobody in by an identity any more; whom it has signed in is signed out."""
    from treadle.server.accounts import identities as work

    run_as_operator(
        database,
        lambda context: work.remove_identity(context, number),
        about=(f"identity {number}", "treadle admin identities list"),
    )
    click.echo(f"removed the identity {number}", err=True)
