"""Who there is on a server in tests: two organisations, and somebody of every kind in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import insert

from treadle.server.context import ANONYMOUS, Context, Principal
from treadle.server.data import schema
from treadle.server.data.database import Database

START: Final = datetime(2026, 11, 21, 8, 15, tzinfo=UTC)

ROLES: Final = {
    # name: organisation, role, server admin, support staff
    "owner": ("acme", "member", False, False),
    "member": ("acme", "member", False, False),
    "chief": ("acme", "organization_admin", False, False),
    "outsider": ("rivals", "member", False, False),
    "support": ("treadle", "member", False, True),
    "admin": ("treadle", "member", True, False),
}


def at(seconds: float = 0) -> str:
    """A time in the form of records, so many seconds after `START`."""
    moment = START + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"


class People(Struct, frozen=True):
    """The principals by name, and the database they are in."""

    database: Database
    principals: dict[str, Principal]

    def __getitem__(self, name: str) -> Principal:
        """Who this is; nobody for an empty name."""
        return self.principals[name] if name else ANONYMOUS

    @contextmanager
    def reading(self, name: str = "owner", now: str = "") -> Iterator[Context]:
        """A request of this person that reads."""
        with self.database.read() as connection:
            yield Context(connection, self[name], now or at())

    @contextmanager
    def writing(self, name: str = "owner", now: str = "") -> Iterator[Context]:
        """A request of this person that writes; committed at the end, rolled back on an error."""
        with self.database.write() as connection:
            yield Context(connection, self[name], now or at())

    def token(self, name: str, **rest: Any) -> str:
        """A new token of this person."""
        from treadle.server.accounts import tokens

        with self.writing(name) as context:
            made = tokens.make_token(context, self[name].user_id, "test", **rest)
        return str(made.token)


def populate(database: Database) -> People:
    """Make the organisations and the people of `ROLES`."""
    principals: dict[str, Principal] = {}
    with database.write() as connection:
        ids: dict[str, int] = {}
        for name, (organization, role, is_admin, is_support) in ROLES.items():
            if organization not in ids:
                ids[organization] = connection.execute(
                    insert(schema.organizations)
                    .values(name=organization, created_at=at())
                    .returning(schema.organizations.c.id)
                ).scalar_one()
            user_id = connection.execute(
                insert(schema.users)
                .values(
                    name=name,
                    organization_id=ids[organization],
                    role=role,
                    is_admin=is_admin,
                    is_support=is_support,
                    created_at=at(),
                )
                .returning(schema.users.c.id)
            ).scalar_one()
            principals[name] = Principal(
                user_id,
                name,
                ids[organization],
                organization,
                role,  # type: ignore[arg-type]
                is_admin,
                is_support,
            )
    return People(database, principals)
