"""What each secret opens: every path that there is, asked with every kind of secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from sqlalchemy import ColumnElement, select, update

from media_samples import png
from server.people import at, populate
from server.running import Reply, Running, read_all, request
from server.test_pages import FORM, Site
from server.test_thread_reads import list_paths, make_link, plant_thread
from thread.journals import ID
from treadle.api.types import NewInvitation, UserUpdate
from treadle.server.accounts import accounts, invitations, sessions
from treadle.server.accounts.tokens import SCOPES, hash_token, revoke_token
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.oidc.settings import CALLBACK_PATH, OidcProvider
from treadle.server.refusals import Refusal
from treadle.server.search import question_feed

NAME: Final = "owner"
"""Whose all secrets are, the thread too. Here an admin: nobody is refused for who he is."""

TO_ALL: Final = {
    "/static/{name}": {"GET": 200},
    "/sign-in": {"GET": 200, "POST": 401},
    "/sign-in/provider": {"POST": 502},
    CALLBACK_PATH: {"GET": 403},
    "/health": {"GET": 200},
    "/ready": {"GET": 200},
    "/api/openapi.json": {"GET": 200},
}
"""Paths that answer everybody alike, and how: nobody is signed in there yet."""
BY_ADDRESS: Final = {
    "/feeds/{secret}/questions.atom": ("feed", {"GET": 200}, 410),
    "/join/{secret}": ("invitation", {"GET": 200, "POST": 400}, 404),
    "/share/{token}": ("link", {"GET": 200}, 404),
    "/api/threads/{thread_id}/share/{token}": ("link", {"GET": 200}, 404),
}
"""Paths with a secret in them: which one opens them, how, and what all others are told."""
STREAMS: Final = ("/api/changes", "/live", "/fleet/live", "/threads/{thread_id}/live")
NOT_HERE: Final = ("/fleet/live",)
"""What is opened, and is not there: no fleet has its queue in this database."""
TOKENS: Final = (*SCOPES, "machine")
"""What opens the API. All other pages are opened by a session's cookie, and by nothing else."""
LISTS: Final = {"/api/threads": 200, "/api/threads/search": 400}
"""Paths of the API that tell nobody in particular of what is public."""

PUBLIC: Final = {
    "/threads/{thread_id}",
    "/threads/{thread_id}/outputs/{call_id:path}",
    "/threads/{thread_id}/pictures/{digest}",
    "/threads/{thread_id}/versions",
    "/threads/{thread_id}/commits",
    "/threads/{thread_id}/trace",
    "/threads/{thread_id}/states",
    "/threads/{thread_id}/family",
}
"""Pages of a public thread that are shown to whoever comes."""

VALUES: Final = {
    "thread_id": ID,
    "digest": sha256(png()).hexdigest(),
    "call_id": "c1",
    "sha256": sha256(png()).hexdigest(),
}
"""What is there by these names in addresses; of all others nothing is."""


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    provider = OidcProvider(
        issuer="http://127.0.0.1:9", client_id="us", redirect_uri=f"http://localhost{CALLBACK_PATH}"
    )
    with Running(database_url, oidc=provider, burst=1_000_000) as server:
        people = populate(server.database)
        plant_thread(people)
        with people.database.write() as db:
            db.execute(
                update(schema.users).where(schema.users.c.name == NAME).values(is_admin=True)
            )
        yield Site(server, people)


class Secrets:
    """One of each kind, and paths that are asked with them.

    Args:
        site: the server.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        people = site.people
        self.by_name = {"nobody": "", "session": site.sign_in(NAME)}
        self.by_name |= {scope: people.token(NAME, scope=scope) for scope in SCOPES}
        self.by_name["machine"] = people.token(NAME, scope="sync")
        listens = ("GET", "/api/requests?machine=0123456789abcdef", self.by_name["machine"])
        assert site.server.ask(*listens, treadle_machine="loom").status == 200
        self.by_name |= self._make_ended()
        with people.writing(NAME) as context:
            self.by_name["ended feed"] = _cut_secret(question_feed.make_feed(context, ""))
            self.by_name["feed"] = _cut_secret(question_feed.make_feed(context, ""))
        self.by_name["link"] = make_link(people)
        with people.writing("admin") as context:
            made = invitations.make_invitation(context, NewInvitation("acme"), "")
            self.by_name["invitation"] = _cut_secret(made.url)

    def _make_ended(self) -> dict[str, str]:
        site, people = self._site, self._site.people
        found = {
            "ended token": people.token(NAME),
            "ended session": site.sign_in(NAME),
            "session of the disabled": site.sign_in("chief"),
        }
        site.post(
            "/sign-out",
            found["ended session"],
            form_key=sessions.make_form_key(found["ended session"]),
        )
        found["session of an ended token"] = begin_session(site, found["ended token"])
        with people.writing("admin") as context:
            revoke_token(context, find_token(context, found["ended token"]))
            accounts.change_user(context, "chief", UserUpdate(is_disabled=True))
        return found

    def ask(self, method: str, path: str, way: str, secret: str) -> tuple[int, str]:
        """The status, and where it leads; a path of streams is left as soon as it has begun."""
        values = {"name": "pages.css"} if path.startswith("/static/") else VALUES
        if way == "address":
            values = {**values, "secret": secret, "token": secret}

        def fill(found: re.Match[str]) -> str:
            return values.get(found[1], "123456789")

        place = re.sub(r"\{(\w+)(?::path)?\}", fill, path)
        headers = {"accept": "text/html", "sec_fetch_site": "same-origin"}
        headers |= {"cookie": f"treadle-session={secret}"} if way == "cookie" else {}
        body = None
        if method not in ("GET", "HEAD", "DELETE"):
            headers["content_type"] = FORM
            body = urlencode({"form_key": sessions.make_form_key(secret)}).encode()
        data = request(method, place, secret if way == "header" else "", body, **headers)
        if path in STREAMS:
            with closing(self._site.server.connect()) as connection:
                connection.sendall(data)
                reply = Reply(connection.recv(65536))
        else:
            reply = self._site.server.send(data)
        return reply.status, reply.headers.get("location", "")


def begin_session(site: Site, token: str) -> str:
    """The session of who signs in with a token."""
    told = site.post("/sign-in", token=token).headers["set-cookie"]
    return told.partition("=")[2].partition(";")[0]


def find_token(
    context: Context, secret: str, column: ColumnElement[Any] = schema.tokens.c.id
) -> int:
    """The number of a token or session, or what else is kept of it."""
    mine = schema.tokens.c.hash == hash_token(secret)
    return int(context.db.execute(select(column).where(mine)).scalar_one())


def _cut_secret(address: str) -> str:
    [found] = re.findall(r"tr[a-z]_\w+", address)
    return str(found)


def is_opened(method: str, path: str, name: str, way: str) -> bool:
    """Whether the table above says that a secret opens a path that is not open to all."""
    if path.startswith("/api/"):
        return way == "header" and name in TOKENS
    return way == "cookie" and name == "session"


def test_every_path_is_opened_by_the_secrets_that_are_for_it_and_by_no_other(site: Site) -> None:
    """What tokens of each scope may at endpoints of the API is asked in test_token_scopes.py."""
    secrets = Secrets(site)
    paths = sorted(list_paths(site.server), key=lambda one: (one[1] == "/sign-out", one))
    pages = {path for _, path in paths if not path.startswith("/api/")}
    assert pages > {*PUBLIC, *BY_ADDRESS} - {"/api/threads/{thread_id}/share/{token}"}
    assert set(TO_ALL) <= {path for _, path in paths}
    misses = []
    for method, path in paths:
        if path == "/metrics":
            continue  # whoever asks from this machine is shown them
        for name, secret in secrets.by_name.items():
            for way in ("cookie", "header", "address"):
                if _is_asked_elsewhere(path, name, way):
                    continue
                found = secrets.ask(method, path, way, secret)
                if not _fits(method, path, name, way, found):
                    misses.append((method, path, name, way, found))
    assert misses == []


def _is_asked_elsewhere(path: str, name: str, way: str) -> bool:
    if way == "address":
        return path not in BY_ADDRESS
    return way == "header" and name in TOKENS and path.startswith("/api/") and path not in STREAMS


def _fits(method: str, path: str, name: str, way: str, found: tuple[int, str]) -> bool:
    """Whether an answer is the one of the tables."""
    status, place = found
    if path in TO_ALL:
        return status == TO_ALL[path][method]
    if path in BY_ADDRESS:
        by, answers, refused = BY_ADDRESS[path]
        if way == "address":
            if name == "nobody":
                return status == 404  # no such path
            return status == (answers[method] if name == by else refused)
        # A wrong secret is told so before anything is looked for.
        return status in (401, refused)
    if path in LISTS:
        is_wrong = way == "header" and name not in ("nobody", *TOKENS)
        return status == (401 if is_wrong else LISTS[path])
    if is_opened(method, path, name, way):
        is_there = status == 404 if path in NOT_HERE else status < 400 and "/sign-in?" not in place
        return is_there if method == "GET" else status not in (401, 403)
    if path.startswith("/api/") or method == "POST" or path.endswith("/live"):
        return status == 401
    return status == 303 and place.startswith("/sign-in?next=")


def test_pages_of_a_public_thread_are_shown_to_who_is_nobody_any_more(site: Site) -> None:
    secrets = Secrets(site)
    with site.people.database.write() as db:
        db.execute(update(schema.threads).values(visibility="public"))
    found: dict[str, set[str]] = {}
    for method, path in list_paths(site.server):
        if method != "GET" or not path.startswith("/threads/"):
            continue
        for name, secret in secrets.by_name.items():
            for way in ("cookie", "header"):
                if secrets.ask("GET", path, way, secret)[0] == 200 and name != "session":
                    found.setdefault(path, set()).add(f"{name} {way}")
    everybody = {f"{name} {way}" for name in secrets.by_name for way in ("cookie", "header")}
    everybody -= {"session cookie", "session header"}
    assert found == dict.fromkeys(PUBLIC, everybody)


def test_a_stream_of_a_page_ends_with_what_opened_it(site: Site) -> None:
    people = site.people
    token = people.token("member")
    one, other, third = begin_session(site, token), site.sign_in("member"), site.sign_in("member")

    def sign_out() -> None:
        assert site.post("/sign-out", one, form_key=sessions.make_form_key(one)).status == 303

    def revoke() -> None:
        with people.writing("admin") as context:
            revoke_token(context, find_token(context, other, schema.tokens.c.made_with))

    def disable() -> None:
        with people.writing("admin") as context:
            accounts.change_user(context, "member", UserUpdate(is_disabled=True))

    for secret, end in ((one, sign_out), (other, revoke), (third, disable)):
        asked = request("GET", f"/threads/{ID}/live", cookie=f"treadle-session={secret}")
        with closing(site.server.connect()) as stream:
            stream.sendall(asked)
            assert Reply(stream.recv(65536)).status == 200
            end()
            assert read_all(stream).endswith(b"0\r\n\r\n"), end
        assert site.get(f"/threads/{ID}/live", secret).status == 401


def test_a_feed_does_not_outlive_the_token_that_its_maker_came_with(site: Site) -> None:
    cookie = begin_session(site, site.people.token("member", expires_at="2999-01-01T00:00:00Z"))
    made = site.post("/account/feed", cookie, form_key=sessions.make_form_key(cookie))
    secret = _cut_secret(made.body.decode())
    with site.people.database.read() as db:
        assert b"what waits for member" in question_feed.render_feed(db, secret, at(), "")
        with pytest.raises(Refusal, match="this feed has ended"):
            question_feed.render_feed(db, secret, "2999-01-01T00:00:01.000000Z", "")
