"""How often a push goes to PostgreSQL and back, counted on the wire."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Final

import httpx2
import pytest
from sqlalchemy import Connection, select

from core.samples import answer, said
from server.chains import Chain, chain
from server.databases import Templates
from server.people import populate
from server.proxies import open_before
from server.running import PATIENCE_S, Running
from treadle.api.marks import Mark
from treadle.server.data.database import Database
from treadle.server.data.round_trips import PreliminaryQuery, execute_later, insert_later
from treadle.server.data.round_trips import pop_query_rows as answer_to
from treadle.server.data.schema import repos
from treadle.server.http import services, webhook_sender
from treadle.sync.http_transport import LINES_TYPE

ROUND_TRIPS: Final = 2
"""One asks who pushes and holds his thread, one writes and commits."""


class CountingProxy:
    """Stands in front of PostgreSQL, and counts the times that a client speaks and is answered."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.count = 0
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            is_answered = True
            while True:
                for key, _ in ready.select():
                    source = client if key.fileobj is client else server
                    try:
                        data = source.recv(1 << 20)
                        (server if source is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
                    if source is client and is_answered:
                        self.count += 1
                    is_answered = source is server

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()


@pytest.fixture
def url(templates: Templates, tmp_path: Path) -> Iterator[str]:
    found = templates.copy("postgresql", tmp_path)
    yield found
    templates.remove(found)


def push(client: httpx2.Client, one: Chain, base: int) -> None:
    answered = client.post(
        f"/api/threads/{one.thread}/records",
        content=one.after(base),
        headers={
            "if-match": (one.upto(base).mark if base else Mark()).tag,
            "content-type": LINES_TYPE,
        },
    )
    assert answered.status_code in (200, 201), answered.text


def test_a_push_goes_to_postgresql_and_back_as_often_as_it_must(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("INDEX_GATHER_S", "UPTAKE_POLL_S"):  # nothing goes on beside it
        monkeypatch.setattr(services, pause, PATIENCE_S)
    monkeypatch.setattr(webhook_sender, "POLL_S", PATIENCE_S)
    one = chain(batches=[(said("question"), answer("answer"))] * 20)
    with open_before(url, CountingProxy) as (proxy, through), Running(through, rate=0) as running:
        token = populate(running.database).token("owner")
        client = httpx2.Client(
            base_url=running.url, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_S
        )
        counts: list[int] = []
        with client:
            for seq in range(3, one.head.seq, 2):
                before = proxy.count
                push(client, one.upto(seq), seq - 2 if seq > 3 else 0)
                counts.append(proxy.count - before)
            stored = client.get(f"/api/threads/{one.thread}/records", params={"after": 0})
            assert one.data.startswith(stored.content)
            assert len(stored.content.splitlines()) == seq
            found = client.get("/api/threads/search", params={"q": "answer"}).json()
            assert [hit["thread"]["summary"]["id"] for hit in found["hits"]] == [one.thread]
    # The first ones open connections, and note once a minute that the token is used.
    assert set(counts[-8:]) == {ROUND_TRIPS}, counts


def test_what_is_sent_later_is_in_its_place_kept_with_a_plain_commit_and_gone_with_an_undo(
    url: str,
) -> None:
    database = Database(url, pool_size=1)
    into, places = "repos (slug, created_at)", "(%(slug)s, %(at)s)"
    slugs = select(repos.c.slug).order_by(repos.c.id)
    rename = "UPDATE repos SET slug = %(new)s WHERE slug = %(old)s"
    question = PreliminaryQuery(
        "repos", "all", "SELECT slug FROM repos WHERE slug <> %(no)s ORDER BY id", {"no": "'"}
    )
    rows = [{"slug": one, "at": "now"} for one in ("it's; a", "50% \\ b")]
    try:
        with database.write() as db:
            insert_later(db, into, places, rows)
            execute_later(db, rename, {"old": "it's; a", "new": "%(new)s"})
            assert db.execute(slugs).scalars().all() == ["%(new)s", "50% \\ b"]
            insert_later(db, into, places, [{"slug": "last", "at": "now"}])

        def fail(db: Connection) -> None:
            insert_later(db, into, places, [{"slug": "undone", "at": "now"}])
            raise KeyError

        with pytest.raises(KeyError):
            database.run(fail, is_write=True)
        kept = ["%(new)s", "50% \\ b", "last"]

        def work(db: Connection) -> None:
            asked = answer_to(db, "repos", "all")
            assert asked is not None
            assert [row.slug for row in asked] == kept
            assert answer_to(db, "repos", "all") is None, "an answer is old after it was read"
            assert db.execute(slugs).scalars().all() == kept

        for wait_s in (None, 1.0):  # the second one begins with a bound on its waiting
            database.run(work, is_write=True, wait_s=wait_s, queries=[question])
        with database.read() as db:
            assert answer_to(db, "repos", "all") is None, "it was asked in another transaction"
            assert db.execute(slugs).scalars().all() == kept
    finally:
        database.dispose()
