"""The page of a fleet beside a real worker: who sees what, and what comes by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.queue_checks import until
from fleet.teams import Team, make_team, run_fleet_command
from server.databases import Postgres
from server.people import ROLES, People
from server.running import Running
from server.test_pages import Site
from treadle.fleet.port import JobStatus
from treadle.server.accounts.accounts import find_principal
from treadle.server.data.schema import thread_reads


@pytest.fixture
def team(tmp_path: Path, postgres: Postgres) -> Iterator[Team]:
    with make_team(tmp_path, postgres, "database") as found:
        yield found


@pytest.fixture
def site(team: Team) -> Iterator[Site]:
    with Running(team.told["FLEET_URL"]) as server:
        with server.database.read() as db:
            found = {name: find_principal(db, name) for name in ROLES}
        principals = {name: one for name, one in found.items() if one is not None}
        yield Site(server, People(server.database, principals))


def read_page(site: Site, cookie: str) -> str:
    reply = site.get("/fleet", cookie)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_page_shows_how_a_fleet_stands_to_those_who_may_see_its_threads(
    team: Team, site: Site
) -> None:
    cookies = {name: site.sign_in(name) for name in ("owner", "member", "outsider", "admin")}
    assert "docs/fleet.md" in read_page(site, cookies["member"])
    assert site.get("/fleet/live", cookies["member"]).status == 404
    assert site.get("/fleet").status == 303
    program = team.program
    asked = await program.asking.submit("Pay <b>the</b> bill", user="member")
    await program.clerk.submit("Another one", queue="slow")
    late = await program.deadly.submit("Drop it")
    await program.fleet.cancel(late.id)
    for kind, name in (("organization", "acme"), ("user", "*"), ("user", "somebody")):
        await program.fleet.limits.set(kind, name, 3)
    team.start("--queues", "default", "--concurrency", "3")
    await until(lambda: team.is_left_as(asked, JobStatus.WAITING))
    team.hold.touch()
    busy = await program.clerk.submit("Take your time")
    await until(lambda: team.has_paid(1))

    async def is_taken_in() -> bool:
        return "#acts" in read_page(site, cookies["member"])

    await until(is_taken_in)
    shown = read_page(site, cookies["member"])
    worker = f":{team.workers[0].pid}"
    faults = [
        one
        for one in (
            "1 worker · 1 running · 1 waiting · 1 queued · 1 cancelled",
            f"{worker}</bdi></th><td><bdi>default</bdi></td>",
            f'<a href="/threads/{busy.id}%40owner"><bdi>Take your time</bdi></a>',
            f'<a href="/threads/{asked.id}%40owner#acts">',
            "pay {&#34;number&#34;:1}",
            "Pay &lt;b&gt;the&lt;/b&gt; bill",
            "for <bdi>member</bdi>",
            "organization acme: 3 at a time, at work: 1 of acme<",
            "user *: 3 at a time<",
            'id="cancelled">Cancelled',
            '<tr><th scope="row"><bdi>slow</bdi></th>',
        )
        if one not in shown
    ]
    assert faults == [], shown
    assert "somebody" not in shown, "no task of theirs is seen"
    assert f'href="/threads/{busy.id}"' in read_page(site, cookies["owner"])
    for who, words in (
        ("outsider", "0 workers"),
        ("admin", "1 worker"),
    ):
        others = read_page(site, cookies[who])
        assert words in others
        assert "You see no task" in others
        assert "bill" not in others
        assert "acme" not in others.partition("<main")[2]
    with site.people.database.read() as db:
        readers = {(row.user_id, row.thread_id) for row in db.execute(thread_reads.select())}
    assert len(readers) == 1, "the question of one thread was read by one colleague"
    told = json.loads(run_fleet_command(team, "--json").stdout)
    assert told["counts"] == {"running": 1, "waiting": 1, "queued": 1, "cancelled": 1}
    [state] = [one for one in told["tasks"] if one["status"] == "waiting"]
    assert state["questions"] == ['pay {"number":1}']
    team.hold.unlink()
    await program.fleet.scheduler.close()


def test_without_postgresql_the_page_says_how_to_get_a_fleet(tmp_path: Path) -> None:
    from server.databases import Templates
    from server.people import populate

    templates = Templates()
    with Running(templates.copy("sqlite", tmp_path)) as server:
        site = Site(server, populate(server.database))
        assert "docs/fleet.md" in read_page(site, site.sign_in("member"))
    templates.close()
