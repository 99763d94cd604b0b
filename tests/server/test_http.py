"""What is sent over HTTP, well formed or not, and what comes back, the same on both databases."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from server.databases import Templates
from server.people import People
from server.running import Reply, Running, chunked, request
from treadle.server.data.database import Database
from treadle.server.http import logs
from treadle.server.http.app import ENDPOINTS
from treadle.server.http.endpoints import Endpoint

THREAD: Final = "T-0199aa00-0000-7000-8000-000000000001"
RECORDS: Final = f"/api/threads/{THREAD}/records"
DOCUMENT: Final = f"/api/threads/{THREAD}"
NEW: Final = f'"0-{"0" * 32}"'
LINES: Final = {"content_type": "application/x-ndjson", "if_match": NEW}
JSON: Final = {"content_type": "application/json"}
TOKENS: Final = "/api/tokens"


@pytest.fixture
def token(people: People) -> str:
    return people.token("owner")


@pytest.fixture
def server(database_url: str) -> Iterator[Running]:
    with Running(database_url, idle_time_s=0.3) as running:
        yield running


def raw(first: str, *lines: str, body: bytes = b"") -> bytes:
    """A request as it is written down, with a host."""
    return "\r\n".join([first, "Host: x", *lines, "", ""]).encode("latin-1") + body


DEEP: Final = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
DIGITS: Final = b"1" * 5000

Odd = dict[str, tuple[int, bytes]]


def post(token: str, body: bytes, **more: str) -> bytes:
    """A new token, as somebody might ask for it."""
    return request("POST", TOKENS, token, body, **{**JSON, **more})


def put(token: str, body: bytes, **more: str) -> bytes:
    """A document, as somebody might send it."""
    return request("PUT", DOCUMENT, token, body, **{**JSON, **more})


def push(token: str, body: bytes, **more: str) -> bytes:
    """Records, as somebody might send them."""
    return request("POST", RECORDS, token, body, **{**LINES, **more})


def get(token: str, path: str, **more: str) -> bytes:
    """A question, as somebody might ask it."""
    return request("GET", path, token, **more)


def odd_framing(token: str) -> Odd:
    """Odd where a request ends, and what it is, and the status that each deserves."""
    key = f"Authorization: Bearer {token}"
    kind = "Content-Type: application/json"
    return {
        "two ends: length and pieces": (
            400,
            raw("POST /api/tokens HTTP/1.1", key, kind, "Content-Length: 4",
                "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        ),
        "pieces and length": (
            400,
            raw("POST /api/tokens HTTP/1.1", key, kind, "Transfer-Encoding: chunked",
                "Content-Length: 4", body=b"0\r\n\r\n"),
        ),
        "two lengths": (
            400,
            raw("POST /api/tokens HTTP/1.1", key, kind, "Content-Length: 4",
                "Content-Length: 5", body=b"{}  "),
        ),
        "the same length twice": (
            400,
            raw("POST /api/tokens HTTP/1.1", key, kind, "Content-Length: 4",
                "Content-Length: 4", body=b"{}  "),
        ),
        "negative length": (400, raw("POST /api/tokens HTTP/1.1", key, "Content-Length: -1")),
        "length that is no number": (400, raw("POST /x HTTP/1.1", key, "Content-Length: x")),
        "length of many digits": (
            400, raw("POST /x HTTP/1.1", key, "Content-Length: " + "9" * 40)
        ),
        "length with a sign": (400, raw("POST /x HTTP/1.1", key, "Content-Length: +4", body=b"{}")),
        "unknown transfer encoding": (
            400, raw("POST /api/tokens HTTP/1.1", key, kind, "Transfer-Encoding: cow", body=b"x")
        ),
        "pieces without a size": (
            400,
            raw("POST /api/tokens HTTP/1.1", key, kind, "Transfer-Encoding: chunked",
                body=b"x\r\nabc\r\n0\r\n\r\n"),
        ),
        "no host": (400, f"GET /api/me HTTP/1.1\r\n{key}\r\n\r\n".encode()),
        "two hosts": (400, raw("GET /api/me HTTP/1.1", "Host: y", key)),
        "space before the colon": (400, raw("GET /api/me HTTP/1.1", "X : y", key)),
        "folded header": (400, raw("GET /api/me HTTP/1.1", "X: y\r\n z", key)),
        "NUL in a header": (400, raw("GET /api/me HTTP/1.1", "X: a\0b", key)),
        "header without a colon": (400, raw("GET /api/me HTTP/1.1", "nonsense", key)),
        "no version": (400, b"GET /api/me\r\n\r\n"),
        "version 2": (400, raw("GET /api/me HTTP/2.0", key)),
        "no method": (400, raw("/api/me HTTP/1.1", key)),
        "made up method": (400, raw("BREW /api/me HTTP/1.1", key)),
        "not HTTP": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        "100,000 headers": (431, raw("GET /api/me HTTP/1.1", *["X: y"] * 100_000, key)),
        "10 MB of address": (431, raw("GET /" + "x" * 10_000_000 + " HTTP/1.1", key)),
        "10 MB of header": (431, raw("GET /api/me HTTP/1.1", "X: " + "y" * 10_000_000, key)),
        "absolute address": (404, raw("GET http://other/nowhere HTTP/1.1", key)),
        "asterisk": (404, raw("GET * HTTP/1.1", key)),
        "a connect": (400, raw("CONNECT x:443 HTTP/1.1", key)),
        "a trace": (405, raw("TRACE /api/me HTTP/1.1", key, "Connection: close")),
    }  # fmt: skip


def odd_addresses(token: str) -> Odd:
    """Odd addresses and headers, and the status that each deserves."""
    key = f"Authorization: Bearer {token}"
    return {
        "two tokens": (400, raw("GET /api/me HTTP/1.1", key, key, "Connection: close")),
        "not a bearer": (401, get(token, "/api/me").replace(b"Bearer", b"Basic")),
        "bearer of nothing": (401, raw("GET /api/me HTTP/1.1", "Authorization: Bearer",
                                       "Connection: close")),
        "token with a letter more": (401, request("GET", "/api/me", token + "x")),
        "bad UTF-8 in the query": (400, get(token, "/api/threads?owner=%ff%fe")),
        "NUL in the query": (400, get(token, "/api/threads?owner=a%00b")),
        "surrogate in the query": (400, get(token, "/api/threads?owner=%ed%a0%80")),
        "unknown name in the query": (400, get(token, "/api/threads?nonsense=1")),
        "name twice in the query": (400, get(token, "/api/threads?limit=1&limit=2")),
        "limit of zero": (400, get(token, "/api/threads?limit=0")),
        "limit of 2**63": (400, get(token, f"/api/threads?limit={2**63}")),
        "limit of 5,000 digits": (400, get(token, f"/api/threads?limit={'1' * 5000}")),
        "limit that is no number": (400, get(token, "/api/threads?limit=NaN")),
        "offset below zero": (400, get(token, "/api/threads?offset=-1")),
        "version of 2**64": (400, get(token, f"{DOCUMENT}?version={2**64}")),
        "search for nothing": (400, get(token, "/api/threads/search?q=")),
        "search for spaces": (400, get(token, "/api/threads/search?q=%20")),
        "no search": (400, get(token, "/api/threads/search")),
        "NUL in a path": (404, get(token, "/api/threads/T-%00")),
        "slash in a path": (404, get(token, "/api/threads/..%2f..%2fetc%2fpasswd")),
        "id in capitals": (
            404, get(token, DOCUMENT.upper().replace("/API/THREADS", "/api/threads"))
        ),
        "bad UTF-8 in a path": (404, get(token, "/api/threads/%ff")),
        "last event that is none": (400, get(token, "/api/changes", last_event_id="x")),
        "last event of 2**64": (400, get(token, "/api/changes", last_event_id=str(2**64))),
    }  # fmt: skip


def odd_bodies(token: str) -> Odd:
    """Odd bodies, and the status that each deserves."""
    return {
        "no type": (415, request("POST", TOKENS, token, b"{}")),
        "wrong type": (415, post(token, b"{}", content_type="text/plain")),
        "wrong characters": (
            415, post(token, b"{}", content_type="application/json; charset=utf-16")
        ),
        "wrong type of records": (415, push(token, b"{}", content_type="application/json")),
        "packed with br": (415, post(token, b"{}", content_encoding="br")),
        "bomb": (413, push(token, gzip.compress(b" " * 50_000_000), content_encoding="gzip")),
        "gzip that is none": (400, push(token, b"x", content_encoding="gzip")),
        "no body": (400, post(token, b"")),
        "not JSON": (400, post(token, b"{")),
        "a list": (400, post(token, b"[]")),
        "bad UTF-8": (400, post(token, b'{"name": "\xff"}')),
        "lone surrogate": (400, post(token, b'{"name": "\\ud800"}')),
        "NUL": (400, post(token, b'{"name": "\\u0000"}')),
        "raw NUL": (400, post(token, b'{"name": "\0"}')),
        "NaN": (400, post(token, b'{"name": NaN}')),
        "a name twice": (400, post(token, b'{"name": "a", "name": "b"}')),
        "a name too many": (400, post(token, b'{"name": "a", "is_admin": true}')),
        "byte order mark": (400, post(token, b'\xef\xbb\xbf{"name": "a"}')),
        "time of no zone": (
            400, post(token, b'{"name": "a", "expires_at": "2099-01-01T00:00:00"}')
        ),
        "time that is over": (
            400, post(token, b'{"name": "a", "expires_at": "1999-01-01T00:00:00Z"}')
        ),
        "depth of 100,000": (400, post(token, DEEP)),
    }  # fmt: skip


def odd_threads(token: str) -> Odd:
    """Odd documents, records and outputs, and the status that each deserves."""
    return {
        "document that is none": (400, put(token, b"{}")),
        "document: depth of 100,000": (400, put(token, DEEP)),
        "document: 5,000 digits": (400, put(token, b'{"version": ' + DIGITS + b"}")),
        "document: 2**64": (400, put(token, b'{"version": %d}' % 2**64)),
        "document: NaN": (400, put(token, b'{"version": NaN}')),
        "document: surrogate": (400, put(token, b'{"id": "\\udfff"}')),
        "document: NUL": (400, put(token, b'{"id": "\0"}')),
        "document: a name twice": (400, put(token, b'{"id": "a", "id": "b"}')),
        "push: no If-Match": (
            428, request("POST", RECORDS, token, b"{}", content_type=LINES["content_type"])
        ),
        "push: If-Match that is none": (400, push(token, b"{}", if_match="nonsense")),
        "push: If-Match of a number": (400, push(token, b"{}", if_match="12")),
        "push: If-Match of 2**63": (400, push(token, b"{}", if_match=f'"{2**63}-{"0" * 32}"')),
        "push: any If-Match": (400, push(token, b"{}", if_match="*")),
        "push: nothing": (400, push(token, b"")),
        "push: no records": (422, push(token, b"{}\n")),
        "push: no end": (400, push(token, b"{}")),
        "push: NUL": (422, push(token, b"\0\n")),
        "push: bad UTF-8": (422, push(token, b"\xff\n")),
        "push: depth": (422, push(token, DEEP + b"\n")),
        "push: onto nothing": (
            422, push(token, b"{}\n", if_match=f'"3-{"a" * 32}"')
        ),
        "pull: hash that is none": (400, get(token, f"{RECORDS}?after=1&hash=x")),
        "blob that is another one": (
            404, request("PUT", f"{DOCUMENT}/blobs/{'a' * 64}", token, b"x",
                         content_type="application/octet-stream")
        ),
        "blob of a name that is none": (404, get(token, f"{DOCUMENT}/blobs/x")),
    }  # fmt: skip


def odd_requests(token: str) -> Odd:
    """Requests that are odd, and the status that each deserves."""
    found = (odd_framing, odd_addresses, odd_bodies, odd_threads)
    return {name: one for odd in found for name, one in odd(token).items()}


def test_each_odd_request_is_refused_as_it_deserves(server: Running, token: str) -> None:
    wanted = odd_requests(token)
    assert len(wanted) >= 60
    found = {name: server.send(data) for name, (_, data) in wanted.items()}
    assert {name: one.status for name, one in found.items()} == {
        name: status for name, (status, _) in wanted.items()
    }
    for name, one in found.items():
        if not one.raw.startswith(b"HTTP/1.1 204"):
            assert set(one.json) >= {"error", "message"}, name


def test_what_is_not_there_and_what_may_not_be_seen_are_answered_alike(
    server: Running, token: str
) -> None:
    paths = ("/nowhere", DOCUMENT, RECORDS, f"{DOCUMENT}/share", "/api/threads/x", "/share/x")
    bodies = {server.ask("GET", path, token).body for path in paths}
    assert len(bodies) == 1
    assert json.loads(bodies.pop())["error"] == "not_found"


def filled(endpoint: Endpoint) -> str:
    """A path of an endpoint at which there is nothing."""
    values = {"thread_id": THREAD, "sha256": "a" * 64, "token": "x", "name": "no"}
    values |= dict.fromkeys(
        ("token_id", "invitation_id", "identity_id", "webhook_id", "hold_id"), "9"
    )
    values["request_id"] = "r" * 16
    return endpoint.path.format(**values)


def test_each_endpoint_wants_a_token_unless_it_is_open(server: Running) -> None:
    for endpoint in ENDPOINTS:
        for token in ("", "trd_" + "x" * 49):
            reply = server.ask(endpoint.method, filled(endpoint), token, **_about(endpoint))
            if endpoint.is_open and not token:
                assert reply.status in (200, 400, 401, 404), endpoint.name
            elif not endpoint.is_open:
                assert reply.status == 401, endpoint.name
                assert reply.headers["www-authenticate"] == "Bearer"


def _about(endpoint: Endpoint) -> dict[str, str]:
    body = {"content_type": endpoint.body_media} if endpoint.body_media else {}
    return {**body, "if_match": NEW}


def test_each_answer_is_for_who_asked_and_for_nobody_else(server: Running, token: str) -> None:
    for endpoint in ENDPOINTS:
        if endpoint.is_stream:
            continue
        headers = server.ask(endpoint.method, filled(endpoint), token, **_about(endpoint)).headers
        assert headers["cache-control"] == "no-store", endpoint.name
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "noindex" in headers["x-robots-tag"]
        assert "access-control-allow-origin" not in headers
        assert len(headers["x-request-id"]) == 16


def test_each_path_tells_what_can_be_done_there(server: Running, token: str) -> None:
    paths = {filled(one) for one in ENDPOINTS}
    for path in paths:
        allowed = {one.method for one in ENDPOINTS if filled(one) == path}
        reply = server.ask("PROPFIND", path, token)
        assert reply.status == 405
        told = {*reply.headers["allow"].split(", ")}
        assert told == allowed | {"OPTIONS"} | ({"HEAD"} if "GET" in allowed else set())
        assert server.ask("OPTIONS", path).headers["allow"] == reply.headers["allow"]


def test_a_head_has_the_headers_of_a_get_and_no_body(server: Running, token: str) -> None:
    for path in ("/health", "/api/me", "/api/threads", DOCUMENT):
        one, two = server.ask("HEAD", path, token), server.ask("GET", path, token)
        assert (one.status, one.body) == (two.status, b"")
        assert one.headers["content-length"] == two.headers["content-length"]
    stream = server.ask("HEAD", "/api/changes", token)
    assert (stream.status, stream.body) == (200, b"")
    assert stream.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("path", [TOKENS, "/api/threads", "/nowhere"])
def test_who_is_refused_before_his_body_is_read_is_told_that_the_connection_ends(
    server: Running, path: str
) -> None:
    keeping = request("POST", path, body=b"{}", **JSON).replace(b"connection: close\r\n", b"")
    reply = server.send(keeping)
    assert reply.status in (401, 404, 405)
    assert reply.headers["connection"] == "close"


def test_a_connection_serves_several_requests_one_after_another(
    server: Running, token: str
) -> None:
    first = request("GET", "/api/me", token).replace(b"connection: close\r\n", b"")
    body = chunked(b'{"name": ', b'"x"}')
    second = request("POST", TOKENS, token, body, **JSON, transfer_encoding="chunked")
    found = server.send(first + first + second).raw
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert found.count(b"HTTP/1.1 201 Created") == 1


def test_numbers_are_for_admins_and_for_this_machine(people: People, database_url: str) -> None:
    owner, admin = people.token("owner"), people.token("admin")
    with Running(database_url, is_behind_proxy=True) as server:
        assert server.ask("GET", "/metrics").status == 404
        assert server.ask("GET", "/metrics", owner).status == 404
        reply = server.ask("GET", "/metrics", admin)
        assert reply.status == 200
        assert b'treadle_requests_total{method="GET",route="/metrics",status="404"} 2.0' in (
            reply.body
        )
    with Running(database_url) as server:
        assert server.ask("GET", "/metrics").status == 200
        for name in ("x_forwarded_for", "x_forwarded_host", "x_real_ip", "via", "forwarded"):
            assert server.ask("GET", "/metrics", **{name: "1.1.1.1"}).status == 404, name
        for host, status in ((b"127.0.0.1:8080", 200), (b"[::1]:8080", 200), (b"team.org", 404)):
            asked = request("GET", "/metrics").replace(b"localhost", host)
            assert server.send(asked).status == status
    with Running(database_url, is_behind_proxy=True, has_public_metrics=True) as server:
        assert server.ask("GET", "/metrics").status == 200


def test_a_log_has_no_tokens_titles_or_queries(
    server: Running, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "treadle.server")
    canary = "canary" * 4
    server.ask("GET", f"/api/threads?owner={canary}", token)
    server.ask("GET", f"/share/{canary}")
    server.ask("GET", f"/{canary}", token)
    server.ask("POST", TOKENS, token, f'{{"name": "{canary}"}}'.encode(), **JSON)
    server.ask("POST", TOKENS, token, canary.encode(), **JSON)
    lines = [logs.JsonLogFormatter().format(record) for record in caplog.records]
    requests = [json.loads(line) for line in lines if '"event":"request"' in line]
    assert [one["route"] for one in requests] == [
        "/api/threads", "/share/{token}", "-", TOKENS, TOKENS
    ]  # fmt: skip
    assert [one["status"] for one in requests] == [200, 404, 404, 201, 400]
    assert all(one["duration_ms"] > 0 and len(one["request_id"]) == 16 for one in requests)
    assert not any(canary in line or token in line for line in lines)


def test_a_fault_of_the_server_tells_its_number_and_nothing_else(
    people: People, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "treadle.server")
    token = people.token("owner")
    with Running(database_url) as server:
        server.app.services.rate_limiter = None  # type: ignore[assignment]
        reply = server.ask("GET", "/api/me", token)
        assert reply.status == 500
        assert reply.json["error"] == "internal_error"
        assert reply.headers["x-request-id"] in reply.json["hint"]
        assert b"NoneType" not in reply.body
    lines = [logs.JsonLogFormatter().format(record) for record in caplog.records]
    (fault,) = (json.loads(line) for line in lines if '"event":"fault"' in line)
    assert fault["exception"] == "AttributeError"
    assert any(place.startswith("treadle.server.") for place in fault["at"])
    assert "NoneType" not in json.dumps(fault)


def test_a_database_that_is_away_is_said_and_comes_back(people: People, database_url: str) -> None:
    token = people.token("owner")
    with Running(database_url) as server:
        good = server.database.engine
        server.database.engine = Running.__new__(Running)  # type: ignore[assignment]
        assert server.ask("GET", "/api/me", token).status == 500
        server.database.engine = good
        assert server.ask("GET", "/api/me", token).status == 200
        server.app.stop()
        ready = server.ask("GET", "/ready")
        assert (ready.status, ready.json["components"]["server"]) == (503, "stopping")
        assert server.ask("GET", "/health").status == 200


def test_a_reply_is_taken_apart_as_it_was_sent() -> None:
    reply = Reply(b"HTTP/1.1 404 Not Found\r\nX-A: b\r\n\r\n{}")
    assert (reply.status, reply.headers, reply.json) == (404, {"x-a": "b"}, {})


def test_a_database_that_does_not_answer_is_said_in_time(templates: Templates) -> None:
    url = templates.copy("postgresql", Path())
    locking = Database(url)
    with Running(url, health_time_s=0.2) as server:
        with locking.write() as db:
            db.exec_driver_sql("LOCK TABLE changes IN ACCESS EXCLUSIVE MODE")
            for path in ("/health", "/ready"):
                reply = server.ask("GET", path)
                assert (reply.status, reply.json["components"]["database"]) == (
                    503,
                    "does not answer",
                )
        while (status := server.ask("GET", "/health").status) != 200:
            assert status == 503  # it answers again, on a busy machine not at once in time
    locking.dispose()
    templates.remove(url)
