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

_GIT_SETTING: Final = re.compile(r"GIT_CONFIG_(?P<part>KEY|VALUE)_(?P<number>\d{1,9})", re.ASCII)
"""Settings of git come in pairs; how many there are says `GIT_CONFIG_COUNT`."""


def is_credential(name: str, value: str) -> bool:
    """Whether a variable may not be handed to commands, which print too easily."""
    if name in _PUBLIC:
        return False
    if names_a_credential(name) or _HAS_USER.search(value) or holds_a_password(value):
        return True
    return bool(find_in_text(value)) or bool(find_shapes(value))


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be handed to commands.

    Of git's numbered settings a pair goes as a whole, and the others are numbered anew: git refuses
    to run where a number below the count is missing.
    """
    secret = {name for name, as_name, value in _named(environment) if is_credential(as_name, value)}
    kept = {name: value for name, value in environment.items() if name not in secret}
    numbered = [(name, found) for name in environment if (found := _GIT_SETTING.fullmatch(name))]
    if not numbered:
        return kept
    for name, _ in numbered:
        kept.pop(name, None)
    pairs = 0
    for number in sorted({int(found["number"]) for _, found in numbered}):
        key, value = (f"GIT_CONFIG_{part}_{number}" for part in ("KEY", "VALUE"))
        if number < _git_setting_count(environment) and not {key, value} & secret:
            # One half alone is an error of the person's, which git is to tell here too.
            for part, old in (("KEY", key), ("VALUE", value)):
                if old in environment:
                    kept[f"GIT_CONFIG_{part}_{pairs}"] = environment[old]
            pairs += 1
    return {**kept, "GIT_CONFIG_COUNT": str(pairs)}


def _git_setting_count(environment: Mapping[str, str]) -> int:
    told = environment.get("GIT_CONFIG_COUNT", "").strip()
    return int(told) if told.isdecimal() else 0


def _named(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each variable, the name that says what its value is, and the value; in order of the names.

    The value of a setting of git is what the setting's key says, and the key itself is no secret
    for the `KEY` in the variable's name.
    """
    for name, value in sorted(environment.items()):
        as_name, found = name, _GIT_SETTING.fullmatch(name)
        if found:
            key = environment.get(f"GIT_CONFIG_KEY_{found['number']}", "")
            as_name = key.rpartition(".")[2] if found["part"] == "VALUE" else ""
        yield name, as_name, value


def find_in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The values that are looked for in texts, as (name, value), in the order of the names.

    Of a variable that is a credential: all of it, if it is telling, and each secret in it.
    """
    for name, as_name, value in _named(environment):
        value = value.strip()
        if not is_credential(as_name, value):
            continue
        yield from ((name, secret) for secret in find_in_text(value))
        yield from ((name, value[shape.start : shape.end]) for shape in find_shapes(value))
        is_webhook = "WEBHOOK" in name.upper() and bool(_URL.match(value))
        if is_webhook:
            yield name, value
        elif names_a_credential(as_name):
            yield from ((name, one) for one in read_credential(value) if is_telling(one))
