"""Answers and prompts from a page, in threads that nobody has open."""

from __future__ import annotations

import html
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from pages.test_in_browser import Web
from pages.test_in_browser import web as web
from treadle import LocalStore
from treadle.store.thread_requests import PersonRequest, RequestReply, ThreadRequests
from treadle.thread.ids import is_thread_id

SCRIPT: Final = """
[[replies]]
when.user = "weave"
text = "I change a file."
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "return a", new_str = "return a + a" }] }
[[replies]]
when.user = "weave"
text = "It is woven."
[[replies]]
when.user = "danger"
text = "I take all away."
calls = [{ tool = "bash", arguments = { command = "rm -rf ~/loom", outside = true } }]
[[replies]]
when.user = "danger"
text = "It is gone."
[[replies]]
when.user = "go on"
text = "I went on."
"""

NEVER: Final = "return a - b"
ONCE: Final = "return a + a - b"


class Visitor:
    """A browser without a script that was let in: its forms, and what comes of them."""

    def __init__(self, link: str) -> None:
        self.client = httpx2.Client(base_url=link.partition("/open/")[0], timeout=60)
        assert self.client.get(link).status_code == 303
        self.home = str(self.client.base_url).rstrip("/")

    def read(self, thread: str) -> str:
        page = self.client.get(f"/threads/{thread}")
        assert page.status_code == 200, page.text
        return page.text

    def wait(self, thread: str, words: str, count: int = 1) -> None:
        """Until the page has the words; it says itself when it is another one."""
        with self.client.stream("GET", f"/threads/{thread}/live") as told:
            for line in told.iter_lines():
                if line.startswith("data:") and self.read(thread).count(words) >= count:
                    return

    def forms(self, text: str) -> list[dict[str, str]]:
        """The fields of each form that posts, as often as it has buttons that say what they do."""
        found = []
        for form in re.findall(r"<form [^>]*method=\"post\".*?</form>", text, re.DOTALL):
            told = re.findall(r'name="(\w+)" value="([^"]*)"', form)
            fields = {name: html.unescape(value) for name, value in told}
            for name, value in re.findall(
                r'<textarea name="(\w+)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL
            ):
                fields[name] = html.unescape(value)
            fields["path"] = re.findall(r'action="([^"]+)"', form)[0]
            acts = [value for name, value in told if name == "act"]
            found += [{**fields, "act": act} for act in acts] if acts else [fields]
        return found

    def form(self, thread: str, act: str) -> dict[str, str]:
        found = [one for one in self.forms(self.read(thread)) if one.get("act") == act]
        assert found, (act, self.read(thread))
        return found[0]

    def send(self, form: dict[str, str], headers: dict[str, str] | None = None) -> Any:
        fields = {name: value for name, value in form.items() if name != "path"}
        told = {"sec-fetch-site": "same-origin", "origin": self.home, **(headers or {})}
        return self.client.post(form["path"], data=fields, headers=told)


@pytest.fixture
def ask(web: Web) -> Callable[[str], str]:
    """A turn that ends with a question; the id of its thread."""

    def run(prompt: str) -> str:
        web.script.write_text(SCRIPT)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "treadle", "-p", prompt, "-m", f"scripted:{web.script}"),
                *("--no-commit", "--approval-mode", "ask", "--output-format", "json"),
            ],
            cwd=web.folder,
            env=web.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 4, done.stderr
        return str(json.loads(done.stdout)["thread"])

    return run


@pytest.fixture
def visitor(web: Web) -> Iterator[Visitor]:
    found = Visitor(web.start())
    yield found
    found.client.close()


def events(web: Web, thread: str, kind: str) -> list[dict[str, Any]]:
    """The records of a kind in the journal."""
    assert is_thread_id(thread)
    store = LocalStore(web.environment["TREADLE_HOME"])
    lines = Path(store.folders.find(thread)[0]).read_bytes().splitlines()
    found = [json.loads(line)["event"] for line in lines]
    return [one for one in found if one["type"] == kind]


def woven(web: Web) -> str:
    return (web.folder / "calc.py").read_text().splitlines()[1].strip()


def test_a_yes_on_the_page_runs_the_call_once_and_is_recorded_with_who_said_it(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    thread = ask("weave")
    assert '<span class="added">+    return a <em>+ a </em>- b' in visitor.read(thread)
    form = visitor.form(thread, "approve")
    done = visitor.send(form)
    assert done.status_code == 303, re.sub("<[^>]+>", "", done.text)
    assert (done.status_code, done.headers["location"]) == (303, f"/threads/{thread}#acts")
    visitor.wait(thread, "It is woven.")
    assert woven(web) == ONCE
    (taken,) = events(web, thread, "request_taken")
    assert (taken["act"], taken["by"]) == ("approve", "a page on this machine")
    assert (taken["id"], taken["call_id"]) == (form["request"], form["call"])
    visitor.send(form)
    assert visitor.send({**form, "request": secrets.token_urlsafe(16)}).status_code == 409
    assert woven(web) == ONCE


def test_a_no_a_changed_call_and_a_yes_for_good_do_what_they_say(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    refused = ask("weave")
    form = visitor.form(refused, "reject")
    assert visitor.send({**form, "text": "not that file"}).status_code == 303
    visitor.wait(refused, "It is woven.")
    (decided,) = events(web, refused, "approval_decided")
    assert decided["decision"] == {"type": "rejected", "reason": "not that file"}
    assert woven(web) == NEVER

    changed = ask("weave")
    form = visitor.form(changed, "change")
    told = visitor.send({**form, "arguments": '{"path": 1}'})
    assert (told.status_code, "does not take these arguments" in told.text) == (409, True)
    other = form["arguments"].replace("a + a", "a + a + a")
    form = visitor.form(changed, "change")
    assert visitor.send({**form, "arguments": other}).status_code == 303
    visitor.wait(changed, "It is woven.")
    assert woven(web) == "return a + a + a - b"

    always = ask("weave")
    assert "and always for" in visitor.read(always)
    assert visitor.send(visitor.form(always, "always")).status_code == 303
    visitor.wait(always, "It is woven.")
    assert len(events(web, always, "kind_granted")) == 1


def test_a_critical_call_is_asked_about_twice_with_all_of_it(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    thread = ask("danger")
    first = visitor.form(thread, "approve")
    asked = visitor.send(first)
    assert asked.status_code == 200
    assert "rm -rf ~/loom" in asked.text
    assert "leaves the sandbox" in asked.text
    assert events(web, thread, "approval_decided") == []
    (second,) = visitor.forms(asked.text)
    assert visitor.send(second).status_code == 303
    visitor.wait(thread, "It is gone.")
    assert len(events(web, thread, "approval_decided")) == 1


def test_something_said_to_a_thread_that_nobody_has_open_is_heard_once(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    thread = ask("weave")
    visitor.send(visitor.form(thread, "reject"))
    visitor.wait(thread, "It is woven.")
    form = {**visitor.form(thread, "prompt"), "text": "go on\r\nplease"}
    assert visitor.send({**form, "text": " "}).status_code == 409
    assert visitor.send(form).status_code == 303
    visitor.wait(thread, "I went on.")
    assert visitor.send(form).status_code == 303
    # As after a death between taking it and saying so: the request is there, and so is its record.
    request = PersonRequest(
        form["request"], thread, "prompt", "a page", "2099-01-01T00:00:00.000000Z", text="go on"
    )
    store = LocalStore(web.environment["TREADLE_HOME"])
    requests = ThreadRequests(store.folders.disk, store.places, thread)
    (store.places.state / "requests" / thread / f"{request.id}.reply").unlink()
    requests.place(request)
    assert visitor.send(visitor.form(thread, "prompt") | {"text": "go on"}).status_code == 303
    visitor.wait(thread, "I went on.", 2)
    reply = requests.read_reply(request.id)
    assert (reply, requests.is_waiting(request.id)) == (RequestReply(is_taken=True), False)
    assert [one["act"] for one in events(web, thread, "request_taken")] == [
        *("reject", "prompt", "prompt")
    ]


def test_no_answer_counts_that_is_forged_late_or_meant_for_another_question(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    mine, other = ask("weave"), ask("danger")
    form, foreign = visitor.form(mine, "approve"), visitor.form(other, "approve")
    forged: dict[str, tuple[dict[str, str], dict[str, str]]] = {
        "no token": ({"form_key": ""}, {}),
        "a guess": ({"form_key": "0" * 64}, {}),
        "letters of elsewhere": ({"form_key": "\u00e9"}, {}),
        "another site": ({}, {"sec-fetch-site": "cross-site"}),
        "another port": ({}, {"sec-fetch-site": "same-site"}),
        "typed": ({}, {"sec-fetch-site": "none"}),
        "a foreign origin": ({}, {"origin": "http://evil.example"}),
        "no origin that is known": ({}, {"origin": "null"}),
        "another host": ({}, {"host": "evil.example"}),
        "another thread": ({"path": foreign["path"]}, {}),
        "no thread": ({"path": "/threads/T-0/acts"}, {}),
        "a path": ({"path": "/threads/..%2f..%2fx/acts"}, {}),
        "another call": ({"call": foreign["call"], "ground": foreign["ground"]}, {}),
        "another ground": ({"ground": "0" * 64}, {}),
        "no ground": ({"ground": ""}, {}),
        "the ground of another": ({"ground": foreign["ground"]}, {}),
        "no id": ({"request": ""}, {}),
        "a path as id": ({"request": "../../../../etc/passwd"}, {}),
        "no act": ({"act": "delete"}, {}),
        "a critical one, as if confirmed elsewhere": (
            {**foreign, "ground": form["ground"], "confirmed": "yes"},
            {},
        ),
    }
    accepted = []
    for name, (fields, headers) in forged.items():
        sent = {**form, "request": secrets.token_urlsafe(16), **fields}
        answer = visitor.send(sent, headers)
        if answer.status_code not in (400, 403, 404, 409):
            accepted.append((name, answer.status_code))
    data = {name: value for name, value in form.items() if name != "path"}
    with httpx2.Client(base_url=visitor.home) as stranger:
        accepted += [
            (f"without the cookie, {path}", 0)
            for path in ("acts", "withdraw")
            if stranger.post(f"/threads/{mine}/{path}", data=data).status_code != 403
        ]
    bodies = {
        "json": ("application/json", json.dumps(data)),
        "no type": ("", "act=approve"),
        "bytes": ("application/x-www-form-urlencoded", b"\xff\xfe"),
        "too long": ("application/x-www-form-urlencoded", "x=" + "y" * 3_000_000),
        "too many": ("application/x-www-form-urlencoded", "a=b&" * 100),
    }
    accepted += [
        (name, 0)
        for name, (kind, body) in bodies.items()
        if visitor.client.post(
            form["path"], content=body, headers={"content-type": kind}
        ).status_code
        not in (400, 413, 415)
    ]
    assert accepted == []
    for thread in (mine, other):
        assert events(web, thread, "approval_decided") == []
        assert events(web, thread, "request_taken") == []
    assert woven(web) == NEVER
    # The question is as it was: what is meant for it still counts.
    assert visitor.send(form).status_code == 303
    visitor.wait(mine, "It is woven.")
    assert woven(web) == ONCE


def test_what_nobody_took_in_time_is_not_done_and_can_be_taken_back(
    web: Web, ask: Callable[[str], str], visitor: Visitor
) -> None:
    thread = ask("weave")
    form = visitor.form(thread, "approve")
    store = LocalStore(web.environment["TREADLE_HOME"])
    requests = ThreadRequests(store.folders.disk, store.places, thread)
    late, waiting = (
        PersonRequest(
            f"{name:_<16}", thread, "approve", "a page", until, form["call"], form["ground"]
        )
        for name, until in (("late", "2020-01-01T00:00:00.000000Z"), ("waiting", "2099-01-01"))
    )
    requests.place(late)
    requests.place(waiting)
    (taking_back,) = [
        one
        for one in visitor.forms(visitor.read(thread))
        if one["path"].endswith("withdraw") and one["request"] == waiting.id
    ]
    assert visitor.send(taking_back).status_code == 303
    assert visitor.send(visitor.form(thread, "reject")).status_code == 303
    visitor.wait(thread, "It is woven.")
    assert woven(web) == NEVER
    reply = requests.read_reply(late.id)
    assert reply is not None
    assert (reply.is_taken, "too late" in reply.why) == (False, True)
