"""The tool that fetches pages: who is asked, what a grant covers, what the model reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import for_every_row
from models.loopback import Answer, Loopback
from treadle.config.approval_modes import APPROVAL_MODES
from treadle.core.approval import Grant
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import Access, RiskLevel, ToolErrorKind, ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Network, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.tools.web_fetch import make_web_fetch
from web.fetching import make_fetcher, port_of
from web.inside import LITERALS, WITHOUT_HOST

HTML: Final = {"content-type": "text/html; charset=utf-8"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


def call(url: str, **more: Any) -> ToolCall:
    return ToolCall("c", "web_fetch", json.dumps({"url": url, **more}))


def ask(registry: Registry, mode: str, asked: ToolCall, grants: Iterable[str] = ()) -> str:
    """What becomes of a call in an approval mode: it runs, is asked about, or refused."""
    risk, scope = registry.risk_of(asked), registry.scope_of(asked)
    assert scope is not None
    assert scope.access is Access.NETWORK
    given = tuple(Grant("web_fetch", RiskLevel.HIGH, kind) for kind in grants)
    config = AgentConfig(
        tools=registry.definitions(),
        approval=APPROVAL_MODES[mode],  # type: ignore[index]
        grants=given,
    )
    if scope.refused:
        return "refused"
    return "runs" if config.make_question(asked, risk, scope) is None else "asks"


def registry_for(folder: Path, policy: Policy | None) -> Registry:
    sandbox = None if policy is None else Sandbox(policy, folder)
    return Registry(builtin_tools(), workspace=folder, sandbox=sandbox)


def test_the_network_setting_and_the_mode_decide_together(tmp_path: Path) -> None:
    """In every mode, under every level of the sandbox, the same: as a command's network is."""
    wanted = {Network.OFF: "refused", Network.ASK: "asks", Network.ON: "runs"}
    asked = call("https://docs.python.org/3/")
    missed = [
        (mode, level, network, found)
        for mode, level, network in itertools.product(APPROVAL_MODES, Level, Network)
        if (found := ask(registry_for(tmp_path, Policy(level, network)), mode, asked))
        != wanted[network]
    ]
    assert missed == []


def test_a_program_without_a_sandbox_decides_by_its_policy_alone(tmp_path: Path) -> None:
    registry, asked = registry_for(tmp_path, None), call("https://docs.python.org/3/")
    found = {mode: ask(registry, mode, asked) for mode in APPROVAL_MODES}
    assert found == {"plan": "asks", "ask": "asks", "auto-edit": "asks", "auto": "runs"}


@for_every_row(
    "granted, url, found",
    (
        ("docs.python.org", "https://docs.python.org/3/library/ssl.html", "runs"),
        ("docs.python.org", "http://DOCS.python.org./", "runs"),
        ("python.org", "https://www.python.org/", "runs"),
        ("python.org", "https://docs.python.org/", "asks"),
        ("docs.python.org", "https://python.org/", "asks"),
        ("example.com", "https://evil-example.com/", "asks"),
        ("example.com", "https://example.com.evil.example/", "asks"),
        ("github.io", "https://evil.github.io/", "asks"),
        ("docs.python.org/", "https://docs.python.org/", "asks"),
        ("docs.python.org", f"https://docs.python.org/?stolen={'x1' * 40}", "asks"),
        ("docs.python.org", f"https://docs.python.org/{'a-b/' * 150}", "asks"),
    ),
)
def test_a_grant_is_for_one_site(tmp_path: Path, granted: str, url: str, found: str) -> None:
    registry = registry_for(tmp_path, Policy(network=Network.ASK))
    assert ask(registry, "ask", call(url), [granted]) == found


def test_the_question_names_the_host_as_it_is_looked_up(tmp_path: Path) -> None:
    registry = registry_for(tmp_path, Policy())
    scope = registry.scope_of(call("https://www.exämple.com/x"))
    assert scope is not None
    assert scope.reasons == ("it asks www.xn--exmple-cua.com for a page",)
    assert scope.kinds == ("xn--exmple-cua.com",)


@for_every_row("url", (*LITERALS, *WITHOUT_HOST))
async def test_what_leads_inside_is_refused_and_nobody_is_asked(tmp_path: Path, url: str) -> None:
    registry = registry_for(tmp_path, Policy(network=Network.ON))
    assert ask(registry, "auto", call(url)) == "refused"
    outcome = await registry.execute(call(url), key="k", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED


@for_every_row(
    "url",
    (
        "https://example.com/?token=[REDACTED:github_token]",
        "https://example.com/%5BREDACTED:github_token%5D",
        "https://[REDACTED:internal_host]/",
    ),
)
def test_an_address_with_a_secret_in_it_is_refused(tmp_path: Path, url: str) -> None:
    scope = registry_for(tmp_path, Policy(network=Network.ON)).scope_of(call(url))
    assert scope is not None
    assert "secret" in scope.refused


async def run(server: Loopback, target: str, **more: Any) -> str:
    """Fetch a page of a server; what the model reads."""
    registry = Registry([make_web_fetch(make_fetcher(server))])
    url = f"http://site-0.example.com:{port_of(server)}{target}"
    outcome = await registry.execute(call(url, **more), key="k", progress=lambda _: None)
    is_error = isinstance(outcome, ToolExecutionOutcome.Error)
    text = outcome.error.text if is_error else outcome.output
    return text.replace(f":{port_of(server)}", "")


async def test_the_model_reads_title_address_and_text() -> None:
    html = "<title>Ä</title><h1>One</h1><p>Two"
    moved = Answer((b"",), 301, {"location": "/new"})
    async with Loopback(moved, Answer((html.encode(),), headers=HTML)) as server:
        assert await run(server, "/old") == (
            "Ä\nhttp://site-0.example.com/new\n(redirected from http://site-0.example.com/old)\n\n"
            "# One\n\nTwo"
        )


async def test_a_page_is_read_on_from_a_line() -> None:
    text = Answer((b"one\ntwo\nthree",), headers={"content-type": "text/plain"})
    async with Loopback(text) as server:
        assert await run(server, "/", start_line=2) == (
            "http://site-0.example.com/\n\ntwo\nthree\n\n[from line 2 of 3]"
        )
        assert "start_line 4 is beyond the end: the page has 3 lines" in await run(
            server, "/", start_line=4
        )


async def test_a_redirect_to_another_site_is_told_with_its_target() -> None:
    target = "https://other.example/\x1b[2J<x>"
    async with Loopback(Answer((b"",), 302, {"location": "https://other.example/x"})) as server:
        assert await run(server, "/a") == (
            "http://site-0.example.com/a redirects to another site, which was not asked for a "
            "page:\nhttps://other.example/x\n[fetch that address if you want it]"
        )
    async with Loopback(Answer((b"",), 302, {"location": target})) as server:
        assert "\x1b" not in await run(server, "/a")


async def test_an_error_status_is_a_failure_with_what_the_page_says() -> None:
    html = Answer((b"<h1>Gone</h1>" + b"<p>long</p>" * 999,), 404, HTML)
    later = Answer((b"slow down",), 429, {"content-type": "text/plain", "retry-after": "30"})
    async with Loopback(html, later) as server:
        told = await run(server, "/a")
        assert told.startswith(
            "Failed: http://site-0.example.com/a answered 404 Some Reason\n# Gone"
        )
        assert told.endswith("[the rest of the page is left out]")
        assert "answered 429 Some Reason; it asks to wait: 30\nslow down" in await run(server, "/")


async def test_a_page_without_text_says_so() -> None:
    html = Answer((b"<div id=app></div><script>render()</script>",), headers=HTML)
    pdf = Answer((b"%PDF",), headers={"content-type": "application/pdf", "content-length-x": "4"})
    async with Loopback(html, pdf) as server:
        assert "the page has no text; what it shows may be made by a program" in await run(
            server, "/"
        )
        assert await run(server, "/x.pdf") == (
            'http://site-0.example.com/x.pdf\n\n[this is no text but "application/pdf"; '
            "it is not shown]"
        )
