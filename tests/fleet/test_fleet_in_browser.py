"""A fleet in a real browser, beside a real worker: fit for all, and up to date by itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import BrowserContext, Page, async_playwright

from fleet.queue_checks import until
from fleet.teams import Team
from fleet.test_fleet_page import site as site
from fleet.test_fleet_page import team as team
from pages.page_judge import AXE
from server.test_pages import Site
from server.test_pages_in_browser import LOOKS, PATIENCE_MS
from treadle.fleet.port import JobStatus


class Desk:
    """A browser, and who has signed in there."""

    def __init__(self, site: Site, browser: Any) -> None:
        self.site, self.browser = site, browser
        self.wrong: list[str] = []

    async def open(self, name: str, path: str, **options: Any) -> Page:
        """A page, seen by somebody."""
        context: BrowserContext = await self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        cookie = await asyncio.to_thread(self.site.sign_in, name)
        here = self.site.server.url
        await context.add_cookies([{"name": "treadle-session", "value": cookie, "url": here}])
        page = await context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda one: one.type == "error" and self.wrong.append(one.text))
        await page.goto(here + path)
        return page


@asynccontextmanager
async def open_desk(site: Site) -> AsyncIterator[Desk]:
    path = shutil.which("chromium")
    assert path, "the tests of pages need a browser: apt-get install chromium"
    async with async_playwright() as playwright:
        launch: Callable[..., Any] = playwright.chromium.launch
        browser = await launch(executable_path=path, args=["--no-sandbox"])
        desk = Desk(site, browser)
        yield desk
        await browser.close()
        assert desk.wrong == []


SCREEN: Final = "document.documentElement.scrollWidth"


async def find_faults(desk: Desk, name: str, path: str) -> list[tuple[str, ...]]:
    """What a page lacks for somebody, by the judge of axe, on a phone and on a desk."""
    faults: list[tuple[str, ...]] = []
    for ground, (width, height) in LOOKS:
        look = {"color_scheme": ground, "viewport": {"width": width, "height": height}}
        page = await desk.open(name, path, bypass_csp=True, **look)
        for summary in await page.query_selector_all("summary"):
            await summary.click()
        if await page.evaluate(SCREEN) > width:
            faults.append((ground, path, "wider than the screen"))
        await page.add_script_tag(path=str(AXE))
        told = await page.evaluate("axe.run()")
        faults += [(ground, path, one["id"], one["nodes"][0]["html"]) for one in told["violations"]]
        await page.context.close()
    return faults


async def test_a_task_is_seen_to_wait_is_answered_and_seen_to_end(team: Team, site: Site) -> None:
    program = team.program
    asked = await program.asking.submit("Pay the bill of the water works", user="member")
    async with open_desk(site) as desk:
        page = await desk.open("member", "/fleet")
        await page.get_by_text("0 workers · 1 queued").wait_for()
        team.start("--concurrency", "2")
        await page.get_by_text("1 worker · 1 waiting").wait_for()
        await page.get_by_text('pay {"number":1}').wait_for()
        assert await until(lambda: team.is_left_as(asked, JobStatus.WAITING)) is None
        assert await find_faults(desk, "member", "/fleet") == []
        plain = await desk.open("member", "/fleet", java_script_enabled=False)
        await plain.get_by_role("link", name="Look at it and answer").click()
        assert asked.id in plain.url
        seen = await desk.open("chief", "/fleet")
        await page.get_by_role("link", name="Look at it and answer").click()
        await page.get_by_role("heading", name="pay needs your approval").wait_for()
        assert await find_faults(desk, "member", page.url.removeprefix(site.server.url)) == []
        await page.get_by_role("button", name="Yes, this once").click()
        await page.get_by_text("It is paid.").wait_for()
        assert await page.get_by_role("button", name="Yes, this once").count() == 0
        await seen.get_by_text("1 worker · 1 done").wait_for()
        await page.goto(f"{site.server.url}/fleet")
        await page.get_by_role("link", name="Pay the bill of the water works").focus()
        team.workers[0].terminate()
        await page.get_by_text("0 workers · 1 done").wait_for()
        focused = await page.evaluate("document.activeElement.textContent")
        assert focused == "Pay the bill of the water works"
    await program.fleet.scheduler.close()
