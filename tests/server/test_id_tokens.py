"""ID tokens: whatever a provider puts into one, nobody is let in by it, and nothing breaks."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry

from server.test_provider_pages import Provider
from server.test_provider_pages import process as process
from server.test_provider_pages import provider as provider
from treadle.server.oidc.attempts import begin_attempt
from treadle.server.oidc.id_tokens import (
    IdClaims,
    UnknownKeyError,
    find_key,
    read_id_token,
    read_keys,
)
from treadle.server.oidc.provider_client import ProviderClient
from treadle.server.oidc.settings import OidcProvider, SignInFailure

KEY: Final = RSAKey.generate_key(2048, {"kid": "k"})


def make_token(header: dict[str, Any], payload: bytes) -> str:
    """Signed as it must be, whatever stands in it."""
    parts = [urlsafe_b64encode(one).rstrip(b"=") for one in (json.dumps(header).encode(), payload)]
    signature = JWSRegistry.algorithms["RS256"].sign(b".".join(parts), KEY)
    return b".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def test_no_token_of_a_provider_breaks_who_reads_it() -> None:
    """Each is signed by its key: what is wrong is what stands around and in it."""
    right = {"iss": "i", "sub": "s", "aud": "c", "exp": 2000.0, "iat": 1000.0, "nonce": "n"}
    good = json.dumps({**right, "email": "a@b.c", "email_verified": True})
    headers: list[dict[str, Any]] = [
        *({"crit": one} for one in (5, [], ["b64"], ["x"], {"b64": 1}, "b64")),
        *({"b64": False, "crit": ["b64"]}, {"kid": 5}, {"kid": None}, {"kid": ["k"]}, {"alg": 5}),
        *({"alg": one} for one in ("none", "HS256", "RS1", "RS512", "ES256", "Ed25519", ["RS256"])),
    ]
    payloads = (
        good.replace('"a@b.c"', "[" * 100_000),
        good[:-1] + ', "more": ' + "[" * 100_000,
        good.replace('"s"', r'"\ud800"'),
        good.replace("2000.0", "1e999"),
        good.replace("2000.0", "NaN"),
        "[]",
        "",
    )
    tried = [(header, good) for header in headers] + [({}, payload) for payload in payloads]
    keys = read_keys({"keys": [KEY.as_dict(private=False)]})
    settings = OidcProvider(issuer="i", client_id="c", redirect_uri="r")

    def read(header: dict[str, Any], payload: str) -> IdClaims:
        token = make_token({"alg": "RS256", "kid": "k", **header}, payload.encode())
        return read_id_token(token, find_key(token, keys), settings, "n", 1000.0)

    missed = []
    for header, payload in tried:
        try:
            missed.append((header, payload[:200], read(header, payload)))
        except (SignInFailure, UnknownKeyError):
            pass
        except Exception as error:  # noqa: BLE001  all misses are told together
            missed.append((header, payload[:200], error))
    # An empty list demands nothing.
    assert [one[0] for one in missed] == [{"crit": []}]
    assert read({}, good).verified_email == "a@b.c"
    assert read({}, good.replace("a@", r"\u0000@")).verified_email == ""


async def test_keys_that_do_not_come_are_not_waited_for_by_one_after_the_other(
    provider: Provider,
) -> None:
    provider.control(document={"jwks_uri": f"{provider.issuer}/nothing"})
    clock = [1000.0]
    client = ProviderClient(provider.settings(), read_clock=lambda: clock[0])

    async def fail() -> SignInFailure:
        attempt = begin_attempt("/")
        sent = provider.client.get(
            await client.make_address(attempt.state, attempt.nonce, attempt.challenge)
        )
        code = parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]
        with pytest.raises(SignInFailure, match="answers 404") as caught:
            await client.redeem_code(code, attempt.verifier, attempt.nonce, 0)
        return caught.value

    assert await fail() is await fail()
    assert provider.control().count("/nothing") == 1
    clock[0] += 6
    await fail()
