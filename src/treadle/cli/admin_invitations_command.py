"""`treadle admin invitations`: links by which people become users of a team server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli.admin_output import (
    database_option,
    format_day,
    json_option,
    print_answer,
    run_as_operator,
)
from treadle.cli.admin_tokens_command import parse_expiry

if TYPE_CHECKING:
    from treadle.api.types import Invitation
    from treadle.server.context import Context

_ROLES: Final = ("member", "organization_admin")


@click.group("invitations")
def invitations() -> None:
    """Links by which people become users, each for one."""


@invitations.command("list")
@database_option
@json_option
def list_invitations(database: str | None, as_json: bool) -> None:
    """List invitations and what became of them, never the links themselves."""
    from treadle.server.accounts import invitations as work

    found = run_as_operator(database, work.list_invitations, is_write=False)
    rows = [
        (
            str(one.id),
            one.organization,
            one.role.replace("_", " "),
            f"open until {format_day(one.expires_at, '')}" if one.is_open else "closed",
            f"accepted by {one.accepted_by}" if one.accepted_by else "",
        )
        for one in found.invitations
    ]
    print_answer(found, rows, as_json=as_json)


@invitations.command("add")
@click.option("--organization", required=True, metavar="NAME", help="To which one is invited.")
@click.option("--role", type=click.Choice(_ROLES), default=_ROLES[0], show_default=True)
@click.option("--expires", metavar="TIME", help="A date, a time, or 7d from now.  [default: 7d]")
@click.option(
    "--base-url",
    metavar="URL",
    default="",
    help="Where people reach the server; by default as its last start has it.",
)
@database_option
def add_invitation(expires: str | None, base_url: str, database: str | None, **given: Any) -> None:
    """Make a link by which one person becomes a user, and print it. It is shown this once."""
    from treadle.api.types import NewInvitation
    from treadle.server.accounts import invitations as work
    from treadle.server.data.kept_settings import BASE_URL, read_setting

    until = None if expires is None else parse_expiry(expires)
    new = NewInvitation(**given, expires_at=until)

    def make(context: Context) -> Invitation:
        where = base_url.rstrip("/") or read_setting(context.db, BASE_URL)
        return work.make_invitation(context, new, where)

    made = run_as_operator(database, make)
    click.echo(made.url)
    told = f"invitation {made.id} to {made.organization}, for one person, good until "
    click.echo(f"{told}{format_day(made.expires_at, '')}", err=True)
    if made.url.startswith("/"):
        click.echo("the address of the server goes before it; --base-url says it", err=True)


@invitations.command("revoke")
@click.argument("number", type=int)
@database_option
def revoke_invitation(number: int, database: str | None) -> None:
    """Let nobody in by an invitation any more."""
    from treadle.server.accounts import invitations as work

    run_as_operator(
        database,
        lambda context: work.revoke_invitation(context, number),
        about=(f"invitation {number}", "treadle admin invitations list"),
    )
    click.echo(f"revoked the invitation {number}", err=True)
