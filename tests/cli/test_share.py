"""`treadle share` and `unshare`, with a real server."""

from __future__ import annotations

import json

import pytest

from case_tables import for_every_row
from cli.teams import Machine, Team
from sync.wire_server import WireServer, reply
from treadle.cli.share_command import parse_expiry

NOW = "2026-11-21T08:15:30.123456Z"


def test_a_link_opens_the_thread_for_whoever_has_it_until_it_is_ended(
    team: Team, laptop: Machine
) -> None:
    laptop.login(team, team.token())
    thread = laptop.say("hello")
    done = laptop("share", thread, "--link", "--expires", "7d")
    assert done.returncode == 0
    link = done.stdout.strip()
    assert link.startswith(f"{team.url}/share/")
    path = link.removeprefix(team.url)
    page = team.running.ask("GET", path)
    assert page.status == 200
    assert b"Good day." in page.body
    assert link not in laptop.ok("show", thread), "it is told once"
    ended = laptop("unshare", thread, "--link")
    assert (ended.returncode, "1 link ended" in ended.stderr) == (0, True)
    assert team.running.ask("GET", path).status == 410


def test_visibility_is_recorded_in_the_thread_and_holds_on_the_server(
    team: Team, laptop: Machine
) -> None:
    laptop.login(team, team.token(), "--visibility", "private")
    thread = laptop.say("hello")
    path, other = f"/api/threads/{thread}", team.token()
    assert team.status("GET", path, other) == 404
    done = laptop("share", thread, "--visibility", "organization")
    assert done.stdout == f"{team.url}{path}\n"
    assert team.status("GET", path, other) == 200
    assert json.loads(laptop.ok("list", "--json"))[0].get("visibility") is None, "the usual one"
    laptop.ok("share", thread, "--visibility", "private")
    assert team.status("GET", path, other) == 404


def test_support_may_read_until_that_is_ended(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("hello")
    told = json.loads(laptop.ok("share", thread, "--support", "--json"))
    assert told["thread"] == thread
    path = f"/api/threads/{thread}/support-access"
    assert team.ask("GET", path, token)["status"] == "active"
    laptop.ok("unshare", thread)
    assert team.ask("GET", path, token)["status"] == "none"
    shown = json.loads(laptop.ok("show", thread, "--json"))
    assert not shown.get("is_shared_with_support")


def test_a_private_thread_is_not_shared_and_nobody_is_asked(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("hello", "--private")
    with WireServer(reply()) as server:
        remote = laptop.home / "config" / "remote.json"
        remote.write_text(remote.read_text().replace(team.url, server.url))
        for how in (("--link",), ("--support",), ("--visibility", "public")):
            done = laptop("share", thread, *how)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"treadle private {thread} --off" in done.stderr
    assert server.asked == []


def test_without_the_server_it_is_recorded_and_sent_later(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    thread = laptop.say("hello")
    remote = laptop.home / "config" / "remote.json"
    there = remote.read_text()
    with WireServer(reply()) as server:
        remote.write_text(there.replace(team.url, server.url))
    done = laptop("share", thread, "--visibility", "public")
    assert (done.returncode, done.stdout) == (75, "")
    assert "it is sent with the next sync" in done.stderr
    assert laptop("unshare", thread).returncode == 75
    remote.write_text(there)
    laptop.ok("sync")
    assert team.status("GET", f"/api/threads/{thread}") == 200, "without a login too"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--link", "--support"),
        ("--link", "--visibility", "public"),
        ("--support", "--expires", "7d"),
        ("--visibility", "everybody"),
    ],
)
def test_one_way_of_sharing_is_named(laptop: Machine, options: tuple[str, ...]) -> None:
    assert laptop("share", "0190", *options).returncode == 2


@for_every_row(
    "text, at",
    [
        ("12h", "2026-11-21T20:15:30.123456Z"),
        ("7d", "2026-11-28T08:15:30.123456Z"),
        ("2W", "2026-12-05T08:15:30.123456Z"),
        ("2026-12-01T00:00+00:00", "2026-12-01T00:00:59.999999Z"),
    ],
)
def test_an_expiry_is_counted_from_now_on(text: str, at: str) -> None:
    assert parse_expiry(text, NOW) == at


@for_every_row("text", ["yesterday", "2020-01-01", "0d", "soon", "", "-1d", "99999d"])
def test_an_expiry_that_has_passed_or_is_none_is_a_mistake(text: str) -> None:
    import click

    with pytest.raises(click.BadParameter):
        parse_expiry(text, NOW)
