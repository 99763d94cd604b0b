"""The pages of a server: who gets in, who sees which thread, what comes by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import product
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import select

from core.samples import CONFIG, answer, call, ended, said, success
from server.people import ROLES, People, at, populate
from server.planting import THREAD, id_of, plant, plant_records
from server.running import Reply, Running
from thread.journals import HEADER, OTHER_ID, PLAIN, records_of, write
from treadle.api.marks import Mark
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.core.messages import BlobRef, Message, ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.exchange.journal_files import make_journal_part
from treadle.exchange.readable_thread import make_readable_thread
from treadle.pages.ports import RowFilters, ShownThread
from treadle.pages.thread_page import make_thread_page
from treadle.server.accounts import access, sessions, tokens
from treadle.server.accounts.times import shift_time
from treadle.server.context import Verb
from treadle.server.data import schema
from treadle.server.data.schema import blobs
from treadle.server.http.page_threads import ServerThreads
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.server.threads.stories import find_shown_thread
from treadle.store.local_store import utc_now
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, Thread
from treadle.thread.facts import Base, Configured
from treadle.thread.record import Head, encode_batch

NEW: Final = f'"0-{"0" * 32}"'
FORM: Final = "application/x-www-form-urlencoded"


class Site:
    """A server, and browsers that ask it."""

    def __init__(self, server: Running, people: People) -> None:
        self.server, self.people = server, people
        self.here = "http://localhost"

    def get(self, path: str, cookie: str = "", **headers: str) -> Reply:
        if cookie:
            headers["cookie"] = f"treadle-session={cookie}"
        return self.server.ask("GET", path, accept="text/html", **headers)

    def post(self, path: str, cookie: str = "", headers: Any = None, **fields: str) -> Reply:
        told = {"content_type": FORM, "sec_fetch_site": "same-origin", "accept": "text/html"}
        told |= headers or {}
        if cookie:
            told["cookie"] = f"treadle-session={cookie}"
        return self.server.ask("POST", path, body=urlencode(fields).encode(), **told)

    def push(self, *entries: Entry) -> None:
        """What the owner's machine records next."""
        with self.people.writing() as context:
            row = context.db.execute(select(schema.threads)).one()
            events = [encode_entry(one)[1] for one in entries]
            data, _ = encode_batch(Head(row.version, row.hash, at()), at(), events)
            threads.push_records(context, THREAD, Mark(row.version, row.hash), data)

    def sign_in(self, name: str) -> str:
        """The session of somebody, by the token."""
        done = self.post("/sign-in", token=self.people.token(name), next="/team")
        assert (done.status, done.headers["location"]) == (303, "/team")
        found = re.match(r"treadle-session=(trw_\w+); (.*)", done.headers["set-cookie"])
        assert found is not None
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {*found[2].split("; ")}
        return found[1]


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    with Running(database_url) as server:
        yield Site(server, populate(server.database))


def test_who_is_not_signed_in_is_led_to_do_so_and_back(site: Site) -> None:
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"])
    asked = site.get(f"/threads/{THREAD}?page=1")
    assert asked.status == 303
    place = asked.headers["location"]
    assert place == f"/sign-in?next={quote(f'/threads/{THREAD}?page=1')}"
    form = site.get(place).body.decode()
    assert f'name="next" value="/threads/{THREAD}?page=1"' in form
    assert site.get("/").status == site.get("/team").status == 303
    bad = site.post("/sign-in", token="trd_guess", next="/")
    assert (bad.status, "no token that is good" in bad.body.decode()) == (401, True)
    cookie = site.sign_in("owner")
    for path in ("/", f"/threads/{THREAD}", "/team", "/?owner=owner", "/?words=loom"):
        assert site.get(path, cookie).status == 200, path
    api = site.server.ask("GET", "/api/me", cookie)
    assert api.status == 401, "a session opens no API"
    assert site.get("/", site.people.token("owner")).status == 303, "a token opens no page"


def test_where_to_go_on_is_never_elsewhere(site: Site) -> None:
    token = site.people.token("owner")
    hostile = ("//evil.example", "https://evil.example", "/\\evil", "\\\\evil", "/x\r\ny: z", "x")
    found = {}
    for path in (*hostile, "/%2F/evil", "javascript:alert(1)", "/threads/x?page=2", ""):
        found[path] = site.post("/sign-in", token=token, next=path).headers["location"]
    ours = {"/%2F/evil": "/%2F/evil", "/threads/x?page=2": "/threads/x?page=2"}
    assert found == {path: ours.get(path, "/") for path in found}


def test_a_session_ends_when_somebody_says_so_with_its_token_and_its_user(site: Site) -> None:
    def is_in(cookie: str) -> bool:
        return site.get("/", cookie).status == 200

    cookie = site.sign_in("owner")
    key = sessions.make_form_key(cookie)
    assert is_in(cookie)
    assert site.post("/sign-out", cookie, form_key="x").status == 403
    assert is_in(cookie)
    done = site.post("/sign-out", cookie, form_key=key)
    assert (done.status, done.headers["location"]) == (303, "/sign-in")
    assert not is_in(cookie)
    cookie = site.sign_in("owner")
    with site.people.database.read() as db:
        caller = sessions.identify_session(db, cookie, site.server.app.services.now())
    with site.people.writing("owner") as context:
        for line in tokens.list_tokens(context, caller.user_id).tokens:
            tokens.revoke_token(context, line.id)
    assert not is_in(cookie), "the token that it was begun with is revoked"
    with site.people.writing("owner") as context:
        assert sessions.list_sessions(context) == ()
        actions = context.db.execute(select(schema.audit.c.action)).scalars().all()
    assert actions.count("signed_in") == 2


def test_a_form_of_another_site_does_nothing(site: Site) -> None:
    cookie = site.sign_in("owner")
    key = sessions.make_form_key(cookie)
    token = site.people.token("owner")
    foreign = (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "", "origin": "http://localhost"},
    )
    missed = [
        headers
        for headers in foreign
        if site.post("/sign-out", cookie, headers, form_key=key).status != 403
        or site.post("/sign-in", "", headers, token=token).status != 403
    ]
    assert missed == []
    assert site.get("/", cookie).status == 200
    other = sessions.make_form_key(site.sign_in("owner"))
    assert site.post("/sign-out", cookie, form_key=other).status == 403
    assert site.post("/sign-out", cookie, {"content_type": "text/plain"}).status == 415
    old = site.server.ask(
        *("POST", "/sign-in"),
        body=urlencode({"token": token}).encode(),
        content_type=FORM,
        origin="http://localhost",
    )
    assert old.status == 303, "a browser that knows no Sec-Fetch-Site says where it is from"


def test_pages_show_each_thread_to_whom_the_api_shows_it(site: Site) -> None:
    """Every role, every visibility, live, deleted and purged: list, page, output, stream."""
    database = site.people.database
    names = ("owner", "member", "outsider")
    cases = list(product(names, ("organization", "private", "public"), ("", "deleted", "purged")))
    with database.write() as db:
        for number, (owner, visibility, life) in enumerate(cases):
            over = {"deleted_at": "2026", "purged_at": "2026" if life == "purged" else None}
            plant(
                *(db, id_of(number), site.people[owner]),
                kind="document",
                version=1,
                visibility=visibility,
                **(over if life else {}),
            )
            _store_document(db, id_of(number))
    missed = []
    for name in ("", *ROLES):
        source = ServerThreads(site.server.app.services, site.people[name], "secret")
        listed = {row.thread.id for row in source.list_rows(RowFilters(), 0, 50).rows}
        for number, case in enumerate(cases):
            thread = id_of(number)
            wants_list, wants_page = _may(site.people, name, thread)
            found = {
                "list": thread in listed,
                "page": _tried(lambda: source.read_thread(thread).story.turns),  # noqa: B023
                "output": _tried(lambda: source.read_output(thread, "call")),  # noqa: B023
                "version": _tried(lambda: source.read_thread(thread, 1).story.turns),  # noqa: B023
                "journals": _tried(lambda: source.read_journals(thread)),  # noqa: B023
                "stream": _tried(lambda: source.read(partial(find_shown_thread, thread_id=thread))),  # noqa: B023
            }
            others = dict.fromkeys(("page", "output", "version", "journals", "stream"), wants_page)
            if found != {"list": wants_list, **others}:
                missed.append((name, case, found))
    assert missed == []


def test_a_thread_is_shown_as_its_machine_shows_it(site: Site) -> None:
    """Turns, times, calls and what was gone back from, told from the records."""
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"])
    cookie = site.sign_in("member")
    page = site.get(f"/threads/{THREAD}", cookie).body.decode()
    local = make_thread_page(
        ShownThread(make_readable_thread([make_journal_part(write(PLAIN)[0])])), None
    )
    assert local is not None
    assert re.findall(r'id="i(\d+)"', page) == [str(item.number) for item in local.items]
    for item in local.items:
        assert not item.turn or f'datetime="{item.at}"' in page
    assert f'data-live="/threads/{THREAD}/live"' in page


def test_whole_outputs_come_on_demand_from_the_thread_or_its_base(site: Site) -> None:
    whole = b"a long output <b>" * 4000
    ref = BlobRef(sha256(whole).hexdigest(), len(whole))
    outcome = ToolExecutionOutcome.Success("a", "head and tail", blob=ref)
    base = (
        (HEADER, Configured(CONFIG, "scripted")),
        (said("go"),),
        (answer("", call("a", "look"), call("b", "look")),),
        (ToolStarted("a"), ToolStarted("b")),
        (ended("a", outcome), ended("b", success("b", "short"))),
        (PostToolsHookCompleted(True, ""),),
        (answer("done"),),
    )
    records = records_of(write(base)[0])
    at_end = Base(THREAD, records[-1].seq, records[-1].hash)
    fork = ((replace(HEADER, thread=OTHER_ID, base=at_end),), (said("more"),))
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"], base)
        plant_records(db, site.people["owner"], fork)
        db.execute(
            blobs.insert().values(thread_id=THREAD, sha256=ref.sha256, size=ref.size, body=whole)
        )
    cookie = site.sign_in("member")
    for thread in (THREAD, OTHER_ID):
        page = site.get(f"/threads/{thread}", cookie).body.decode()
        assert f'href="/threads/{thread}/outputs/a"' in page
        found = site.get(f"/threads/{thread}/outputs/a", cookie)
        assert (found.body, found.headers["content-type"].partition(";")[0]) == (
            whole,
            "text/plain",
        )
        assert site.get(f"/threads/{thread}/outputs/b", cookie).body == b"short"
        assert site.get(f"/threads/{thread}/outputs/c", cookie).status == 404
    assert "more" in page


def test_search_marks_what_was_found_and_the_team_is_told(site: Site) -> None:
    owner = site.people.token("owner")
    data = write(PLAIN)[0]
    pushed = site.server.ask(
        *("POST", f"/api/threads/{THREAD}/records", owner, data),
        content_type="application/x-ndjson",
        if_match=NEW,
    )
    assert pushed.status == 200, pushed.body
    cookie = site.sign_in("member")
    found = site.get("/?words=done", cookie).body.decode()
    assert "<mark>done</mark>" in found
    assert f'href="/threads/{THREAD}%40owner"' in found
    team = site.get("/team", cookie).body.decode()
    assert "acme: who works on what" in team
    assert team.count('class="title"') == 1
    other = site.get("/team", site.sign_in("outsider")).body.decode()
    assert "Nobody of your organization" in other


def _tried(work: Callable[[], object]) -> bool:
    try:
        return work() is not None
    except Refusal:
        return False


def _may(people: People, name: str, thread: str) -> tuple[bool, bool]:
    """What the table of the API says: whether it is listed, and whether its page is shown."""
    found = []
    with people.reading(name) as context:
        for verb in (Verb.LIST, Verb.PULL):
            try:
                row = access.find_thread(context, thread, verb)
                found.append(access.get_deletion_state(row) is access.DeletionState.LIVE)
            except Refusal:
                found.append(False)
    return found[0], found[1]


def _store_document(db: Any, thread: str) -> None:
    called = ToolCall("call", "look", "{}")
    document = Thread(
        *(thread, 1, "2026", "2026", "2026"),
        ConversationSnapshot(
            (
                Message.user("spoken"),
                Message.assistant("", (called,)),
                Message.tool(called, "put out"),
            )
        ),
        AgentStateSnapshot("ready"),
    )
    db.execute(
        schema.documents.insert().values(
            thread_id=thread, version=1, hash="", body=msgspec.json.encode(document).decode()
        )
    )


def test_people_make_tokens_for_themselves_and_end_them(site: Site) -> None:
    cookie = site.sign_in("member")
    key = sessions.make_form_key(cookie)
    made = site.post("/account/tokens", cookie, form_key=key, name="laptop", days="7")
    [token] = re.findall(r">(trd_\w+)<", made.body.decode())
    assert site.server.ask("GET", "/api/me", token).json["user"] == "member"
    shown = site.get("/account", cookie).body.decode()
    assert token not in shown, "it is shown once"
    [place] = re.findall(r'action="(/account/tokens/\d+/revoke)"[^\n]*Revoke laptop', shown)
    other = site.sign_in("owner")
    other_key = sessions.make_form_key(other)
    assert site.post(place, other, form_key=other_key).status == 404, "it is not theirs"
    assert site.server.ask("GET", "/api/me", token).status == 200
    assert site.post(place, cookie, form_key=key).status == 303
    assert site.server.ask("GET", "/api/me", token).status == 401
    for fields in ({"name": "x", "days": "9999"}, {"name": "<b>", "days": "7"}, {"days": "7"}):
        assert site.post("/account/tokens", cookie, form_key=key, **fields).status == 400, fields
    [own] = re.findall(r'action="(/account/tokens/\d+/revoke)"[^\n]*Sign out session', shown)
    assert site.post(own, cookie, form_key=key).status == 303
    assert site.get("/account", cookie).status == 303, "that was this session"


def test_people_see_what_waits_for_their_machines_and_take_it_back(site: Site) -> None:
    cookie = site.sign_in("member")
    key, token = sessions.make_form_key(cookie), site.people.token("member")

    def send(method: str, path: str, **fields: str) -> int:
        body = msgspec.json.encode(fields)
        return site.server.ask(method, path, token, body, content_type="application/json").status

    def leave(name: str) -> None:
        soon = shift_time(utc_now(), seconds=600)
        told = {"id": name, "machine": "0123456789abcdef", "expires_at": soon, "body": "secret"}
        assert send("POST", "/api/requests", **told) == 201

    def ask() -> str:
        return site.get("/account", cookie).body.decode()

    assert "Asked of your machines" not in ask()
    assert "which listens" not in ask()
    query = "/api/requests?machine=0123456789abcdef"
    told = "by <bdi>loom</bdi>, which listens"
    tries = (site.server.ask("GET", query, token, treadle_machine="loom") for _ in range(200))
    # A use is noted when nobody has to wait for it, else the next one is.
    assert any(one.status == 200 and told in ask() for one in tries)
    leave("a-start-that-waits")
    page = ask()
    assert "a new thread, or a device to pair" in page
    assert "secret" not in page
    [place] = re.findall(r'action="(/account/requests/[^"]+/withdraw)"', page)
    other = site.sign_in("owner")
    assert site.post(place, other, form_key=sessions.make_form_key(other)).status == 404
    assert "Asked of your machines" not in site.get("/account", other).body.decode()
    assert site.post(place, cookie, form_key="another").status == 403
    assert site.post(place, cookie, form_key=key).status == 303
    assert "Asked of your machines" not in ask()
    leave("a-start-that-is-taken")
    path = "/api/requests/a-start-that-is-taken/outcome"
    assert send("PUT", path, state="taken") == 200
    assert "the machine has it" in ask()
    assert "/withdraw" not in ask()
    taken = place.replace("waits", "is-taken")
    assert site.post(taken, cookie, form_key=key).status == 400


def test_a_browser_is_told_by_the_name_that_people_know(site: Site) -> None:
    told = {
        "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0": "Firefox on Linux",
        "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0": ("Edge on Windows"),
        "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1": (
            "Safari on iPhone"
        ),
        "<b>mine</b>": "&lt;b&gt;mine&lt;/b&gt;",
        "x" * 400: "x" * 60,
    }
    token = site.people.token("member")
    for agent in told:
        done = site.post("/sign-in", headers={"user_agent": agent}, token=token)
        assert done.status == 303
    page = site.get("/account", site.sign_in("member")).body.decode()
    assert [name for name in told.values() if f"<bdi>{name}</bdi>" not in page] == []


def test_what_is_made_in_a_session_does_not_outlive_the_token_it_began_with(site: Site) -> None:
    until = "2999-01-01T00:00:00Z"
    token = site.people.token("member", expires_at=until)
    begun = site.post("/sign-in", token=token).headers["set-cookie"]
    cookie = begun.partition("=")[2].partition(";")[0]
    key = sessions.make_form_key(cookie)
    made = site.post("/account/tokens", cookie, form_key=key, name="ever", days="")
    [fresh] = re.findall(r">(trd_\w+)<", made.body.decode())
    told = site.server.ask("GET", "/api/me", fresh).json
    assert told["token_expires_at"].startswith("2999-01-01")


def test_only_admins_look_after_people_and_only_by_forms_of_theirs(site: Site) -> None:
    acts = {
        "/admin/organizations": {"name": "fresh"},
        "/admin/users": {"name": "grace", "organization": "acme", "role": "member"},
        "/admin/users/member": {"is_disabled": "yes"},
        "/admin/users/owner/tokens": {"name": "theirs", "days": "7"},
    }
    missed = []
    for name in ROLES:
        cookie = site.sign_in(name)
        key = sessions.make_form_key(cookie)
        page = site.get("/admin", cookie).status
        tries = {path: site.post(path, cookie, **fields).status for path, fields in acts.items()}
        if set(tries.values()) != {403}:
            missed.append((name, "without a key", tries))
        if name != "admin" and page != 403:
            missed.append((name, "page", page))
        done = {
            path: site.post(path, cookie, form_key=key, **fields).status
            for path, fields in acts.items()
            if name != "admin"
        }
        if set(done.values()) - {403}:
            missed.append((name, "with a key", done))
    assert missed == []
    cookie = site.sign_in("admin")
    key = sessions.make_form_key(cookie)
    done = {p: site.post(p, cookie, form_key=key, **fields).status for p, fields in acts.items()}
    assert list(done.values()) == [303, 303, 303, 200]
    page = site.get("/admin", cookie).body.decode()
    for told in ("fresh", "grace", "disabled", "user made"):
        assert told in page
    assert site.post("/sign-in", token=site.people.token("member")).status == 401, "is disabled"
    for path in (*acts, "/account/tokens"):
        assert site.post(path).status == 401, "nobody is signed in"
