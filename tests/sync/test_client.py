"""The client against real sockets: what it sends, and what it makes of whoever answers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from case_tables import for_every_row
from sync.wire_server import Answer, Asked, Cut, WireServer, reply
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import (
    NotLoggedInError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    TreadleError,
    UsageError,
)
from treadle.sync import client, http_transport
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import Account
from treadle.thread import record
from treadle.thread.record import Head, encode_batch

THREAD = "T-01890a5d-ac96-774b-bcce-b302099a8057"
OTHER = "T-01890a5d-ac96-774b-bcce-b302099a8058"
TOKEN = "the-token-of-this-test"
ME = {
    "user": "ada",
    "organization": "analytical",
    "role": "member",
    "is_admin": False,
    "is_support": False,
    "token_name": "laptop",
}


class Lines:
    """A thread of so many writes, as `Sendable` has it."""

    def __init__(self, *sizes: int) -> None:
        head, self.writes, self.marks = Head(), [], [Mark()]
        for size in sizes:
            events = [b'{"type":"annotated","text":"%s"}' % (b"x" * size)] * 2
            data, head = encode_batch(head, "2026-11-21T08:15:30.123456Z", events)
            self.writes.append(data)
            self.marks.append(Mark(head.seq, head.hash))

    @property
    def thread_id(self) -> str:
        return THREAD

    @property
    def end(self) -> Mark:
        return self.marks[-1]

    def lines(self, after: Mark) -> Iterator[bytes]:
        yield from self.writes[self.marks.index(after) :]

    def blob(self, sha256: str) -> bytes:
        return b"blob " + sha256.encode()


def remote_of(server: WireServer) -> HttpRemote:
    return HttpRemote(Account(server.url, TOKEN))


def head_of(mark: Mark, **other: Any) -> dict[str, Any]:
    return {"thread": THREAD, "version": mark.seq, "hash": mark.hash, "change": 7, **other}


def problem(code: str, **other: Any) -> dict[str, Any]:
    return {"error": code, "message": f"said {code}", **other}


# ---- what is sent ------------------------------------------------------------------------------


def test_a_request_tells_who_asks_and_from_which_machine_and_nothing_more() -> None:
    with WireServer(reply(body=ME)) as server, remote_of(server) as remote:
        me = remote.me()
    assert (me.user, me.organization) == ("ada", "analytical")
    (asked,) = server.asked
    assert asked.headers.pop("user-agent").startswith("treadle/")
    assert asked.headers == {
        "host": server.url.removeprefix("http://"),
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "authorization": f"Bearer {TOKEN}",
        "treadle-machine": os.uname().nodename,
        "treadle-purpose": "sync",
    }


@pytest.mark.parametrize("size", [10, 5000])
def test_a_push_sends_the_lines_as_they_are_and_names_its_base(size: int) -> None:
    thread = Lines(10, size)
    base = thread.marks[1]
    with WireServer(reply(body=head_of(thread.end))) as server, remote_of(server) as remote:
        head = remote.push(thread, base)
    assert head == ThreadHead(THREAD, thread.end.seq, thread.end.hash, 7)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", f"/api/threads/{THREAD}/records")
    assert asked.headers["if-match"] == base.tag
    assert asked.headers["content-type"] == "application/x-ndjson"
    assert asked.plain == thread.writes[1]
    assert ("content-encoding" in asked.headers) is (len(asked.plain) > 1024)


def test_a_long_thread_goes_in_several_requests_each_on_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "PUSH_SIZE", 2000)
    thread = Lines(300, 300, 300, 300, 3000, 10)
    count = itertools.count()
    ends = [thread.marks[2], thread.marks[4], thread.marks[5], thread.marks[6]]

    def answer(_: Asked) -> bytes:
        return reply(body=head_of(ends[next(count)]))

    with WireServer(answer) as server, remote_of(server) as remote:
        assert remote.push(thread, Mark()).version == thread.end.seq
    assert [one.headers["if-match"] for one in server.asked] == [
        one.tag for one in [Mark(), *ends[:-1]]
    ]
    assert b"".join(one.plain for one in server.asked) == b"".join(thread.writes)


def test_a_server_that_has_more_than_it_was_sent_says_where_it_is() -> None:
    thread = Lines(10)
    more = Mark(99, "a" * 32)
    with WireServer(reply(body=head_of(more))) as server, remote_of(server) as remote:
        assert remote.push(thread, Mark()).version == 99


def test_nothing_to_push_is_no_request() -> None:
    thread = Lines(10)
    with WireServer(reply()) as server, remote_of(server) as remote:
        head = remote.push(thread, thread.end)
    assert (head.version, head.hash) == (thread.end.seq, thread.end.hash)
    assert server.asked == []


def test_a_replacement_is_the_whole_journal_in_one_request() -> None:
    thread = Lines(10, 4000, 20)
    base = Mark(5, "b" * 32)
    with WireServer(reply(body=head_of(thread.end))) as server, remote_of(server) as remote:
        assert remote.replace(thread, base).hash == thread.end.hash
    (asked,) = server.asked
    assert (asked.method, asked.headers["if-match"]) == ("PUT", base.tag)
    assert asked.plain == b"".join(thread.writes)


def test_an_output_the_server_has_is_not_sent_again() -> None:
    name = "c" * 64
    with WireServer(reply(200)) as server, remote_of(server) as remote:
        remote.put_blob(Lines(1), name)
    assert [one.method for one in server.asked] == ["HEAD"]
    head = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    with WireServer(head, reply(201)) as server, remote_of(server) as remote:
        remote.put_blob(Lines(1), name)
    assert [one.method for one in server.asked] == ["HEAD", "PUT"]
    assert server.asked[1].body == b"blob " + name.encode()


def test_an_id_that_is_none_never_becomes_a_path() -> None:
    with WireServer(reply()) as server, remote_of(server) as remote:
        for text in ("T-1/../../admin", "", f"{THREAD}?purge=true"):
            with pytest.raises(UsageError):
                remote.purge(text)
        with pytest.raises(UsageError):
            remote.get_blob(THREAD, "../x")
    assert server.asked == []


# ---- what comes --------------------------------------------------------------------------------


def stream(data: bytes, end: Mark, **headers: str) -> bytes:
    return reply(200, data, "application/x-ndjson", etag=end.tag, **headers)


def test_records_come_as_they_stand() -> None:
    thread = Lines(10, 2000)
    data = b"".join(thread.writes)
    with WireServer(stream(data, thread.end)) as server, remote_of(server) as remote:
        assert b"".join(remote.records(THREAD, Mark())) == data
    assert server.asked[0].path.endswith(f"/records?after=0&hash={'0' * 32}")


def test_no_records_are_fine_when_nothing_is_new() -> None:
    thread = Lines(10)
    with WireServer(stream(b"", thread.end)) as server, remote_of(server) as remote:
        assert list(remote.records(THREAD, thread.end)) == []


def chunked(*pieces: bytes, end: Mark, is_whole: bool = True) -> bytes:
    head = (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/x-ndjson\r\n"
        f"etag: {end.tag}\r\n\r\n"
    ).encode()
    body = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)
    return head + body + (b"0\r\n\r\n" if is_whole else b"")


def test_records_that_end_before_the_last_one_promised_are_unavailable() -> None:
    """At the end of a line too, where no bytes look cut: a server that died may end it so."""
    thread = Lines(10, 10)
    for answer in (
        stream(thread.writes[0], thread.end),
        chunked(thread.writes[0], end=thread.end),
        Cut(chunked(*thread.writes, end=thread.end, is_whole=False)),
        Cut(chunked(thread.writes[0][:20], end=thread.end, is_whole=False), is_reset=True),
    ):
        with (
            WireServer(answer) as server,
            remote_of(server) as remote,
            pytest.raises(RemoteUnavailableError),
        ):
            list(remote.records(THREAD, Mark()))


def test_the_last_record_is_known_wherever_the_pieces_are_cut() -> None:
    thread = Lines(10)
    data = thread.writes[0]
    cuts = range(len(data) - 60, len(data))
    answers = [chunked(data[:cut], data[cut:], end=thread.end) for cut in cuts]
    with WireServer(*answers) as server, remote_of(server) as remote:
        for _ in cuts:
            assert b"".join(remote.records(THREAD, Mark())) == data


def test_a_record_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RECORD_SIZE_MAX", 100_000)

    def endless(_: Asked) -> Iterator[bytes]:
        yield chunked(end=Mark(1, "a" * 32), is_whole=False)
        while True:
            yield b"8000\r\n%s\r\n" % (b"{" * 0x8000)

    with (
        WireServer(endless) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="no journal"),
    ):
        list(remote.records(THREAD, Mark()))


def test_an_output_is_taken_only_if_it_is_the_one_that_was_asked_for() -> None:
    data = b"a large output"
    name = sha256(data).hexdigest()
    answer = reply(200, data, "application/octet-stream")
    with WireServer(answer) as server, remote_of(server) as remote:
        assert remote.get_blob(THREAD, name) == data
        with pytest.raises(RemoteRefusedError, match="another output"):
            remote.get_blob(THREAD, "d" * 64)
    with WireServer(reply(404, problem("not_found"))) as server, remote_of(server) as remote:
        assert remote.get_blob(THREAD, name) is None


def test_what_is_gone_already_is_purged() -> None:
    with WireServer(reply(404, problem("not_found"))) as server, remote_of(server) as remote:
        remote.purge(THREAD)
    assert server.asked[0].path == f"/api/threads/{THREAD}?purge=true"
    with (
        WireServer(reply(403, problem("forbidden"))) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError),
    ):
        remote.purge(THREAD)


def test_changes_are_told_as_they_come() -> None:
    one, two = head_of(Mark(1, "a" * 32)), head_of(Mark(2, "b" * 32), is_deleted=True)
    import json

    events = f": hello\n\nid: 7\ndata: {json.dumps(one)}\n\n: beat\n\nid: 8\ndata: "
    body = f"{events}{json.dumps(two)}\n\n".encode()
    with WireServer(reply(200, body, "text/event-stream")) as server, remote_of(server) as remote:
        heads = list(remote.changes(6))
    assert [(head.version, head.is_deleted) for head in heads] == [(1, False), (2, True)]
    assert server.asked[0].path == "/api/changes?after=6"


# ---- refusals and failures -----------------------------------------------------------------------


@for_every_row(
    "answer, kind, code",
    [
        (reply(401, problem("unauthorized")), NotLoggedInError, None),
        (reply(401, b"<html>", "text/html"), NotLoggedInError, None),
        (reply(403, problem("forbidden")), RemoteRefusedError, "forbidden"),
        (reply(404, problem("not_found")), RemoteRefusedError, "not_found"),
        (reply(409, problem("kept_as_records")), RemoteRefusedError, "kept_as_records"),
        (reply(413, problem("too_large")), RemoteRefusedError, "too_large"),
        (reply(422, problem("is_private")), RemoteRefusedError, "is_private"),
        (reply(408, problem("timeout")), RemoteUnavailableError, None),
        (reply(429, problem("too_many_requests")), RemoteUnavailableError, None),
        (reply(500, problem("internal_error")), RemoteUnavailableError, None),
        (reply(502, b"<html>", "text/html"), RemoteUnavailableError, None),
        (reply(503, b""), RemoteUnavailableError, None),
        (reply(599, b""), RemoteUnavailableError, None),
    ],
)
def test_each_status_means_one_thing(
    answer: bytes, kind: type[TreadleError], code: str | None
) -> None:
    with WireServer(answer) as server, remote_of(server) as remote, pytest.raises(kind) as caught:
        remote.push(Lines(10), Mark())
    assert type(caught.value) is kind
    assert getattr(caught.value, "code", None) == code
    assert TOKEN not in str(caught.value) + caught.value.hint


def test_a_conflict_says_where_the_server_is() -> None:
    answer = reply(409, problem("conflict", server_version=12, server_hash="e" * 32))
    with (
        WireServer(answer) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteConflictError) as caught,
    ):
        remote.push(Lines(10), Mark())
    assert (caught.value.seq, caught.value.hash) == (12, "e" * 32)


@pytest.mark.parametrize(("text", "wait_s"), [("7", 7.0), ("0.5", 0.5), ("soon", None)])
def test_a_server_may_say_when_to_come_back(text: str, wait_s: float | None) -> None:
    answer = reply(503, problem("service_unavailable"), retry_after=text)
    with (
        WireServer(answer) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteUnavailableError) as caught,
    ):
        remote.me()
    assert caught.value.retry_after_s == wait_s


def endless_json(_: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n["
    while True:
        yield b" " * 0x8000


STRANGERS: dict[str, Answer] = {
    "a page": reply(200, b"<html>welcome</html>", "text/html"),
    "no type": reply(200, b"{}", ""),
    "another JSON object": reply(200, {"hello": "world"}),
    "a JSON list": reply(200, [1, 2]),
    "deep JSON": reply(200, b"[" * 200_000),
    "no JSON": reply(200, b"\xff{"),
    "too much": endless_json,
    "compressed": reply(200, b"x", content_encoding="gzip"),
    "a page that is missing": reply(404, b"<html>", "text/html"),
    "another error": reply(404, {"detail": "Not Found"}),
    "an unknown refusal": reply(418, b"teapot", "text/plain"),
    "no content": reply(204, b"", ""),
}


@for_every_row("answer", STRANGERS.values())
@for_every_row(
    "ask",
    [
        lambda remote: remote.me(),
        lambda remote: remote.push(Lines(10), Mark()),
        lambda remote: remote.heads(0),
        lambda remote: list(remote.records(THREAD, Mark())),
        lambda remote: list(remote.changes(0)),
    ],
)
def test_who_is_no_treadle_server_is_told_so(
    answer: Answer, ask: Callable[[HttpRemote], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "ANSWER_SIZE_MAX", 1_000_000)
    with (
        WireServer(answer) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="does not look like a Treadle server"),
    ):
        ask(remote)


@for_every_row("status", [301, 302, 303, 307, 308])
def test_nobody_is_followed_elsewhere_with_the_token(status: int) -> None:
    with WireServer(reply(body=ME)) as elsewhere:
        answer = reply(status, b"", location=f"{elsewhere.url}/api/me\x1b[31m")
        with (
            WireServer(answer) as server,
            remote_of(server) as remote,
            pytest.raises(RemoteRefusedError, match="elsewhere") as caught,
        ):
            remote.me()
    assert elsewhere.asked == []
    assert "\x1b" not in caught.value.message


@for_every_row(
    "head",
    [
        {"thread": OTHER, "version": 2, "hash": "a" * 32, "change": 1},
        {"thread": THREAD, "version": 2, "hash": "a" * 31, "change": 1},
        {"thread": THREAD, "version": -1, "hash": "a" * 32, "change": 1},
        {"thread": THREAD, "version": 1, "hash": "a" * 32, "change": 1},
        {"thread": THREAD, "version": 2, "hash": "a" * 32, "change": 1},
    ],
)
def test_an_answer_to_other_records_than_were_sent_is_no_yes(head: dict[str, Any]) -> None:
    with (
        WireServer(reply(body=head)) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="does not look like"),
    ):
        remote.push(Lines(10), Mark())


def test_heads_of_threads_that_cannot_be_are_refused() -> None:
    heads = {"heads": [head_of(Mark(1, "a" * 32), thread="T-../x")], "change": 6, "is_last": True}
    with (
        WireServer(reply(body=heads)) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="cannot be"),
    ):
        remote.heads(5)


@for_every_row(
    "answer",
    [
        Cut(),
        Cut(is_reset=True),
        Cut(b"HTTP/1.1 200 OK\r\ncontent-"),
        Cut(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"),
        Cut(b"SSH-2.0-OpenSSH_9.2\r\n"),
        Cut(b"\x15\x03\x01\x00\x02\x02\x46"),
    ],
)
def test_who_breaks_off_is_asked_again_later(answer: Cut) -> None:
    with (
        WireServer(answer) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteUnavailableError),
    ):
        remote.me()


def test_where_nobody_answers_it_is_tried_again_later() -> None:
    with WireServer(reply()) as server:
        url = server.url
    with (
        HttpRemote(Account(url, TOKEN)) as remote,
        pytest.raises(RemoteUnavailableError, match="nobody answers there"),
    ):
        remote.me()


def test_who_says_nothing_or_drips_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_transport, "ANSWER_S_BASE", 0.0)
    monkeypatch.setattr(http_transport, "BYTES_PER_S_MIN", 10**12)
    with (
        WireServer(reply(body=ME)) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteUnavailableError, match="too slowly"),
    ):
        remote.me()


def test_a_server_that_is_silent_is_given_up() -> None:
    def silent(_: Asked) -> bytes:
        return b""  # and the connection stays

    with WireServer(silent) as server:
        asking = http_transport.ServerTransport(server.url, TOKEN)
        with pytest.raises(RemoteUnavailableError, match="said nothing"):
            asking.request_status("GET", "/api/me", silence_s=0.05)
        asking.close()
