"""What the server was started with, kept for who works on its database beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from treadle.server.data import schema

BASE_URL: Final = "base_url"
"""Where people reach the server, without a slash at the end."""
OIDC_ISSUER: Final = "oidc_issuer"
"""The provider at which people may sign in."""


def keep_settings(db: Connection, values: Mapping[str, str]) -> None:
    """Note what holds from now on in place of what did; an empty value is none."""
    db.execute(delete(schema.settings))
    if rows := [{"name": name, "value": value} for name, value in values.items() if value]:
        db.execute(insert(schema.settings), rows)


def read_setting(db: Connection, name: str) -> str:
    """A value as the last start has noted it; empty for none."""
    query = select(schema.settings.c.value).where(schema.settings.c.name == name)
    return db.execute(query).scalar_one_or_none() or ""
