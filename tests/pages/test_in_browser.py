"""The pages in a real browser, served by the real command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from pages.page_judge import find_faults
from pages.without_script import find_unreadable, list_unopened
from treadle import LocalStore
from treadle.app.pages.local_site import LocalSite

LOOKS: Final[tuple[tuple[Literal["light", "dark"], tuple[int, int]], ...]] = (
    ("light", (390, 800)),
    ("dark", (1280, 900)),
)
"""A phone's, which is light, and a desk's, which is dark."""
PATIENCE_MS: Final = 60_000

SCRIPT: Final = """
[[replies]]
when.user = "weave"
text = "I look first."
[[replies.calls]]
tool = "bash"
arguments = { command = "echo loom; echo shuttle" }
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a\\nloom = 1", new_str = "a\\nloom = 2" }] }
[[replies]]
when.user = "weave"
text = '''
# Cloth

It is **woven**, see `calc.py`:

```python
print("loom")
```

| thread | count |
| --- | --- |
| warp | 40 |
'''
[[replies]]
when.user = "go on"
text = "A second answer."
"""
ASK_AS_NOBODY: Final = """
import os, socket, sys
request = sys.stdin.buffer.read()
os.setuid(65534)  # not before: what Python is made of may be its user's alone
own = socket.socket()
own.connect(("127.0.0.1", int(sys.argv[1])))
own.sendall(request)
while data := own.recv(65536):
    sys.stdout.buffer.write(data)
"""
HOSTILE: Final = (
    "<script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "[a](javascript:document.title='taken') <svg onload=alert(1)>",
    "</div></main><iframe src=http://127.0.0.1:9/></iframe><base href=http://127.0.0.1:9/>",
    "![x](http://127.0.0.1:9/pixel.png) <style>body{display:none}</style>",
    "{{ 7 * 7 }}{% raw %} &lt;script&gt; \u202e gnidaer <details open ontoggle=alert(1)>",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "the tests of pages need a browser: apt-get install chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


class Web:
    """`treadle web`, and a folder in which threads are made."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.script = folder / "script.toml"
        self.process: subprocess.Popen[str] | None = None

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "treadle", *arguments],
            cwd=self.folder,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def say(self, prompt: str, *more: str, script: str = SCRIPT) -> str:
        """A turn; the id of its thread."""
        self.script.write_text(script)
        model = ("-m", f"scripted:{self.script}", "--no-commit")
        told = self.run(*more, "-p", prompt, *model, "--output-format", "json")
        return str(json.loads(told)["thread"])

    def start(self) -> str:
        """Serve; the link."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "web", "--no-browser"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found is not None
        return found[0]


@pytest.fixture
def web(repository: Path, environment: dict[str, str]) -> Iterator[Web]:
    found = Web(repository, environment)
    yield found
    if found.process is not None:
        found.process.kill()
        found.process.communicate()


def let_in(browser: Browser, link: str, **options: Any) -> tuple[BrowserContext, list[str]]:
    """A browser that has followed the link, and what goes wrong in it."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []

    def listen(page: Page) -> None:
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda asked: wrong.append(asked.url) if ":9/" in asked.url else None,
        )

    context.on("page", listen)
    context.new_page().goto(link)
    return context, wrong


def test_every_page_is_fit_for_all_and_each_size_and_ground(browser: Browser, web: Web) -> None:
    thread = web.say("weave cloth")
    link = web.start()
    context, wrong = let_in(browser, link)
    kept = context.storage_state()
    home = link.partition("/open/")[0]
    paths = ("/", "/?words=loom", "/?state=waiting", f"/threads/{thread}")
    paths += (f"/threads/{thread}?diff=split", f"/threads/{thread}?diff=unified", "/nothing")
    paths += (f"/threads/{thread}/versions", f"/threads/{thread}/versions?from=4")
    paths += (f"/threads/{thread}/trace", f"/threads/{thread}/states", f"/threads/{thread}/family")
    export = web.folder / "export.html"
    web.run("export", thread, "--format", "html", "-o", str(export))
    places = [*(home + path for path in paths), export.as_uri()]
    faults = []
    for ground, (width, height) in LOOKS:
        seen = browser.new_context(
            storage_state=kept,
            color_scheme=ground,
            viewport={"width": width, "height": height},
            bypass_csp=True,  # the judge is a script of its own
        )
        page = seen.new_page()
        faults += [(ground, one) for path in places for one in find_faults(page, path)]
        seen.close()
    assert faults == []
    assert [one for one in wrong if "404" not in one] == []


def test_an_export_has_its_style_and_asks_nobody(browser: Browser, web: Web) -> None:
    thread = web.say("weave cloth", script=SCRIPT.replace("woven", "<img src=x onerror=alert(1)>"))
    export = web.folder / "export.html"
    web.run("export", thread, "--format", "html", "-o", str(export))
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: said.append(one.text))
    page.goto(export.as_uri())
    assert (asked, said) == ([export.as_uri()], [])
    width = page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth")
    assert width != "none", "its own style counts"
    code = page.locator("pre .s", has_text="loom")
    assert code.evaluate(
        "one => getComputedStyle(one).color !== getComputedStyle(one.parentElement).color"
    )


def test_without_a_script_every_page_can_be_read_and_its_forms_sent(
    browser: Browser, web: Web
) -> None:
    """With the keyboard alone, too."""
    thread = web.say("weave cloth", script=SCRIPT.replace("shuttle", "shuttle; seq 99999"))
    link = web.start()
    context, _ = let_in(browser, link, java_script_enabled=False)
    page = context.pages[0]
    for _ in range(20):
        if page.locator(".title:focus").count():
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#items")
    page.locator("summary", has_text="$ echo loom").focus()
    page.keyboard.press("Enter")
    output = page.locator("details[open] a[href*='/outputs/']").get_attribute("href")
    assert page.locator("details[open] .result").inner_text().startswith("loom\nshuttle")
    assert page.locator("h3", has_text="Cloth").is_visible()
    page.fill("input[name=words]", "woven")
    page.keyboard.press("Enter")
    page.wait_for_selector("mark")
    mine = f"/threads/{thread}"
    places = {
        "/": "weave cloth",
        "/?words=woven": "woven",
        "/?state=waiting": "No thread",
        mine: "Cloth",
        f"{mine}?version=6": "version 6",
        f"{mine}?diff=split": "loom = 2",
        f"{mine}/versions": "What came",
        f"{mine}/versions?from=4": "Cloth",
        f"{mine}/commits": "commit",
        f"{mine}/trace": "ms",
        f"{mine}/states": "Ways",
        f"{mine}/family": "weave cloth",
        f"{mine}/nothing": "no such page",
        str(output): "shuttle",
        f"/open/{'x' * 32}": "used already",
    }
    home, faults = link.partition("/open/")[0], []
    store = LocalStore(web.folder / "none")
    routes = {one.path for one in LocalSite(store, 1).list_routes() if "GET" in (one.methods or ())}
    routes -= {"/live", "/threads/{thread_id}/live", "/static/{name}"}
    routes -= {"/threads/{thread_id}/pictures/{digest}"}
    for path, words in places.items():
        page.goto(home + path)
        faults += [(path, fault) for fault in find_unreadable(page, words)]
    assert faults == []
    assert list_unopened(routes, places) == [], "each is looked at here, or is none of a page"
    page.goto(home + mine)
    web.script.write_text(SCRIPT)
    page.fill("#say textarea", "go on")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#acts")
    while "go on" not in page.inner_text("#items"):
        page.reload()


def test_what_happens_meanwhile_comes_by_itself(browser: Browser, web: Web) -> None:
    thread = web.say("weave cloth")
    context, wrong = let_in(browser, web.start())
    page = context.pages[0]
    page.click(".title")
    page.locator("summary", has_text="$ echo loom").click()
    listed = context.new_page()
    listed.goto(page.url.partition("/threads/")[0])
    web.say("go on", "-r", thread)
    page.wait_for_selector("text=A second answer.")
    assert page.locator("details[open] .result").count() == 1, "what was open stays open"
    web.say("weave more")
    listed.wait_for_selector(".title:has-text('weave more')")
    assert wrong == []
    assert web.process is not None
    web.process.send_signal(signal.SIGINT)  # with a stream open
    assert web.process.wait(timeout=60) in (0, 130)


def test_nothing_of_what_a_thread_holds_runs_or_leaves(browser: Browser, web: Web) -> None:
    replies = [
        "[[replies]]",
        f"text = '''{chr(10).join(HOSTILE)}'''",
        "[[replies.calls]]",
        'tool = "bash"',
        f"arguments = {{ command = '''printf '%s' {HOSTILE[0]!r} #''' }}",
        "[[replies]]",
        f"text = '''{HOSTILE[3]}'''",
    ]
    thread = web.say("\n".join(HOSTILE), script="\n".join(replies))
    web.run("rename", thread, HOSTILE[0])
    web.run("tag", thread, "<b>tag</b>")
    context, wrong = let_in(browser, web.start())
    page = context.pages[0]
    page.click(".title")
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert page.title() == f"{HOSTILE[0]} · Treadle"
    assert page.locator("main script, main iframe, main img, main svg, main style").count() == 0
    assert page.locator("article.prompt .text").inner_text().startswith(HOSTILE[0])
    page.goto(page.url.partition("/threads")[0] + "/?words=document")
    assert page.locator("main script").count() == 0
    assert wrong == []


def test_another_user_of_the_machine_gets_nothing_for_the_link(web: Web) -> None:
    """Arguments of programs, the browser's too, can be read by all."""
    thread = web.say("weave cloth")
    link = web.start()
    place, path = link.removeprefix("http://127.0.0.1:").partition("/")[::2]
    request = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{place}\r\nConnection: close\r\n\r\n"
    for _ in range(os.getuid() == 0):
        done = subprocess.run(
            [sys.executable, "-c", ASK_AS_NOBODY, place],
            input=request,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "403 Forbidden" in done.stdout
        assert "another user" in done.stdout
        assert thread not in done.stdout
    opened = httpx2.get(link)
    assert (opened.status_code, "set-cookie" in opened.headers) == (303, True)
