"""Secrets in environment variables: what commands do not get, and what is redacted, is the same.

A variable is a credential if its name says so, or if its value holds one: an address with a user, a
connection string with a password, a token or a key of a known format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from treadle.secrets.assignments import find_in_text, holds_a_password, read_credential
from treadle.secrets.credentials import is_telling, names_a_credential
from treadle.secrets.token_formats import find_shapes

_PUBLIC: Final = frozenset({"PWD", "OLDPWD"})
"""Folders. Their names would say that they are passwords."""

_HAS_USER: Final = re.compile(r"://[^/\s@]*@")
"""An address with a user, who often has a password there: `postgres://me:pw@host`."""

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_credential(name: str, value: str) -> bool:
    """Whether a variable may not be handed to commands, which print too easily."""
    if name in _PUBLIC:
        return False
    if names_a_credential(name) or _HAS_USER.search(value) or holds_a_password(value):
        return True
    return bool(find_in_text(value)) or bool(find_shapes(value))


def find_in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The values that are looked for in texts, as (name, value), in the order of the names.

    Of a variable that is a credential: all of it, if it is telling, and each secret in it.
    """
    for name, value in sorted(environment.items()):
        value = value.strip()
        if not is_credential(name, value):
            continue
        yield from ((name, secret) for secret in find_in_text(value))
        yield from ((name, value[shape.start : shape.end]) for shape in find_shapes(value))
        is_webhook = "WEBHOOK" in name.upper() and bool(_URL.match(value))
        if is_webhook:
            yield name, value
        elif names_a_credential(name):
            yield from ((name, one) for one in read_credential(value) if is_telling(one))
