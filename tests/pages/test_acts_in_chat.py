"""What is said on a page to a chat that runs: it hears it, shows it, and does it once."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Browser

from pages.page_judge import AXE
from pages.test_acts import Visitor, events
from pages.test_acts import visitor as visitor
from pages.test_in_browser import Web, let_in
from pages.test_in_browser import browser as browser
from pages.test_in_browser import web as web
from terminal.conftest import model as model
from terminal.conftest import start as start
from terminal.harness import Screen
from terminal.talks import Start
from treadle import LocalStore


def find_thread(web: Web) -> str:
    (found,) = LocalStore(web.environment["TREADLE_HOME"]).list()
    return found.id


def test_a_chat_goes_on_with_what_a_page_answers_says_and_stops(
    start: Start, web: Web, visitor: Visitor, repository: Path
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "ask")
    talk.wait_for("a new thread in")
    talk.say("run it", "this once")
    thread = find_thread(web)
    assert visitor.send(visitor.form(thread, "approve")).status_code == 303
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"
    talk.wait_for(lambda screen: "a page on this machine has answered" in screen.text)

    form = visitor.form(thread, "prompt") | {"text": "Good morning"}
    assert visitor.send(form).status_code == 303
    talk.wait_for("Hello there.")

    talk.say("wait", "this once")
    assert visitor.send(visitor.form(thread, "approve")).status_code == 303
    talk.wait_for(lambda screen: not screen.is_asking)
    form = visitor.form(thread, "steer") | {"text": "steered"}
    assert visitor.send(form).status_code == 303
    (repository / "fifo").write_text("through\n")
    talk.wait_for("You steered.")

    talk.say("slow", "This is the")
    assert visitor.send(visitor.form(thread, "interrupt")).status_code == 303
    talk.wait_for(lambda screen: is_over(screen, "stopped by a page on this machine"))
    acts = [one["act"] for one in events(web, thread, "request_taken")]
    assert acts == ["approve", "prompt", "approve", "steer", "interrupt"]


def is_over(screen: Screen, words: str) -> bool:
    return words in " ".join(screen.text.split())


def test_a_click_answers_the_chat_and_the_page_follows(
    browser: Browser, start: Start, web: Web, repository: Path
) -> None:
    talk = start("--approval-mode", "ask")
    talk.wait_for("a new thread in")
    context, wrong = let_in(browser, web.start(), viewport={"width": 390, "height": 800})
    talk.say("edit it", "this once")
    page = context.pages[0]
    page.goto(f"{page.url}threads/{find_thread(web)}")
    judge = browser.new_context(
        storage_state=context.storage_state(),
        bypass_csp=True,
        viewport={"width": 390, "height": 800},
    ).new_page()
    faults = []
    for ground in ("light", "dark"):
        judge.emulate_media(color_scheme=ground)
        judge.goto(page.url)
        for summary in judge.query_selector_all("summary"):
            summary.click()
        judge.add_script_tag(path=str(AXE))
        told = judge.evaluate("axe.run()")
        faults += [(ground, one["id"], one["nodes"][0]["html"]) for one in told["violations"]]
        if judge.evaluate("document.documentElement.scrollWidth") > 390:
            faults.append((ground, "wider than the screen", ""))
    assert faults == []
    assert page.locator(".question .added").inner_text().strip() == "+    return a + b"
    talk.type("n")  # a question that the chat is asked goes on being the chat's
    page.get_by_role("button", name="Yes, this once").click()
    page.wait_for_selector("text=It adds now.")
    talk.wait_for("It adds now.")
    assert "a + b" in (repository / "calc.py").read_text()
    assert page.locator(".question").count() == 0
    assert wrong == []


def test_the_chat_answers_first_and_the_page_is_told(
    start: Start, web: Web, visitor: Visitor, repository: Path
) -> None:
    talk = start("--approval-mode", "ask")
    talk.wait_for("a new thread in")
    talk.say("run it", "this once")
    form = visitor.form(find_thread(web), "approve")
    talk.type("y")
    talk.wait_for("It ran.")
    told = visitor.send(form)
    assert (told.status_code, "answered already" in told.text) == (409, True)
    assert (repository / "effects").read_text() == "ran\n"
