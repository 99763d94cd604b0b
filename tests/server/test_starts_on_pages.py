"""What somebody has asked a machine to begin, on the pages where its thread will stand."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from sqlalchemy import update

from server.people import People, at
from server.planting import id_of, plant
from server.running import Running
from server.test_pages import Site
from server.test_pages import site as site
from treadle.server.accounts.times import shift_time
from treadle.server.data.schema import remote_requests
from treadle.store.local_store import utc_now

HOSTILE: Final = "<script>document.title='taken'</script>\u202e"
TEXT: Final = re.compile(r"<[^>]+>")


def ask_machine(
    server: Running, token: str, name: str, *outcomes: tuple[str, str], **more: Any
) -> str:
    """Leave a request as a device does, and settle it as a machine does; its id."""

    def send(method: str, path: str, told: dict[str, Any]) -> int:
        body = msgspec.json.encode(told)
        kind = "application/json"
        return server.ask(method, path, token, body, content_type=kind).status

    request_id = f"request-{name:-<16}"
    soon = shift_time(utc_now(), seconds=600)
    told = {"id": request_id, "machine": "0123456789abcdef", "expires_at": soon, "body": "signed"}
    assert send("POST", "/api/requests", {**told, **more}) == 201
    for state, why in outcomes:
        path = f"/api/requests/{request_id}/outcome"
        assert send("PUT", path, {"state": state, "why": why}) == 200
    return request_id


def read_starts(page: str) -> list[str]:
    """The words of each, as a page has them."""
    _, found, section = page.partition('<h2 id="starts">')
    rows = re.findall(r"<li>(.*?)</li>", section.partition("</section>")[0], re.DOTALL)
    assert bool(found) == bool(rows)
    return [" ".join(TEXT.sub(" ", row).split()) for row in rows]


def change_times(people: People, request_id: str, created_s: int, until_s: int) -> None:
    """As if a request had been left some time ago."""
    times = {
        "created_at": shift_time(utc_now(), seconds=created_s),
        "expires_at": shift_time(utc_now(), seconds=until_s),
    }
    mine = remote_requests.c.id == request_id
    with people.database.write() as db:
        db.execute(update(remote_requests).where(mine).values(times))


def test_a_start_is_shown_from_its_asking_to_its_thread_to_who_has_asked(site: Site) -> None:
    people, server = site.people, site.server
    token, cookie, other = people.token("owner"), site.sign_in("owner"), site.sign_in("member")
    here, elsewhere, theirs = id_of(1), id_of(2), id_of(3)
    with people.database.write() as db:
        plant(db, here, people["owner"])
        plant(db, theirs, people["member"])
    begun = (("taken", ""), ("done", here))
    ask_machine(server, token, "paired", ("done", ""))
    ask_machine(server, token, "taken-back", ("withdrawn", ""))
    ask_machine(server, token, "a-word", thread=here)
    long_ago = ask_machine(server, token, "long-ago", ("refused", "old"))
    change_times(people, long_ago, -7200, -6600)
    late = ask_machine(server, token, "late")
    change_times(people, late, -1200, -600)
    ask_machine(server, token, "not-ours", ("done", theirs))
    ask_machine(server, token, "done", *begun)
    ask_machine(server, token, "not-here", ("taken", ""), ("done", elsewhere))
    ask_machine(server, token, "hostile", ("refused", HOSTILE))
    ask_machine(server, token, "refused", ("refused", "this machine takes no such thing"))
    ask_machine(server, token, "taken", ("taken", ""))
    ask_machine(server, token, "waits")
    wanted = [
        r"A new thread, or a device to pair waits for a machine that listens, until .* UTC"
        r" asked .* UTC with test Take it back",
        r"A new thread, or a device to pair taken: the machine has it asked .*",
        r"A new thread, or a device to pair refused: this machine takes no such thing asked .*",
        r"A new thread, or a device to pair refused: &lt;script&gt;document[^<\u202e]* asked .*",
        r"A new thread begun; it is here once its machine has sent it asked .*",
        r"The thread that was begun begun asked .*",
        r"A new thread begun; it is here once its machine has sent it asked .*",
        r"A new thread, or a device to pair no machine has taken it in time asked .*",
    ]
    for path in ("/", "/team"):
        page = site.get(path, cookie).body.decode()
        found = read_starts(page)
        assert len(found) == len(wanted), found
        missed = [(w, f) for w, f in zip(wanted, found, strict=True) if not re.fullmatch(w, f)]
        assert missed == []
        assert page.count(f'href="/threads/{here}"') >= 2, "the start, and the thread in its list"
        assert f'href="/threads/{elsewhere}"' not in page
        assert read_starts(site.get(path, other).body.decode()) == []
    for path in ("/?state=waiting", "/?page=2", "/?words=loom"):
        assert read_starts(site.get(path, cookie).body.decode()) == [], path
    with people.database.write() as db:
        plant(db, elsewhere, people["owner"], created_at=at())
    page = site.get("/", cookie).body.decode()
    assert sum("The thread that was begun" in one for one in read_starts(page)) == 2


def test_what_no_database_keeps_is_refused(site: Site) -> None:
    token, kind = site.people.token("owner"), "application/json"
    soon = shift_time(utc_now(), seconds=600)
    left = {"id": "r" * 20, "machine": "0123456789abcdef", "expires_at": soon, "body": "x"}
    path = f"/api/requests/{ask_machine(site.server, token, 'waits')}/outcome"
    asked = {
        "why": ("PUT", path, {"state": "refused", "why": "a\0b"}),
        "why at its end": ("PUT", path, {"state": "refused", "why": "a\n\0"}),
        "body": ("POST", "/api/requests", {**left, "body": "\0"}),
        "thread": ("POST", "/api/requests", {**left, "thread": "T-\0"}),
    }
    found = {
        name: site.server.ask(
            method, place, token, msgspec.json.encode(told), content_type=kind
        ).status
        for name, (method, place, told) in asked.items()
    }
    assert found == dict.fromkeys(asked, 400)
