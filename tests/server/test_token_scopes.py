"""What a token may of all that its user may, and which machine has used it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.people import People, populate
from server.running import Running
from server.test_http import _about, filled
from server.test_pages import Site
from treadle.api.types import NewToken
from treadle.server.accounts import accounts, sessions, tokens
from treadle.server.accounts.tokens import SCOPES
from treadle.server.http.app import ENDPOINTS
from treadle.server.refusals import Refusal


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    with Running(database_url) as server:
        yield Site(server, populate(server.database))


def test_each_endpoint_takes_the_tokens_that_may_do_what_it_does(site: Site) -> None:
    """Of an admin's tokens of each scope at each endpoint: refused is what needs a wider one."""
    given = {scope: site.people.token("admin", scope=scope) for scope in SCOPES}
    misses = []
    for endpoint in ENDPOINTS:
        if endpoint.is_stream or endpoint.name in ("health", "ready", "metrics", "openapi"):
            continue
        is_account = endpoint.path.startswith(
            ("/api/admin", "/api/tokens", "/api/invitations", "/api/webhooks")
        )
        needed = "all" if is_account else "sync" if endpoint.method != "GET" else "read"
        for scope, token in given.items():
            reply = site.server.ask(endpoint.method, filled(endpoint), token, **_about(endpoint))
            is_refused = reply.status == 403 and "scope" in reply.json["message"]
            # A body that is none is refused by its form first; it does nothing either way.
            if is_refused != (SCOPES.index(scope) < SCOPES.index(needed)):
                misses.append((endpoint.name, scope, reply.status))
    assert misses == []
    assert site.server.ask("GET", "/metrics", given["all"], host="t.example").status != 404
    for scope in ("read", "sync"):
        proxied = {"x_forwarded_for": "203.0.113.9"}
        assert site.server.ask("GET", "/metrics", given[scope], **proxied).status == 404


def test_a_token_makes_none_that_may_more_and_signs_nobody_in(site: Site) -> None:
    people = site.people
    for scope in SCOPES:
        token = people.token("owner", scope=scope)
        with people.database.write() as db:
            context = site.server.app.services.make_context(db, token)
            for wanted in SCOPES:
                if tokens.allows(scope, wanted):
                    made = accounts.make_own_token(context, NewToken("t", scope=wanted))
                    assert made.scope == wanted
                else:
                    with pytest.raises(Refusal, match="has the scope"):
                        accounts.make_own_token(context, NewToken("t", scope=wanted))
        reply = site.post("/sign-in", token=token, next="/")
        wanted_status = 303 if scope == "all" else 401
        assert reply.status == wanted_status
        assert ("for machines and programs" in reply.body.decode()) == (scope != "all")
    with people.writing("owner") as context, pytest.raises(Refusal, match="a scope is one of"):
        accounts.make_own_token(context, NewToken("t", scope="root"))  # type: ignore[arg-type]


def test_a_page_makes_tokens_of_a_scope_and_shows_which_machine_has_used_each(
    site: Site,
) -> None:
    cookie = site.sign_in("member")
    key = sessions.make_form_key(cookie)
    fields = {"name": "laptop", "days": "90", "form_key": key}
    page = site.post("/account/tokens", cookie, **fields, scope="sync").body.decode()
    token = "trd_" + page.partition("trd_")[2][:49]
    assert site.post("/account/tokens", cookie, **fields, scope="root").status == 400
    assert site.server.ask("GET", "/api/me", token, treadle_machine="<b>loom\tone").status == 200
    lines = _wait_for_use(site.people)
    assert [(one["scope"], one["machine"]) for one in lines] == [("sync", "<b>loom one")]
    shown = site.get("/account", cookie).body.decode()
    assert "by <bdi>&lt;b&gt;loom one</bdi>" in shown
    assert "<td>sync</td>" in shown


def _wait_for_use(people: People) -> list[dict[str, object]]:
    """The uses of tokens: they are noted after the answer."""
    while True:
        with people.reading("member") as context:
            found = accounts.list_own_tokens(context).tokens
        used = [one for one in found if one.last_used_at]
        if used:
            return [{"scope": one.scope, "machine": one.machine} for one in used]
