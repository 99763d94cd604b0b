"""A provider of OpenID Connect, as a process of its own; it lies if it is told to.

`python oidc_provider.py CLIENT SECRET REDIRECT_URI` prints its port. Whoever comes to `/authorize`
is the person of the last `POST /control`, an object with what is to be so from then on:

    claims      what stands in ID tokens beside, or in place of, what is right; null for nothing
    sign        "none", "hs256" (with the public key), "stranger" (a key of its name that is not
                its own), "es256", or "rs256"
    rotate      true: a new key in place of the old one
    document    what differs in the discovery document
    discovery   "huge", "slow", "junk", "elsewhere"
    code        what it answers at the token endpoint in place of an ID token
    post        true: the client proves itself in the form alone
    error       what it sends back in place of a code
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import select
import sys
import time
from base64 import b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

CLIENT, SECRET, REDIRECT = sys.argv[1:4]


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class Provider:
    """What it knows."""

    def __init__(self) -> None:
        self.serial = 0
        self.rotate()
        self.stranger = RSAKey.generate_key(2048, {"kid": self.key.kid, "use": "sig"})
        self.told: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def rotate(self) -> None:
        self.serial += 1
        self.key = RSAKey.generate_key(2048, {"kid": f"rsa-{self.serial}", "use": "sig"})
        self.other = ECKey.generate_key("P-256", {"kid": f"ec-{self.serial}", "use": "sig"})

    def keys(self) -> dict[str, Any]:
        weak = {**self.key.as_dict(private=False), "kid": "weak", "n": encoded(b"\x01" * 128)}
        listed = [one.as_dict(private=False) for one in (self.key, self.other)]
        junk: list[Any] = [{"kty": "oct", "k": "YWJj", "kid": "oct"}, {"kty": "odd"}, 5, weak]
        return {"keys": [*junk, *listed]}

    def sign(self, claims: dict[str, Any]) -> str:
        how, payload = self.told.get("sign", "rs256"), json.dumps(claims).encode()
        if how in ("none", "hs256"):
            head = {"alg": "none" if how == "none" else "HS256", "kid": self.key.kid}
            text = f"{encoded(json.dumps(head).encode())}.{encoded(payload)}"
            pem = self.key.as_pem(private=False)
            proof = hmac.new(pem, text.encode(), hashlib.sha256).digest() if how == "hs256" else b""
            return f"{text}.{encoded(proof)}"
        if how == "es256":
            head = {"alg": "ES256", "kid": self.other.kid}
            return str(jws.serialize_compact(head, payload, self.other))
        key = self.stranger if how == "stranger" else self.key
        return str(jws.serialize_compact({"alg": "RS256", "kid": self.key.kid}, payload, key))


PROVIDER = Provider()


class Handler(BaseHTTPRequestHandler):
    """Its paths."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"  # type: ignore[index]

    def say(self, status: int, value: Any = None, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path, told = urlsplit(self.path).path, PROVIDER.told
        PROVIDER.asked.append(path)
        if path == "/.well-known/openid-configuration":
            self.discover(told.get("discovery", ""))
        elif path == "/keys":
            self.say(200, PROVIDER.keys())
        elif path == "/authorize":
            self.authorize()
        else:
            self.say(404)

    def discover(self, how: str) -> None:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": [
                "client_secret_post" if PROVIDER.told.get("post") else "client_secret_basic"
            ],
            "authorization_response_iss_parameter_supported": True,
            **PROVIDER.told.get("document", {}),
        }
        if how == "elsewhere":
            self.say(302, location=f"{self.issuer}/other")
        elif how == "slow":  # a byte now and then, for as long as somebody listens
            self.send_response(200)
            self.send_header("content-length", "1000000")
            self.end_headers()
            try:
                while not select.select([self.connection], [], [], 0.02)[0]:
                    self.wfile.write(b" ")
            except OSError:
                pass
            self.close_connection = True
        elif how == "huge":
            self.say(200, {**document, "more": "x" * 2_000_000})
        else:
            self.say(200, [document] if how == "junk" else document)

    def authorize(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query))
        right = {
            "client_id": CLIENT,
            "redirect_uri": REDIRECT,
            "response_type": "code",
            "code_challenge_method": "S256",
        }
        if {**asked, **right} != asked or "openid" not in asked["scope"].split():
            self.say(400, asked)
            return
        code = secrets.token_urlsafe(16)
        PROVIDER.codes[code] = asked
        back = {"state": asked["state"], "iss": self.issuer}
        back |= {"error": PROVIDER.told["error"]} if "error" in PROVIDER.told else {"code": code}
        self.say(302, location=f"{REDIRECT}?{urlencode(back)}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/control":
            PROVIDER.told = json.loads(data)
            if PROVIDER.told.get("rotate"):
                PROVIDER.rotate()
            self.say(200, PROVIDER.asked)
            PROVIDER.asked = []
            return
        PROVIDER.asked.append(self.path)
        self.redeem(dict(parse_qsl(data.decode())))

    def redeem(self, fields: dict[str, str]) -> None:
        if not self.is_client(fields):
            self.say(401, {"error": "invalid_client"})
            return
        asked = PROVIDER.codes.pop(fields.get("code", ""), None)
        digest = hashlib.sha256(fields.get("code_verifier", "").encode()).digest()
        if (
            asked is None
            or encoded(digest) != asked["code_challenge"]
            or fields.get("redirect_uri") != REDIRECT
            or fields.get("grant_type") != "authorization_code"
        ):
            self.say(400, {"error": "invalid_grant"})
            return
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "subject-1",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
        }
        for name, value in PROVIDER.told.get("claims", {}).items():
            if name in ("exp", "iat", "nbf") and value is not None:
                value += now
            claims[name] = value
        right = {name: value for name, value in claims.items() if value is not None}
        answer = {"access_token": "x", "token_type": "Bearer", "id_token": PROVIDER.sign(right)}
        self.say(200, PROVIDER.told.get("code", answer))

    def is_client(self, fields: dict[str, str]) -> bool:
        if PROVIDER.told.get("post"):
            return (fields.get("client_id"), fields.get("client_secret")) == (CLIENT, SECRET)
        kind, _, pair = self.headers.get("authorization", "").partition(" ")
        if kind != "Basic":
            return False
        name, _, secret = b64decode(pair).decode().partition(":")
        return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)


class Server(ThreadingHTTPServer):
    """Those who hang up are none of its business."""

    def handle_error(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
