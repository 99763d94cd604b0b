"""The table of access over HTTP: every verb's requests, by everybody, on a real server."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest
from msgspec import Struct, json
from msgspec.structs import replace

from core.samples import answer, said
from server.people import People, at
from server.planting import MISSING
from server.running import PATIENCE_S, Running
from server.test_access import CELLS, PLACES, THREADS, Cell
from thread.journals import HEADER, write
from treadle.api.marks import Mark
from treadle.server.accounts import support
from treadle.server.accounts.access import READ_VERBS, DeletionState
from treadle.server.context import Context, Verb
from treadle.server.threads import threads
from treadle.store.local_store import utc_now
from treadle.thread.facts import Shared

CALLERS: Final = {
    "owner": "owner",
    "chief": "chief",
    "member": "member",
    "outsider": "outsider",
    "support": "support_asked",
    "": "nobody",
}
"""Who asks over HTTP, and who he is in the table."""

REQUESTS: Final[dict[Verb, tuple[tuple[str, str, bytes | None], ...]]] = {
    Verb.LIST: (("GET", "/api/threads?limit=200", None),),
    Verb.SEARCH: (("GET", "/api/threads/search?q=marmalade&limit=200", None),),
    Verb.GET: (("GET", "/api/threads/{}", None), ("GET", "/api/threads/{}?version=1", None)),
    Verb.PULL: (("GET", "/api/threads/{}/records?after=0", None),),
    Verb.PUSH: (
        ("POST", "/api/threads/{}/records", b"{}\n"),
        ("PUT", "/api/threads/{}/records", b"{}\n"),
        ("PUT", "/api/threads/{}/blobs/" + "0" * 64, b"x"),
    ),
    Verb.SET_VISIBILITY: (
        ("POST", "/api/threads/{}/visibility", b'{"visibility":"organization"}'),
    ),
    Verb.DELETE: (("DELETE", "/api/threads/{}", None),),
    Verb.RESTORE: (("POST", "/api/threads/{}/restore", None),),
    Verb.PURGE: (("DELETE", "/api/threads/{}?purge=true", None),),
    Verb.SHARE: (("POST", "/api/threads/{}/share", b"{}"), ("GET", "/api/threads/{}/share", None)),
    Verb.UNSHARE: (("DELETE", "/api/threads/{}/share", None),),
    Verb.REQUEST_SUPPORT: (("POST", "/api/threads/{}/support-access/request", None),),
    Verb.GRANT_SUPPORT: (
        ("POST", "/api/threads/{}/support-access", None),
        ("POST", "/api/threads/{}/support-access/approve", None),
        ("DELETE", "/api/threads/{}/support-access", None),
    ),
}
MAKES: Final = ("POST", "/api/threads/{}/records")
"""What makes a thread of the caller's own, whoever else has one of that id."""

TYPES: Final = {"/records": "application/x-ndjson", "/blobs/": "application/octet-stream"}
TRIES: Final = 3
LETTERS: Final = {403: "F", 404: "N", 401: "U"}


class Reply(Struct, frozen=True):
    """An answer; `telling` is all of it that could tell one refusal from another."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]

    @property
    def telling(self) -> tuple[object, ...]:
        """The status, the bytes, and every header but the time and the request's own number."""
        own = ("date", "x-request-id")
        kept = tuple(pair for pair in self.headers if pair[0].lower() not in own)
        return self.status, self.body, kept


class World:
    """The threads of the table, made as clients make them, and a token for everybody."""

    def __init__(self, people: People, server: Running) -> None:
        self._tokens = {name: people.token(name) if name else "" for name in CALLERS}
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self._missing: dict[tuple[str, str, str], Reply] = {}
        for place, thread_id in THREADS.items():
            self._make(people, thread_id, *place)

    def _make(self, people: People, thread_id: str, visibility: Any, life: DeletionState) -> None:
        header = replace(HEADER, thread=thread_id)
        entries = (Shared(visibility), said("marmalade"), answer("as you like"))
        data, _ = write(((header,), entries))
        with people.database.write() as db:
            context = Context(db, people["owner"], utc_now())
            threads.push_records(context, thread_id, Mark(), data)
            support.request_access(replace(context, caller=people["support"]), thread_id)
            support.approve_requests(context, thread_id)
            if life is DeletionState.DELETED:
                threads.delete_thread(context, thread_id, None)
            if life is DeletionState.PURGED:
                threads.purge_thread(context, thread_id)

    def ask(self, name: str, method: str, path: str, body: bytes | None) -> Reply:
        """One request, over a connection that stays."""
        headers = {"If-Match": Mark().tag} if "/records" in path and method != "GET" else {}
        if self._tokens[name]:
            headers["Authorization"] = f"Bearer {self._tokens[name]}"
        if body is not None:
            kinds = (kind for part, kind in TYPES.items() if part in path)
            headers["Content-Type"] = next(kinds, "application/json")
        for _ in range(TRIES):
            try:
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                return Reply(answer.status, answer.read(), tuple(answer.getheaders()))
            except (http.client.RemoteDisconnected, ConnectionError):
                self._connection.close()  # it ends with a refusal whose body nobody has read
        raise AssertionError(path)

    def missing(self, name: str, method: str, path: str, body: bytes | None) -> Reply:
        """The same request about a thread that does not exist, asked once."""
        key = name, method, path
        if key not in self._missing:
            self._missing[key] = self.ask(name, method, path.format(MISSING), body)
        return self._missing[key]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture
def world(people: People, database_url: str) -> Iterator[World]:
    with Running(database_url, rate=0) as server:
        made = World(people, server)
        yield made
        made.close()


def _found(body: bytes) -> set[str]:
    told = json.decode(body)
    if "threads" in told:
        assert told["total"] == len(told["threads"])
        return {one["summary"]["id"] for one in told["threads"]}
    return {one["thread"]["summary"]["id"] for one in told["hits"]}


def test_every_refusal_of_the_table_is_the_one_that_http_gives(world: World) -> None:
    """Reads are done and compared; of what changes something only refusals are asked for."""
    wrong = []
    asked = 0
    places = [place for place in PLACES if place[1] is DeletionState.LIVE or place[0] == "public"]
    for name, place in product(CALLERS, places):
        thread_id = THREADS[place]
        row = CELLS[Cell(CALLERS[name], *place)]
        for verb, requests in REQUESTS.items():
            if verb in (Verb.LIST, Verb.SEARCH) or (row[verb] == "Y" and verb not in READ_VERBS):
                continue
            for method, path, body in requests:
                reply = world.ask(name, method, path.format(thread_id), body)
                asked += 1
                if name and (method, path) == MAKES:
                    assert reply.telling == world.missing(name, method, path, body).telling
                    continue
                if LETTERS.get(reply.status, "Y") != row[verb]:
                    wrong.append((name, *place, method, path, reply.status))
                if reply.status in (401, 404):
                    missing = world.missing(name, method, path, body)
                    assert reply.telling == missing.telling, (name, place, verb)
    assert wrong == []
    assert asked > 300


def test_lists_searches_and_their_totals_hold_what_the_table_allows(world: World) -> None:
    for name, verb in product(CALLERS, (Verb.LIST, Verb.SEARCH)):
        ((method, path, body),) = REQUESTS[verb]
        reply = world.ask(name, method, path, body)
        assert reply.status == 200
        assert _found(reply.body) == {
            THREADS[place] for place in PLACES if CELLS[Cell(CALLERS[name], *place)][verb] == "Y"
        }, (name, verb)


def test_own_heads_are_those_of_the_owner_alone(world: World) -> None:
    for name in CALLERS:
        reply = world.ask(name, "GET", "/api/heads?after=0", None)
        if not name:
            assert reply.status == 401
            continue
        found = {one["thread"] for one in json.decode(reply.body)["heads"]}
        assert found == ({*THREADS.values()} if name == "owner" else set())


def test_live_changes_tell_of_the_threads_that_may_be_pulled(world: World, people: People) -> None:
    """And the owner of those that he has removed, whose other machines are to learn of it."""
    for name in filter(None, CALLERS):
        with people.reading(name, utc_now()) as context:
            found = {head.thread for head in threads.list_changes(context, 0, 500)}
        wanted = {
            THREADS[place]
            for place in PLACES
            if CELLS[Cell(CALLERS[name], *place)][Verb.PULL] == "Y"
        }
        gone = {THREADS[place] for place in PLACES if place[1] is DeletionState.PURGED}
        assert found == wanted | (gone if name == "owner" else set()), name
    assert world.ask("", "GET", "/api/changes", None).status == 401


def test_a_revoked_token_is_refused_on_a_connection_that_stays(
    world: World, people: People
) -> None:
    from treadle.server.accounts import accounts

    assert world.ask("member", "GET", "/api/me", None).status == 200
    with people.writing("admin", at()) as context:
        for line in accounts.list_user_tokens(context, "member").tokens:
            accounts.revoke_token(context, line.id)
    for requests in REQUESTS.values():
        for method, path, body in requests:
            reply = world.ask("member", method, path.format(MISSING), body)
            assert reply.status == 401
