"""Links: one that works for a thread, until it expires or is revoked; what its holder sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Barrier
from threading import Thread as Worker
from typing import Any, Final

import msgspec
import pytest
from sqlalchemy import Connection, delete, select, update

from case_tables import for_every_row
from core.samples import CONFIG, answer, call, said
from server.people import People, at, populate
from server.planting import THREAD, plant, plant_records
from server.running import Running
from thread.journals import HEADER, OTHER_ID, PLAIN, fold_of, records_of, write
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import NewShare, SharedThread
from treadle.core.messages import Message, NativeLayout, OpaquePart
from treadle.server.accounts import share_links
from treadle.server.accounts.times import shift_time
from treadle.server.accounts.tokens import TokenKind, generate_token, hash_token
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.thread.codec import encode_entry
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, Thread
from treadle.thread.facts import (
    Annotated,
    Base,
    Configured,
    ContextObserved,
    GitObserved,
    Shared,
    Visibility,
)
from treadle.thread.record import Head, encode_batch

BASE_URL: Final = "https://treadle.example"


def _create(people: People, now: str = "", **new: Any) -> str:
    """Make a link; gives its token."""
    with people.writing(now=now) as context:
        share = share_links.create_link(context, THREAD, NewShare(**new), BASE_URL)
    assert share.url.startswith(f"{BASE_URL}/share/trs_")
    return share.url.rpartition("/")[2]


def _open(people: People, token: str, now: str = "", thread_id: str | None = None) -> Any:
    """What the holder sees, or the code of the refusal; page and JSON agree."""
    with people.reading("", now) as context:
        seen = _tried(lambda: share_links.open_link(context, token, thread_id))
        if thread_id is None:
            page = _tried(lambda: share_links.render_link_page(context, token))
            assert (
                page == seen if isinstance(seen, ErrorCode) else page.startswith("<!doctype html>")
            )
    return seen


def _tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Refusal as refusal:
        return refusal.code


@pytest.fixture
def planted(people: People) -> People:
    """The plain thread, of `owner`."""
    with people.database.write() as db:
        plant_records(db, people["owner"])
    return people


def test_a_link_shows_the_conversation_to_whoever_holds_it(planted: People) -> None:
    token = _create(planted)
    document = fold_of(records_of(write(PLAIN)[0])).document()
    seen = _open(planted, token)
    assert isinstance(seen, SharedThread)
    assert (seen.id, seen.title) == (THREAD, document.metadata.title)
    assert (seen.created_at, seen.updated_at) == (document.created_at, document.updated_at)
    found = msgspec.convert(seen.content, ConversationSnapshot)
    assert found.messages == document.conversation.messages
    assert _open(planted, token, thread_id=THREAD) == seen
    with planted.reading("") as context:
        page = share_links.render_link_page(context, token)
    assert page.startswith("<!doctype html>")
    for message in document.conversation.messages:
        assert message.content.partition("\n")[0].partition("\u2028")[0].partition(",")[0] in page


def test_a_link_tells_nothing_of_the_machine(people: People) -> None:
    """Folder, repository, commits, notes, environment: JSON and page hold the talk alone."""
    canaries = (
        "/canary/root",
        "canary-branch",
        "ca4a47",
        "host/canary",
        "canary note",
        "CANARYENV",
    )
    batches = (
        (msgspec.structs.replace(HEADER, workspace="/canary/root", cwd="/canary/root/x"),),
        (
            Configured(CONFIG, "scripted"),
            GitObserved("canary-branch", "ca4a47", True, "host/canary", ("ca4a47",)),
            ContextObserved("canary note", "/canary/root", 8, {}, {"CANARYENV": "1"}),
            said("hello there"),
        ),
        (answer("", call("a")), Annotated("canary note")),
    )
    with people.database.write() as db:
        plant_records(db, people["owner"], batches)
    token = _create(people)
    with people.reading("") as context:
        page = share_links.render_link_page(context, token)
        text = msgspec.json.encode(share_links.open_link(context, token)).decode()
    for shown in (page, text):
        assert "hello there" in shown
        assert [canary for canary in canaries if canary in shown] == []


def test_what_only_models_read_is_not_shown(people: People) -> None:
    document = Thread(
        THREAD, 7, at(), at(), at(),
        ConversationSnapshot(
            (
                Message.user("<b>hi</b>"),
                Message("assistant", "look", (call("a"),),
                        native=NativeLayout("m", (OpaquePart('"canary"'),))),
                Message.tool(call("a"), "the & result"),
                Message.tool(call("lost"), "an answer to nothing"),
                Message.user("again"),
            )
        ),
        AgentStateSnapshot("waiting_for_user_input"),
        workspace_root="/canary",
    )  # fmt: skip
    with people.database.write() as db:
        plant(db, THREAD, people["owner"], kind="document", version=7)
        for version, body in ((6, b"{}"), (7, msgspec.json.encode(document))):
            db.execute(
                schema.documents.insert().values(
                    thread_id=THREAD, version=version, hash="", body=body.decode()
                )
            )
    token = _create(people)
    with people.reading("") as context:
        page = share_links.render_link_page(context, token)
    seen = _open(people, token)
    assert len(seen.content["messages"]) == 5
    for shown in (page, str(seen)):
        assert "canary" not in shown
    for text in ("&lt;b&gt;hi", "look", "the &amp; result", "an answer to nothing", "Turn 2"):
        assert text in page
    assert "<b>hi" not in page


def test_a_fork_is_shown_with_what_it_goes_on_from(planted: People) -> None:
    data, _ = write(PLAIN)
    records = records_of(data)
    base = Base(THREAD, 4, records[3].hash)
    header = msgspec.structs.replace(HEADER, thread=OTHER_ID, base=base)
    with planted.database.write() as db:
        plant_records(db, planted["owner"], ((header,), (answer("elsewhere"),)))
    with planted.writing() as context:
        share = share_links.create_link(context, OTHER_ID, NewShare(), BASE_URL)
    token = share.url.rpartition("/")[2]
    messages = _open(planted, token).content["messages"]
    assert [message["content"] for message in messages] == ["go", "elsewhere"]
    with planted.database.write() as db:
        db.execute(delete(schema.records).where(schema.records.c.thread_id == THREAD))
    FOLD_CACHE.pop(OTHER_ID, Mark(2, _hash_of(planted, OTHER_ID)))
    assert _open(planted, token) is ErrorCode.NOT_FOUND


def _hash_of(people: People, thread_id: str) -> str:
    with people.database.read() as db:
        query = select(schema.threads.c.hash).where(schema.threads.c.id == thread_id)
        return str(db.execute(query).scalar_one())


def test_a_link_ends_when_it_says(planted: People) -> None:
    token = _create(planted, expires_at=at(100))
    assert isinstance(_open(planted, token, at(99.999999)), SharedThread)
    for moment in (at(100), at(101), shift_time(at(), days=900)):
        assert _open(planted, token, moment) is ErrorCode.GONE


def test_a_link_is_good_for_thirty_days_unless_somebody_says_how_long(planted: People) -> None:
    token = _create(planted)
    assert isinstance(_open(planted, token, shift_time(at(), days=30, seconds=-1)), SharedThread)
    assert _open(planted, token, shift_time(at(), days=30)) is ErrorCode.GONE


@pytest.mark.parametrize(
    "text",
    [at(), at(-1), "", "tomorrow", "2026-12-01T00:00:00", shift_time(at(), days=365, seconds=1)],
)
def test_a_link_with_a_time_that_cannot_be_is_not_made(planted: People, text: str) -> None:
    kept = _create(planted)
    with pytest.raises(Refusal) as caught, planted.writing() as context:
        share_links.create_link(context, THREAD, NewShare(text), BASE_URL)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert isinstance(_open(planted, kept), SharedThread), "the one before it still works"


def test_a_new_link_ends_the_one_before_it(planted: People) -> None:
    first, second = _create(planted), _create(planted, now=at(1))
    assert _open(planted, first, at(2)) is ErrorCode.GONE
    assert isinstance(_open(planted, second, at(2)), SharedThread)
    with planted.reading(now=at(2)) as context:
        found = share_links.list_links(context, THREAD).shares
    assert [(link.created_at, link.is_active) for link in found] == [(at(1), True), (at(), False)]


def test_of_links_made_at_once_one_works(planted: People, database: Database) -> None:
    barrier, made = Barrier(4), []

    def make(db: Connection) -> str:
        context = Context(db, planted["owner"], at())
        return share_links.create_link(context, THREAD, NewShare(), BASE_URL).url

    def work() -> None:
        barrier.wait()
        made.append(database.run(make, is_write=True))

    workers = [Worker(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    opened = [_open(planted, url.rpartition("/")[2]) for url in made]
    assert sum(isinstance(seen, SharedThread) for seen in opened) == 1
    assert opened.count(ErrorCode.GONE) == 3


def test_a_revoked_link_is_gone_with_the_next_request(planted: People) -> None:
    token = _create(planted)
    for _ in range(2):
        with planted.writing() as context:
            share_links.revoke_links(context, THREAD)
        assert _open(planted, token) is ErrorCode.GONE


def test_a_thread_that_becomes_private_has_no_links_and_may_get_new_ones(planted: People) -> None:
    """Whether its owner says so here, or on a machine of his whose records come in."""
    for number, says in enumerate((_here, _by_a_record), 1):
        with planted.writing(now=at(number)) as context:
            threads.set_visibility(context, THREAD, None, "organization")
        token = _create(planted, now=at(number))
        for visibility in ("public", "organization"):
            says(planted, visibility)
            assert isinstance(_open(planted, token), SharedThread)
        says(planted, "private")
        assert _open(planted, token) is ErrorCode.GONE
        says(planted, "public")
        assert _open(planted, token) is ErrorCode.GONE, "it does not come back"
        says(planted, "private")
        assert isinstance(_open(planted, _create(planted)), SharedThread)


def test_a_link_that_a_wrong_clock_took_for_expired_is_revoked_too(planted: People) -> None:
    for end in (_unshare, _make_private):
        token = _create(planted)
        end(planted, shift_time(at(), days=40))
        assert _open(planted, token) is ErrorCode.GONE, "the clock was put right"


def _unshare(people: People, now: str) -> None:
    with people.writing(now=now) as context:
        share_links.revoke_links(context, THREAD)


def _make_private(people: People, now: str) -> None:
    with people.writing(now=now) as context:
        threads.set_visibility(context, THREAD, None, "private")


def _here(people: People, visibility: Visibility) -> None:
    with people.writing() as context:
        threads.set_visibility(context, THREAD, None, visibility)


def _by_a_record(people: People, visibility: Visibility) -> None:
    with people.writing() as context:
        row = context.db.execute(select(schema.threads)).one()
        event = encode_entry(Shared(visibility))[1]
        data, _ = encode_batch(Head(row.version, row.hash, at()), at(), [event])
        threads.push_records(context, THREAD, Mark(row.version, row.hash), data)


def test_a_document_that_becomes_private_has_no_links(people: People) -> None:
    document = Thread(
        THREAD, 1, at(), at(), at(),
        ConversationSnapshot((Message.user("hi"),)),
        AgentStateSnapshot("waiting_for_user_input"),
    )  # fmt: skip
    hidden = msgspec.structs.replace(document, version=2, visibility="private")
    for version, one in enumerate((document, hidden)):
        with people.writing() as context:
            threads.put_document(context, THREAD, msgspec.json.encode(one), version or None)
        if not version:
            token = _create(people)
            assert isinstance(_open(people, token), SharedThread)
    assert _open(people, token) is ErrorCode.GONE


@pytest.mark.parametrize("column", ["deleted_at", "purged_at"])
def test_a_link_to_a_thread_that_is_gone_leads_nowhere(planted: People, column: str) -> None:
    token = _create(planted)
    with planted.database.write() as db:
        db.execute(update(schema.threads).values({column: at()}))
    assert _open(planted, token) is ErrorCode.NOT_FOUND
    with planted.database.write() as db:
        db.execute(update(schema.threads).values({column: None}))
    assert isinstance(_open(planted, token), SharedThread), "a restored one is shown again"


@for_every_row(
    "text", ["", "x", "trs_", "\ud800", "\0" * 53, "é" * 53, "trs_" + "0" * 49, "x" * 100_000]
)
def test_what_is_no_link_leads_nowhere(planted: People, text: str) -> None:
    good = _create(planted)
    for token in (
        text,
        generate_token(TokenKind.SHARE),
        generate_token(TokenKind.ACCESS),
        hash_token(good),
        good[:-1],
    ):
        assert _open(planted, token) is ErrorCode.NOT_FOUND
        assert _open(planted, token, thread_id=THREAD) is ErrorCode.NOT_FOUND
    assert _open(planted, good, thread_id=OTHER_ID) is ErrorCode.NOT_FOUND


def test_a_link_is_no_token_and_its_holder_nobody(planted: People, database: Database) -> None:
    """It opens its page and nothing else, and nothing of it is kept."""
    from treadle.server.accounts import tokens

    token = _create(planted)
    with database.read() as db:
        with pytest.raises(Refusal):
            tokens.identify_caller(db, token, at())
        cells = [
            str(cell)
            for table in schema.metadata.sorted_tables
            for row in db.execute(select(table))
            for cell in row
        ]
    assert hash_token(token) in cells
    assert [cell for cell in cells if token[4:47] in cell] == []


def test_who_may_not_share_makes_no_link_and_ends_none(planted: People) -> None:
    token = _create(planted)
    for name, code in (
        ("member", ErrorCode.FORBIDDEN),
        ("chief", ErrorCode.FORBIDDEN),
        ("outsider", ErrorCode.NOT_FOUND),
        ("", ErrorCode.UNAUTHORIZED),
    ):
        works = {
            "create": lambda context: share_links.create_link(
                context, THREAD, NewShare(), BASE_URL
            ),
            "links": lambda context: share_links.list_links(context, THREAD),
            "revoke": lambda context: share_links.revoke_links(context, THREAD),
        }
        if name == "chief":  # may end a link that somebody else has made
            del works["revoke"]
        for work in works.values():
            with pytest.raises(Refusal) as caught, planted.writing(name) as context:
                work(context)
            assert caught.value.code is code
        assert isinstance(_open(planted, token), SharedThread)
    with planted.writing("chief") as context:
        share_links.revoke_links(context, THREAD)
    assert _open(planted, token) is ErrorCode.GONE


def test_a_browser_gets_pages_and_a_program_json(database_url: str) -> None:
    with Running(database_url) as server:
        people = populate(server.database)
        with people.database.write() as db:
            plant_records(db, people["owner"])
        token = _create(people)
        shown = server.ask("GET", f"/share/{token}", accept="text/html")
        text = shown.body.decode()
        assert shown.status == 200
        assert "Shared by owner" in text
        assert f'<time class="at" datetime="{at()[:10]}' in text
        assert 'href="/"' not in text, "a stranger has nothing else to see"
        assert {*re.findall(r'(?:src|href)="(/[^"]*)"', text)} == {
            "/static/pages.css",
            "/static/icon.svg",
            "/static/times.js",
        }
        policy = shown.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert shown.headers["x-robots-tag"] == "noindex, nofollow"
        for path in ("/static/pages.css", "/static/icon.svg", "/static/times.js"):
            assert server.ask("GET", path).status == 200, path
        assert server.ask("GET", f"/share/{token}?page=2").status == 404
        with people.writing() as context:
            share_links.revoke_links(context, THREAD)
        cases = {
            (f"/share/{token}", "text/html,*/*;q=0.8"): (410, "text/html"),
            (f"/share/{token}", "*/*"): (410, "application/json"),
            (f"/share/{token}?page=0", "text/html"): (400, "text/html"),
            ("/share/guess", "text/html"): (404, "text/html"),
            ("/nowhere", "text/html"): (404, "text/html"),
            ("/nowhere", "application/json"): (404, "application/json"),
            ("/api/nowhere", "text/html"): (404, "application/json"),
            ("/api/me", "text/html"): (401, "application/json"),
            ("/static/guess", "text/html"): (404, "text/html"),
        }
        found = {}
        for path, accept in cases:
            answer = server.ask("GET", path, accept=accept)
            media = answer.headers["content-type"].partition(";")[0]
            found[path, accept] = (answer.status, media)
            assert "content-security-policy" in answer.headers or media != "text/html"
        assert found == cases
