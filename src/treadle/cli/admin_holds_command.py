"""`treadle admin holds`: what nobody may remove from a team server, and why."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    format_day,
    json_option,
    print_answer,
    run_as_operator,
)


@click.group("holds")
def holds() -> None:
    """Legal holds: what nobody may remove as long as they stand."""


@holds.command("list")
@database_option
@json_option
def list_holds(database: str | None, as_json: bool) -> None:
    """List holds, also those that were lifted."""
    from treadle.server.threads import legal_holds

    found = run_as_operator(database, legal_holds.list_holds, is_write=False)
    rows = [
        (
            str(one.id),
            one.target,
            f"since {format_day(one.placed_at, '')} by {one.placed_by}",
            "stands"
            if one.lifted_at is None
            else f"lifted {format_day(one.lifted_at, '')} by {one.lifted_by}",
            one.reason,
        )
        for one in found.holds
    ]
    print_answer(found, rows, as_json=as_json)


@holds.command("add")
@click.option("--thread", metavar="ID", help="A thread by its whole id; ID@NAME says whose.")
@click.option("--user", metavar="NAME", help="All threads of a user, also those to come.")
@click.option("--organization", metavar="NAME", help="All threads of an organization.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; who is refused reads it.")
@database_option
def add_hold(
    thread: str | None,
    user: str | None,
    organization: str | None,
    reason: str,
    database: str | None,
) -> None:
    """Let nobody remove anything of a thread, a user or an organization.

    \b
    treadle admin holds add --user ada --reason "case 14/2026"
    """  # noqa: D301  click reads the backspace
    from treadle.api.retention_types import NewHold
    from treadle.server.threads import legal_holds

    new = NewHold(reason, thread, user, organization)
    told = thread or user or organization
    made = run_as_operator(
        database,
        lambda context: legal_holds.place_hold(context, new),
        about=(f"such thing: {told!r}", "treadle admin usage"),
    )
    click.echo(f"hold {made.id} stands on {made.target}", err=True)


@holds.command("lift")
@click.argument("number", type=int)
@database_option
def lift_hold(number: int, database: str | None) -> None:
    """Let what was held be removed again."""
    from treadle.server.threads import legal_holds

    run_as_operator(
        database,
        lambda context: legal_holds.lift_hold(context, number),
        about=(f"hold {number}", "treadle admin holds list"),
    )
    click.echo(f"lifted the hold {number}", err=True)
