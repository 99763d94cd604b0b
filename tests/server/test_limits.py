"""Limits, against real sockets: what is too slow, too large, too much or too many."""

from __future__ import annotations

import gzip
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.besieging import besieged
from server.databases import Templates
from server.people import populate
from server.running import (
    PATIENCE_S,
    Reply,
    Running,
    chunked,
    exchange,
    read_all,
    request,
)
from server.serving import Served
from treadle.server.accounts.tokens import TokenKind, generate_token
from treadle.server.data.database import Database
from treadle.server.http.limits import BodyMemory, RateLimiter, find_client_address
from treadle.server.refusals import Refusal

MIB = 1024 * 1024
HALF = b"GET /health HTTP/1.1\r\nHost: x\r\nX: "
TOKENS = "/api/tokens"
NEW_TOKEN = b'{"name": "mine"}'


@pytest.fixture(scope="module")
def place(templates: Templates, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A database of this module, and a token for it."""
    url = templates.copy("sqlite", tmp_path_factory.mktemp("limits"))
    database = Database(url)
    token = populate(database).token("owner")
    database.dispose()
    return url, token


@pytest.fixture(scope="module")
def hasty(place: tuple[str, str]) -> Iterator[Running]:
    """A server whose patience is a fraction of a second.

    On a busy machine that may be over before a request is sent: see `Running.begun`.
    """
    with Running(
        place[0],
        header_time_s=0.4,
        idle_time_s=0.4,
        body_time_s=0.4,
        body_rate_min=100,
        write_time_s=0.4,
        linger_time_s=0.4,
        rate=0,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def server(place: tuple[str, str]) -> Iterator[Running]:
    """A server that has time, and takes no large bodies."""
    with Running(place[0], body_size_max=MIB, rate=0) as running:
        yield running


@pytest.fixture
def token(place: tuple[str, str]) -> str:
    return place[1]


def test_connections_that_are_half_open_are_closed_and_others_answered(hasty: Running) -> None:
    with hasty.held():
        waiting = [hasty.connect() for _ in range(40)]
        for one in waiting:
            one.sendall(HALF)
        whole = hasty.connect()
        whole.sendall(request("GET", "/health"))
    assert Reply(read_all(whole)).status == 200
    whole.close()
    for one in waiting:
        assert Reply(read_all(one)).status == 408
        one.close()


def test_a_connection_that_says_nothing_is_closed_without_a_word(hasty: Running) -> None:
    with hasty.connect() as silent:
        assert read_all(silent) == b""


def test_headers_that_drip_do_not_buy_time(hasty: Running) -> None:
    with hasty.begun(HALF) as dripping:
        poll = select.poll()
        poll.register(dripping, select.POLLIN | select.POLLHUP)
        for _ in range(1000):
            try:
                dripping.sendall(b"x")
            except OSError:
                break
            if poll.poll(20):
                break
        assert Reply(read_all(dripping)).status == 408


def test_a_connection_without_a_next_request_is_closed(hasty: Running) -> None:
    with hasty.begun(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as idle:
        assert Reply(read_all(idle)).status == 200


def test_a_second_request_that_stays_half_open_is_closed(hasty: Running) -> None:
    with hasty.begun(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + HALF) as reused:
        found = read_all(reused)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in found


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("one long", b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"),
        ("no end", b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 10_000_000),
        ("many", b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 101 + b"\r\n"),
        ("very many", b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 100_000 + b"\r\n"),
        ("long name", b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X" * 70_000 + b": x\r\n\r\n"),
        ("address", b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("long address", b"GET /" + b"x" * 10_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    ],
)
def test_headers_that_are_too_large_are_refused(server: Running, name: str, data: bytes) -> None:
    reply = server.send(data)
    assert reply.status == 431, name
    assert reply.json["error"] == "headers_too_large"


def test_a_body_that_drips_is_refused_and_the_connection_ends(hasty: Running, token: str) -> None:
    data = request("POST", TOKENS, token, NEW_TOKEN, content_type="application/json")
    with hasty.begun(data[:-5]) as dripping:
        reply = Reply(read_all(dripping))
    assert reply.status == 408
    assert reply.json["error"] == "timeout"


def test_a_large_body_that_comes_at_an_honest_pace_may_take_longer(
    hasty: Running, token: str
) -> None:
    body = NEW_TOKEN[:-1] + b" " * 20_000 + b"}"
    data = request("POST", TOKENS, token, body, content_type="application/json")
    with hasty.begun(data[:-5]) as slow:
        poll = select.poll()
        poll.register(slow, select.POLLIN)
        assert poll.poll(800) == []
        assert exchange(slow, data[-5:]).status == 201


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(
    server: Running, token: str
) -> None:
    with server.connect() as sending:
        head = request("POST", TOKENS, token, content_type="application/json")
        sending.sendall(head[:-2] + b"content-length: 2000000\r\nexpect: 100-continue\r\n\r\n")
        reply = Reply(read_all(sending))
    assert reply.status == 413
    assert reply.json["error"] == "too_large"


def test_a_body_in_pieces_is_counted_as_it_comes(server: Running, token: str) -> None:
    for count, status in ((15, 400), (17, 413)):
        body = chunked(*[b" " * 65536] * count)
        reply = server.ask(
            "POST",
            TOKENS,
            token,
            body,
            content_type="application/json",
            transfer_encoding="chunked",
        )
        assert reply.status == status


def test_the_sender_of_too_much_can_read_why_it_was_refused(server: Running, token: str) -> None:
    body = b" " * (8 * MIB)
    for _ in range(5):
        reply = server.ask("POST", TOKENS, token, body, content_type="application/json")
        assert reply.status == 413


def test_what_comes_after_a_body_in_pieces_is_bounded_too(server: Running, token: str) -> None:
    body = b"1\r\nx\r\n0\r\nX: " + b"x" * 10_000_000
    reply = server.ask(
        "POST", TOKENS, token, body, content_type="application/json", transfer_encoding="chunked"
    )
    assert reply.status in (0, 400)


def test_headers_after_a_body_are_nobodys_word(server: Running, token: str) -> None:
    body = b"10\r\n" + NEW_TOKEN + f"\r\n0\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    reply = server.ask(
        "POST", TOKENS, body=body, content_type="application/json", transfer_encoding="chunked"
    )
    assert reply.status == 401


@pytest.mark.parametrize(
    ("packed", "status"),
    [
        (gzip.compress(NEW_TOKEN), 201),
        (gzip.compress(b" " * 300 * MIB), 413),
        (gzip.compress(gzip.compress(b" " * 300 * MIB)), 400),
        (gzip.compress(NEW_TOKEN)[:-9], 400),
        (gzip.compress(NEW_TOKEN) + b"x", 400),
        (gzip.compress(NEW_TOKEN) + gzip.compress(b" "), 400),
        (b"no gzip", 400),
        (b"", 400),
    ],
    ids=["good", "bomb", "packed-twice", "cut", "more-behind", "two", "none", "empty"],
)
def test_packed_bodies_are_unpacked_within_limits(
    server: Running, token: str, packed: bytes, status: int
) -> None:
    reply = server.ask(
        "POST", TOKENS, token, packed, content_type="application/json", content_encoding="gzip"
    )
    assert reply.status == status


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "x"])
def test_bodies_that_are_packed_otherwise_are_refused(
    server: Running, token: str, encoding: str
) -> None:
    reply = server.ask(
        "POST", TOKENS, token, b"x", content_type="application/json", content_encoding=encoding
    )
    assert reply.status == 415
    assert reply.headers["accept-encoding"] == "gzip"


def test_a_reader_that_does_not_read_is_left(hasty: Running) -> None:
    with hasty.begun(b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200) as slow:
        assert select.select([slow], [], [], PATIENCE_S)[0]
        end = monotonic() + PATIENCE_S
        while hasty.connection_count:
            assert monotonic() < end
            select.select([], [], [], 0.02)
        # What then comes is what was under way, and the end.
        assert 0 < read_all(slow).count(b"HTTP/1.1 200") < 200


def test_a_refused_request_ends_its_connection_when_its_body_is_still_to_come(
    server: Running,
) -> None:
    with server.connect() as sending:
        sending.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        assert Reply(read_all(sending)).status == 404


def test_new_connections_make_those_that_wait_give_way(place: tuple[str, str]) -> None:
    with Running(place[0], connection_count_max=5, rate=0) as server:
        waiting = [server.connect() for _ in range(5)]
        for one in waiting:
            one.sendall(HALF)
        assert [server.ask("GET", "/health").status for _ in range(5)] == [200] * 5
        assert read_all(waiting[0]) == b""
        for one in waiting:
            one.close()


def test_connections_that_are_all_at_work_let_no_more_in(place: tuple[str, str]) -> None:
    url, token = place
    with Running(url, connection_count_max=3, rate=0) as server:
        listening = [server.connect() for _ in range(3)]
        for one in listening:
            one.sendall(request("GET", "/api/changes", token))
            assert one.recv(65536)
        reply = server.ask("GET", "/health")
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
        for one in listening:
            one.close()


def test_too_many_requests_are_told_when_to_come_back(place: tuple[str, str]) -> None:
    url, token = place
    with Running(url, rate=0.001, burst=3) as server:
        found = [server.ask("GET", "/api/me", token) for _ in range(8)]
        # The first counts for the address; then the token has a bucket of its own.
        assert [one.status for one in found] == [200] * 4 + [429] * 4
        assert int(found[-1].headers["retry-after"]) >= 1
        assert [server.ask("GET", "/api/me", f"x{n}").status for n in range(3)] == [401, 401, 429]
        assert server.ask("GET", "/health").status == 200


@given(
    steps=st.lists(st.floats(0, 3), max_size=60),
    rate=st.floats(0.1, 20),
    burst=st.integers(1, 20),
)
def test_no_caller_gets_more_than_its_burst_and_its_rate(
    steps: list[float], rate: float, burst: int
) -> None:
    now = 0.0
    rates = RateLimiter(rate, burst, lambda: now)
    taken = 0
    for step in steps:
        now += step
        with suppress(Refusal):
            rates.count_request("address")
            taken += 1
        assert taken <= burst + rate * now + 1e-6


def test_tokens_that_nobody_has_proved_share_the_bucket_of_their_address() -> None:
    rates = RateLimiter(1, 3, lambda: 0.0)
    assert {rates.count_request("here", f"token{n}") for n in range(3)} == {"here"}
    with pytest.raises(Refusal):
        rates.count_request("here", "token9")
    rates.confirm_token("token9", 7)
    assert rates.count_request("here", "token9") == "user 7"
    rates.forget_token("token9")
    with pytest.raises(Refusal):
        rates.count_request("here", "token9")


def test_all_tokens_of_a_user_share_one_bucket() -> None:
    rates = RateLimiter(1, 3, lambda: 0.0)
    for number in range(3):
        rates.confirm_token(f"token{number}", 7)
        assert rates.count_request("here", f"token{number}") == "user 7"
    rates.confirm_token("token3", 7)
    with pytest.raises(Refusal):
        rates.count_request("here", "token3")


def test_one_user_fills_a_part_of_the_room_for_bodies_and_no_more() -> None:
    room = BodyMemory(10, 4)
    with (
        room.open_reservation(1) as first,
        room.open_reservation(1) as second,
        room.open_reservation(2) as other,
    ):
        first.add(3)
        second.add(1)
        with pytest.raises(Refusal):
            second.add(1)
        other.add(4)
        assert room.free == 2
    assert room.free == 10
    with room.open_reservation(1) as again:
        again.add(4)


@pytest.mark.parametrize(
    "bearer", ["nonsense", generate_token(TokenKind.ACCESS)], ids=["nonsense", "well-formed"]
)
def test_no_body_is_read_for_a_token_that_is_none(server: Running, bearer: str) -> None:
    with server.connect() as connection:
        headers = {"content_type": "application/json", "content_length": str(MIB)}
        connection.sendall(request("POST", TOKENS, bearer, **headers))
        reply = Reply(read_all(connection))
    assert (reply.status, reply.headers["connection"]) == (401, "close")


def test_an_address_is_believed_of_a_proxy_alone() -> None:
    told = {"x-forwarded-for": "1.1.1.1, 2.2.2.2"}
    assert find_client_address(("9.9.9.9", 1), told, is_behind_proxy=False) == "9.9.9.9"
    assert find_client_address(("9.9.9.9", 1), told, is_behind_proxy=True) == "2.2.2.2"


@pytest.mark.torture
def test_a_thousand_half_open_connections_keep_nobody_waiting(
    place: tuple[str, str], tmp_path: Path
) -> None:
    url, token = place
    served = Served(url, tmp_path, "--rate", "0")
    try:
        served.start()
        found = besieged(served.port, token, 1000)
    finally:
        served.end()
    assert found.closed_count == 1000
    assert found.dripped == 408
    assert len(found.took_s) >= 100
    # On a machine that is busy with other things, no more than those make of it anyway.
    assert found.p99_s <= max(0.2, 3 * found.quiet_p99_s)


def memory_size(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def test_two_hundred_megabytes_cost_the_server_no_memory(
    place: tuple[str, str], tmp_path: Path
) -> None:
    url, token = place
    command = [sys.executable, "-m", "treadle", "serve", "--port", "0", "--database", url]
    environment = {**os.environ, "TREADLE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith("listening on "))
            server = Running.__new__(Running)
            server.port = int(line.rpartition(":")[2])
            for _ in range(3):  # what it needs for any request is there
                body = b" " * 4 * MIB
                headers = {"content_type": "application/json"}
                assert server.ask("POST", TOKENS, token, body, **headers).status == 400
            before = memory_size(process.pid)
            for how in ("transfer-encoding: chunked", "content-length: 209715200"):
                sent_size, status = send_too_much(server, token, how)
                assert status == 413
                assert sent_size < 16 * MIB * 1.1 + 8 * MIB  # what the kernel holds on both sides
            # The largest body, twice: where it cannot grow in its place it is copied.
            assert memory_size(process.pid) - before <= 2 * 16 * MIB
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def send_too_much(server: Running, token: str, how: str) -> tuple[int, int]:
    """Send up to 200 MiB; how much was taken, and the status of the answer."""
    piece = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
    head = request("POST", TOKENS, token, content_type="application/json")[:-2]
    sent_size = 0
    with server.connect() as connection:
        connection.sendall(head + how.encode() + b"\r\n\r\n")
        with suppress(OSError):
            while sent_size < 200 * MIB:
                connection.sendall(piece)
                sent_size += MIB
        return sent_size, Reply(read_all(connection)).status
