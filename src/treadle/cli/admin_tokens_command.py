"""`treadle admin tokens`: what users of a team server prove with who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.admin_output import (
    database_option,
    describe_user,
    format_day,
    json_option,
    print_answer,
    run_as_operator,
)

if TYPE_CHECKING:
    from treadle.api.types import Scope, Token
    from treadle.server.context import Context


SCOPES = ("read", "sync", "all")
"""As `treadle.api.types.Scope` has them, which takes longer to import."""


@click.group("tokens")
def tokens() -> None:
    """What users prove with who they are."""


@tokens.command("list")
@click.option("--user", metavar="NAME", help="Only this user's.")
@database_option
@json_option
def list_tokens(user: str | None, database: str | None, as_json: bool) -> None:
    """List tokens: what they are called and when they were used, never the tokens themselves."""
    from treadle.server.accounts import accounts

    found = run_as_operator(
        database,
        lambda context: (
            accounts.list_all_tokens(context)
            if user is None
            else accounts.list_user_tokens(context, user)
        ),
        is_write=False,
        about=describe_user(user or ""),
    )
    rows = [
        (
            str(one.id),
            one.user,
            one.name,
            "revoked" if one.is_revoked else f"until {format_day(one.expires_at, 'revoked')}",
            f"used {format_day(one.last_used_at, 'never')}",
            one.scope,
            one.machine or "",
        )
        for one in found.tokens
    ]
    print_answer(found, rows, as_json=as_json)


@tokens.command("add")
@click.argument("user")
@click.option("--name", default="operator", show_default=True, help="What people call it.")
@click.option("--expires", metavar="TIME", help="A date, a time, or 90d from now; else never.")
@click.option("--scope", type=click.Choice(SCOPES), default="all", show_default=True)
@database_option
def add_token(
    user: str, name: str, expires: str | None, scope: Scope, database: str | None
) -> None:
    """Make a token for a user, and print it. It is shown this once.

    With the scope `read` it looks at threads; `sync` does for a machine or a program that sends
    them; `all` may all that the user may, signs in on the pages, and makes tokens.
    """
    from treadle.api.types import NewToken
    from treadle.server.accounts import accounts

    until = None if expires is None else parse_expiry(expires)
    new = NewToken(name, until, scope)

    def make(context: Context) -> Token:
        return accounts.make_user_token(context, user, new)

    made = run_as_operator(database, make, about=describe_user(user))
    click.echo(made.token)
    until_day = format_day(made.expires_at, "somebody revokes it")
    click.echo(f"token {made.id} of {user}, good until {until_day}; keep it, it is not shown again",
               err=True)  # fmt: skip


@tokens.command("revoke")
@click.argument("token_id", metavar="NUMBER", type=click.IntRange(1, 2**63 - 1))
@database_option
def revoke_token(token_id: int, database: str | None) -> None:
    """Make a token worthless, from the next request on."""
    from treadle.server.accounts import accounts

    about = f"token {token_id}", "treadle admin tokens list"
    run_as_operator(database, lambda context: accounts.revoke_token(context, token_id), about=about)
    click.echo(f"revoked token {token_id}", err=True)


def parse_expiry(text: str) -> str:
    """A time in the future that a person means."""
    import re

    from treadle.app.threads.times import utc_now
    from treadle.cli.thread_filters import parse_moment
    from treadle.server.accounts.times import shift_time

    days = re.fullmatch(r"(\d{1,5})d", text.strip(), re.ASCII)
    if days is not None:
        return shift_time(utc_now(), days=int(days[1]))
    return parse_moment(text, utc_now(), wants_end=True)
