"""Signing in at a provider of OpenID Connect: a real one on loopback, and what it may do wrong."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
import msgspec
import pytest
from sqlalchemy import select

from server.people import populate
from server.running import Reply, Running
from server.test_pages import Site
from treadle.api.types import NewIdentity, UserUpdate
from treadle.server.accounts import accounts, identities, sessions
from treadle.server.accounts.times import count_seconds
from treadle.server.data import schema
from treadle.server.oidc.attempts import begin_attempt, read_attempt
from treadle.server.oidc.provider_client import ProviderClient
from treadle.server.oidc.settings import OidcProvider, SignInFailure
from treadle.store.local_store import utc_now

CLIENT: Final = "treadle at acme"
SECRET: Final = "secret/of:the+client"
HERE: Final = "http://localhost"
BACK: Final = f"{HERE}/sign-in/back"


class Provider:
    """The process of `oidc_provider.py`."""

    def __init__(self) -> None:
        program = str(Path(__file__).with_name("oidc_provider.py"))
        self.process = subprocess.Popen(
            [sys.executable, program, CLIENT, SECRET, BACK], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.issuer = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.client = httpx2.Client(transport=httpx2.HTTPTransport())

    def control(self, **told: Any) -> list[str]:
        """What is so from now on; gives what it was asked for since the last time."""
        found: list[str] = self.client.post(f"{self.issuer}/control", json=told).json()
        return found

    def settings(self, **other: Any) -> OidcProvider:
        given = {"issuer": self.issuer, "client_id": CLIENT, "client_secret": SECRET}
        return OidcProvider(**{**given, "redirect_uri": BACK, **other})

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


@pytest.fixture
def provider(process: Provider) -> Provider:
    process.control()
    return process


class ProviderSite(Site):
    """A server whose people may sign in at the provider."""

    def __init__(self, server: Running, provider: Provider) -> None:
        super().__init__(server, populate(server.database))
        self.provider = provider

    def ask(self, path: str, **cookies: str) -> Reply:
        told = [f"treadle-{name.replace('_', '-')}={value}" for name, value in cookies.items()]
        return self.server.ask("GET", path, accept="text/html", cookie="; ".join(told))

    def begin(self, path: str = "/team", session: str = "") -> tuple[str, str]:
        """The cookie of an attempt, and where the browser is sent."""
        if session:
            key = sessions.make_form_key(session)
            page = self.post("/account/identities", session, form_key=key)
        else:
            page = self.post("/sign-in/provider", next=path)
        assert page.status == 200, page.raw
        found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', page.body.decode())
        cookie = re.match(r"treadle-sign-in=([^;]+); (.*)", page.headers["set-cookie"])
        assert found is not None
        assert cookie is not None
        assert {"HttpOnly", "SameSite=lax", "Max-Age=600"} <= {*cookie[2].split("; ")}
        return cookie[1], html.unescape(found[1])

    def visit(self, address: str) -> str:
        """Sign in there; the path by which the browser comes back."""
        sent = self.provider.client.get(address)
        assert sent.status_code == 302, sent.text
        return sent.headers["location"].removeprefix(HERE)

    def sign_in_there(self, path: str = "/team", session: str = "") -> Reply:
        cookie, address = self.begin(path, session)
        return self.ask(self.visit(address), sign_in=cookie, session=session)

    def link(self, user: str, subject: str = "subject-1") -> int:
        with self.people.writing("admin") as context:
            new = NewIdentity(user, subject, self.provider.issuer)
            return identities.add_identity(context, new).id


def cookie_of(reply: Reply) -> str:
    found = re.search(r"treadle-session=(trw_\w+)", reply.raw.decode())
    return found[1] if found else ""


@pytest.fixture
def site(database_url: str, provider: Provider) -> Iterator[ProviderSite]:
    settings = provider.settings(domains={"acme.example": "acme"})
    with Running(database_url, oidc=settings, base_url=HERE) as server:
        yield ProviderSite(server, provider)


def test_somebody_whom_an_admin_has_linked_signs_in_and_is_out_when_disabled_or_unlinked(
    site: ProviderSite,
) -> None:
    assert f"Sign in at {site.provider.issuer[7:]}" in site.get("/sign-in").body.decode()
    stranger = site.sign_in_there()
    assert (stranger.status, cookie_of(stranger)) == (403, "")
    assert "Nobody here is linked to this login: subject-1" in stranger.body.decode()
    number = site.link("owner")
    done = site.sign_in_there("/team?x=1")
    assert (done.status, done.headers["location"]) == (303, "/team?x=1")
    cookie = cookie_of(done)
    assert "owner" in site.get("/account", cookie).body.decode()
    with site.people.writing("admin") as context:
        accounts.change_user(context, "owner", UserUpdate(is_disabled=True))
    assert site.get("/account", cookie).status == 303
    refused = site.sign_in_there()
    assert (refused.status, "is disabled" in refused.body.decode()) == (403, True)
    with site.people.writing("admin") as context:
        accounts.change_user(context, "owner", UserUpdate(is_disabled=False))
    assert site.get("/account", cookie).status == 200
    with site.people.writing("admin") as context:
        identities.remove_any_identity(context, number)
    assert site.get("/account", cookie).status == 303, "the login that signed it in is unlinked"
    assert site.sign_in_there().status == 403
    with site.people.reading("admin") as context:
        actions = context.db.execute(select(schema.audit.c.action)).scalars().all()
    assert [one for one in actions if one.startswith(("identity", "signed"))] == [
        "identity_linked",
        "signed_in",
        "identity_removed",
    ]


def test_somebody_links_a_login_to_the_account_and_unlinks_it(site: ProviderSite) -> None:
    session = site.sign_in("member")
    done = site.sign_in_there(session=session)
    assert (done.status, done.headers["location"]) == (303, "/account")
    page = site.get("/account", session).body.decode()
    assert "subject-1" in page
    assert cookie_of(site.sign_in_there()) != ""
    other = site.sign_in_there(session=site.sign_in("owner"))
    assert (other.status, "belongs to another user" in other.body.decode()) == (403, True)
    cookie, address = site.begin(session=session)
    way = site.visit(address)
    left = site.ask(way, sign_in=cookie)
    assert left.status == 403, "who has signed out meanwhile links nothing"
    cookie, address = site.begin(session=session)
    changed = site.ask(site.visit(address), sign_in=cookie, session=site.sign_in("owner"))
    assert changed.status == 403, "nor does who has become somebody else"
    key = sessions.make_form_key(session)
    stranger = site.sign_in("owner")
    foreign = site.post(
        "/account/identities/1/remove", stranger, form_key=sessions.make_form_key(stranger)
    )
    assert foreign.status == 404
    assert site.post("/account/identities/1/remove", session, form_key="x").status == 403
    assert site.post("/account/identities/1/remove", session, form_key=key).status == 303
    assert "subject-1" not in site.get("/account", session).body.decode()
    assert site.post("/account/identities", session, form_key="x").status == 403


def test_addresses_of_a_domain_make_users_and_say_nothing_of_those_that_there_are(
    site: ProviderSite,
) -> None:
    def arrive(subject: str, email: object, is_verified: object = True) -> Reply:
        claims = {"sub": subject, "email": email, "email_verified": is_verified}
        site.provider.control(claims=claims)
        return site.sign_in_there()

    refused = [
        ("s1", "ada@rivals.example"),
        ("s1", "ada@acme.example.evil"),
        ("s1", "ada@x@acme.example"),
        ("s1", "acme.example"),
        ("s1", "@acme.example"),
        ("s1", "operator@acme.example"),
        ("s1", None),
    ]
    let_in = [one for one in refused if arrive(*one).status != 403]
    let_in += [one for one in (False, None, "true", 1) if arrive("s1", "ada@acme.example", one).status != 403]  # fmt: skip  # noqa: E501
    assert let_in == []
    taken = arrive("s1", "owner@acme.example")
    assert (taken.status, "name is taken" in taken.body.decode()) == (403, True)
    cookie = cookie_of(arrive("s1", "Ada.L+x@ACME.example"))
    me = site.get("/account", cookie).body.decode()
    assert "ada.l-x" in me
    assert "member of acme" in me
    again = arrive("s1", "someone.else@rivals.example", False)
    assert "ada.l-x" in site.get("/account", cookie_of(again)).body.decode(), "by the subject"
    other = arrive("s2", "ada.l+x@acme.example")
    assert (other.status, cookie_of(other)) == (403, ""), "the address alone is nobody"


LIES: Final[dict[str, dict[str, Any]]] = {
    "of another issuer": {"claims": {"iss": "https://evil.example"}},
    "without an issuer": {"claims": {"iss": None}},
    "for another client": {"claims": {"aud": "other"}},
    "for several": {"claims": {"aud": [CLIENT, "other"]}},
    "for several, of another": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
    "of another party": {"claims": {"azp": "other"}},
    "for nobody": {"claims": {"aud": []}},
    "over": {"claims": {"exp": -61}},
    "without an end": {"claims": {"exp": None}},
    "of tomorrow": {"claims": {"iat": 90, "exp": 400}},
    "not good yet": {"claims": {"nbf": 90}},
    "of yesterday": {"claims": {"iat": -86_400}},
    "without a time": {"claims": {"iat": None}},
    "of another sign-in": {"claims": {"nonce": "x" * 43}},
    "without a nonce": {"claims": {"nonce": None}},
    "without a subject": {"claims": {"sub": None}},
    "with an empty subject": {"claims": {"sub": ""}},
    "with a long subject": {"claims": {"sub": "x" * 256}},
    "with a subject that is no text": {"claims": {"sub": 5}},
    "unsigned": {"sign": "none"},
    "signed with what all know": {"sign": "hs256"},
    "signed by somebody else": {"sign": "stranger"},
    "no token": {"code": {"id_token": "a.b.c"}},
    "nothing": {"code": {}},
    "no object": {"code": ["id_token"]},
    "a number": {"code": {"id_token": 5}},
    "huge": {"code": {"id_token": "x" * 1_000_000}},
    "no": {"error": "access_denied"},
    "an error with words of its own": {"error": "<script>alert(1)</script>"},
}


def test_what_the_provider_says_wrongly_lets_nobody_in_and_is_told(site: ProviderSite) -> None:
    site.link("owner")
    let_in = []
    for name, told in LIES.items():
        site.provider.control(**told)
        reply = site.sign_in_there()
        body = reply.body.decode()
        is_told = 'role="alert"' in body and "<script>alert" not in body
        if reply.status not in (400, 403, 502) or cookie_of(reply) or not is_told:
            let_in.append((name, reply.status))
        if "Max-Age=0" not in reply.headers.get("set-cookie", ""):
            let_in.append((name, "goes on"))
        assert SECRET not in body
    assert let_in == []
    for told in (
        {},
        {"sign": "es256"},
        {"claims": {"aud": [CLIENT]}},
        {"claims": {"aud": [CLIENT, "other"], "azp": CLIENT}},
        {"claims": {"exp": -30, "iat": -330}},
        {"claims": {"iat": 30}},
    ):
        site.provider.control(**told)
        assert site.sign_in_there().status == 303, told


def test_a_code_a_state_and_an_answer_are_good_once_in_the_browser_that_asked(
    site: ProviderSite,
) -> None:
    site.link("owner")
    cookie, address = site.begin()
    way = site.visit(address)
    other_cookie, other_address = site.begin()
    asked = dict(parse_qsl(urlsplit(way).query))
    missed = [
        name
        for name, path, told in (
            ("no cookie", way, ""),
            ("the cookie of another browser", way, other_cookie),
            ("a cookie that is none", way, "x"),
            ("no state", f"/sign-in/back?{urlencode({**asked, 'state': ''})}", cookie),
            ("no code", f"/sign-in/back?{urlencode({**asked, 'code': ''})}", cookie),
            ("a long code", f"/sign-in/back?{urlencode({**asked, 'code': 'x' * 5000})}", cookie),
            ("another code", f"/sign-in/back?{urlencode({**asked, 'code': 'x'})}", cookie),
            ("no issuer", f"/sign-in/back?{urlencode({'code': asked['code'], 'state': asked['state']})}", cookie),  # noqa: E501
            ("another issuer", f"/sign-in/back?{urlencode({**asked, 'iss': 'https://evil'})}", cookie),  # noqa: E501
        )
        if (found := site.ask(path, sign_in=told)).status not in (400, 403, 502)
        or cookie_of(found)
    ]  # fmt: skip
    assert missed == []
    # A code that the provider has given to somebody else's attempt is bound to that by PKCE.
    other = dict(parse_qsl(urlsplit(site.visit(other_address)).query))
    mixed = f"/sign-in/back?{urlencode({**other, 'state': asked['state']})}"
    assert site.ask(mixed, sign_in=cookie).status == 403
    assert site.ask(way, sign_in=cookie).status == 303
    again = site.ask(way, sign_in=cookie)
    assert (again.status, "was used" in again.body.decode()) == (403, True)


def test_a_provider_is_asked_only_by_a_form_of_ours(site: ProviderSite) -> None:
    foreign: dict[str, Any] = {"headers": {"sec_fetch_site": "cross-site"}}
    assert site.post("/sign-in/provider", **foreign).status == 403
    assert site.get("/sign-in/provider").status in (404, 405)
    cookie, address = site.begin("//evil.example")
    asked = parse_qs(urlsplit(address).query)
    assert asked["redirect_uri"] == [BACK]
    assert asked["scope"] == ["openid email profile"]
    assert (len(asked["state"][0]), len(asked["code_challenge"][0])) == (43, 43)
    attempt = read_attempt(cookie)
    assert attempt is not None
    assert attempt.path == "/"
    assert attempt.secret not in address
    assert attempt.verifier not in address
    assert SECRET not in address
    assert SECRET not in repr(site.server.config)


def test_the_log_names_why_and_no_secret(
    site: ProviderSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.link("owner")
    cookie, address = site.begin()
    way = site.visit(address)
    with caplog.at_level("DEBUG", "treadle.server"):
        site.provider.control(claims={"aud": "other"})
        assert site.ask(way, sign_in=cookie).status == 502
        done = site.sign_in_there()
    told = " ".join(
        f"{one.getMessage()} {getattr(one, 'treadle_fields', '')}" for one in caplog.records
    )
    assert "its ID token does not count: it is for another client" in told
    secret = [*parse_qs(urlsplit(way).query)["code"], cookie, SECRET, cookie_of(done) or SECRET]
    assert [one for one in secret if one in told] == []


def test_keys_that_change_are_asked_for_again_but_not_for_every_token(
    provider: Provider,
) -> None:
    """By the client itself, with a clock that the test moves."""
    import asyncio

    clock = [1000.0]

    async def sign_in(client: ProviderClient) -> str:
        attempt = begin_attempt("/")
        address = await client.make_address(attempt.state, attempt.nonce, attempt.challenge)
        sent = await asyncio.to_thread(provider.client.get, address)
        code = parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]
        now_s = count_seconds(utc_now())
        claims = await client.redeem_code(code, attempt.verifier, attempt.nonce, now_s)
        return claims.sub

    async def work() -> None:
        client = ProviderClient(provider.settings(), read_clock=lambda: clock[0])
        assert await sign_in(client) == await sign_in(client) == "subject-1"
        asked = provider.control(rotate=True)
        assert asked.count("/keys") == asked.count("/.well-known/openid-configuration") == 1
        for _ in range(3):  # the keys were asked for a moment ago
            with pytest.raises(SignInFailure, match="none of its keys"):
                await sign_in(client)
        clock[0] += 31
        assert await sign_in(client) == "subject-1"
        assert provider.control(post=True).count("/keys") == 1
        clock[0] += 3601
        assert await sign_in(client) == "subject-1", "the secret goes where it is taken"
        wrong = ProviderClient(provider.settings(client_secret="other"))
        with pytest.raises(SignInFailure, match="does not know this server") as caught:
            await sign_in(wrong)
        assert "TREADLE_OIDC_SECRET" in caught.value.hint

    asyncio.run(work())


def test_a_cookie_does_not_say_where_a_browser_goes(site: ProviderSite) -> None:
    site.link("owner")
    cookie, address = site.begin()
    attempt = read_attempt(cookie)
    assert attempt is not None
    planted = msgspec.structs.replace(attempt, path="//evil.example/").encode()
    done = site.ask(site.visit(address), sign_in=planted)
    assert (done.status, done.headers["location"]) == (303, "/")


DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    "huge": {"discovery": "huge"},
    "slow": {"discovery": "slow"},
    "junk": {"discovery": "junk"},
    "elsewhere": {"discovery": "elsewhere"},
    "of another": {"document": {"issuer": "https://evil.example"}},
    "without keys": {"document": {"jwks_uri": None}},
    "with a plain endpoint": {"document": {"token_endpoint": "http://evil.example/token"}},
    "with an odd endpoint": {"document": {"authorization_endpoint": "javascript:alert(1)"}},
    "with no address": {"document": {"jwks_uri": "http://[::1"}},
}


async def test_a_provider_that_is_none_is_named_and_nothing_waits_for_it(
    provider: Provider,
) -> None:
    missed = []
    for name, told in DOCUMENTS.items():
        provider.control(**told)
        client = ProviderClient(provider.settings(), time_s_max=0.3 if name == "slow" else 30)
        found = []
        for _ in range(2):
            with pytest.raises(SignInFailure) as caught:
                await client.make_address("s", "n", "c")
            found.append(caught.value)
        asked = provider.control()
        count = asked.count("/.well-known/openid-configuration")
        if found[0].status != 502 or found[0] is not found[1] or count != 1 or "/other" in asked:
            missed.append((name, found, asked))
    assert missed == []
    gone = ProviderClient(provider.settings(issuer="http://127.0.0.1:9"))
    with pytest.raises(SignInFailure, match="cannot be reached"):
        await gone.read_metadata()


def test_a_page_says_that_the_provider_is_away_and_offers_a_token(
    site: ProviderSite,
) -> None:
    site.provider.control(discovery="junk")
    reply = site.post("/sign-in/provider", next="/team")
    body = reply.body.decode()
    assert reply.status == 502
    assert "answers with something else than it should" in body
    assert 'name="token"' in body
    session = site.sign_in("owner")
    key = sessions.make_form_key(session)
    linked = site.post("/account/identities", session, form_key=key)
    assert (linked.status, "No login was linked" in linked.body.decode()) == (502, True)


def test_who_is_not_signed_in_links_nothing_and_where_no_provider_is_nothing_is_offered(
    database_url: str,
) -> None:
    with Running(database_url) as server:
        plain = Site(server, populate(server.database))
        assert "Sign in at" not in plain.get("/sign-in").body.decode()
        assert "Logins elsewhere" not in plain.get("/account", plain.sign_in("owner")).raw.decode()
        assert plain.post("/sign-in/provider").status == 404
        assert plain.get("/sign-in/back").status == 404


def test_the_api_links_and_unlinks_for_admins(site: ProviderSite) -> None:
    admin, owner = site.people.token("admin"), site.people.token("owner")

    def send(method: str, path: str, token: str, value: Any = None) -> Reply:
        body = None if value is None else msgspec.json.encode(value)
        told = {} if body is None else {"content_type": "application/json"}
        return site.server.ask(method, f"/api/admin/identities{path}", token, body, **told)

    new = {"user": "owner", "subject": "s", "issuer": "https://p.example"}
    assert send("POST", "", owner, new).status == 403
    nameless = send("POST", "", admin, {"user": "owner", "subject": "s"})
    assert (nameless.status, "without a provider" in nameless.json["message"]) == (400, True)
    made = send("POST", "", admin, new)
    assert made.status == 201
    assert made.json["user"] == "owner"
    assert send("POST", "", admin, new).json == made.json, "saying it again changes nothing"
    assert send("POST", "", admin, {**new, "user": "member"}).status == 400
    assert send("POST", "", admin, {**new, "user": "nobody"}).status == 404
    assert send("GET", "", owner).status == 403
    assert send("GET", "", admin).json["identities"] == [made.json]
    assert send("DELETE", f"/{made.json['id']}", owner).status == 403
    assert send("DELETE", f"/{made.json['id']}", admin).status == 204
    assert send("DELETE", f"/{made.json['id']}", admin).status == 404
