"""`treadle admin organizations`: whose members see each other's threads."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.admin_output import (
    database_option,
    format_count,
    format_quota,
    json_option,
    print_answer,
    quota_options,
    read_changes,
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
    rows = [
        (
            one.name,
            format_count(one.user_count, "user"),
            format_quota(one.threads_max, one.storage_max),
        )
        for one in found.organizations
    ]
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


@organizations.command("change")
@click.argument("name")
@quota_options
@database_option
def change_organization(name: str, database: str | None, **chosen: Any) -> None:
    """Change what its members may keep on the server together."""
    from treadle.api.types import OrganizationUpdate
    from treadle.server.accounts import accounts

    given = read_changes(chosen)
    if not given:
        raise click.UsageError("say what is to change: --threads-max or --storage-max")
    change = OrganizationUpdate(**given)
    run_as_operator(
        database,
        lambda context: accounts.change_organization(context, name, change),
        about=(f"organization {name!r}", "treadle admin organizations list"),
    )
    click.echo(f"changed the organization {name}", err=True)
