"""What `scrub`, `private`, `share` and `gc` promise about copies on servers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.teams import Machine, Team
from cli.test_server_replacement import holding, server_files

SECRET = "vb3Kq8Zt5Wm1Rx9Lp6Nd"
KNOWN_SINCE = "gh7Tj2Fs4Yc8Ue5Ao1Ix"


@pytest.fixture
def token(team: Team, laptop: Machine) -> str:
    token = team.token()
    laptop.login(team, token)
    return token


@pytest.fixture
def other_team(tmp_path: Path) -> Iterator[Team]:
    (tmp_path / "other").mkdir()
    found = Team(tmp_path / "other")
    yield found
    found.stop()


def forked(laptop: Machine) -> tuple[str, str]:
    """A thread, and a fork of it."""
    thread = laptop.say("hello")
    laptop.ok("fork", thread)
    (fork,) = [one["id"] for one in laptop.threads() if one["id"] != thread]
    return thread, fork


def test_what_another_machine_has_said_again_is_scrubbed_too(
    team: Team, laptop: Machine, desktop: Machine, token: str
) -> None:
    desktop.login(team, token)
    thread = laptop.say(f"it is {SECRET}")
    laptop.ok("sync")
    desktop.ok("sync")
    desktop.say(f"so {SECRET} it is", "-r", thread)
    desktop.ok("sync")
    laptop.ok("note", thread, f"{SECRET} is not sent yet")
    done = laptop("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    assert holding(laptop.home / "data", SECRET) == []
    assert holding(server_files(team), SECRET) == []
    desktop.ok("sync")
    assert holding(desktop.home / "data" / "threads", SECRET) == []
    assert "so [REDACTED:scrubbed] it is" in laptop.ok("show", thread)


def test_the_copy_goes_though_this_machine_has_forgotten_that_it_sent_one(
    team: Team, laptop: Machine, token: str
) -> None:
    threads = [laptop.say(f"hello {number}") for number in range(2)]
    laptop.ok("sync")
    shutil.rmtree(laptop.home / "state" / "sync")
    done = laptop("private", threads[0])
    assert (done.returncode, "removed from the server: 1 thread" in done.stderr) == (0, True)
    assert team.status("GET", f"/api/threads/{threads[0]}", token) == 404
    assert team.status("GET", f"/api/threads/{threads[1]}", token) == 200


def test_every_server_that_has_a_copy_is_named_and_asked_when_it_can_be(
    team: Team, other_team: Team, laptop: Machine, token: str
) -> None:
    thread = laptop.say("hello")
    laptop.ok("sync")
    other_token = other_team.token()
    laptop.login(other_team, other_token)
    laptop.ok("sync", "--yes")
    done = laptop("private", thread)
    assert done.returncode == 1
    assert f"{team.url} as " in done.stderr
    assert "removed from the server: 1 thread" in done.stderr
    path = f"/api/threads/{thread}"
    assert other_team.status("GET", path, other_token) == 404
    assert team.status("GET", path, token) == 200
    laptop.login(team, token)
    assert "1 removed from the server" in laptop.ok("sync", "--yes")
    assert team.status("GET", path, token) == 404


def test_a_fork_of_a_private_thread_is_named_to_nobody(
    team: Team, laptop: Machine, token: str
) -> None:
    thread, fork = forked(laptop)
    laptop.ok("private", thread)
    before = laptop.journal(fork)
    for command in ("share --link", "share --visibility public", "share --support", "unshare"):
        name, *options = command.split()
        done = laptop(name, fork, *options)
        assert (done.returncode, done.stdout) == (1, ""), command
        assert f"treadle private {thread} --off" in done.stderr
    assert laptop.journal(fork) == before


def test_off_is_the_word_for_forks_too_and_says_which(
    team: Team, laptop: Machine, token: str
) -> None:
    thread, fork = forked(laptop)
    laptop.ok("sync")
    done = laptop("private", thread)
    assert done.returncode == 0, done.stderr
    assert "removed from the server: 2 threads" in done.stderr
    asked = laptop("private", thread, "--off", "--yes")
    assert asked.returncode == 0
    assert f"  {fork}  fork, organization" in asked.stderr
    assert laptop.ok("sync").splitlines()[0] == "2 sent"
    for one in (thread, fork):
        assert team.status("GET", f"/api/threads/{one}", token) == 200


def test_a_secret_that_is_known_since_stops_every_way_of_sharing(
    team: Team, laptop: Machine, token: str
) -> None:
    thread, fork = forked(laptop)
    thread = laptop.say(f"it is {KNOWN_SINCE}", "-r", thread)
    laptop.ok("fork", thread)
    fork = next(one["id"] for one in laptop.threads() if one["id"] not in (thread, fork))
    laptop.ok("sync")
    for one in (thread, fork):
        for how in (("--link",), ("--support",), ("--visibility", "public")):
            done = laptop("share", one, *how, OPENAI_API_KEY=KNOWN_SINCE)
            assert (done.returncode, done.stdout) == (1, ""), (how, done.stderr)
            assert f"treadle scrub {thread} --found" in done.stderr
    assert laptop("share", fork, "--link").returncode == 0


def test_what_a_server_does_not_know_to_be_trashed_is_not_removed_yet(
    team: Team, laptop: Machine, token: str
) -> None:
    thread = laptop.say("hello")
    laptop.ok("sync")
    laptop.ok("trash", thread)
    kept = laptop("gc", "--yes")
    assert "`treadle sync` first" in kept.stderr
    laptop.ok("sync")
    assert "removed:" in laptop.ok("gc", "--yes")
    laptop.ok("sync")
    assert laptop.threads() == []


def test_what_lies_in_the_trash_can_be_made_private(
    team: Team, laptop: Machine, token: str
) -> None:
    thread = laptop.say("hello")
    laptop.ok("sync")
    laptop.ok("trash", thread)
    assert "removed from the server" in laptop("private", thread).stderr
    assert team.status("GET", f"/api/threads/{thread}", token) == 404
