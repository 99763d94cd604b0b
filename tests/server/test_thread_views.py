"""What a server shows of a thread besides its talk: only to who may see the thread."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from core.samples import CONFIG, answer, said
from media_samples import attachment, png
from server.people import at
from server.planting import THREAD, id_of, plant, plant_records
from server.test_pages import Site
from server.test_pages import site as site
from thread.journals import HEADER, OTHER_ID, records_of, write
from treadle.api.types import NewShare
from treadle.core.events import UserInput
from treadle.core.messages import Message
from treadle.pages.thread_family import order_family
from treadle.server.accounts import share_links
from treadle.server.data.schema import blobs, threads
from treadle.server.http.page_threads import ServerThreads
from treadle.server.refusals import Refusal
from treadle.thread.facts import Base, Configured


def test_pictures_and_versions_are_for_who_may_see_the_thread_and_a_link_shows_neither(
    site: Site,
) -> None:
    picture = attachment(png(), "loom.png")
    digest = picture.blob.sha256
    base = (
        (HEADER, Configured(CONFIG, "scripted")),
        (UserInput(replace(Message.user("a picture"), attachments=(picture,))),),
        (answer("It is grey."),),
    )
    records = records_of(write(base)[0])
    at_end = Base(THREAD, records[-1].seq, records[-1].hash)
    fork = ((replace(HEADER, thread=OTHER_ID, base=at_end),), (said("more"),), (answer("done"),))
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"], base)
        plant_records(db, site.people["owner"], fork)
        kept = {"sha256": digest, "size": picture.blob.size, "body": png()}
        db.execute(blobs.insert().values(thread_id=THREAD, **kept))
        db.execute(blobs.insert().values(thread_id=OTHER_ID, sha256="0" * 64, size=1, body=b"x"))
    member, outsider = site.sign_in("member"), site.sign_in("outsider")
    for thread in (THREAD, OTHER_ID):
        path = f"/threads/{thread}"
        paths = (f"{path}/pictures/{digest}", f"{path}?version=1", f"{path}/versions?from=1")
        paths += (f"{path}/trace", f"{path}/states", f"{path}/family")
        found = site.get(paths[0], member)
        assert (found.body, found.headers["content-type"]) == (png(), "image/png")
        assert f'<img src="{paths[0]}" alt="loom.png"' in site.get(path, member).body.decode()
        assert site.get(f"{path}/pictures/{'0' * 64}", member).status == 404
        assert [site.get(one, member).status for one in paths] == [200] * 6
        assert [site.get(one, outsider).status for one in paths] == [404] * 6
        assert [site.get(one).status for one in paths] == [303] * 6
        assert site.get(f"{path}?version=99", member).status == 404
    with site.people.database.write() as db:
        db.execute(update(threads).values(visibility="public"))
    version = len(records)
    for cookie in (member, ""):
        pages = [site.get(f"/threads/{THREAD}{one}", cookie) for one in ("", f"?version={version}")]
        told = [f"as it was at version {version}" in one.body.decode() for one in pages]
        assert told == [False, True], "the same records, and another page"
    came = site.get(f"/threads/{OTHER_ID}/versions?from=1", member).body.decode()
    assert "done" in came
    assert "It is grey." not in came
    with site.people.writing() as context:
        link = share_links.create_link(context, THREAD, NewShare(), "").url
    shared = site.get(link).body.decode()
    assert "It is grey." in shared
    for hidden in ("<img", "?version=", "loom.png", digest):
        assert hidden not in shared.partition("<main")[2], hidden


ODD_VALUES = (
    "0",
    "-1",
    "2",
    "999999999",
    "1000000001",
    "1e3",
    "%D9%A3",
    "x",
    "%00",
    "%FF",
    "9" * 4000,
)
VIEWS = ("", "/versions", "/trace", "/states", "/family", "/live")
NAMES = (
    "page",
    "version",
    "from",
    "to",
    "turn",
    "after",
    "since",
    "diff",
    "words",
    "state",
    "owner",
)


def test_no_value_in_an_address_breaks_a_page_or_opens_a_thread(site: Site) -> None:
    with site.people.database.write() as db:
        plant_records(
            db,
            site.people["owner"],
            ((HEADER, Configured(CONFIG, "scripted")), (said("hi"),), (answer("hidden word"),)),
        )
    owner, outsider = site.sign_in("owner"), site.sign_in("outsider")
    paths = [f"/threads/{THREAD}{view}" for view in VIEWS if view != "/live"]
    targets = [
        f"{path}?{name}={value}"
        for path in ("/", "/team", *paths)
        for name in NAMES
        for value in ODD_VALUES
    ]
    # A part of them, all names and values among it: each with each takes seconds.
    broken = {one: site.get(one, owner).status for one in targets[:: len(NAMES) - 1]}
    assert {one: status for one, status in broken.items() if status not in (200, 400, 404)} == {}
    opened = [
        one
        for one in [*targets[:: 7 * len(NAMES)], *(f"/threads/{THREAD}{view}" for view in VIEWS)]
        if "/threads/" in one and site.get(one, outsider).status != 404
    ]
    assert opened == []


def test_of_a_family_everybody_sees_what_they_may_see(site: Site) -> None:
    """A private thread in the middle: what hangs on it alone is its owner's to see from above."""
    first, hidden, below, agent = map(id_of, range(1, 5))
    lines = (
        (first, {}, "organization"),
        (hidden, {"forked_from": first}, "private"),
        (below, {"forked_from": hidden}, "organization"),
        (agent, {"parent": first}, "organization"),
    )
    with site.people.database.write() as db:
        for thread, above, visibility in lines:
            summary = {"id": thread, "version": 1, "created_at": at(), "updated_at": at()}
            summary |= {"title": "x", "state": "ready", "message_count": 1, **above}
            plant(
                *(db, thread, site.people["owner"]),
                kind="document",
                version=1,
                visibility=visibility,
                summary=json.dumps(summary),
                **above,
            )

    def see(name: str, thread: str) -> list[tuple[str, int]]:
        source = ServerThreads(site.server.app.services, site.people[name], "secret")
        rows = source.list_family(thread)
        return [(one.row.thread.id, one.depth) for one in order_family(rows, thread)]

    everything = [(first, 0), (hidden, 1), (below, 2), (agent, 1)]
    assert [see("owner", one) for one in (first, hidden, below, agent)] == [everything] * 4
    assert see("member", first) == see("member", agent) == [(first, 0), (agent, 1)]
    assert see("member", below) == [(below, 0)]
    for name, thread in (("member", hidden), *(("outsider", one[0]) for one in lines)):
        with pytest.raises(Refusal):
            see(name, thread)
