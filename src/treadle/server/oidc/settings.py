"""The provider at which people may sign in, as the server is started with it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

CALLBACK_PATH: Final = "/sign-in/back"
"""Where the provider sends people back to, below the server's base URL."""


class OidcProvider(Struct, frozen=True, kw_only=True):
    """A provider of OpenID Connect, and what this server is to it.

    Args:
        issuer: its name, a URL, exactly as it says it itself.
        client_id: what it calls this server.
        client_secret: what this server proves that with; empty for a public client.
        redirect_uri: where it sends people back to.
        domains: organizations by domain of e-mail addresses: whoever has an address there that the
            provider has verified becomes a user of the organization.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    redirect_uri: str
    domains: dict[str, str] = {}

    @property
    def host(self) -> str:
        """What people call it."""
        return urlsplit(self.issuer).netloc

    def __repr__(self) -> str:
        """Without the secret, wherever somebody prints it."""
        return f"OidcProvider({self.issuer!r}, {self.client_id!r})"


class SignInFailure(Exception):  # noqa: N818  it is an answer, not a fault of the server
    """Why somebody cannot be signed in: for a page and the log, so it holds nothing secret.

    Args:
        text: what is wrong, and whose fault it is.
        hint: what to do next.
        status: of HTTP; 502 if the provider is at fault.
    """

    def __init__(self, text: str, hint: str = "", status: int = 403) -> None:
        super().__init__(text)
        self.text, self.hint, self.status = text, hint, status
