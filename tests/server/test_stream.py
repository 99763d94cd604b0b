"""Live changes: who hears of what, from where on, and how a stream ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import event

from server.people import People
from server.running import PATIENCE_S, Reply, Running, exchange, read_all, request
from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewToken, ThreadHead
from treadle.server.accounts import accounts, tokens
from treadle.server.accounts.access import AccessAttributes, DeletionState
from treadle.server.context import Principal
from treadle.server.http import services
from treadle.server.http.change_stream import ChangeListeners, ChangePage
from treadle.server.http.settings import ServerConfig
from treadle.server.refusals import Refusal
from treadle.server.threads.listener_updates import ChangeNotice, ListenerUpdate

THREAD = "T-0199aa00-0000-7000-8000-00000000000{}"


class Listener:
    """A stream that is read event by event."""

    def __init__(
        self, server: Running, token: str, path: str = "/api/changes", **more: str
    ) -> None:
        self.connection = server.connect()
        self.connection.sendall(request("GET", path, token, **more))
        self._data = b""
        assert self._until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert self._until(b"\n\n").endswith(b"retry: 2000\n\n")

    def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            piece = self.connection.recv(65536)
            if not piece:
                raise EOFError
            self._data += piece
        found, _, self._data = self._data.partition(end)
        return found + end

    def event(self) -> dict[str, Any]:
        """The next event; signs of life are passed over."""
        while b"data: " not in (text := self._until(b"\n\n")):
            assert b": still here" in text
        number, _, data = text.partition(b"id: ")[2].partition(b"\ndata: ")
        found: dict[str, Any] = json.loads(data.partition(b"\n\n")[0])
        assert found["change"] == int(number)
        return found

    def wait_for_life(self) -> None:
        """Until a sign of life: what there was to be told before it has been told."""
        assert b"data: " not in self._until(b": still here\n\n")

    def ends(self) -> bool:
        """Whether it comes to its end, and the end is a proper one."""
        try:
            while piece := self.connection.recv(65536):
                self._data += piece
        except ConnectionResetError:
            return False
        return self._data.endswith(b"0\r\n\r\n")

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def server(database_url: str) -> Iterator[Running]:
    with Running(
        database_url,
        poll_time_s=0.05,
        heartbeat_time_s=0.3,
        stream_count_max_per_user=3,
        stream_count_max=4,
        rate=0,
    ) as running:
        yield running


def put(server: Running, token: str, number: int, version: int = 1, **more: Any) -> Reply:
    """Keep a document as a thread."""
    thread_id = THREAD.format(number)
    at = "2026-11-21T08:15:00.000000Z"
    document = {
        "id": thread_id,
        "version": version,
        "created_at": at,
        "updated_at": at,
        "last_activity_at": at,
        "conversation": {"messages": []},
        "agent_state": {"kind": "waiting_for_user_input"},
        **more,
    }
    headers = {"if_match": str(version - 1)} if version > 1 else {}
    path, body = f"/api/threads/{thread_id}", json.dumps(document).encode()
    reply = server.ask("PUT", path, token, body, content_type="application/json", **headers)
    assert reply.status in (200, 201), reply.body
    return reply


def test_changes_are_heard_as_they_happen_and_in_order(server: Running, people: People) -> None:
    token = people.token("owner")
    listener = Listener(server, token)
    for version in (1, 2, 3):
        put(server, token, 1, version)
        found = listener.event()
        assert (found["thread"], found["version"]) == (THREAD.format(1), version)
    listener.close()


def test_what_another_process_writes_is_heard_too(
    server: Running, people: People, database_url: str
) -> None:
    token = people.token("owner")
    listener = Listener(server, token)
    with Running(database_url, rate=0) as other:
        put(other, token, 1)
    assert listener.event()["thread"] == THREAD.format(1)
    listener.close()


def test_a_stream_goes_on_where_the_one_before_it_ended(server: Running, people: People) -> None:
    token = people.token("owner")
    for number in (1, 2, 3):
        put(server, token, number)
    listener = Listener(server, token, "/api/changes?after=0")
    changes = [listener.event() for _ in range(3)]
    listener.close()
    assert [one["thread"] for one in changes] == [THREAD.format(n) for n in (1, 2, 3)]
    for how in ({}, {"last_event_id": str(changes[0]["change"])}):
        after = "0" if how else str(changes[0]["change"])
        again = Listener(server, token, f"/api/changes?after={after}", **how)
        assert [again.event() for _ in range(2)] == changes[1:]
        again.close()


def test_nobody_hears_of_what_he_may_not_see(server: Running, people: People) -> None:
    owner, outsider = people.token("owner"), people.token("outsider")
    mine, theirs = Listener(server, owner), Listener(server, outsider)
    put(server, owner, 1, visibility="private")
    put(server, outsider, 2, visibility="private")
    assert mine.event()["thread"] == THREAD.format(1)
    assert theirs.event()["thread"] == THREAD.format(2)
    mine.close()
    theirs.close()
    for token, number in ((owner, 1), (outsider, 2)):
        listener = Listener(server, token, "/api/changes?after=0")
        assert listener.event()["thread"] == THREAD.format(number)
        assert b"data: " not in listener._until(b"still here")
        listener.close()


def test_a_stream_says_that_it_lives(server: Running, people: People) -> None:
    listener = Listener(server, people.token("owner"))
    assert b": still here" in listener._until(b"still here\n\n")
    listener.close()


def test_a_token_that_is_revoked_hears_no_more(server: Running, people: People) -> None:
    with people.writing("owner") as context:
        made = accounts.make_own_token(context, NewToken("short"))
    listener = Listener(server, made.token)
    with people.writing("owner") as context:
        tokens.revoke_token(context, made.id)
    assert listener.ends()
    listener.close()


def test_streams_are_counted_per_user_and_together(server: Running, people: People) -> None:
    owner, member = people.token("owner"), people.token("member")
    open_ones = [Listener(server, owner) for _ in range(3)]
    assert server.ask("GET", "/api/changes", owner).status == 429
    open_ones.append(Listener(server, member))
    full = server.ask("GET", "/api/changes", member)
    assert (full.status, full.headers["retry-after"]) == (503, "5")
    open_ones.pop(0).close()
    while (reply := _begin(server, owner)) != 200:  # until the server has seen that it is closed
        assert reply == 429 or reply == 503
    for one in open_ones:
        one.close()


def _begin(server: Running, token: str) -> int:
    with server.connect() as connection:
        connection.sendall(request("GET", "/api/changes", token))
        return Reply(connection.recv(65536)).status


def test_a_server_that_stops_ends_its_streams_at_once(database_url: str, people: People) -> None:
    token = people.token("owner")
    server = Running(database_url, stop_time_s=PATIENCE_S)
    listeners = [Listener(server, token) for _ in range(5)]
    server.stop()
    assert all(one.ends() for one in listeners)
    for one in listeners:
        one.close()


def test_a_request_that_hangs_does_not_keep_a_server_from_stopping(
    database_url: str, people: People
) -> None:
    server = Running(database_url, stop_time_s=0.2)
    token = people.token("owner")
    with server.connect() as hanging:
        head = request("POST", "/api/tokens", token, b"12345", content_type="application/json")
        hanging.sendall(head[:-5])
        server.stop()
        assert read_all(hanging)[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 500")


def test_who_has_no_token_hears_nothing(server: Running) -> None:
    assert server.ask("GET", "/api/changes").status == 401
    with server.connect() as connection:
        assert exchange(connection, request("GET", "/api/changes", "trd_x")).status == 401


def test_a_listener_that_does_not_read_is_left_and_costs_no_memory(
    database_url: str, people: People
) -> None:
    token = people.token("owner")
    with Running(database_url, write_time_s=0.2, rate=0, heartbeat_time_s=0.05) as server:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", server.port))
            slow.sendall(request("GET", "/api/changes?after=0", token))
            assert slow.recv(12)
            put(server, token, 1)
        assert server.ask("GET", "/health").status == 200


def test_one_look_serves_all_who_listen(
    database_url: str, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "INDEX_GATHER_S", PATIENCE_S)  # nothing else goes on beside it
    token = people.token("owner")
    with Running(database_url, poll_time_s=3600, heartbeat_time_s=0.05, rate=0) as server:
        listeners = [Listener(server, token) for _ in range(20)]
        for one in listeners:  # who has just come reads by himself once, and then waits
            one.wait_for_life()
        put(server, token, 1)
        assert {one.event()["version"] for one in listeners} == {1}
        begun: list[object] = []
        event.listen(server.database.engine, "begin", begun.append)
        put(server, token, 1, version=2)
        assert {one.event()["version"] for one in listeners} == {2}
        assert len(begun) <= 3, "what is written, and one look"
        for one in listeners:
            one.close()


def test_what_one_may_not_see_any_more_is_told_to_its_owner_alone(
    server: Running, people: People
) -> None:
    owner, member = people.token("owner"), people.token("member")
    mine, theirs = Listener(server, owner), Listener(server, member)
    put(server, owner, 1, visibility="organization")
    assert (mine.event()["version"], theirs.event()["version"]) == (1, 1)
    put(server, owner, 1, 2, visibility="private")
    put(server, owner, 2, visibility="organization")
    assert [mine.event()["version"] for _ in range(2)] == [2, 1]
    assert theirs.event()["thread"] == THREAD.format(2)
    mine.close()
    theirs.close()


def test_support_hears_of_what_it_was_let_into(server: Running, people: People) -> None:
    owner, support = people.token("owner"), people.token("support")
    listener = Listener(server, support)
    for number in (1, 2):
        put(server, owner, number, visibility="private")
    path = f"/api/threads/{THREAD.format(2)}/support-access"
    assert server.ask("POST", path, owner).status < 300
    put(server, owner, 1, 2, visibility="private")
    put(server, owner, 2, 2, visibility="private")
    assert listener.event()["thread"] == THREAD.format(2)
    listener.close()


HEAD = ThreadHead(THREAD.format(1), 1, "0" * 32, 1)
CALLER = Principal(user_id=1, user="owner", organization_id=1, token_id=1)
PUBLIC = AccessAttributes(2, 2, "public", DeletionState.LIVE)


async def first_event(
    changes: ChangeListeners, read: Callable[[int], Awaitable[ChangePage]]
) -> bytes:
    """What a listener hears first that is no sign of life."""
    gone = asyncio.get_running_loop().create_future()
    with changes.add_listener(CALLER) as listener:
        async for text in changes.stream_events(listener, 0, read, gone):
            if b"data: " in text:
                return text
    return b""


async def nothing_yet(after: int) -> ChangePage:
    return ChangePage((), after)


def test_a_look_that_fails_is_not_the_last_one() -> None:
    failures = [ValueError("a fault"), Refusal(ErrorCode.UNAVAILABLE, "away"), None]

    async def look(after: int | None, token_ids: Collection[int]) -> ListenerUpdate:
        if (failure := failures.pop(0) if failures else None) is not None:
            raise failure
        told = () if after is None else (ChangeNotice(HEAD, HEAD.thread, PUBLIC),)
        return ListenerUpdate(len(told), told, 0, frozenset(token_ids), {1: CALLER})

    changes = ChangeListeners(ServerConfig(poll_time_s=0.01), look)
    assert b"id: 1" in asyncio.run(first_event(changes, nothing_yet))


def test_who_is_behind_what_is_kept_reads_it_from_the_database() -> None:
    asked: list[int] = []

    async def look(after: int | None, token_ids: Collection[int]) -> ListenerUpdate:
        floor = 0 if after is None else 5000  # more was written than one look brings
        told = (
            (ChangeNotice(structs.replace(HEAD, change=5001), HEAD.thread, PUBLIC),)
            if floor
            else ()
        )
        return ListenerUpdate(floor + len(told), told, floor, frozenset(token_ids), {1: CALLER})

    async def read(after: int) -> ChangePage:
        asked.append(after)
        return ChangePage((HEAD,) if len(asked) == 2 else (), after)

    changes = ChangeListeners(ServerConfig(poll_time_s=0.01), look)
    assert b"id: 1" in asyncio.run(first_event(changes, read))
    assert asked == [0, 0]
