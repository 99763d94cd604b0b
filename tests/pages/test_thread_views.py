"""What a thread shows besides its talk, on the pages of this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

import httpx2
from msgspec.structs import replace

from core.samples import CONFIG, answer, call, ended, said, success
from media_samples import GIF, JPEG, PDF, WEBP, attachment, png
from pages.conftest import speak
from thread.journals import HEADER, write
from treadle import LocalStore
from treadle.app.exchange.thread_export import export_thread
from treadle.app.threads.forks import fork_thread
from treadle.core.conversation import View
from treadle.core.events import Rewound, ToolStarted, UserInput
from treadle.core.messages import Attachment, BlobRef, Message
from treadle.core.tools import ToolExecutionOutcome
from treadle.pages.ports import ThreadRow
from treadle.pages.thread_family import find_family_ids, order_family
from treadle.pages.thread_views import PICTURE_POLICY
from treadle.thread.codec import Entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Configured, Renamed

SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def keep(store: LocalStore, *batches: Sequence[Entry]) -> str:
    """A thread of these records; its id."""
    first = (HEADER, Configured(CONFIG, "scripted"))
    store.adopt(write((first, *batches))[0], is_mine=True)
    return HEADER.thread


def show(store: LocalStore, *kept: tuple[bytes, Attachment]) -> str:
    """A thread with these pictures in its prompt, and the last of them in a result."""
    for data, picture in kept:
        store.keep_blob(picture.blob.sha256, data)
    pictures = tuple(picture for _, picture in kept)
    prompt = UserInput(replace(Message.user("look"), attachments=pictures))
    seen = ToolExecutionOutcome.Success("a", "a picture", attachments=pictures[-1:])
    return keep(
        store,
        (prompt,),
        (answer("", call("a", "look")),),
        (ToolStarted("a"),),
        (ended("a", seen),),
        (answer("It is grey."),),
    )


async def test_pictures_are_shown_by_what_their_bytes_are_and_nothing_else_is_given(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    hostile = replace(attachment(png(), "x"), blob=BlobRef(sha256(SVG).hexdigest(), len(SVG)))
    other = SVG + b"\n"
    said_so = BlobRef(sha256(other).hexdigest(), len(other))
    svg = replace(hostile, media_type="image/svg+xml", blob=said_so)
    given = {name: attachment(data, name) for name, data in FORMATS.items()}
    kept = [(FORMATS[name], picture) for name, picture in given.items()]
    thread = show(store, (PDF, attachment(PDF, "a.pdf")), (SVG, hostile), (other, svg), *kept)
    page = (await visitor.get(f"/threads/{thread}")).text
    shown = re.findall(r'<img src="([^"]+)" alt="([^"]+)" loading="lazy"', page)
    assert len(shown) == len(set(shown)) + 1 == 6, "the last one twice"
    seen = {}
    for path, name in dict.fromkeys(shown):
        found = await visitor.get(path)
        headers = found.headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert policy == PICTURE_POLICY or found.status_code == 404
        seen[name] = (found.status_code, headers["content-type"], found.content)
    not_shown = seen.pop("x")
    assert (not_shown[0], b"onload" in not_shown[2]) == (404, False), "its bytes are no picture"
    assert seen == {name: (200, one.media_type, FORMATS[name]) for name, one in given.items()}
    for digest in (said_so.sha256, attachment(PDF).blob.sha256, "c" * 64, "..%2f..%2fsecret"):
        assert (await visitor.get(f"/threads/{thread}/pictures/{digest}")).status_code == 404
    assert "a.pdf, application/pdf" in page


FORMATS = {"a.png": png(), "b.jpg": JPEG, "c.gif": GIF, "d.webp": WEBP}


def test_an_export_has_its_pictures_in_it(store: LocalStore) -> None:
    hostile = replace(attachment(png(9, 9), "x"), blob=BlobRef(sha256(SVG).hexdigest(), len(SVG)))
    thread = show(store, (SVG, hostile), (png(), attachment(png(), '"><b>.png')))
    page = export_thread(store, thread, "html", force=True).data.decode()
    shown = re.findall(r'<img src="data:image/png;base64,[^"]+" alt="([^"]+)"', page)
    assert shown == ["&#34;&gt;&lt;b&gt;.png"] * 2
    assert page.count("<img") == 2
    assert '; img-src data:"' in page
    assert "onload" not in page


async def test_a_version_is_as_it_was_and_what_came_since_is_told(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = keep(
        store,
        (said("first words"),),
        (answer("", call("a", "look")),),
        (ToolStarted("a"),),
        (ended("a", success("a", "found the shuttle")),),
        (answer("second words"),),
        (said("third words"),),
        (answer("fourth words"),),
        (Renamed("Another title"),),
        (Rewound(7, View(4)),),
    )
    path = f"/threads/{thread}"
    words = ("first words", "found the shuttle", "second words", "third words", "fourth words")

    async def read(query: str) -> str:
        found = await visitor.get(path + query)
        assert found.status_code == 200, found.text
        return found.text

    def which(page: str) -> list[str]:
        said = page.partition("</h1>")[2]
        return [one for one in words if one in said]

    now = await read("")
    assert which(now) == list(words)
    for version, count in ((2, 0), (3, 1), (5, 1), (6, 2), (7, 3), (9, 5)):
        page = await read(f"?version={version}")
        assert which(page) == list(words[:count]), version
        assert f"as it was at version {version}" in page
        assert "data-live" not in page
        assert 'id="acts"' not in page
    numbers = re.findall(r'class="ref" href="[^"]*\?version=(\d+)#(i\d+)"', now)
    for version, place in numbers:
        page = await read(f"?version={version}")
        assert f'id="{place}"' in page, "each link leads to its message"
    assert len(numbers) == 5
    came = await read("/versions?from=5&to=7")
    assert which(came) == ["found the shuttle", "second words"]
    assert "Calls that had begun, and ended" in came
    assert ">executing tools<" in came.replace("</bdi>", "<").replace("<bdi>", "")
    assert await read("/versions?from=7&to=5") == came
    gone = await read("/versions?from=9")
    assert "Another title" in gone
    assert "Gone back from" in gone
    assert which(gone.partition("What came</h2>")[2]) == []
    listed = await read("/versions")
    assert re.findall(r"\?version=(\d+)", listed) == ["11", "7"]
    for query in ("?version=99", "/versions?from=99", "/versions?from=1&to=99", "?version=0"):
        assert (await visitor.get(path + query)).status_code == 404, query


async def test_forks_and_what_they_go_on_from_stand_in_one_tree(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    first = await speak(store, "mine", "first words")
    other = await speak(store, "other", "another thread")
    fork = fork_thread(store, first).thread
    beside = fork_thread(store, first).thread
    below = fork_thread(store, fork).thread
    for thread in (first, fork, beside, below):
        page = (await visitor.get(f"/threads/{thread}/family")).text
        told = page.partition('<ol class="threads family">')[2]
        rows = re.findall(r'<li class="(d\d(?: this)?)".*?href="/threads/([^"]+)"', told, re.DOTALL)
        assert rows == [
            ("d0" + " this" * (one == thread), one)
            if depth == 0
            else (f"d{depth}" + " this" * (one == thread), one)
            for one, depth in ((first, 0), (fork, 1), (below, 2), (beside, 1))
        ]
    alone = (await visitor.get(f"/threads/{other}/family")).text
    assert "Nothing goes on from this thread" in alone


def test_a_family_is_told_whatever_threads_say_of_each_other() -> None:
    def line(name: str, **more: str) -> ThreadSummary:
        return ThreadSummary(name, 1, more.pop("at", "1"), "1", name, "ready", 1, **more)  # type: ignore[arg-type]

    lines = {
        one.id: one
        for one in (
            line("a", forked_from="c"),
            line("b", forked_from="a", at="3"),
            line("c", forked_from="b"),
            line("d", parent="a", at="2"),
            line("e", forked_from="gone"),
            line("f", forked_from="f"),
        )
    }
    found = {name: find_family_ids(lines, name) for name in lines}
    assert {name: sorted(ids) for name, ids in found.items()} == {
        **{name: ["a", "b", "c", "d"] for name in "abcd"},
        "e": ["e"],
        "f": ["f"],
    }
    rows = [
        ThreadRow(one, one.id, one.id, one.id, "ready", "", "", "now") for one in lines.values()
    ]
    told = [(one.row.name, one.depth) for one in order_family(rows, "a")]
    assert sorted(name for name, *_ in told) == [*"abcdef"]
    assert ("d", 1) in told
