"""Pages that others have open: what comes to them by itself, and to whom it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from playwright.sync_api import Browser
from sqlalchemy import delete, select

from core.samples import CONFIG, answer, call, ended, said, success
from server.people import ROLES
from server.planting import THREAD, plant_records
from server.running import request
from server.test_pages import Site
from server.test_pages import site as site
from server.test_pages_in_browser import browser as browser
from server.test_thread_reads import make_notes
from thread.journals import HEADER, PLAIN, records_of, write
from treadle.api.error_codes import ErrorCode
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.pages import last_pages, thread_page
from treadle.server.accounts import support
from treadle.server.data import schema
from treadle.server.http.page_threads import ServerThreads
from treadle.server.refusals import Refusal
from treadle.server.threads.stories import read_story_at
from treadle.thread.codec import Entry
from treadle.thread.facts import Annotated, Configured, Renamed, Shared, Visibility

LAST: Final = records_of(write(PLAIN)[0])[-1].seq
PATIENCE_MS: Final = 60_000
START: Final[tuple[tuple[Entry, ...], ...]] = ((HEADER, Configured(CONFIG, "scripted")),)
STEPS: Final[tuple[Entry, ...]] = (
    said("go"),
    answer("", call("a"), call("b", "edit")),
    ToolStarted("b"),
    ended("a", success("a", "one")),
    ended("b", success("b", "written", "file.txt")),
    PostToolsHookCompleted(True, "", commit="c0ffee0"),
    answer("# Done\n\n`it`"),
    Renamed("A name"),
    said("more"),
    answer("That is all."),
)
"""A session that goes on record by record: calls get results, a turn gets what it used."""


class Watcher:
    """The stream of a page that somebody has open, event by event.

    Args:
        site: the server.
        cookie: of the session.
        path: of the stream.
    """

    def __init__(self, site: Site, cookie: str, path: str) -> None:
        self._connection = site.server.connect()
        self._connection.sendall(request("GET", path, cookie=f"treadle-session={cookie}"))
        self._lines = self._connection.makefile("rb")

    def read(self) -> dict[str, Any]:
        """The next event; empty at the end of the stream."""
        for line in self._lines:
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
            if line == b"0\r\n":  # the last piece of the body
                break
        return {}

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


@pytest.fixture
def watch(site: Site) -> Iterator[Callable[..., Watcher]]:
    """Opens the stream of the last page of the thread for somebody."""
    opened: list[Watcher] = []

    def start(name: str, page: str = "?page=1", place: str = f"/threads/{THREAD}/live") -> Watcher:
        opened.append(Watcher(site, site.sign_in(name), place + page))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def plant(site: Site) -> None:
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"])


def read_notes(site: Site) -> list[tuple[int, str]]:
    with site.people.database.read() as db:
        rows = db.execute(select(schema.thread_reads)).all()
    return [(row.user_id, row.ways) for row in rows]


def test_what_is_pushed_comes_to_who_looks_and_to_nobody_who_may_not(
    site: Site, watch: Callable[..., Watcher]
) -> None:
    """Who may see it no more is let go, and hears no word of what came with that."""
    plant(site)
    with site.people.writing() as context:
        support.grant_access(context, THREAD)
    names = ("owner", "member", "chief", "support")
    open_pages = {name: watch(name) for name in names}
    listeners = {name: watch(name, "") for name in names}
    firsts = {name: one.read() for name, one in open_pages.items()}
    assert {one["version"] for one in firsts.values()} == {LAST}
    assert all("html" not in one for one in firsts.values()), "they have the page"
    assert [one.read() for one in listeners.values()] == [{"version": LAST, "text": ""}] * 4
    with site.people.database.write() as db:
        db.execute(delete(schema.thread_reads))
    site.server.app.services.read_notes = make_notes(site.people.database)
    site.push(Annotated("news"))
    told = {name: one.read() for name, one in open_pages.items()}
    assert [one.read() for one in listeners.values()] == [{"version": LAST + 1, "text": ""}] * 4
    assert told["member"] == told["chief"] == told["owner"]
    assert told["support"] == {"version": LAST + 1, "text": ""}, "only the database knows of it"
    assert told["member"]["since"] == firsts["member"]["tag"]
    assert "news" in told["member"]["html"]
    assert "done" not in told["member"]["html"], "what is there is not sent again"
    readers = {(site.people[name].user_id, "page") for name in ("member", "chief")}
    assert {*read_notes(site)} == readers, "the others are told only that there is something"
    site.push(Shared("private"), Annotated("secret"))
    ends = {name: one.read() for name, one in open_pages.items()}
    assert {name for name, one in ends.items() if one} == {"owner", "support"}
    assert "secret" in ends["owner"]["html"]
    assert ends["support"] == {"version": LAST + 3, "text": ""}


@pytest.mark.parametrize("case", ["large", "turned", "unnoted"])
def test_what_cannot_be_sent_is_told_and_can_be_fetched(
    site: Site, watch: Callable[..., Watcher], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(site)
    watcher = watch("member")
    first = watcher.read()
    news = "news"

    def refuse(*_: object) -> None:
        raise Refusal(ErrorCode.UNAVAILABLE, "busy")

    if case == "large":
        news *= last_pages.NEWS_SIZE_MAX
    elif case == "turned":
        small = (thread_page.PageSize(1, 1, 1),)
        monkeypatch.setattr(thread_page.make_thread_page, "__defaults__", small)
    else:
        monkeypatch.setattr(site.server.app.services, "keep_reads", refuse)
    site.push(Annotated(news))
    told = watcher.read()
    assert told["version"] == first["version"] + 1
    assert "html" not in told
    assert ("tag" in told) == (case == "large")


def test_who_watches_together_has_a_thread_told_and_laid_out_once(site: Site) -> None:
    plant(site)
    source = ServerThreads(site.server.app.services, site.people["member"], "secret")
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(lambda _: source.read_thread(THREAD), range(24)))
    assert len({id(one) for one in shown}) == 1
    site.push(Annotated("news"))
    after = source.read_thread(THREAD)
    assert after is not shown[0]
    with site.people.database.read() as db:
        found = [read_story_at(db, THREAD, version) for version in (LAST, LAST + 1)]
    assert found == [None, after], "who may read a version was looked at for that one"
    cookie = site.sign_in("member")
    first, *others = [site.get(f"/threads/{THREAD}{page}", cookie) for page in ("", "?page=1")]
    assert "news" in first.body.decode()
    assert others[0].body == first.body
    named = site.get(f"/threads/{THREAD}%40owner", cookie).body.decode()
    assert f'data-live="/threads/{THREAD}%40owner/live"' in named, "links lead to what was opened"


def test_a_page_that_is_open_is_at_each_record_what_a_new_one_would_be(
    site: Site, browser: Browser
) -> None:
    """Not all is fetched meanwhile (a slow server may be behind), and what is open stays open."""
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"], START)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    value = site.sign_in("member")
    context.add_cookies([{"name": "treadle-session", "value": value, "url": site.server.url}])
    wrong: list[str] = []
    page, other = context.new_page(), context.new_page()
    page.on("console", lambda said: wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    asked: list[str] = []
    address = f"{site.server.url}/threads/{THREAD}"
    with page.expect_response(lambda one: one.url.endswith("/live?page=1")):
        page.goto(address)
    page.on("request", lambda one: asked.append(one.url))
    missed, version = [], 2
    for number, entry in enumerate(STEPS):
        site.push(entry)
        version += 1
        page.wait_for_selector(f"#items[data-version='{version}']", state="attached")
        if number == 1:
            page.evaluate("document.querySelector('details.call').open = true")
        other.goto(address)
        found = [
            one.evaluate(
                "() => { const copy = document.getElementById('items').cloneNode(true);"
                "copy.querySelectorAll('details').forEach((one) => one.removeAttribute('open'));"
                "return copy.outerHTML.replace(/>\\s+</g, '><'); }"
            )
            for one in (page, other)
        ]
        if found[0] != found[1]:
            missed.append((entry, found))
    assert missed == []
    assert page.locator("details.call[open]").count() == 1
    assert wrong == []
    assert len(asked) < len(STEPS)
    before = len(asked)
    for news in ("large" * last_pages.NEWS_SIZE_MAX, "small"):
        site.push(Annotated(news))
        version += 1
        page.wait_for_selector(f"#items[data-version='{version}']", state="attached")
    assert f"{address}?page=1" in asked[before:], "what is too large for the stream"
    context.close()


def test_lists_are_what_new_ones_would_be(site: Site, browser: Browser) -> None:
    """A thread that is named anew, and one that somebody may see no more."""
    plant(site)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    value = site.sign_in("member")
    context.add_cookies([{"name": "treadle-session", "value": value, "url": site.server.url}])
    pages = {path: context.new_page() for path in ("/", "/?owner=owner", "/team")}
    for path, page in pages.items():
        page.goto(site.server.url + path)
    site.push(Renamed("A new name"))
    for page in pages.values():
        page.wait_for_selector("#region .title:has-text('A new name')")
        page.locator("#region .title").focus()
    site.push(Renamed("Another"))
    for page in pages.values():
        page.wait_for_selector("#region .title:has-text('Another'):focus")
    site.push(Shared("private"))
    for page in pages.values():
        page.wait_for_selector("#region .title", state="detached")
    context.close()


def test_who_hears_that_a_list_is_another_may_see_what_has_changed(
    site: Site, watch: Callable[..., Watcher]
) -> None:
    plant(site)
    listeners = site.server.app.services.change_listeners
    listed = watch("owner", place="/live")
    heard: dict[str, set[str]] = {}
    newest = 0
    steps: tuple[Visibility | None, ...] = (None, "private", "organization", "public")
    for visibility in steps:
        site.push(Annotated("news"), *([Shared(visibility)] if visibility else ()))
        while listeners.find_newest_heard(site.people["owner"], newest) == newest:
            listed.read()
        found = {name: listeners.find_newest_heard(site.people[name], newest) for name in ROLES}
        heard[visibility or ""] = {name for name, change in found.items() if change > newest}
        newest = max(found.values())
    team = {"owner", "member", "chief", "support"}
    del heard[""]  # what was before the process first looked, only the database knows
    assert heard == {
        "private": {"owner", "support"},
        "organization": team,
        "public": {*ROLES},
    }, "of staff only the database knows"
