"""Whether what stands in a file of settings may be a secret, which has a place of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from treadle.config.mcp_servers import is_server_address, leave_out_variables, names_variables

SECRET_NAME: Final = re.compile(r"(^|[_-])(key|token|secret|password)$", re.IGNORECASE)
"""What people call a key when they write it where it must not stand."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_HEADERS: Final = frozenset(
    (
        *("accept-encoding", "authorization", "connection", "content-encoding", "content-length"),
        *("content-type", "cookie", "host", "proxy-authorization", "te", "transfer-encoding"),
    )
)
"""Those of keys, which have places of their own, and those that say how bytes are framed."""


def _is_secret(name: str, text: str) -> bool:
    """What commands would not get as a variable stands in no header: `Helicone-Auth`, `sk-...`.

    A value from here is not among those that are looked for in texts.
    """
    # Here, because settings are read before the prompt is drawn, and few have headers.
    from treadle.secrets.environment import is_credential

    return bool(SECRET_NAME.search(name)) or is_credential(name, text)


def are_headers(value: dict[str, str]) -> bool:
    """Of a provider: none of them a secret, nor one that belongs to HTTP."""
    return all(
        _HEADER.fullmatch(name)
        and name.lower() not in _RESERVED_HEADERS
        and not _is_secret(name, text)
        and text.isascii()
        and text.isprintable()
        for name, text in value.items()
    )


def are_parameters(value: dict[str, str]) -> bool:
    """Of a provider's address: none of them a secret."""
    return all(
        name.isprintable() and not _is_secret(name, text) and text.isprintable()
        for name, text in value.items()
    )


def hold_no_secret(value: Mapping[str, str]) -> bool:
    """A secret is named by its variable: `{ TOKEN = "${GITHUB_TOKEN}" }`."""
    from treadle.secrets.environment import is_credential

    return all(
        "\0" not in text
        and (
            not is_credential("", leave_out_variables(text))
            if names_variables(text)
            else not _is_secret(name, text)
        )
        for name, text in value.items()
    )


def are_variables(value: dict[str, str]) -> bool:
    """Those that a program is to get: none of them a secret that stands there."""
    return hold_no_secret(value) and all(map(_VARIABLE.fullmatch, value))


def are_words(value: tuple[str, ...]) -> bool:
    """Arguments of a program: none of them a secret that stands there."""
    return all(hold_no_secret({"": word}) for word in value)


def is_address(value: str) -> bool:
    """Of a server of tools, without a secret that stands in it."""
    return is_server_address(value) and hold_no_secret({"": value})
