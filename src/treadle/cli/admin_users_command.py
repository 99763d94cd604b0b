"""`treadle admin users`: who may use a team server, and what they are."""

from __future__ import annotations

from typing import Any, Final

import click

from treadle.cli.admin_output import (
    database_option,
    describe_user,
    format_quota,
    json_option,
    print_answer,
    quota_options,
    read_changes,
    run_as_operator,
)

_ROLES: Final = ("member", "organization_admin")


@click.group("users")
def users() -> None:
    """Who may use the server, and what they are."""


@users.command("list")
@database_option
@json_option
def list_users(database: str | None, as_json: bool) -> None:
    """List all users."""
    from treadle.server.accounts import accounts

    found = run_as_operator(database, accounts.list_users, is_write=False)
    rows = []
    for one in found.users:
        marks = {"admin": one.is_admin, "support": one.is_support, "disabled": one.is_disabled}
        told = [one.role.replace("_", " "), *(word for word, is_set in marks.items() if is_set)]
        quota = format_quota(one.threads_max, one.storage_max)
        rows.append((one.name, one.organization, ", ".join(told), quota))
    print_answer(found, rows, as_json=as_json)


@users.command("add")
@click.argument("name")
@click.option("--organization", required=True, metavar="NAME", help="Whose threads are shared.")
@click.option("--role", type=click.Choice(_ROLES), default=_ROLES[0], show_default=True)
@click.option("--admin", "is_admin", is_flag=True, help="May manage users, tokens, organizations.")
@click.option("--support", "is_support", is_flag=True, help="May ask to read a thread.")
@database_option
def add_user(database: str | None, **chosen: Any) -> None:
    """Make a user; he can do nothing before he has a token."""
    from treadle.api.types import NewUser
    from treadle.server.accounts import accounts

    new = NewUser(**chosen)
    made = run_as_operator(database, lambda context: accounts.make_user(context, new))
    click.echo(f"made the user {made.name}; next: treadle admin tokens add {made.name}", err=True)


@users.command("change")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES))
@click.option("--admin/--no-admin", "is_admin", default=None, help="Whether he manages users.")
@click.option("--support/--no-support", "is_support", default=None, help="Whether he is support.")
@quota_options
@database_option
def change_user(name: str, database: str | None, **chosen: Any) -> None:
    """Change what a user is."""
    given = read_changes(chosen)
    if not given:
        raise click.UsageError("say what is to change: --role, --admin, --storage-max, ...")
    _update_user(database, name, **given)
    click.echo(f"changed the user {name}", err=True)


@users.command("disable")
@click.argument("name")
@database_option
def disable_user(name: str, database: str | None) -> None:
    """Let a user do nothing any more, from the next request on; his threads stay."""
    _update_user(database, name, is_disabled=True)
    click.echo(f"disabled the user {name}; `treadle admin users enable` takes it back", err=True)


@users.command("enable")
@click.argument("name")
@database_option
def enable_user(name: str, database: str | None) -> None:
    """Let a user who was disabled in again, with the tokens he has."""
    _update_user(database, name, is_disabled=False)
    click.echo(f"enabled the user {name}", err=True)


def _update_user(database: str | None, name: str, **given: Any) -> None:
    from treadle.api.types import UserUpdate
    from treadle.server.accounts import accounts

    change = UserUpdate(**given)
    about = describe_user(name)
    run_as_operator(
        database, lambda context: accounts.change_user(context, name, change), about=about
    )
