"""The feed of questions: what waits for its user, to who knows the address, and nothing more."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from server.planting import id_of, plant
from server.test_pages import Site
from server.test_pages import site as site

ATOM = "{http://www.w3.org/2005/Atom}"


def plant_waiting(site: Site, number: int, owner: str, title: str, questions: int = 1) -> str:
    """A thread in which somebody waits for a person's yes."""
    thread = id_of(number)
    summary = {
        "id": thread,
        "version": 7,
        "created_at": "2026-11-21T08:15:30.000000Z",
        "updated_at": f"2026-11-21T08:15:3{number}.000000Z",
        "title": title,
        "state": "executing_tools",
        "message_count": 1,
        **({"questions": questions} if questions else {}),
    }
    with site.people.database.write() as db:
        people = site.people[owner]
        plant(db, thread, people, summary=json.dumps(summary, separators=(",", ":")))
    return thread


def make_feed(site: Site, name: str) -> tuple[str, str]:
    """The path of a feed that somebody makes on the account's page, and their session."""
    cookie = site.sign_in(name)
    key = re.search(r'name="form_key" value="(\w+)"', site.get("/account", cookie).body.decode())
    assert key is not None
    made = site.post("/account/feed", cookie, form_key=key[1]).body.decode()
    found = re.search(r"http://localhost(/feeds/trf_\w+/questions\.atom)", made)
    assert found is not None
    assert found[1] not in site.get("/account", cookie).body.decode()
    return found[1], cookie


def test_it_tells_what_waits_for_its_user_and_no_word_of_a_thread(site: Site) -> None:
    waiting = plant_waiting(site, 1, "owner", 'a <title> & "more"\x1b[2J', 2)
    newer = plant_waiting(site, 2, "owner", "another")
    plant_waiting(site, 3, "owner", "at rest", 0)
    plant_waiting(site, 4, "member", "a colleague's")
    path, _ = make_feed(site, "owner")
    answer = site.get(path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/atom+xml")
    feed = ElementTree.fromstring(answer.body)
    entries = feed.findall(f"{ATOM}entry")
    assert [one.findtext(f"{ATOM}title") for one in entries] == [
        "another: 1 question waits",
        'a <title> & "more"\N{REPLACEMENT CHARACTER}[2J: 2 questions wait',
    ]
    links = [one.find(f"{ATOM}link") for one in entries]
    assert [one.get("href") for one in links if one is not None] == [
        f"http://localhost/threads/{thread}" for thread in (newer, waiting)
    ]
    for part in (feed, *entries):
        assert all(part.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated"))


def test_its_address_opens_nothing_else_and_ends(site: Site) -> None:
    path, cookie = make_feed(site, "owner")
    secret = path.split("/")[2]
    assert site.server.ask("GET", "/api/me", secret).status == 401
    assert site.get("/account", secret).status == 303
    again, _ = make_feed(site, "owner")
    assert (site.get(path).status, site.get(again).status) == (410, 200)
    key = re.search(r'name="form_key" value="(\w+)"', site.get("/account", cookie).body.decode())
    assert key is not None
    assert site.post("/account/feed/end", cookie, form_key="0" * 64).status == 403
    assert site.get(again).status == 200
    assert site.post("/account/feed/end", cookie, form_key=key[1]).status == 303
    assert site.get(again).status == 410
    for other in ("/feeds/x/questions.atom", f"/feeds/{cookie}/questions.atom"):
        assert site.get(other).status == 410
    assert site.post("/account/feed", form_key="").status in (303, 401)
