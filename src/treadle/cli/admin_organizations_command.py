"""`treadle admin organizations`: whose members see each other's threads."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    format_count,
    json_option,
    print_answer,
    run_as_operator,
)


@click.group("organizations")
def organizations() -> None:
    """Those whose members see each other's threads."""


@organizations.command("list")
@database_option
@json_option
def list_organizations(database: str | None, as_json: bool) -> None:
    """List all organizations."""
    from treadle.server.accounts import accounts

    found = run_as_operator(database, accounts.list_organizations, is_write=False)
    rows = [(one.name, format_count(one.user_count, "user")) for one in found.organizations]
    print_answer(found, rows, as_json=as_json)


@organizations.command("add")
@click.argument("name")
@database_option
def add_organization(name: str, database: str | None) -> None:
    """Make an organization."""
    from treadle.api.types import NewOrganization
    from treadle.server.accounts import accounts

    new = NewOrganization(name)
    made = run_as_operator(database, lambda context: accounts.make_organization(context, new))
    click.echo(f"made the organization {made.name}", err=True)
