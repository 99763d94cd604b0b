"""Webhooks: who is told of what, signed, at least once, by no way that leads elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import select

from core.samples import answer, call, said
from server.chains import chain, rows_of, send
from server.databases import Templates
from server.people import People, at, populate
from server.receivers import OK, Receiver
from server.running import Running
from server.serving import Served
from server.test_pages import Site
from server.test_pages import site as site
from thread.journals import PLAIN
from treadle.api.error_codes import ErrorCode
from treadle.api.types import UserUpdate
from treadle.api.webhook_types import NewWebhook, Webhook
from treadle.core.approval import Question
from treadle.core.events import ApprovalRequired, CancelRequested, LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.core.tools import RiskLevel
from treadle.server.accounts import accounts
from treadle.server.data.schema import webhook_deliveries, webhooks
from treadle.server.http import webhook_sender
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.server.webhooks import delivery_queue, webhook_settings
from treadle.server.webhooks.delivery_queue import Delivery
from treadle.thread.codec import Entry
from treadle.thread.facts import Renamed, Shared
from treadle.web.public_requests import PublicRequests
from web.fetching import Names

URL: Final = "https://hooks.example.com/x"
ORIGIN: Final = "https://treadle.example"
NEWS: Final = "2026-11-21T08:16:00.000000Z"
"""Soon after what the journals of these tests tell."""


def make(people: People, name: str = "owner", url: str = URL, *events: Any) -> Webhook:
    with people.writing(name) as context:
        new = NewWebhook(url, events) if events else NewWebhook(url)
        return webhook_settings.make_webhook(context, new, ORIGIN, allows_private=False)


def told(people: People) -> list[str]:
    return [row.event for row in rows_of(people, webhook_deliveries)]


def take(people: People, now: str, count: int = 8) -> list[Delivery]:
    with people.database.write() as db:
        return delivery_queue.take_due(db, now, count, {})


def finish(people: People, one: Delivery, now: str, problem: str) -> None:
    with people.database.write() as db:
        delivery_queue.finish(db, one, now, problem)


FAILED: Final = LlmEvent.Error(LlmError(LlmErrorKind.AUTHENTICATION, "no"))
ASKED: Final = (
    said("do it"),
    answer("", call("bash")),
    ApprovalRequired((Question(call("bash"), RiskLevel.HIGH, "it writes"),)),
)

LIVES: Final[tuple[tuple[str, Sequence[Entry], list[str]], ...]] = (
    ("an answer", (said("hi"), answer("hello")), ["finished"]),
    ("a prompt", (said("hi"),), []),
    ("an error that stays", (said("hi"), FAILED), ["failed"]),
    ("a question", ASKED, ["question"]),
    ("who stops it is there", (said("hi"), CancelRequested()), []),
    ("a title", (Renamed("new"),), []),
    ("nobody but its owner", (Shared("private"), said("hi"), answer("hello")), []),
)


def test_what_a_push_tells(people: People) -> None:
    make(people)
    make(people, "member")
    misses = []
    for number, (name, entries, wanted) in enumerate(LIVES, 1):
        before = told(people)
        send(people, chain(number, [(PLAIN[1]), entries]))
        found = told(people)[len(before) :]
        if found != wanted:
            misses.append((name, found))
    assert misses == []
    assert {row.webhook_id for row in rows_of(people, webhook_deliveries)} == {1}


def test_a_question_is_told_once_and_an_old_story_not_at_all(people: People) -> None:
    make(people)
    asked = chain(1, [PLAIN[1], ASKED])
    send(people, asked)
    send(people, asked.more((Renamed("a name for it"),)), asked.mark)
    assert told(people) == ["question"]
    with people.writing("owner", at(86_400)) as context:
        old = chain(2, [PLAIN[1], (said("hi"), answer("hello"))])
        threads.push_records(context, old.thread, old.upto(0).mark, old.data)
    assert told(people) == ["question"]


def test_only_what_is_wanted_is_told_and_sub_agents_ask_alone(people: People) -> None:
    make(people, "owner", URL, "question")
    send(people, chain(1, [PLAIN[1], (said("hi"), answer("hello"))]))
    assert told(people) == []
    make(people)
    parent = chain(1, []).thread
    send(people, chain(2, [PLAIN[1], (said("hi"), answer("hello"))], parent=parent))
    assert told(people) == []
    send(people, chain(3, [PLAIN[1], ASKED], parent=parent))
    assert told(people) == ["question", "question"]


def test_what_is_sent_says_how_things_are_then_and_no_word_but_the_title(people: People) -> None:
    make(people)
    one = chain(1, [PLAIN[1], (Renamed("the \x1b[31mtitle"),), ASKED])
    send(people, one)
    [delivery] = take(people, NEWS)
    assert json.loads(delivery.body) == {
        "type": "question",
        "timestamp": at(),
        "data": {
            "thread": one.thread,
            "title": "the \N{REPLACEMENT CHARACTER}[31mtitle",
            "version": one.head.seq,
            "questions": 1,
            "url": f"{ORIGIN}/threads/{one.thread}",
        },
    }
    assert take(people, NEWS) == [], "whoever has taken it has it for a time"
    [again] = take(people, at(60 + delivery_queue.LEASE_S))
    assert (again.message_id, again.attempt_count) == (delivery.message_id, 2)
    finish(people, again, NEWS, "")
    assert take(people, at(86_400)) == []


def test_what_has_gone_private_or_away_is_not_sent(people: People) -> None:
    make(people)
    chains = [chain(number, [PLAIN[1], ASKED]) for number in (1, 2, 3, 4)]
    for one in chains:
        send(people, one)
    for work in (
        lambda context: threads.set_visibility(context, chains[0].thread, None, "private"),
        lambda context: threads.delete_thread(context, chains[1].thread, None),
        lambda context: threads.purge_thread(context, chains[2].thread),
    ):
        with people.writing("owner") as context:
            work(context)
    assert len(rows_of(people, webhook_deliveries)) == 3
    with people.writing("admin") as context:
        accounts.change_user(context, "owner", UserUpdate(is_disabled=True))
    assert take(people, NEWS) == []
    while take(people, NEWS) or rows_of(people, webhook_deliveries):
        pass  # what may not be sent is forgotten, one with each look


def test_a_failure_is_tried_again_later_and_later_and_ends_after_days(people: People) -> None:
    made = make(people)
    with people.writing() as context:
        webhook_settings.try_webhook(context, made.id)
    waits, seconds = [], 0.0
    while taken := take(people, at(seconds)):
        finish(people, taken[0], at(seconds), "the answer 500")
        if not rows_of(people, webhook_deliveries):
            break
        delay = delivery_queue.RETRY_DELAYS_S[len(waits)]
        assert take(people, at(seconds + delay - 1)) == []
        waits.append(delay)
        seconds += delay
    assert waits == sorted(waits)
    assert seconds >= 5 * 86_400
    with people.reading() as context:
        [line] = webhook_settings.list_webhooks(context).webhooks
    assert (line.is_disabled, line.problem, line.failing_since) == (True, "the answer 500", at())
    send(people, chain(1, [PLAIN[1], ASKED]))
    assert rows_of(people, webhook_deliveries) == [], "nothing more is kept for it"
    with people.writing() as context:
        webhook_settings.try_webhook(context, made.id)
    [test] = take(people, at(seconds))
    finish(people, test, at(seconds), "")
    with people.reading() as context:
        [line] = webhook_settings.list_webhooks(context).webhooks
    assert (line.is_disabled, line.problem, line.delivered_at) == (False, "", at(seconds))
    assert rows_of(people, webhook_deliveries) == []


def queue_tests(people: People, webhook_id: int, count: int, minute: int) -> None:
    values = {
        "webhook_id": webhook_id, "message_id": "msg_x", "event": "test", "version": 0,
        "created_at": at(), "attempt_count": 0, "next_at": at(minute),
    }  # fmt: skip
    with people.database.write() as db:
        db.execute(webhook_deliveries.insert(), [values] * count)


def test_what_one_person_has_due_delays_nobody_else(people: People) -> None:
    slow = [make(people).id for _ in range(10)]
    for one in slow:
        queue_tests(people, one, 100, minute=0)
    quick = make(people, "member")
    queue_tests(people, quick.id, 2, minute=30)
    taken = take(people, NEWS, 8)
    assert [one.webhook_id for one in taken] == [*slow[: delivery_queue.USER_SHARE_MAX], quick.id]
    busy = {one.webhook_id: one.user_id for one in taken if one.webhook_id != quick.id}
    finish(people, taken[-1], NEWS, "")
    with people.database.write() as db:
        again = delivery_queue.take_due(db, NEWS, 8, busy)
    assert [one.webhook_id for one in again] == [quick.id]
    ids = {one.id for _ in range(5) for one in take(people, NEWS, 8)}
    assert len(ids) == 5 * delivery_queue.USER_SHARE_MAX, "no delivery is taken by two"


def test_a_queue_does_not_grow_for_ever(people: People) -> None:
    full, other = make(people), make(people)
    queue_tests(people, full.id, delivery_queue.PENDING_MAX, minute=0)
    send(people, chain(1, [PLAIN[1], ASKED]))
    for _ in range(3):
        with people.writing() as context:
            webhook_settings.try_webhook(context, full.id)
    with people.reading() as context:
        lines = webhook_settings.list_webhooks(context).webhooks
    assert [(one.id, one.pending) for one in lines] == [(other.id, 1), (full.id, 1)]


def test_they_are_their_users_own(people: People) -> None:
    made = make(people)
    for name in ("member", "chief", "admin", "outsider"):
        with people.writing(name) as context:
            assert webhook_settings.list_webhooks(context).webhooks == ()
            for work in (webhook_settings.try_webhook, webhook_settings.remove_webhook):
                with pytest.raises(Refusal) as refused:
                    work(context, made.id)
                assert refused.value.code is ErrorCode.NOT_FOUND
    with people.writing() as context:
        webhook_settings.try_webhook(context, made.id)
        webhook_settings.remove_webhook(context, made.id)
    assert rows_of(people, webhook_deliveries) == rows_of(people, webhooks) == []


def test_what_leads_inside_is_refused_when_it_is_made(people: People) -> None:
    taken, codes = [], set()
    for url in (
        *("http://localhost/", "http://127.0.0.1:8080/", "https://10.0.0.1/", "ftp://a.example/"),
        *("https://user:secret@a.example/", "https://hooks.example.com:6379/", "nothing"),
        "http://169.254.169.254/latest/meta-data/",
    ):
        try:
            make(people, "owner", url)
            taken.append(url)
        except Refusal as refusal:
            codes.add(refusal.code)
    assert (taken, codes) == ([], {ErrorCode.BAD_REQUEST})
    for _ in range(webhook_settings.COUNT_MAX):
        make(people)
    with pytest.raises(Refusal):
        make(people)


def deliver_to(receiver: Receiver) -> Delivery:
    url = f"http://hooks.example.com:{receiver.port}/hook"
    return Delivery(1, 1, 1, url, "whsec_c2VjcmV0", "msg_1", 1, b'{"type":"test"}')


def requests_for(receiver: Receiver, *answers: str) -> PublicRequests:
    names = Names({"hooks.example.com": [(one,) for one in answers or ("127.0.0.1",)]})
    allowed = [("127.0.0.1", receiver.port)]
    return PublicRequests(resolve=names, allowed=allowed, connect_s_max=5, total_s_max=5)


ENDLESS: Final = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000_000
INTERIM: Final = b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n"
HOSTILE: Final[tuple[tuple[bytes | None, str], ...]] = (
    (OK, ""),
    (ENDLESS, ""),
    (INTERIM + OK, ""),
    (INTERIM * 100_000 + OK, "beginnings"),
    (b"HTTP/1.1 103 " + b"x" * 100_000 + OK, "line without an end"),
    (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "the answer 101"),
    (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000, ""),
    (b"HTTP/1.1 099 OK\r\n\r\n", "does not speak HTTP"),
    (b"\n" * 100_000, "does not speak HTTP"),
    (b"HTTP/1.1 500 Internal\r\nconnection: close\r\n\r\n", "the answer 500"),
    (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n", "leads elsewhere"),
    (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
    (b"", "closed without an answer"),
    (None, "no answer within"),
)


async def test_what_hostile_receivers_answer_costs_little_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    misses = []
    for bytes_sent, wanted in HOSTILE:
        with Receiver(lambda _, sent=bytes_sent: sent) as receiver:  # type: ignore[misc]
            patience_s = 0.2 if bytes_sent is None else 30.0
            found = await webhook_sender.send(
                requests_for(receiver), deliver_to(receiver), at(), patience_s
            )
        if wanted not in found or bool(found) != bool(wanted):
            misses.append((bytes_sent and bytes_sent[:30], found))
    assert misses == []


async def test_the_connection_goes_to_what_was_checked_and_nowhere_else() -> None:
    with Receiver() as receiver:
        # The second answer of the name would lead inside; it is never asked for.
        rebinding = requests_for(receiver, "127.0.0.1", "10.0.0.1")
        assert await webhook_sender.send(rebinding, deliver_to(receiver), at()) == ""
        got = receiver.next()
        assert got.headers["host"] == f"hooks.example.com:{receiver.port}"
        assert got.is_signed_by("whsec_c2VjcmV0")
        assert not got.is_signed_by("whsec_b3RoZXI=")
        for inside in ("10.0.0.1", "127.0.0.2", "::1", "169.254.169.254"):
            found = await webhook_sender.send(
                requests_for(receiver, inside), deliver_to(receiver), at()
            )
            # What a name of the server's network leads to is told to nobody.
            assert found == webhook_sender.REFUSED
        assert receiver.count == 1


def test_a_server_killed_between_delivery_and_its_note_delivers_again(
    templates: Templates, fast_place: Path
) -> None:
    url = templates.copy("sqlite", fast_place)
    served = Served(url, fast_place, "--private-webhooks").start()
    token = served.owner_token()
    with Receiver(lambda number: None if number == 1 else OK) as receiver:
        made = ask(served, token, "POST", "/api/webhooks", {"url": receiver.url})
        ask(served, token, "POST", f"/api/webhooks/{made['id']}/test")
        first = receiver.next()
        served.kill()  # it was delivered, and nobody has noted that
        hurry(url)
        served.start()
        again = receiver.next()
        assert again.headers["webhook-id"] == first.headers["webhook-id"]
        assert again.json == first.json == {**first.json, "type": "test"}
        assert first.is_signed_by(made["secret"])
        assert again.is_signed_by(made["secret"])
    served.end()


def ask(
    served: Served, token: str, method: str, path: str, body: dict[str, object] | None = None
) -> Any:
    import httpx2

    answered = httpx2.request(
        method, served.url + path, json=body, headers={"authorization": f"Bearer {token}"}
    )
    assert answered.status_code < 300, answered.text
    return answered.json() if answered.content else None


def hurry(url: str) -> None:
    """Let the time of who had taken deliveries be over."""
    from treadle.server.data.database import Database

    database = Database(url)
    with database.write() as db:
        assert db.execute(select(webhook_deliveries.c.attempt_count)).scalars().all() == [1]
        db.execute(webhook_deliveries.update().values(next_at=at()))
    database.dispose()


def test_a_push_to_a_server_reaches_the_receiver(database_url: str) -> None:
    with Running(database_url, allows_private_webhooks=True) as server, Receiver() as receiver:
        people = populate(server.database)
        one, token = chain(1), people.token("owner")
        pushed = server.ask(
            "POST", f"/api/threads/{one.thread}/records", token, one.data,
            content_type="application/x-ndjson", if_match=f'"0-{"0" * 32}"',
        )  # fmt: skip
        assert pushed.status == 200
        body = json.dumps({"url": receiver.url, "events": ["finished"]}).encode()
        made = server.ask("POST", "/api/webhooks", token, body, content_type="application/json")
        assert made.status == 201
        with people.database.write() as db:  # as a push leaves it: its journal is of another day
            db.execute(
                webhook_deliveries.insert().values(
                    webhook_id=made.json["id"], message_id="msg_x", event="finished",
                    thread_id=one.thread, version=1, created_at=at(), attempt_count=0,
                    next_at=at(),
                )
            )  # fmt: skip
        server.ask("POST", "/api/webhooks", token, body, content_type="application/json")
        got = receiver.next()
        assert (got.json["type"], got.json["data"]["thread"]) == ("finished", one.thread)
        assert got.is_signed_by(made.json["secret"])


def test_the_page_of_an_account_makes_tries_and_removes_them(site: Site) -> None:
    cookie = site.sign_in("owner")
    body = site.get("/account", cookie).body.decode()
    key = re.search(r'name="form_key" value="(\w+)"', body)
    assert key is not None
    given = {"form_key": key[1], "url": f"{URL}?<b>", "failed": "yes"}
    assert site.post("/account/webhooks", cookie, **{**given, "form_key": "x"}).status == 403
    made = site.post("/account/webhooks", cookie, **given).body.decode()
    secret = re.search(r"whsec_[\w+/]+=*", made)
    assert secret is not None
    page = site.get("/account", cookie).body.decode()
    assert secret[0] not in page
    assert "<td>failed</td>" in page
    assert f"{URL}?&lt;b&gt;" in page
    with site.people.database.write() as db:
        db.execute(webhooks.update().values(failing_since=at(), problem="the answer 500"))
        db.execute(webhooks.update().values(disabled_at=at()))
    assert "Nothing is sent there any more" in site.get("/account", cookie).body.decode()
    for path in ("1/test", "1/remove"):
        assert site.post(f"/account/webhooks/{path}", cookie, form_key=key[1]).status == 303
    assert "Nothing is sent" not in site.get("/account", cookie).body.decode()
    assert site.post("/account/webhooks/1/test", cookie, form_key=key[1]).status == 404
    assert site.post("/account/webhooks/x/test", cookie, form_key=key[1]).status == 404
    inside = site.post("/account/webhooks", cookie, **{**given, "url": "http://127.0.0.1/"})
    assert inside.status == 400
    assert "lets private networks be told" in inside.body.decode()
