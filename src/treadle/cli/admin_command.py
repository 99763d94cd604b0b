"""`treadle admin`: the people of a team server, for who runs it.

It works on the database itself, so it needs no token and no server that answers: who has lost the
last admin's token makes another one. Over HTTP the same is under /api/admin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from treadle.api.types import Token
    from treadle.server.context import Context

Result = TypeVar("Result")

_ROLES: Final = ("member", "organization_admin")

_DATABASE: Final = click.option(
    "--database",
    metavar="URL",
    envvar="TREADLE_DATABASE_URL",
    help="The server's database; by default the one `treadle serve` uses.",
)
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="JSON, as the API has it.")


@click.group("admin")
def command() -> None:
    """Manage the users of a team server, in its database.

    \b
    treadle admin organizations add acme
    treadle admin users add ada --organization acme
    treadle admin tokens add ada --expires 90d      prints the token, this once
    treadle admin users disable ada                 her tokens stop working at once
    """  # noqa: D301  click reads the backspace
    from treadle.cli.server_extra import require_server_extra

    require_server_extra()


@command.group("organizations")
def organizations() -> None:
    """Those whose members see each other's threads."""


@organizations.command("list")
@_DATABASE
@_JSON
def list_organizations(database: str | None, as_json: bool) -> None:
    """List all organizations."""
    from treadle.server.people import accounts

    found = _run_as_operator(database, accounts.organizations, is_write=False)
    rows = [(one.name, _format_count(one.user_count, "user")) for one in found.organizations]
    _print_answer(found, rows, as_json=as_json)


@organizations.command("add")
@click.argument("name")
@_DATABASE
def add_organization(name: str, database: str | None) -> None:
    """Make an organization."""
    from treadle.api.types import NewOrganization
    from treadle.server.people import accounts

    new = NewOrganization(name)
    made = _run_as_operator(database, lambda context: accounts.make_organization(context, new))
    click.echo(f"made the organization {made.name}", err=True)


@command.group("users")
def users() -> None:
    """Who may use the server, and what they are."""


@users.command("list")
@_DATABASE
@_JSON
def list_users(database: str | None, as_json: bool) -> None:
    """List all users."""
    from treadle.server.people import accounts

    found = _run_as_operator(database, accounts.users, is_write=False)
    rows = []
    for one in found.users:
        marks = {"admin": one.is_admin, "support": one.is_support, "disabled": one.is_disabled}
        told = [one.role.replace("_", " "), *(word for word, is_set in marks.items() if is_set)]
        rows.append((one.name, one.organization, ", ".join(told)))
    _print_answer(found, rows, as_json=as_json)


@users.command("add")
@click.argument("name")
@click.option("--organization", required=True, metavar="NAME", help="Whose threads are shared.")
@click.option("--role", type=click.Choice(_ROLES), default=_ROLES[0], show_default=True)
@click.option("--admin", "is_admin", is_flag=True, help="May manage users, tokens, organizations.")
@click.option("--support", "is_support", is_flag=True, help="May ask to read a thread.")
@_DATABASE
def add_user(database: str | None, **chosen: Any) -> None:
    """Make a user; he can do nothing before he has a token."""
    from treadle.api.types import NewUser
    from treadle.server.people import accounts

    new = NewUser(**chosen)
    made = _run_as_operator(database, lambda context: accounts.make_user(context, new))
    click.echo(f"made the user {made.name}; next: treadle admin tokens add {made.name}", err=True)


@users.command("change")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES))
@click.option("--admin/--no-admin", "is_admin", default=None, help="Whether he manages users.")
@click.option("--support/--no-support", "is_support", default=None, help="Whether he is support.")
@_DATABASE
def change_user(name: str, database: str | None, **chosen: Any) -> None:
    """Change what a user is."""
    given = {key: value for key, value in chosen.items() if value is not None}
    if not given:
        raise click.UsageError("say what is to change: --role, --admin or --support")
    _update_user(database, name, **given)
    click.echo(f"changed the user {name}", err=True)


@users.command("disable")
@click.argument("name")
@_DATABASE
def disable_user(name: str, database: str | None) -> None:
    """Let a user do nothing any more, from the next request on; his threads stay."""
    _update_user(database, name, is_disabled=True)
    click.echo(f"disabled the user {name}; `treadle admin users enable` takes it back", err=True)


@users.command("enable")
@click.argument("name")
@_DATABASE
def enable_user(name: str, database: str | None) -> None:
    """Let a user who was disabled in again, with the tokens he has."""
    _update_user(database, name, is_disabled=False)
    click.echo(f"enabled the user {name}", err=True)


@command.group("tokens")
def tokens() -> None:
    """What users prove with who they are."""


@tokens.command("list")
@click.option("--user", metavar="NAME", help="Only this user's.")
@_DATABASE
@_JSON
def list_tokens(user: str | None, database: str | None, as_json: bool) -> None:
    """List tokens: what they are called and when they were used, never the tokens themselves."""
    from treadle.server.people import accounts

    found = _run_as_operator(
        database,
        lambda context: (
            accounts.all_tokens(context) if user is None else accounts.tokens_of(context, user)
        ),
        is_write=False,
        about=_describe_user(user or ""),
    )
    rows = [
        (
            str(one.id),
            one.user,
            one.name,
            "revoked" if one.is_revoked else f"until {_format_day(one.expires_at, 'revoked')}",
            f"used {_format_day(one.last_used_at, 'never')}",
        )
        for one in found.tokens
    ]
    _print_answer(found, rows, as_json=as_json)


@tokens.command("add")
@click.argument("user")
@click.option("--name", default="operator", show_default=True, help="What people call it.")
@click.option("--expires", metavar="TIME", help="A date, a time, or 90d from now; else never.")
@_DATABASE
def add_token(user: str, name: str, expires: str | None, database: str | None) -> None:
    """Make a token for a user, and print it. It is shown this once."""
    from treadle.api.types import NewToken
    from treadle.server.people import accounts

    until = None if expires is None else _parse_expiry(expires)
    new = NewToken(name, until)

    def make(context: Context) -> Token:
        return accounts.make_token_of(context, user, new)

    made = _run_as_operator(database, make, about=_describe_user(user))
    click.echo(made.token)
    until_day = _format_day(made.expires_at, "somebody revokes it")
    click.echo(f"token {made.id} of {user}, good until {until_day}; keep it, it is not shown again",
               err=True)  # fmt: skip


@tokens.command("revoke")
@click.argument("token_id", metavar="NUMBER", type=click.IntRange(1, 2**63 - 1))
@_DATABASE
def revoke_token(token_id: int, database: str | None) -> None:
    """Make a token worthless, from the next request on."""
    from treadle.server.people import accounts

    about = f"token {token_id}", "treadle admin tokens list"
    _run_as_operator(
        database, lambda context: accounts.revoke_token(context, token_id), about=about
    )
    click.echo(f"revoked token {token_id}", err=True)


@command.command("audit")
@click.option("-l", "--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--before", type=click.IntRange(1, 2**63 - 1), metavar="NUMBER", help="Older lines.")
@_DATABASE
@_JSON
def show_audit(limit: int, before: int | None, database: str | None, as_json: bool) -> None:
    """Show who changed what about who may see or do something, newest first."""
    from treadle.server.people import audit

    found = _run_as_operator(
        database, lambda context: audit.lines(context, limit, before), is_write=False
    )
    rows = [
        (str(one.id), one.at[:19] + "Z", one.actor, one.action, one.thread or "-", one.detail)
        for one in found.lines
    ]
    _print_answer(found, rows, as_json=as_json)


def _update_user(database: str | None, name: str, **given: Any) -> None:
    from treadle.api.types import UserUpdate
    from treadle.server.people import accounts

    change = UserUpdate(**given)
    about = _describe_user(name)
    _run_as_operator(
        database, lambda context: accounts.change_user(context, name, change), about=about
    )


def _describe_user(name: str) -> tuple[str, str]:
    return f"user {name!r}", "treadle admin users list"


def _run_as_operator(
    url: str | None,
    work: Callable[[Context], Result],
    *,
    is_write: bool = True,
    about: tuple[str, str] = ("", ""),
) -> Result:
    """Do something in the database as its operator.

    Args:
        url: the database; `None` for the one `treadle serve` uses.
        work: what is done.
        is_write: whether it changes something.
        about: what it is done to, and the command that lists what there is.

    Raises:
        UsageError: it cannot be done like this; nothing was changed.
        ConfigError: the database is not there, or not of this version.
        StoreError: it cannot be reached.
    """
    from treadle.api.error_codes import ErrorCode
    from treadle.app.threads.times import utc_now
    from treadle.errors import ConfigError, StoreError, UsageError
    from treadle.server.context import Context
    from treadle.server.data.database import Database
    from treadle.server.people import accounts
    from treadle.server.problems import Refusal

    database = Database(_find_database_url(url), pool_size=1)
    try:
        if not database.is_current():
            raise ConfigError(
                f"{database.name} has not the tables of this version",
                hint="start `treadle serve` once; with --migrate, if they are of an older version",
            )
        return database.run(
            lambda db: work(Context(db, accounts.OPERATOR, utc_now())), is_write=is_write
        )
    except Refusal as refusal:
        kind = StoreError if refusal.code is ErrorCode.UNAVAILABLE else UsageError
        message, hint = refusal.problem.message, refusal.problem.hint
        if refusal.code is ErrorCode.NOT_FOUND and all(about):
            what, listing = about
            message, hint = f"there is no {what}", f"`{listing}` lists those that there are"
        raise kind(message, hint=hint) from refusal
    finally:
        database.dispose()


def _find_database_url(url: str | None) -> str:
    """The URL of a database; a file that is not there is not made by looking for it."""
    from pathlib import Path

    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from treadle.app.stores import user_folders
    from treadle.errors import ConfigError

    url = url or f"sqlite:///{user_folders().server}"
    try:
        parsed = make_url(url)
    except ArgumentError:
        return url  # whoever opens it says so
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database
    if is_file and not Path(parsed.database or "").exists():
        raise ConfigError(
            f"there is no database {parsed.database}",
            hint="`treadle serve` makes it; --database names another one",
        )
    return url


def _parse_expiry(text: str) -> str:
    """A time in the future that a person means."""
    import re

    from treadle.app.threads.times import utc_now
    from treadle.cli.thread_filters import parse_moment
    from treadle.server.people.times import later

    days = re.fullmatch(r"(\d{1,5})d", text.strip(), re.ASCII)
    if days is not None:
        return later(utc_now(), days=int(days[1]))
    return parse_moment(text, utc_now(), wants_end=True)


def _format_day(at: str | None, otherwise: str) -> str:
    return otherwise if at is None else at[:10]


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _print_answer(answer: object, rows: Iterable[Sequence[str]], *, as_json: bool) -> None:
    """The answer as JSON, or its rows in columns."""
    from treadle.thread.safe_text import legible

    if as_json:
        from treadle.cli.json_output import print_json

        print_json(answer)
        return
    table = [[legible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
