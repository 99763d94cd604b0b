"""What a provider says of somebody: an ID token, looked at as OpenID Connect Core 3.1.3.7 has it.

Nothing in it counts before its signature does, and that only with a public key of the provider and
an algorithm of this list: `none` is no signature, and HS256 with a public key is anybody's.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import Struct

from treadle.server.oidc.settings import OidcProvider, SignInFailure

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519"),
)
CLOCK_SKEW_S: Final = 60.0
"""So much the provider's clock and ours may differ."""
TOKEN_AGE_S_MAX: Final = 600.0
"""An ID token comes right after it was made."""
RSA_BYTES_MIN: Final = 256
SUBJECT_LENGTH_MAX: Final = 255
KEYS_MAX: Final = 50

PublicKey = RSAKey | ECKey | OKPKey

_KEY_TYPES: Final[Mapping[str, Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class IdClaims(Struct, frozen=True):
    """What of an ID token is looked at; times are seconds since 1970."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    iat: float
    nonce: str
    azp: str | None = None
    nbf: float | None = None
    email: str | None = None
    email_verified: Any = None

    @property
    def verified_email(self) -> str:
        """The address that the provider has verified; empty for none or an odd one."""
        told = self.email or "" if self.email_verified is True else ""
        return told if told.isprintable() else ""


def read_keys(document: object) -> dict[str | None, list[PublicKey]]:
    """The keys of a JWK set that can prove an ID token, by their names; others are left out."""
    found: dict[str | None, list[PublicKey]] = {}
    told = document.get("keys") if isinstance(document, dict) else None
    for one in (told if isinstance(told, list) else [])[:KEYS_MAX]:
        key = _read_key(one)
        if key is not None:
            found.setdefault(one.get("kid"), []).append(key)
    return found


def _read_key(told: Any) -> PublicKey | None:
    if not isinstance(told, dict) or told.get("use", "sig") != "sig":
        return None
    kind = _KEY_TYPES.get(str(told.get("kty")))
    if kind is None or not isinstance(told.get("kid"), str | None):
        return None
    try:
        if (
            kind is RSAKey
            and len(urlsafe_b64decode(told["n"] + "==").lstrip(b"\0")) < RSA_BYTES_MIN
        ):
            return None
        key: PublicKey = kind.import_key({name: told[name] for name in told if name != "d"})
    except Exception:  # noqa: BLE001  of a stranger's JSON: whatever is wrong with it, it is no key
        return None
    return key


class UnknownKeyError(Exception):
    """The token names a key that the provider did not have when it was last asked."""


def find_key(token: str, keys: Mapping[str | None, Sequence[PublicKey]]) -> PublicKey:
    """The key that a token names, or the only one if it names none.

    Raises:
        UnknownKeyError: there is none like this.
        SignInFailure: it is no token that could count.
    """
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError):
        raise _make_failure("what came is no ID token") from None
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise _make_failure("its ID token is not signed as it must be", "RS256 or ES256 will do")
    kid = header.get("kid")
    if kid is None:
        fitting = [one for listed in keys.values() for one in listed]
    else:
        fitting = [*keys.get(kid, ())] if isinstance(kid, str) else []
    if len(fitting) != 1:
        raise UnknownKeyError
    return fitting[0]


def read_id_token(
    token: str, key: PublicKey, provider: OidcProvider, nonce: str, now_s: float
) -> IdClaims:
    """What an ID token says, if it is for this server, of now, and of the sign-in that was begun.

    Args:
        token: as the provider has sent it.
        key: of the provider.
        provider: whose it must be.
        nonce: what the sign-in was begun with.
        now_s: the time, in seconds since 1970.

    Raises:
        SignInFailure: it is not.
    """
    try:
        signed = jws.deserialize_compact(token, key, algorithms=list(ALGORITHMS))
    except Exception:  # noqa: BLE001  of a stranger's header: whatever is wrong with it
        raise _make_failure("its ID token is not signed by it") from None
    try:
        claims = msgspec.json.decode(signed.payload, type=IdClaims)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise _make_failure("its ID token lacks what one has") from None
    audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    is_for_us = provider.client_id in audience and claims.azp in (None, provider.client_id)
    if len(audience) > 1 and claims.azp is None:
        is_for_us = False
    start = max(claims.iat, claims.iat if claims.nbf is None else claims.nbf)
    faults = {
        "it is of another issuer": claims.iss != provider.issuer,
        "it is for another client": not is_for_us,
        "it is over": claims.exp <= now_s - CLOCK_SKEW_S,
        "it is of a time to come": start > now_s + CLOCK_SKEW_S,
        "it was made long ago": claims.iat < now_s - TOKEN_AGE_S_MAX,
        "it is of another sign-in": claims.nonce != nonce,
        "it names nobody": not 0 < len(claims.sub) <= SUBJECT_LENGTH_MAX or "\0" in claims.sub,
    }
    for fault, is_so in faults.items():
        if is_so:
            raise _make_failure(f"its ID token does not count: {fault}")
    return claims


def _make_failure(what: str, hint: str = "") -> SignInFailure:
    return SignInFailure(f"The provider cannot be believed: {what}.", hint, 502)
