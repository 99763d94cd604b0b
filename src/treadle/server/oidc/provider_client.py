"""Asks a provider: what it is, its keys, and who has come back with a code.

Whoever answers may be broken or hostile: each answer is bounded in size and time, no redirect is
followed, and what is asked for over HTTPS is never asked for otherwise.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import httpx2
import msgspec
from msgspec import Struct

from treadle.models.catalog import is_loopback_host
from treadle.server.oidc.id_tokens import (
    IdClaims,
    PublicKey,
    UnknownKeyError,
    find_key,
    read_id_token,
    read_keys,
)
from treadle.server.oidc.settings import OidcProvider, SignInFailure
from treadle.version import __version__

ANSWER_SIZE_MAX: Final = 256 * 1024
ANSWER_S_MAX: Final = 10.0
KEPT_S: Final = 3600.0
"""So long what a provider says of itself is believed without asking again."""
KEYS_AGE_S_MIN: Final = 30.0
"""So old keys are at least when they are asked for again, whatever tokens name."""
FAILURE_KEPT_S: Final = 5.0
"""So long after a failure nobody waits for the next one."""


class ProviderMetadata(Struct, frozen=True):
    """What of a provider's discovery document is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class ProviderClient:
    """One provider, as this process knows it.

    Args:
        provider: which one.
        time_s_max: how long it may take for an answer.
        read_clock: seconds that only grow.
    """

    def __init__(
        self,
        provider: OidcProvider,
        time_s_max: float = ANSWER_S_MAX,
        read_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.provider = provider
        self._time_s_max = time_s_max
        self._read_clock = read_clock
        self._lock = asyncio.Lock()
        self._metadata: tuple[float, ProviderMetadata] | None = None
        self._keys: tuple[float, dict[str | None, list[PublicKey]]] | None = None
        self._failure: tuple[float, SignInFailure] | None = None

    async def read_metadata(self) -> ProviderMetadata:
        """What the provider says of itself.

        Raises:
            SignInFailure: it cannot be reached, or is not what it should be.
        """
        async with self._lock:
            return await self._read_metadata()

    async def make_address(self, state: str, nonce: str, challenge: str) -> str:
        """Where somebody signs in. `challenge` is of PKCE, by S256.

        Raises:
            SignInFailure: as `read_metadata`.
        """
        endpoint = (await self.read_metadata()).authorization_endpoint
        asked = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": self.provider.redirect_uri,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked, quote_via=quote)}"

    async def redeem_code(self, code: str, verifier: str, nonce: str, now_s: float) -> IdClaims:
        """Who has come back with a code.

        Args:
            code: what they have brought.
            verifier: of PKCE, which the challenge was made of.
            nonce: what the sign-in was begun with.
            now_s: the time, in seconds since 1970.

        Raises:
            SignInFailure: the provider takes the code for none, or cannot be believed.
        """
        metadata = await self.read_metadata()
        told = await self._ask_for_token(metadata, code, verifier)
        token = told.get("id_token") if isinstance(told, dict) else None
        if not isinstance(token, str):
            raise self._make_fault("sends no ID token")
        key = await self._find_key(metadata, token)
        return read_id_token(token, key, self.provider, nonce, now_s)

    async def _ask_for_token(self, metadata: ProviderMetadata, code: str, verifier: str) -> Any:
        provider = self.provider
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": provider.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if not provider.client_secret:
            fields["client_id"] = provider.client_id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749 2.3.1: both are encoded as in a form before they are put together.
            pair = f"{quote_plus(provider.client_id)}:{quote_plus(provider.client_secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            fields |= {"client_id": provider.client_id, "client_secret": provider.client_secret}
        body = urlencode(fields).encode()
        return await self._ask("POST", metadata.token_endpoint, Any, headers, body)

    async def _read_metadata(self) -> ProviderMetadata:
        now, kept = self._read_clock(), self._metadata
        if kept is not None and now < kept[0] + KEPT_S:
            return kept[1]
        if self._failure is not None and now < self._failure[0] + FAILURE_KEPT_S:
            raise self._failure[1]
        address = f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            found: ProviderMetadata = await self._ask("GET", address, ProviderMetadata)
            self._check_metadata(found)
        except SignInFailure as failure:
            self._failure = (self._read_clock(), failure)
            raise
        self._metadata = (now, found)
        return found

    def _check_metadata(self, found: ProviderMetadata) -> None:
        if found.issuer != self.provider.issuer:
            raise self._make_fault(
                "calls itself by another name",
                "--oidc-issuer is the `issuer` of its discovery document, to the letter",
            )
        may_be_plain = is_loopback_host(urlsplit(self.provider.issuer).hostname or "")
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            try:
                parts = urlsplit(endpoint)
                host = parts.hostname or ""
            except ValueError:
                raise self._make_fault("has an endpoint whose address is none") from None
            is_plain = parts.scheme == "http" and may_be_plain and is_loopback_host(host)
            if (parts.scheme != "https" and not is_plain) or not host or parts.fragment:
                raise self._make_fault("has an endpoint without HTTPS")

    async def _find_key(self, metadata: ProviderMetadata, token: str) -> PublicKey:
        """The key of a token; a provider that has changed its keys is asked for them again."""
        async with self._lock:
            now = self._read_clock()
            if self._keys is not None and now < self._keys[0] + KEPT_S:
                try:
                    return find_key(token, self._keys[1])
                except UnknownKeyError:
                    if now < self._keys[0] + KEYS_AGE_S_MIN:
                        raise self._make_key_fault() from None
            # Who waits for the lock would else wait for the same silence, one after the other.
            if self._failure is not None and now < self._failure[0] + FAILURE_KEPT_S:
                raise self._failure[1]
            try:
                self._keys = (now, read_keys(await self._ask("GET", metadata.jwks_uri, Any)))
            except SignInFailure as failure:
                self._failure = (self._read_clock(), failure)
                raise
            try:
                return find_key(token, self._keys[1])
            except UnknownKeyError:
                raise self._make_key_fault() from None

    async def _ask(
        self,
        method: str,
        address: str,
        kind: Any,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Any:
        host = urlsplit(address).hostname or ""
        sent = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": f"treadle/{__version__}",
            **(headers or {}),
        }
        # What is for this machine goes through no proxy.
        transport = httpx2.AsyncHTTPTransport() if is_loopback_host(host) else None
        data = bytearray()
        try:
            async with (
                asyncio.timeout(self._time_s_max),
                httpx2.AsyncClient(timeout=self._time_s_max, transport=transport) as client,
                client.stream(method, address, headers=sent, content=body) as answer,
            ):
                status = answer.status_code
                async for piece in answer.aiter_raw():
                    data += piece
                    if len(data) > ANSWER_SIZE_MAX:
                        raise self._make_fault("sends more than an answer has")
        except (TimeoutError, httpx2.TimeoutException):
            raise self._make_fault("does not answer in time") from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, UnicodeError):
            raise self._make_fault("cannot be reached") from None
        if 300 <= status < 400:
            raise self._make_fault("sends us elsewhere, and nobody goes")
        if method == "POST" and status in (400, 401):
            self._raise_token_refusal(bytes(data))
        if status != 200:
            raise self._make_fault(f"answers {status}")
        try:
            return msgspec.json.decode(bytes(data), type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise self._make_fault("answers with something else than it should") from None

    def _raise_token_refusal(self, data: bytes) -> None:
        """Of what it says one word counts: whether the code or the client is wrong."""
        try:
            told = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        word = told.get("error") if isinstance(told, dict) else None
        if word == "invalid_grant":
            raise SignInFailure(
                f"{self.provider.host} does not take the code of this sign-in: it was used, or is "
                "too old.",
                "Sign in again.",
            )
        if word in ("invalid_client", "unauthorized_client"):
            raise self._make_fault(
                "does not know this server by its client id and secret",
                "Tell who runs this server: --oidc-client and TREADLE_OIDC_SECRET.",
            )

    def _make_key_fault(self) -> SignInFailure:
        return self._make_fault("has signed with a key that is none of its keys")

    def _make_fault(self, what: str, hint: str = "") -> SignInFailure:
        hint = hint or "Try again in a moment, or sign in with a token."
        return SignInFailure(f"The provider {self.provider.host} {what}.", hint, 502)
