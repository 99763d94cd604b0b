"""The provider of OpenID Connect that a server is started with, at which people sign in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from treadle.errors import UsageError
from treadle.models.catalog import is_loopback_host

if TYPE_CHECKING:
    from treadle.server.oidc.settings import OidcProvider

SECRET_VARIABLE: Final = "TREADLE_OIDC_SECRET"  # noqa: S105  where it stands: no command line
_WHAT_FOR: Final = "it is where the provider sends people back to"


def read_provider(
    issuer: str, client: str, domains: Sequence[str], base_url: str
) -> OidcProvider | None:
    """The provider; `None` if people sign in with tokens alone.

    Args:
        issuer: its name, a URL.
        client: what it calls this server.
        domains: `DOMAIN=ORGANIZATION`, each.
        base_url: where people reach this server, without a slash at the end.

    Raises:
        UsageError: what was said does not go together.
    """
    if bool(issuer) != bool(client):
        raise UsageError("--oidc-issuer and --oidc-client belong together")
    if not issuer:
        if domains:
            raise UsageError("--oidc-domain says nothing without --oidc-issuer")
        return None
    from treadle.server.oidc.settings import CALLBACK_PATH, OidcProvider

    _check_url("--oidc-issuer", issuer, "--oidc-issuer https://accounts.example.org")
    if not base_url:
        raise UsageError("--oidc-issuer needs --base-url", hint=_WHAT_FOR)
    _check_url("--base-url", base_url, _WHAT_FOR)
    return OidcProvider(
        issuer=issuer,
        client_id=client,
        client_secret=os.environ.get(SECRET_VARIABLE, ""),
        redirect_uri=f"{base_url}{CALLBACK_PATH}",
        domains=dict(map(_parse_domain, domains)),
    )


def _check_url(option: str, url: str, hint: str) -> None:
    """Tokens and codes go there: over HTTPS, or on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    is_safe = host and (parts.scheme == "https" or is_loopback_host(host))
    if not is_safe or parts.scheme not in ("https", "http") or parts.query or parts.fragment:
        raise UsageError(f"{option} is an address of https://", hint=hint)


def _parse_domain(text: str) -> tuple[str, str]:
    domain, _, organization = text.partition("=")
    if not domain or not organization or "@" in domain or not domain.isascii():
        raise UsageError(
            f"--oidc-domain {text!r} names no domain and organization",
            hint="--oidc-domain example.org=acme",
        )
    return domain.lower(), organization.lower()
