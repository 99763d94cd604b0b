"""The table of what a thread has committed, and the ways between it and the talk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

import httpx2
from msgspec.structs import replace

from core.samples import answer, call, ended, said, success
from pages.test_thread_views import keep
from thread.journals import HEADER, OTHER_ID, write
from treadle import LocalStore
from treadle.app.exchange.thread_export import export_thread
from treadle.app.threads.forks import fork_thread
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.pages.thread_page import COMMIT_COUNT
from treadle.thread.codec import Entry
from treadle.thread.safe_text import sanitize_text

HASH: Final = "0123456789abcdef0123456789abcdef01234567"
HOSTILE: Final = "</td><script>document.title='taken'</script>\x1b[2J\u202e"
ROW: Final = re.compile(r'<tr id="c(\d+)">(.*?)</tr>', re.DOTALL)
CELLS: Final = r'<code title="([^"]*)">.*<td><bdi>(.*?)</bdi></td><td>(.*?)</td>.*<bdi>turn (\d): '
PLACE: Final = re.compile(r'href="([^"]+)\?page=(\d+)#i(\d+)"')


def make_round(name: str, hook: PostToolsHookCompleted, text: str = "") -> Iterator[list[Entry]]:
    """A round of two calls, and what its hook says."""
    one, two = call(f"{name}-1", "look"), call(f"{name}-2", "look")
    yield [answer(text, one, two)]
    yield [ToolStarted(one.id), ToolStarted(two.id)]
    yield [ended(one.id, success(one.id, "seen")), ended(two.id, success(two.id, "seen"))]
    yield [hook]


def list_batches() -> list[list[Entry]]:
    """Two turns with four rounds: a commit, none, one of an older journal, a hostile one."""
    return [
        [said("weave")],
        *make_round(
            "a",
            PostToolsHookCompleted(True, "committed 0123456 fix: loom (2 files)", commit=HASH),
            "I look first.",
        ),
        *make_round("b", PostToolsHookCompleted(False, "not committed: a.py had changes of yours")),
        [answer("done")],
        [said(f"go on {HOSTILE}")],
        *make_round("c", PostToolsHookCompleted(True, "committed 7654321 feat: warp (1 file)")),
        *make_round("d", PostToolsHookCompleted(True, "tidied up", commit=HOSTILE)),
        [answer("done again")],
    ]


async def test_each_commit_stands_beside_what_it_was_made_of_and_the_talk_leads_to_it(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = keep(store, *list_batches())
    table = (await visitor.get(f"/threads/{thread}/commits")).text
    rows = ROW.findall(table)
    told = [
        (unescape(found[1]), unescape(found[2]), found[3], found[4])
        for _, row in rows
        if (found := re.search(CELLS, row, re.DOTALL))
    ]
    assert told == [
        (HASH, "fix: loom", "2", "1"),
        ("7654321", "feat: warp", "1", "2"),
        (sanitize_text(HOSTILE), "(not told)", "", "2"),
    ]
    talk = (await visitor.get(f"/threads/{thread}")).text
    for number, row in rows:
        [(path, page, first)] = PLACE.findall(row)
        assert (path, page) == (f"/threads/{thread}", "1")
        places = [int(one) for one in re.findall(r'id="i(\d+)"', talk)]
        assert {int(first), int(number)} <= {*places}
        back = f'href="/threads/{thread}/commits?page=1#c{number}"'
        items = re.split(r'(?=id="i\d+")', talk)[1:]
        led = [one for one in places if back in items[places.index(one)]]
        assert led == list(range(int(first), int(number) + 1)), "the whole round, and its note"
    first_words = items[places.index(int(PLACE.findall(rows[0][1])[0][2]))]
    assert "I look first." in first_words
    for page_text in (table, talk):
        assert "<script>document" not in page_text
        assert "\u202e" not in page_text
    assert "/commits" not in export_thread(store, thread, "html", force=True).data.decode()
    assert (await visitor.get(f"/threads/{thread}/commits?page=2")).status_code == 404


async def test_a_fork_tells_what_it_goes_on_from_and_a_thread_without_commits_says_so(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = keep(store, *list_batches())
    fork = fork_thread(store, thread).thread
    rows = ROW.findall((await visitor.get(f"/threads/{fork}/commits")).text)
    assert len(rows) == 3
    assert not any("?version=" in row for _, row in rows), "those versions are of the other thread"
    bare = OTHER_ID
    store.adopt(write([[replace(HEADER, thread=bare)], [said("weave")]])[0], is_mine=True)
    page = (await visitor.get(f"/threads/{bare}/commits")).text
    assert "Nothing was committed" in page
    assert f'href="/threads/{bare}/commits" aria-current="page"' in page


async def test_the_newest_of_many_commits_come_first_and_keep_their_page(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    batches = [[said("weave")]]
    for number in range(COMMIT_COUNT + 3):
        note = f"committed {number:07x} commit {number} (1 file)"
        batches += make_round(f"r{number}", PostToolsHookCompleted(True, note))
    thread = keep(store, *batches, [answer("done")])
    seen = {}
    for query in ("", "?page=1", "?page=2"):
        text = (await visitor.get(f"/threads/{thread}/commits{query}")).text
        seen[query] = [int(one) for one in re.findall(r"<bdi>commit (\d+)</bdi>", text)]
    assert seen["?page=1"] == list(range(COMMIT_COUNT))
    assert seen[""] == seen["?page=2"] == list(range(COMMIT_COUNT, COMMIT_COUNT + 3))
    talk = (await visitor.get(f"/threads/{thread}")).text
    [path, *_] = re.findall(r'href="([^"]+/commits\?page=2#c\d+)"', talk)
    assert f'id="{path.partition("#")[2]}"' in (await visitor.get(path.partition("#")[0])).text
