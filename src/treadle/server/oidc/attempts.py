"""A sign-in that a browser has begun, and goes on with when it comes back from the provider.

All of it stands in a cookie of that browser, and the server keeps nothing: the state, the nonce
and PKCE's verifier are made of one secret in it, so who has seen the addresses knows none of them
beforehand, and whoever brings a code to another browser than the one that asked for it is refused.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

from msgspec import Struct

ATTEMPT_S_MAX: Final = 600
PATH_LENGTH_MAX: Final = 1500

_FORM: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})?\.([A-Za-z0-9_-]*)")


class SignInAttempt(Struct, frozen=True):
    """A sign-in that was begun.

    Args:
        secret: of this attempt; 256 random bits.
        path: where to go on.
        session_mark: of the session to whose user the login is to be linked; empty to sign in.
    """

    secret: str
    path: str
    session_mark: str = ""

    @property
    def state(self) -> str:
        """What the provider sends back."""
        return derive(self.secret, "state")

    @property
    def nonce(self) -> str:
        """What stands in the ID token."""
        return derive(self.secret, "nonce")

    @property
    def verifier(self) -> str:
        """What the code is redeemed with."""
        return derive(self.secret, "verifier")

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier."""
        return _encode(sha256(self.verifier.encode()).digest())

    def encode(self) -> str:
        """The value of a cookie."""
        return f"{self.secret}.{self.session_mark}.{_encode(self.path.encode())}"


def begin_attempt(path: str, session_secret: str = "") -> SignInAttempt:
    """A new attempt; `session_secret` is of who wants to link a login."""
    path = path if len(path) <= PATH_LENGTH_MAX else "/"
    mark = derive(session_secret, "link") if session_secret else ""
    return SignInAttempt(_encode(secrets.token_bytes(32)), path, mark)


def read_attempt(text: str) -> SignInAttempt | None:
    """The attempt of a cookie; `None` if it is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        path = urlsafe_b64decode(found[3] + "=" * (-len(found[3]) % 4)).decode("ascii")
    except (ValueError, UnicodeError):
        return None
    return SignInAttempt(found[1], path, found[2] or "")


def derive(secret: str, what: str) -> str:
    """What stands for a secret where others can see it."""
    return _encode(hmac.new(secret.encode(), f"sign-in {what}".encode(), "sha256").digest())


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
