"""What the requests of a process share: who waits for whom, and who does not."""

from __future__ import annotations

from threading import Event

import anyio
from sqlalchemy import Connection, select, update

from server.people import People, at
from server.running import PATIENCE_S, Running, request
from treadle.server.data import schema
from treadle.server.http.services import Services
from treadle.server.http.settings import ServerConfig


def test_who_reads_does_not_wait_for_those_who_write(people: People) -> None:
    is_held, may_end = Event(), Event()

    def hold(_: Connection) -> None:
        is_held.set()
        may_end.wait(PATIENCE_S)

    async def read_beside_a_writer() -> int:
        services = Services(ServerConfig(worker_count=1), people.database, at)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: services.run_transaction(hold, is_write=True))
            try:
                await anyio.to_thread.run_sync(is_held.wait, PATIENCE_S)
                with anyio.fail_after(PATIENCE_S / 4):
                    return await services.run_transaction(
                        services.find_newest_change, is_write=False
                    )
            finally:
                may_end.set()

    assert anyio.run(read_beside_a_writer) == 0


def test_no_answer_waits_until_the_use_of_its_token_is_noted(
    people: People, database_url: str
) -> None:
    """Another process holds the row, on SQLite the file; what was not noted is noted next time."""
    token = people.token("owner")
    noted = select(schema.tokens.c.last_used_at)
    me = request("GET", "/api/me", token)
    with Running(database_url) as server:
        with people.database.write() as holder:
            holder.execute(update(schema.tokens).values(name="held"))
            assert server.send(me).status == 200
            assert holder.execute(noted).scalar_one() is None
        assert server.send(me).status == 200
        found = None
        while found is None:  # it is done behind the answer
            with people.database.read() as db:
                found = db.execute(noted).scalar_one()
