"""`--team`: others' threads, listed, searched and shown, with a real server."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import for_every_row
from cli.teams import EDITS, Machine, Team
from sync.wire_server import WireServer, reply
from treadle.app.sync.team_threads import _fetch_pages
from treadle.sync.client import PAGE_MAX

STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OUTPUT: Final = """
[[replies]]
calls = [{ tool = "bash", arguments = { command = "seq 100000" } }]

[[replies]]
text = "Counted."
"""


class Pair:
    """Somebody with threads on the server, and a colleague who reads them."""

    def __init__(self, team: Team, ada: Machine, bob: Machine) -> None:
        self.team, self.ada, self.bob = team, ada, bob
        self.ada_token, self.bob_token = team.token(), team.token()
        self.name = team.ask("GET", "/api/me", self.ada_token)["user"]
        ada.login(team, self.ada_token)
        bob.login(team, self.bob_token)

    def listed(self, *options: str) -> list[dict[str, Any]]:
        """Ada's threads, as Bob lists them."""
        asked = ("list", "--team", "--owner", self.name, "--json", *options)
        found: list[dict[str, Any]] = json.loads(self.bob.ok(*asked))
        return found


@pytest.fixture
def pair(team: Team, laptop: Machine, desktop: Machine) -> Pair:
    return Pair(team, laptop, desktop)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files_of(machine: Machine) -> dict[str, bytes]:
    data = machine.home / "data"
    found = (one for one in data.rglob("*") if one.is_file())
    return {str(one): one.read_bytes() for one in found}


def test_a_member_lists_searches_and_shows_what_a_colleague_shares_and_keeps_nothing(
    pair: Pair, scratch: Path
) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("weave a zanzibar carpet")
    mine = bob.say("mine")
    before = files_of(bob)
    [listed] = pair.listed()
    assert (listed["id"], listed["owner"], listed["organization"]) == (thread, pair.name, "team")
    line = bob.ok("list", "--team", "--owner", pair.name)
    assert f"  {pair.name}" in line
    assert "zanzibar" in line
    found = bob("search", "--team", "zanzibar")
    assert (found.returncode, thread in found.stdout, pair.name in found.stdout) == (0, True, True)
    assert f"treadle show {thread} --team" in found.stderr
    [hit] = json.loads(bob.ok("search", "--team", "zanzibar", "--json"))
    assert (hit["thread"]["id"], hit["thread"]["owner"], hit["kind"]) == (
        thread,
        pair.name,
        "prompt",
    )
    own = ada.ok("show", thread)
    for said in (thread, thread.removeprefix("T-"), thread[:-3]):
        shown = bob.ok("show", said, "--team")
        without = [one for one in own.splitlines() if not one.startswith("synced")]
        assert shown.splitlines() == without
    document = bob.ok("show", thread, "--team", "--json")
    assert document == ada.ok("show", thread, "--json")
    first = json.loads(bob.ok("show", thread, "--team", "--version", "1", "--json"))
    assert first["version"] == 1
    assert files_of(bob) == before
    assert [one["id"] for one in bob.threads()] == [mine]
    assert list(scratch.iterdir()) == []


def test_what_a_member_may_not_see_is_not_told_from_what_is_not_there(pair: Pair) -> None:
    ada, bob, team = pair.ada, pair.bob, pair.team
    alone, public = ada.say("alone"), ada.say("for all")
    ada.ok("share", alone, "--visibility", "private")
    ada.ok("share", public, "--visibility", "public")
    assert [one["id"] for one in pair.listed()] == [public]
    other = "T-01900000-0000-7000-8000-00000000beef"
    said = [bob("show", one, "--team") for one in (alone, other, alone[:-3])]
    assert {one.returncode for one in said} == {2}
    assert said[0].stderr.replace(alone, other) == said[1].stderr
    assert bob("search", "--team", "alone").stdout.count(alone) == 0
    stranger = f"stranger-{alone[-6:]}"
    team.ask("POST", "/api/admin/organizations", body={"name": stranger})
    user = {"name": stranger, "organization": stranger}
    team.ask("POST", "/api/admin/users", body=user)
    inside = ada.say("inside")
    bob.login(team, team.token(stranger))
    assert [one["id"] for one in pair.listed()] == [public]
    assert bob("show", inside, "--team").returncode == 2
    assert "for all" in bob.ok("show", public, "--team")


def test_a_fork_is_shown_with_what_it_goes_on_from_and_else_as_a_document(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    base = ada.say("the beginning")
    ada.ok("-p", "the branch", "-r", base, "--fork")
    fork = ada.threads()[0]["id"]
    assert fork != base
    shown = bob.ok("show", fork, "--team")
    assert "here the fork begins" in shown
    assert shown.index("the beginning") < shown.index("the branch")
    ada.ok("share", base, "--visibility", "private")
    shown = bob.ok("show", fork, "--team")
    assert "here the fork begins" not in shown
    assert shown.index("the beginning") < shown.index("the branch")
    assert bob("show", fork, "--team", "--turn", "1").returncode == 2


def test_a_thread_of_documents_is_shown_from_its_document(pair: Pair) -> None:
    thread = f"T-01900000-0000-7000-8000-{int(pair.name.removeprefix('user-')):012x}"
    at = "2026-11-21T08:15:30.123456Z"
    document = {
        "id": thread,
        "version": 1,
        "created_at": at,
        "updated_at": at,
        "last_activity_at": at,
        "conversation": {"messages": [{"role": "user", "content": "simply\u202e said"}]},
        "agent_state": {"kind": "waiting_for_user_input"},
    }
    pair.team.ask("PUT", f"/api/threads/{thread}", pair.ada_token, body=document)
    shown = pair.bob.ok("show", thread, "--team")
    assert "simply\N{REPLACEMENT CHARACTER} said" in shown
    told = json.loads(pair.bob.ok("show", thread, "--team", "--json", "--version", "1"))
    assert told["conversation"]["messages"][0]["content"] == "simply\u202e said"
    assert pair.bob("show", thread, "--team", "--version", "2").returncode == 2
    assert pair.bob("show", thread, "--team", "--usage").returncode == 2


def test_a_large_output_is_shown_by_the_command_that_the_thread_names(pair: Pair) -> None:
    thread = pair.ada.say("count", "--approval-mode", "auto", script=OUTPUT)
    shown = pair.bob.ok("show", thread, "--team")
    [command] = re.findall(r"whole output: treadle (show .*)\)", shown)
    assert "--team" in command
    assert pair.bob.ok(*command.split()).splitlines()[-2] == "100000"


def test_what_waits_for_its_owner_is_shown_without_a_command_to_answer(pair: Pair) -> None:
    name = pair.ada.folder / "script.toml"
    name.write_text(EDITS)
    asked = pair.ada("-p", "edit", "--approval-mode", "ask", "-m", f"scripted:{name}")
    assert asked.returncode == 4, asked.stderr
    thread = pair.ada.threads()[0]["id"]
    assert "treadle approve" in pair.ada.ok("show", thread)
    shown = pair.bob.ok("show", thread, "--team")
    assert "needs your approval" in shown
    assert "treadle approve" not in shown


def test_hostile_titles_and_names_steer_no_terminal(pair: Pair) -> None:
    bad = "\x1b]0;owned\x07\u202egnp"
    thread = pair.ada.say(f"zebra {bad}")
    for asked in (("list",), ("search", "zebra"), ("show", thread)):
        done = pair.bob(*asked, "--team")
        assert (done.returncode, "zebra" in done.stdout) == (0, True), done.stderr
        assert STEERS.findall(done.stdout + done.stderr) == []
    line = {"id": thread, "version": 1, "created_at": bad, "updated_at": f"{bad}\nfake"}
    line |= {"title": bad, "state": f"{bad}\nfake line", "message_count": 1}
    page = {
        "threads": [{"summary": line, "owner": f"{bad}\nowner", "organization": bad}],
        "total": 1,
        "limit": 50,
        "offset": 0,
    }
    with WireServer(reply(body=page)) as server:
        use(pair, server.url)
        done = pair.bob("list", "--team")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
    assert STEERS.findall(done.stdout + done.stderr) == []


def use(pair: Pair, url: str, before: str = "") -> None:
    """Have Bob ask another server."""
    remote = pair.bob.home / "config" / "remote.json"
    remote.write_text(remote.read_text().replace(before or pair.team.url, url))


def test_what_is_no_journal_is_refused_and_nothing_of_it_is_left(pair: Pair, scratch: Path) -> None:
    thread = pair.ada.say("hello")
    data = pair.ada.journal(thread)
    last = json.loads(data.splitlines()[-1])
    tag = f'"{last["seq"]}-{last["hash"]}"'
    before = files_of(pair.bob)
    other = data.replace(thread.encode(), thread[:-4].encode() + b"beef")
    wrong = {
        data.replace(b"hello", b"howdy"): (1, "journal"),
        other: (1, "journal"),
        data[:-9]: (75, "broke off"),
    }
    for body, (code, why) in wrong.items():
        answer = reply(body=body, kind="application/x-ndjson", etag=tag)
        with WireServer(answer) as server:
            use(pair, server.url)
            done = pair.bob("show", thread, "--team")
            use(pair, pair.team.url, server.url)
        assert (done.returncode, done.stdout, why in done.stderr) == (code, "", True), done.stderr
    assert files_of(pair.bob) == before
    assert list(scratch.iterdir()) == []


def test_the_id_of_a_private_thread_is_not_even_asked_for(pair: Pair) -> None:
    thread = pair.bob.say("hello", "--private")
    with WireServer(reply()) as server:
        use(pair, server.url)
        for asked in (("show", thread), ("show", thread[:-4]), ("search", thread)):
            done = pair.bob(*asked, "--team")
            assert (done.returncode, done.stdout) == (1, ""), done.stderr
            assert "is private" in done.stderr
    assert server.asked == []


def test_who_cannot_ask_is_told_why(pair: Pair) -> None:
    bob = pair.bob
    known = pair.ada.say("hello")
    unknown = bob("show", known)
    assert (unknown.returncode, f"treadle show {known} --team" in unknown.stderr) == (2, True)
    for wrong in (
        ("list", "--team", "--provider", "x"),
        ("list", "--owner", "ada"),
        ("search", "--team", "--branch", "main", "hello"),
        ("search", "--team", "..."),
        ("show", "x", "--team"),
    ):
        assert bob(*wrong).returncode == 2, wrong
    assert bob("search", "--team", "nobody-said-this").returncode == 1
    asked = (("list",), ("search", "hello"), ("show", known))
    with pair.team.away():
        assert {bob(*one, "--team").returncode for one in asked} == {75}
    bob.ok("logout")
    assert {bob(*one, "--team").returncode for one in asked} == {5}
    assert "--team" not in bob("show", known).stderr


def test_sharing_says_how_others_read_it(pair: Pair) -> None:
    thread = pair.ada.say("hello")
    for visibility in ("organization", "public"):
        done = pair.ada("share", thread, "--visibility", visibility)
        assert done.stdout == f"{pair.team.url}/api/threads/{thread}\n"
        assert f"`treadle show {thread} --team`" in done.stderr
    assert "--team" not in pair.ada("share", thread, "--visibility", "private").stderr


def test_the_options_of_list_hold_on_the_server(pair: Pair) -> None:
    tagged = pair.ada.say("first")
    later = pair.ada.say("second")
    pair.ada.ok("tag", tagged, "loom")
    pair.ada.ok("share", later, "--visibility", "public")
    pair.ada.ok("sync")
    assert [one["id"] for one in pair.listed("--tag", "loom")] == [tagged]
    assert [one["id"] for one in pair.listed("--visibility", "public")] == [later]
    assert pair.listed("--until", "2001-01-01") == []
    assert len(pair.listed("--since", "1d")) == 2
    assert len(pair.listed("--limit", "1")) == 1
    assert "1 more" in pair.bob("list", "--team", "--owner", pair.name, "--limit", "1").stderr


@for_every_row("most", [1, PAGE_MAX, PAGE_MAX + 1, 3 * PAGE_MAX, None])
def test_pages_are_asked_for_until_there_is_enough_and_each_thread_comes_once(
    most: int | None,
) -> None:
    there = list(range(2 * PAGE_MAX + 7))
    asked: list[tuple[int, int]] = []

    def page(limit: int, offset: int) -> list[int]:
        asked.append((limit, offset))
        # One thread more has changed between two pages: what was last comes once more.
        start = max(0, offset - 1)
        return there[start : start + limit]

    found = _fetch_pages(page, most, int)
    assert found == there[:most]
    assert all(1 <= limit <= PAGE_MAX for limit, _ in asked)


def test_a_person_sees_who_has_read_a_thread_how_and_when(pair: Pair, scratch: Path) -> None:
    ada, bob, team = pair.ada, pair.bob, pair.team
    thread = ada.say("weave a zanzibar carpet")
    ada.ok("sync")
    nobody = ada("show", thread, "--readers")
    assert (nobody.returncode, nobody.stdout) == (0, "nobody else has read it on the server\n")
    name = team.ask("GET", "/api/me", pair.bob_token)["user"]
    bob.ok("list", "--team")
    assert json.loads(ada.ok("show", thread, "--readers", "--json")) == []
    for command in ("search --team zanzibar", f"show {thread} --team", f"fork {thread} --team"):
        bob.ok(*command.split())
    bob.ok("export", thread, "--team", "--format", "json", "-o", str(bob.folder / "x.json"))
    [line] = json.loads(ada.ok("show", thread, "--readers", "--json"))
    assert (line["reader"], line["thread"], line["addresses"]) == (name, thread, [])
    assert line["ways"] == ["search", "show", "fork", "export"]
    assert f"  {name}  search, show, fork, export\n" in ada.ok("show", thread, "--readers")
    told = ada.ok("admin", "audit", "--reads", "--user", name, "--database", team.database)
    assert f"{thread}  {pair.name}  search, show, fork, export  127.0.0.1" in told
    assert bob("show", thread, "--readers").returncode in (1, 2), "it is not his"
    assert ada("admin", "audit", "--user", name, "--database", team.database).returncode == 2
