"""Who has read what of others: every way in which words of a thread leave the server is noted."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, select, text
from starlette.routing import Route

from core.samples import CONFIG, answer, call, ended, said, success
from media_samples import attachment, png
from server.chains import chain
from server.people import People, at
from server.running import Reply, Running, request
from server.test_pages import Site
from server.test_pages import site as site
from thread.journals import HEADER, ID, write
from treadle.api.audit_types import ReadLine
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import NewShare
from treadle.core.events import ToolStarted, UserInput
from treadle.core.messages import Message
from treadle.server.accounts import share_links, support
from treadle.server.context import ThreadRead
from treadle.server.data.database import Database
from treadle.server.data.schema import thread_reads as table
from treadle.server.http import read_notes
from treadle.server.http.app import ENDPOINTS
from treadle.server.http.read_notes import ReadNotes
from treadle.server.refusals import Refusal
from treadle.server.threads import thread_reads, threads
from treadle.thread.facts import Base, Configured

CANARY: Final = "xyzzy"
"""A word that stands in messages, outputs and pictures of the thread, and in no list."""
OUTPUT: Final = f"{CANARY} put out".encode()
PICTURE: Final = attachment(png(), f"{CANARY}.png")


def plant_thread(people: People) -> None:
    """A thread of the owner's, as his machine sends it."""
    prompt = replace(Message.user(f"say {CANARY}"), attachments=(PICTURE,))
    entries = (
        (HEADER, Configured(CONFIG, "scripted")),
        (said("good day"),),
        (answer("and to you"),),
        (UserInput(prompt),),
        (answer(f"it is {CANARY}", call("c1", "bash", "{}")),),
        (ToolStarted("c1", at()),),
        (ended("c1", success("c1", OUTPUT.decode())),),
    )
    with people.writing() as context:
        threads.push_records(context, ID, Mark(), write(entries)[0])
        for data in (OUTPUT, png()):
            threads.put_blob(context, ID, sha256(data).hexdigest(), data)


def make_link(people: People) -> str:
    """The secret of a link to the thread."""
    with people.writing() as context:
        url = share_links.create_link(context, ID, NewShare(), "").url
    return url.rpartition("/")[2]


def make_notes(database: Database) -> ReadNotes:
    """Of a process that has kept nothing yet."""
    return ReadNotes(lambda work, wait_s: database.run(work, is_write=True, wait_s=wait_s))


def list_rows(database: Database) -> list[Any]:
    with database.read() as db:
        return list(db.execute(select(table).order_by(table.c.id)))


QUERIES: Final = {
    "/": f"words={CANARY}",
    "/api/threads/search": f"q={CANARY}",
    "/threads/{thread_id}/versions": "from=1",
    "/threads/{thread_id}/live": "page=1",
}
"""What has to be said at some paths, that they may show anything."""

WAYS: Final = {
    "/": "search",
    "/api/threads/search": "search",
    "/api/threads/{thread_id}": "api",
    "/api/threads/{thread_id}/records": "api",
    "/api/threads/{thread_id}/blobs/{sha256}": "api",
    "/api/threads/{thread_id}/share/{token}": "link",
    "/share/{token}": "link",
    "/threads/{thread_id}": "page",
    "/threads/{thread_id}/outputs/{call_id:path}": "page",
    "/threads/{thread_id}/pictures/{digest}": "page",
    "/threads/{thread_id}/versions": "page",
    "/threads/{thread_id}/commits": "page",
    "/threads/{thread_id}/trace": "page",
    "/threads/{thread_id}/states": "page",
    "/threads/{thread_id}/family": "page",
    "/threads/{thread_id}/live": "page",
}
"""The paths at which something of a colleague's thread can be read, and how it is called."""

NOTHING_SAID: Final = {
    *("/health", "/ready", "/metrics", "/api/openapi.json", "/api/me", "/api/tokens"),
    *(
        "/api/threads",
        "/api/heads",
        "/api/changes",
        "/team",
        "/sign-in",
        "/account",
        "/account/usage",
    ),
    *("/api/webhooks", "/api/invitations", "/api/requests", "/join/{secret}"),
    *("/live", "/fleet", "/fleet/live", "/static/{name}"),
}
"""Paths that answer a colleague, and tell nothing that was said in a thread."""


class Reader:
    """Asks a server at each of its paths as one person would.

    Args:
        site: the server.
        name: of whom.
    """

    def __init__(self, site: Site, name: str) -> None:
        self._site = site
        self._token, self._cookie = site.people.token(name), site.sign_in(name)
        values = {
            "thread_id": ID,
            "sha256": sha256(OUTPUT).hexdigest(),
            "token": make_link(site.people),
            "digest": PICTURE.blob.sha256,
            "call_id": "c1",
        }
        self._values = {**values, "name": "owner", "request_id": "r" * 16, "secret": "x"}

    def ask(self, method: str, path: str) -> Reply:
        """Ask at a path, with what stands in braces filled in."""

        def fill(found: re.Match[str]) -> str:
            return self._values.get(found[1], "9")

        place = re.sub(r"\{(\w+)(?::path)?\}", fill, path)
        query = QUERIES.get(path, "")
        headers = {"accept": "*/*", "cookie": f"treadle-session={self._cookie}"}
        token = self._token if path.startswith("/api/") else ""
        data = request(method, place + (f"?{query}" if query else ""), token, **headers)
        if path not in ("/api/changes", "/live", "/threads/{thread_id}/live"):
            return self._site.server.send(data)
        with closing(self._site.server.connect()) as connection:  # goes on for ever
            connection.sendall(data)
            return Reply(connection.recv(65536))


def list_paths(running: Running) -> set[tuple[str, str]]:
    """All that the server can be asked: each method of each path."""
    found = {(one.method, one.path) for one in ENDPOINTS}
    for route in running.app._pages.routes:
        assert isinstance(route, Route)
        assert route.methods is not None
        found |= {(method, route.path) for method in route.methods - {"HEAD"}}
    return found


def test_every_path_that_gives_words_of_a_thread_notes_who_got_them(site: Site) -> None:
    """A path that is new stands in one of the two tables above, or this fails."""
    plant_thread(site.people)
    reader = Reader(site, "member")
    gave, answered = dict[str, str](), set[str]()
    for method, path in sorted(list_paths(site.server)):
        with site.people.database.write() as db:
            db.execute(delete(table))
        site.server.app.services.read_notes = make_notes(site.people.database)
        reply = reader.ask(method, path)
        rows = list_rows(site.people.database)
        has_words = CANARY.encode() in reply.body or reply.body in (OUTPUT, png())
        assert not has_words or rows, f"{method} {path} gives words of a thread, and notes nothing"
        if rows:
            assert method == "GET", path
            [row] = rows  # before the answer is out
            assert (row.thread_id, row.user_id) == (
                ID,
                0 if path == "/share/{token}" else site.people["member"].user_id,
            )
            gave[path] = row.ways
            assert row.addresses == "127.0.0.1"
        elif method == "GET" and reply.status < 400 and reply.status != 303:
            answered.add(path)
        assert method == "GET" or reply.status >= 400 or not has_words, (method, path)
    assert gave == WAYS
    assert answered <= NOTHING_SAID, answered - NOTHING_SAID


def keep(notes: ReadNotes, reads: list[ThreadRead], way: Any, address: str, now: str) -> int:
    """As an answer does it; how many were not known."""
    found = notes.find_new(reads, way, address, now)
    notes.keep(found, now)
    return len(found)


def test_a_reader_has_a_row_an_hour_with_all_ways_and_addresses(database: Database) -> None:
    notes, again = make_notes(database), make_notes(database)
    one, two = ThreadRead("T-1", 1), ThreadRead("T-1", 0, 3)
    assert keep(notes, [one, one, two], "page", "10.0.0.1", at()) == 2
    assert keep(notes, [one], "page", "10.0.0.1", at(60)) == 0, "a page that is live writes nothing"
    keep(notes, [one], "api", "10.0.0.1", at(120))
    keep(again, [one], "page", "10.0.0.1", at(180))  # another process
    keep(again, [one], "page", "10.0.0.2", at(240))
    for number in range(30):
        keep(notes, [two], "link", f"10.1.0.{number}", at(300))
    keep(notes, [one], "page", "10.0.0.1", at(3600))
    found = [
        (row.user_id, row.share_id, row.hour[-2:], row.first_at, row.last_at, row.ways)
        for row in list_rows(database)
    ]
    assert found == [
        (0, 3, "08", at(), at(300), "page link"),
        (1, 0, "08", at(), at(240), "page api"),
        (1, 0, "09", at(3600), at(3600), "page"),
    ]
    second, first, _ = (row.addresses.split() for row in list_rows(database))
    assert first == ["10.0.0.1", "10.0.0.2"]
    assert (len(second), second[-1]) == (21, "more")


class Balky:
    """A database that takes nothing until it is told to."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.is_busy = True
        self.count = 0

    def run(self, work: Callable[[Connection], None], wait_s: float) -> None:
        self.count += 1
        if self.is_busy:
            raise Refusal(ErrorCode.UNAVAILABLE, "busy")
        self.database.run(work, is_write=True)


def test_a_database_that_takes_nothing_loses_no_read(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_notes, "WAITING_MAX", 2)
    balky = Balky(database)
    notes = ReadNotes(balky.run)
    one, two = ThreadRead("T-1", 1), ThreadRead("T-2", 1)
    with caplog.at_level("INFO", logger="treadle"):
        keep(notes, [one], "page", "10.0.0.1", at())
        keep(notes, [one], "page", "10.0.0.1", at(1))
    told = [vars(one) for one in caplog.records if one.message == "read_waits"]
    assert len(told) == 1, "each is told once"
    assert all(word in str(told) for word in ("T-1", "10.0.0.1"))
    keep(notes, [two], "page", "10.0.0.1", at(2))
    assert (list_rows(database), notes.is_waiting) == ([], True)
    with pytest.raises(Refusal, match="cannot be noted"):
        keep(notes, [ThreadRead("T-3", 1)], "page", "10.0.0.1", at(3))
    balky.is_busy = False
    assert notes.write(1.0)
    assert [(row.thread_id, row.first_at) for row in list_rows(database)] == [
        ("T-1", at()),
        ("T-2", at(2)),
    ]
    assert not notes.is_waiting
    count = balky.count
    keep(notes, [one, two], "page", "10.0.0.1", at(4))
    assert balky.count == count


def test_a_reader_is_answered_while_others_write_and_a_stop_keeps_what_waits(
    site: Site,
) -> None:
    plant_thread(site.people)
    token = site.people.token("member")
    database = site.people.database
    with database.write() as db:
        if database.dialect == "postgresql":
            db.execute(text("LOCK TABLE thread_reads IN ACCESS EXCLUSIVE MODE"))
        reply = site.server.ask("GET", f"/api/threads/{ID}", token, treadle_purpose="export")
        assert reply.status == 200
        assert CANARY.encode() in reply.body
        assert site.server.app.services.read_notes.is_waiting
    site.server.stop()
    [row] = list_rows(database)
    assert (row.user_id, row.ways) == (site.people["member"].user_id, "export")


def test_owners_see_who_has_read_and_admins_from_where(site: Site) -> None:
    plant_thread(site.people)
    people = site.people
    token = make_link(people)
    with people.writing() as context:
        support.grant_access(context, ID)
    for name, purpose in (("member", "sync"), ("support", "nonsense"), ("owner", "show")):
        reply = site.server.ask(
            "GET", f"/api/threads/{ID}", people.token(name), treadle_purpose=purpose
        )
        assert reply.status == 200
    assert site.server.ask("GET", f"/api/threads/{ID}", people.token("outsider")).status == 404
    assert site.server.ask("GET", f"/share/{token}").status == 200
    assert site.server.ask("POST", f"/api/threads/{ID}/visibility", people.token("owner"),
                           b'{"visibility": "public"}', content_type="application/json"
                           ).status == 200  # fmt: skip
    assert site.server.ask("GET", f"/api/threads/{ID}").status == 200
    wanted = [("anybody", ("api",)), ("link 1", ("link",)), ("support", ("api",)),
              ("member", ("sync",))]  # fmt: skip

    def shown(lines: Any) -> list[tuple[str, tuple[str, ...]]]:
        return [(one["reader"], tuple(one["ways"])) for one in lines]

    path = f"/api/threads/{ID}/readers"
    mine = site.server.ask("GET", path, people.token("owner")).json["reads"]
    assert shown(mine) == wanted
    assert [len(one["addresses"]) for one in mine] == [1, 1, 0, 0], "a colleague may be at home"
    links = site.server.ask("GET", f"/api/threads/{ID}/share", people.token("owner")).json
    assert [one["id"] for one in links["shares"]] == [1]
    pages = [site.server.ask("GET", f"{path}?limit=2{more}", people.token("owner")).json["reads"]
             for more in ("", f"&before={mine[1]['id']}")]  # fmt: skip
    assert [one for page in pages for one in page] == mine
    for name in ("member", "chief", "admin", "outsider"):
        assert site.server.ask("GET", path, people.token(name)).status == 403, name
    every = "/api/admin/reads"
    told = site.server.ask("GET", every, people.token("admin")).json["reads"]
    assert shown(told) == wanted
    assert all(one["addresses"] == ["127.0.0.1"] for one in told)
    assert {(one["thread"], one["owner"]) for one in told} == {(ID, "owner")}
    some = site.server.ask("GET", f"{every}?user=member&thread={ID}", people.token("admin")).json
    assert shown(some["reads"]) == wanted[-1:]
    for name in ("owner", "chief", "member"):
        assert site.server.ask("GET", every, people.token(name)).status == 403, name


def test_the_page_of_readers_is_the_owners(site: Site) -> None:
    plant_thread(site.people)
    owner, member, admin = (site.sign_in(name) for name in ("owner", "member", "admin"))
    page = f"/threads/{ID}/readers"
    assert "Nobody has." in site.get(page, owner).body.decode()
    theirs = site.get(f"/threads/{ID}", member).body.decode()
    for view in ("", "/versions", "/versions?from=1", "/commits", "/trace", "/states", "/family"):
        assert f'href="{page}"' in site.get(f"/threads/{ID}{view}", owner).body.decode(), view
    assert page not in theirs
    assert site.get(page, member).status == 403
    assert site.get(page).status == 303
    seen = site.get(page, owner).body.decode()
    assert "<td>member</td>" in seen
    assert "127.0.0.1" not in seen
    assert f"<bdi>{ID} of owner</bdi>" in site.get("/admin", admin).body.decode()
    with site.people.reading() as context:
        found: tuple[ReadLine, ...] = thread_reads.list_readers(context, ID).reads
    assert [(one.reader, one.ways) for one in found] == [("member", ("page",))]


def test_who_makes_a_fork_of_a_colleagues_thread_is_noted(site: Site) -> None:
    """Streams of changes name its last record, so nothing of it has to be fetched for that."""
    plant_thread(site.people)
    with site.people.reading("member") as context:
        [head] = threads.list_changes(context, 0, 10)
    for number, name in ((2, "member"), (3, "owner")):
        fork = chain(number, [(said("on"),)], base=Base(ID, head.version, head.hash))
        token = site.people.token(name)
        reply = site.server.ask(
            "POST",
            f"/api/threads/{fork.thread}/records",
            token,
            fork.data,
            content_type="application/x-ndjson",
            if_match=f'"0-{"0" * 32}"',
        )
        assert reply.status == 200
        reply = site.server.ask("GET", f"/api/threads/{fork.thread}", token)
        assert CANARY.encode() in reply.body
    [row] = list_rows(site.people.database)
    assert (row.thread_id, row.user_id) == (ID, site.people["member"].user_id)
    assert (row.ways, row.addresses) == ("fork", "127.0.0.1")


def test_the_statement_of_the_docs_removes_what_is_older(database: Database) -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    found = re.search(r"DELETE FROM thread_reads WHERE hour < '(\d{4}-\d\d-\d\dT\d\d)'", page)
    assert found is not None
    notes = make_notes(database)
    for when in ("2025-11-20T23:59:59", "2025-11-21T00:00:00", "2026-01-01T00:00:00"):
        keep(notes, [ThreadRead("T-1", 1)], "page", "10.0.0.1", f"{when}.000000Z")
    with database.write() as db:
        db.execute(text(found[0]))
    assert [row.hour for row in list_rows(database)] == ["2025-11-21T00", "2026-01-01T00"]
