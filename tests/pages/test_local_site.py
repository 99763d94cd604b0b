"""The pages of this machine's threads: who may see them, and what they show."""

from __future__ import annotations

import asyncio
import re

import httpx2

from pages.conftest import LONG, PORT, speak
from treadle import LocalStore
from treadle.app.pages.local_site import LocalSite
from treadle.app.threads.forks import fork_thread
from treadle.app.upkeep.thread_scrub import ScrubJob, make_redaction, scrub_threads

HERE = f"127.0.0.1:{PORT}"


async def test_nobody_sees_a_thread_who_was_not_let_in(
    store: LocalStore, site: LocalSite, stranger: httpx2.AsyncClient
) -> None:
    thread = await speak(store, "mine", "the secret of the loom")
    site.stop()  # a stream that is begun ends at once
    paths = ("/", f"/threads/{thread}", f"/threads/{thread}/live", "/?words=loom", "/nothing")
    paths += (f"/threads/{thread}/outputs/x",)
    seen = {}
    for path in paths:
        for cookie in ("", f"treadle-{PORT}=", f"treadle-{PORT}=guess", "treadle=x"):
            answer = await stranger.get(path, headers={"cookie": cookie})
            if answer.status_code != 403 or "loom" in answer.text:
                seen[path, cookie] = answer.text
    assert seen == {}
    link = site.make_link()
    assert (await stranger.get(link)).status_code == 303
    again = await stranger.get(link)
    assert (again.status_code, "used already" in again.text) == (403, True)
    assert (await stranger.get("/open/guess")).status_code == 403
    inside = {path: (await stranger.get(path)).status_code for path in paths}
    assert inside == {
        "/": 200,
        f"/threads/{thread}": 200,
        f"/threads/{thread}/live": 200,
        "/?words=loom": 200,
        "/nothing": 404,
        f"/threads/{thread}/outputs/x": 400,
    }


async def test_a_page_of_another_site_gets_nothing_though_the_cookie_comes_along(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    await speak(store, "mine", "the secret of the loom")
    cases = {
        "another name": ({"host": "evil.example"}, 403),
        "another port": ({"host": "127.0.0.1:1"}, 403),
        "no port": ({"host": "127.0.0.1"}, 403),
        "a name that ends like ours": ({"host": f"x.{HERE}"}, 403),
        "capitals": ({"host": f"LOCALHOST:{PORT}"}, 200),
        "a script elsewhere": ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        "a picture on another port": (
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
            403,
        ),
        "a link elsewhere": ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        "typed": ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
        "our own script": ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
    }
    found = {}
    for name, (headers, status) in cases.items():
        answer = await visitor.get("/", headers=headers)
        if answer.status_code != status or (status == 403 and "loom" in answer.text):
            found[name] = answer.status_code
    assert found == {}


async def test_every_answer_forbids_what_a_page_of_foreign_text_must_not_do(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = await speak(
        store, "mine", "x", calls=[{"tool": "look_up", "arguments": {"name": "a"}}]
    )
    paths = ("/", f"/threads/{thread}", "/nothing", "/static/pages.css", "/static/../site.py")
    for path in paths:
        told = (await visitor.get(path)).headers
        assert "default-src 'none'" in told["content-security-policy"], path
        assert "unsafe" not in told["content-security-policy"], path
        assert told["x-content-type-options"] == "nosniff", path
        assert told["cache-control"] == "no-store", path
    page = (await visitor.get(f"/threads/{thread}")).text
    assert not re.search(r"<script(?! src)|style=|\son\w+=|javascript:", page)


async def test_a_page_weighs_little_but_for_what_was_said(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = await speak(store, "mine", "x")
    page = await visitor.get(f"/threads/{thread}")
    files = {*re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)}
    assert len(files) == 5
    weights = [len((await visitor.get(path)).content) for path in files]
    assert len(page.content) + sum(weights) <= 60_000


async def test_threads_are_listed_and_found(store: LocalStore, visitor: httpx2.AsyncClient) -> None:
    empty = (await visitor.get("/")).text
    assert "There are no threads yet" in empty
    for number in range(53):
        await speak(store, f"key {number}", f"weave cloth {number}")
    first, second = [(await visitor.get(f"/?page={page}")).text for page in (1, 2)]
    shown = [len(re.findall(r'class="title"', page)) for page in (first, second)]
    assert shown == [50, 3]
    assert "1 to 50 of 53" in first
    assert 'rel="next" href="/?page=2"' in first
    assert 'rel="prev" href="/?page=1"' in second
    assert (await visitor.get("/?page=0")).status_code == 404
    assert (await visitor.get("/?page=x")).status_code == 404
    assert "No thread is like that" in (await visitor.get("/?state=waiting")).text
    found = (await visitor.get("/", params={"words": '"weave cloth 17"'})).text
    assert "1 thread with" in found
    assert re.sub(r"</?mark>", "", found).count("weave cloth 17") >= 2
    assert "<mark>" in found
    assert "Nothing was found" in (await visitor.get("/?words=nobody-said-this")).text
    assert (await visitor.get("/?words=%20%2b%20")).status_code == 400


async def test_a_thread_is_shown_with_its_calls_and_their_whole_outputs(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    calls = [{"tool": "look_up", "arguments": {"name": "long"}}]
    thread = await speak(store, "mine", "a first <prompt>", "and a second", calls=calls)
    page = (await visitor.get(f"/threads/{thread}")).text
    assert "a first &lt;prompt&gt;" in page
    assert "<strong>Fine</strong>" in page
    assert "2 prompts" in page
    assert "look_up long" in page
    assert 'data-page="1"' in page
    (link, *_) = re.findall(r'href="(/threads/[^"]*/outputs/[^"]*)"', page)
    output = await visitor.get(link)
    assert output.headers["content-type"] == "text/plain; charset=utf-8"
    assert output.text == LONG
    assert (await visitor.get(f"/threads/{thread}?page=2")).status_code == 404
    gone = thread[:-1] + ("0" if thread[-1] != "0" else "1")
    for name in (gone, "T-1", "..%2f..%2fetc", "%00"):
        answer = await visitor.get(f"/threads/{name}")
        assert answer.status_code == 404, name


async def test_what_is_kept_of_a_thread_is_not_older_than_its_journal(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    thread = await speak(store, "mine", "one")
    assert "second prompt" not in (await visitor.get(f"/threads/{thread}")).text
    await speak(store, "mine", "a second prompt")
    assert "a second prompt" in (await visitor.get(f"/threads/{thread}")).text
    fork = fork_thread(store, thread, notify=lambda _: None).thread
    assert "a second prompt" in (await visitor.get(f"/threads/{fork}")).text
    redact, sign = make_redaction("a second prompt")
    job = ScrubJob(store=store, threads=[thread], redact=redact, sign=sign)
    assert (await asyncio.to_thread(scrub_threads, job)).was_found
    for one in (thread, fork):
        assert "second prompt" not in (await visitor.get(f"/threads/{one}")).text, one


async def test_changes_stand_as_somebody_wants_them_and_that_is_remembered(
    store: LocalStore, visitor: httpx2.AsyncClient
) -> None:
    edits = [{"old_str": "loom = 1\nsame", "new_str": "loom = 2\nsame"}]
    edit = {"tool": "edit_file", "arguments": {"path": "a.py", "edits": edits}}
    created = {"tool": "write_file", "arguments": {"path": "b.py", "content": "1\n2"}}
    thread = await speak(store, "mine", "x", calls=[edit, created])
    path = f"/threads/{thread}"
    seen = []
    for query in ("", "?diff=split", "", "?diff=unified", "", "?diff=<b>"):
        answer = await visitor.get(path + query)
        seen.append(
            (answer.text.count('class="split"'), len(answer.headers.get_list("set-cookie")))
        )
    assert seen == [(0, 0), (1, 1), (1, 0), (0, 1), (0, 0), (0, 0)]
    split = (await visitor.get(path, params={"diff": "split"})).text
    assert (
        '<td class="removed">-loom = <em>1</em></td><td class="added">+loom = <em>2</em>' in split
    )
    unified = (await visitor.get(path, params={"diff": "unified"})).text
    assert '<span class="removed">-loom = <em>1</em>\n</span><span class="added">+loom' in unified
