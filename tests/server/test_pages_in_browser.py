"""A team's pages in a real browser: fit for all; nothing of what a thread holds runs or leaves."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from core.samples import CONFIG, answer, call, ended, said
from media_samples import attachment, png
from pages.page_judge import find_faults
from pages.without_script import find_unreadable, list_unopened
from server.chains import chain, send
from server.databases import Templates
from server.people import People, at, populate
from server.planting import THREAD, id_of, plant, plant_records
from server.running import Running
from server.test_starts_on_pages import ask_machine
from server.test_thread_reads import list_paths
from thread.journals import HEADER, PLAIN, write
from treadle.api.retention_types import NewHold, RetentionChange
from treadle.api.types import NewIdentity, NewInvitation, NewShare
from treadle.api.webhook_types import NewWebhook
from treadle.core.events import PostToolsHookCompleted, ToolStarted, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.exchange.journal_files import make_journal_part
from treadle.exchange.readable_thread import make_readable_thread
from treadle.pages.renderer import render_document
from treadle.server.accounts import identities, invitations, share_links
from treadle.server.accounts.shared_view import tell_document
from treadle.server.data import schema
from treadle.server.http.app import ENDPOINTS
from treadle.server.oidc.settings import OidcProvider
from treadle.server.search import index_document
from treadle.server.threads import legal_holds, retention
from treadle.server.webhooks.webhook_settings import make_webhook
from treadle.thread.codec import Entry
from treadle.thread.document import (
    AgentStateSnapshot,
    ConversationSnapshot,
    Thread,
    ThreadMetadata,
)
from treadle.thread.facts import Configured, GitObserved, Renamed

LOOKS: Final[tuple[tuple[Literal["light", "dark"], tuple[int, int]], ...]] = (
    ("light", (390, 800)),
    ("dark", (1280, 900)),
)
"""A phone's, which is light, and a desk's, which is dark."""
PATIENCE_MS: Final = 60_000
NO_PAGES: Final = frozenset(
    (
        *("/live", "/fleet/live", "/threads/{thread_id}/live", "/static/{name}"),
        *("/threads/{thread_id}/pictures/{digest}", "/feeds/{secret}/questions.atom"),
    )
)
"""Streams, files and feeds: what is no page."""
FOREIGN: Final = (
    ", ".join(
        f"main {one}" for one in ("script", "iframe", "svg:not(.drawn)", "style", "base", "object")
    )
    + ", main form[action^=http], main img:not([src^='/threads/']):not([src^='data:image/png;'])"
)
MARK: Final = "document.title='taken'"
BASES: Final = (
    f"<script>{MARK}</script>",
    f'<img src=x onerror="{MARK}">',
    f"<svg onload={MARK}>",
    f"<svg><animate onbegin={MARK} attributeName=x dur=1s>",
    f"<details open ontoggle={MARK}>",
    f"<input autofocus onfocus={MARK}>",
    f"<body onload={MARK}>",
    f'<iframe srcdoc="<script>parent.{MARK}</script>">',
    f"<iframe src=javascript:parent.{MARK}>",
    f"<object data=javascript:{MARK}>",
    "<base href=http://127.0.0.1:9/>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>",
    "<style>@import url(http://127.0.0.1:9/x);body{display:none}</style>",
    "<video src=http://127.0.0.1:9/x autoplay><audio src=http://127.0.0.1:9/y>",
    "<form action=http://127.0.0.1:9/><button autofocus>",
    f"[a](javascript:{MARK})",
    f"[a](data:text/html,<script>{MARK}</script>)",
    "![x](http://127.0.0.1:9/pixel.png)",
    f"<a href=javascript:{MARK}>a</a>",
    f"<math><mtext><mglyph><style><img src=x onerror={MARK}>",
    f"<template><script>{MARK}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={MARK}>'>",
    f"{{{{ constructor.constructor('{MARK}')() }}}}",
    "{% raw %}{{ 7*7 }}{% endraw %}",
    f"`<img src=x onerror={MARK}>`",
    f"```html\n<script>{MARK}</script>\n```",
    f"| a |\n|---|\n| <img src=x onerror={MARK}> |",
    f"<!--><script>{MARK}</script>-->",
    f"<![CDATA[<script>{MARK}</script>]]>",
    f"<x style=animation-name:x onanimationstart={MARK}>",
    f"<marquee onstart={MARK}>",
    f"\u202e<script>{MARK}</script>",
    f"<scr\0ipt>{MARK}</scr\0ipt>",
    f"&lt;script&gt;{MARK}&lt;/script&gt;",
    f"&#60;img src=x onerror={MARK}&#62;",
    f"<img src=`x`onerror={MARK}>",
    f"<a href='&#106;avascript:{MARK}'>x</a>",
    f"[x]: javascript:{MARK}\n[x]",
    f"<javascript:{MARK}>",
)
WAYS_OUT: Final = (
    *("", '"', "'", ">", '">', "'>", "-->", "]]>", "</pre>", "</title>", "</style>", "</script>"),
    *("</textarea>", "</bdi></details></article></main>", "\\", "\n\n", "> ", "- ", "    ", "`"),
    *("```\n", "**", "[", "![](", "<", "&", "%3C", "\u2028", "\ud800", "</option></select>"),
    *("*/", "//", "{{", "{%", "{#", "\x1b[31m", "\u2066", "a=b ", "/", "?x=", "#", "--", ";", ")"),
    *("${", "\r", "\t", "<!--", "\x00", "\x7f"),
)


def list_payloads(count: int) -> list[str]:
    """Every base behind every way out of a place, as many as are wanted."""
    all_of_them = [f"{out}{base}" for out in WAYS_OUT for base in BASES]
    assert len(all_of_them) >= 2000
    step = max(1, len(all_of_them) // count)
    return all_of_them[::step][:count]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "the tests of pages need a browser: apt-get install chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


class Team:
    """A server with people, and what goes wrong in the browsers that look at it."""

    def __init__(self, server: Running, browser: Browser) -> None:
        self.server, self.browser = server, browser
        self.people: People = populate(server.database)
        self.wrong: list[str] = []

    def open(self, name: str, **options: Any) -> Page:
        """A browser in which somebody has signed in."""
        page = self.watch(self.browser.new_context(**options))
        page.goto(f"{self.server.url}/sign-in?next=/team")
        page.fill("input[name=token]", self.people.token(name))
        page.keyboard.press("Enter")
        page.wait_for_url(f"{self.server.url}/team")  # the page before it ends so too
        return page

    def watch(self, context: BrowserContext) -> Page:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        here = self.server.url
        page.on("console", lambda said: self.wrong.append(said.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((here, "file:")) else self.wrong.append(asked.url)
            ),
        )
        return page

    def store(self, number: int, texts: list[str]) -> Thread:
        """A thread that says each text in each place where one can stand."""
        clean = [text.replace("\0", "").replace("\ud800", "") for text in texts]
        messages: list[Message] = []
        for index, text in enumerate(clean):
            path = json.dumps({"path": text, "content": f"{text}\n{text}"})
            run = ToolCall(f"r{index}", "bash", json.dumps({"command": text}))
            write = ToolCall(f"w{index}", "write_file", path)
            sides = {"old_str": f"{text}\nsame", "new_str": f"same\n{text} {text}"}
            edits = json.dumps({"path": text, "edits": [sides]})
            edit = ToolCall(f"e{index}", "edit_file", edits)
            messages += [
                Message.user(text),
                Message.assistant(text, (run, write, edit)),
                Message.tool(run, text),
                Message.tool(write, text),
                Message.tool(edit, text),
            ]
        thread = id_of(number)
        document = Thread(
            *(thread, 1, at(), at(), at()),
            ConversationSnapshot(tuple(messages)),
            AgentStateSnapshot("ready"),
            metadata=ThreadMetadata(clean[0]),
            git_branch=clean[0],
        )
        summary = {
            "id": thread,
            "version": 1,
            "created_at": at(),
            "updated_at": at(),
            "title": clean[0],
            "state": clean[1 % len(clean)],
            "message_count": 4,
            "git_branch": clean[2 % len(clean)],
            "git_remote_url": clean[3 % len(clean)],
            "tags": clean[:2],
        }
        with self.people.database.write() as db:
            owner = self.people["owner"]
            plant(db, thread, owner, kind="document", version=1, summary=json.dumps(summary))
            db.execute(
                schema.documents.insert().values(
                    thread_id=thread,
                    version=1,
                    hash="",
                    body=msgspec.json.encode(document).decode(),
                )
            )
            index_document(db, thread, document)
        return document

    def push(self, number: int, texts: list[str]) -> str:
        """A thread of records that says each text where documents have no place for one."""
        clean = [text.replace("\0", "").replace("\ud800", "") for text in texts]
        thread = id_of(0x1000 + number)
        body = png()
        batches: list[tuple[Entry, ...]] = [
            (replace(HEADER, thread=thread, workspace=f"/{clean[0]}"),),
            (Configured(CONFIG, clean[0]), GitObserved(clean[1 % len(clean)])),
        ]
        for index, text in enumerate(clean):
            picture = attachment(body, text)
            use = call(f"{index} {text}", text, text)
            seen = ToolExecutionOutcome.Success(use.id, text, attachments=(picture,))
            batches += [
                (UserInput(replace(Message.user(text), attachments=(picture,))),),
                (answer(text, use),),
                (ToolStarted(use.id),),
                (ended(use.id, seen),),
                (
                    PostToolsHookCompleted(True, text, commit=text)
                    if index % 2
                    else PostToolsHookCompleted(True, f"committed c0ffee0 {text} (1 file)"),
                ),
                (answer(text),),
                (Renamed(text),),
            ]
        with self.people.database.write() as db:
            plant_records(db, self.people["owner"], batches)
            ref = attachment(body).blob
            kept = {"sha256": ref.sha256, "size": ref.size, "body": body}
            db.execute(schema.blobs.insert().values(thread_id=thread, **kept))
        story = make_readable_thread([make_journal_part(write(batches)[0])])
        assert len(story.turns) == len(clean), "each of them counts"
        return thread


@pytest.fixture
def team(browser: Browser, templates: Templates, tmp_path: Path) -> Iterator[Team]:
    provider = OidcProvider(
        issuer="https://login.example.org/realms/acme", client_id="x", redirect_uri="http://x"
    )
    with Running(templates.copy("sqlite", tmp_path), oidc=provider) as server:
        yield Team(server, browser)


def furnish(team: Team) -> dict[str, dict[str, str]]:
    """Put something on every page; who looks at which, and what that is there to say."""
    with team.people.database.write() as db:
        plant_records(db, team.people["owner"], PLAIN)
    with team.people.writing() as context:
        link = share_links.create_link(context, THREAD, NewShare(), "").url
    with team.people.writing("admin") as context:
        new = NewInvitation("acme")
        invitation = invitations.make_invitation(context, new, "").url
        login = NewIdentity("admin", "7f9c2ba4-e88f-4d17", "https://login.example.org/realms/acme")
        identities.add_identity(context, login)
        legal_holds.place_hold(context, NewHold("case 14 of 2026", user="owner"))
        retention.change_rule(context, RetentionChange("acme", 365, 30))
        webhooks = NewWebhook(f"https://example.org/{'x' * 200}", ("question", "failed"))
        make_webhook(context, webhooks, team.server.url, allows_private=False)
    send(team.people, chain(2, [PLAIN[1], (said("a"), answer("b", usage=Usage(12_345, 678)))]))
    token = team.people.token("member")
    for number, outcome in enumerate(((), (("taken", ""),), (("refused", "remote = off"),))):
        ask_machine(team.server, token, f"start-{number}", *outcome)
    prompt = "Weave a runner of twelve ells"
    talked = f"/threads/{team.push(3, [prompt, 'fix: the loom'])}%40owner"
    mine = f"/threads/{THREAD}"
    return {
        "admin": {
            "/admin": "case 14 of 2026",
            "/admin/usage?days=": "12,345",
            "/invitations": "acme",
            "/account": "7f9c2ba4-e88f-4d17",
            "/nothing": "Nothing is shown here",
        },
        "owner": {f"{mine}/readers": "Nobody has", "/account/usage?days=": "12,345"},
        "member": {
            "/": "nothing said yet",
            "/team": "nothing said yet",
            "/?words=done": "done",
            "/?tag=x": "No thread",
            "/sign-in": "Sign in",
            "/sign-in/back": "sign",
            "/fleet": "docs/fleet.md",
            mine: "written",
            f"{mine}?diff=split": "written",
            f"{mine}?version=4": "version 4",
            f"{mine}/versions": "What came",
            f"{mine}/versions?from=2": "written",
            f"{mine}/trace": "ms",
            f"{mine}/states": "Ways",
            f"{mine}/family": "go",
            talked: prompt,
            f"{talked}/commits": "fix: the loom",
            f"{talked}/outputs/{quote(f'0 {prompt}')}": prompt,
            link: "written",
            invitation: "acme",
        },
    }


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: str(look[0]))
def test_every_page_of_a_team_is_fit_for_all(
    team: Team, look: tuple[Literal["light", "dark"], tuple[int, int]]
) -> None:
    ground, (width, height) = look
    places = furnish(team)
    faults = []
    for who, paths in places.items():
        kept = team.open(who).context.storage_state()
        seen = team.browser.new_context(
            storage_state=kept,
            color_scheme=ground,
            viewport={"width": width, "height": height},
            bypass_csp=True,  # the judge is a script of its own
        )
        page = seen.new_page()
        for path in paths:
            if "/outputs/" in path:
                continue  # a text as it is: the browser makes the page
            faults += [(ground, one) for one in find_faults(page, team.server.url + path)]
        seen.close()
    assert faults == []
    assert team.wrong == []


def test_every_page_of_a_team_can_be_read_and_its_forms_sent_without_a_script(team: Team) -> None:
    places = furnish(team)
    routes = {path for method, path in list_paths(team.server) if method == "GET"}
    routes -= {one.path for one in ENDPOINTS} - {"/share/{token}"} | NO_PAGES
    faults = []
    for who, paths in places.items():
        page = team.open(who, java_script_enabled=False)
        for path, words in paths.items():
            page.goto(team.server.url + path)
            faults += [(path, fault) for fault in find_unreadable(page, words)]
    assert faults == []
    opened = [path for paths in places.values() for path in paths]
    assert list_unopened(routes, opened) == [], "each is looked at here, or is none of a page"
    page.goto(team.server.url)
    page.fill("input[name=words]", "done")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('threads with “done”')")


def look_at_payloads(team: Team, folder: Path, count: int) -> None:
    payloads = list_payloads(count)
    groups = [payloads[start : start + 40] for start in range(0, count, 40)]
    documents = [team.store(number, group) for number, group in enumerate(groups, 1)]
    places = ["/", "/team", "/?words=script", "/?words=img", f"/?branch={BASES[0]}"]
    places += [f"/sign-in?next={BASES[1]}", f"/?words={BASES[0]}", f"/nothing/{BASES[0]}"]
    for number, document in enumerate(documents):
        path = f"/threads/{document.id}%40owner"
        places += (path, f"{path}?diff=split")
        with team.people.writing() as context:
            link = share_links.create_link(context, document.id, NewShare(), "").url
        places.append(link)
        more = f"/threads/{team.push(number, groups[number])}%40owner"
        last = 3 + 7 * len(groups[number])
        places += (f"{more}/trace", f"{more}/states", f"{more}/family", f"{more}/commits")
        places += (more, f"{more}?version={last - 1}", f"{more}?page=1", f"{more}/versions")
        places += (f"{more}/versions?from=2", f"{more}/versions?from={last - 5}&diff=split")
        export = folder / f"{number}.html"
        export.write_text(render_document(tell_document(document)), encoding="utf-8")
        places.append(export.as_uri())
    token = team.people.token("member")
    for number, text in enumerate(payloads[:: max(1, count // 8)]):
        why = text.replace("\ud800", "").replace("\0", "")
        ask_machine(team.server, token, f"hostile-{number}", ("refused", why))
    page = team.open("member")
    missed = []
    for place in places:
        page.goto(place if place.startswith("file:") else team.server.url + place)
        found = page.evaluate(
            "(foreign) => [document.title, document.querySelectorAll(foreign).length,"
            "[...document.querySelectorAll('*')].filter(one => [...one.attributes].some(a =>"
            "/^on/i.test(a.name) || /^\\s*(javascript|data):/i.test(a.value)"
            "&& a.name !== 'value')).length]",
            FOREIGN,
        )
        if found[0] == "taken" or found[1:] != [0, 0]:
            missed.append((place, found))
    assert missed == []
    told = [one for one in team.wrong if not re.search(r"status of 4\d\d|\(4\d\d\)", one)]
    assert told == []


def test_nothing_of_what_threads_hold_runs_or_leaves(team: Team, tmp_path: Path) -> None:
    look_at_payloads(team, tmp_path, 160)


@pytest.mark.torture
def test_nothing_of_two_thousand_texts_runs_or_leaves(team: Team, tmp_path: Path) -> None:
    look_at_payloads(team, tmp_path, 2000)
