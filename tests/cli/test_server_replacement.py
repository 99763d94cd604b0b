"""`treadle scrub` of a thread that is synced: the copies of server and other machines go too."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from cli.teams import Machine, Team, machine
from core.samples import answer, said
from store.shelf import fill
from token_samples import TOKENS, secret_of
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SECRET = "xq7Zp2mVd9Lr4Tn8Wb3K"
TOKEN = TOKENS["github_token"](random.Random(6))


def holding(folder: Path, *words: str) -> list[str]:
    """The files that hold one of the words."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        path.name for path in found if any(word.encode() in path.read_bytes() for word in words)
    ]


def server_files(team: Team) -> Path:
    return Path(team.database.removeprefix("sqlite:///")).parent


@pytest.fixture
def thread(team: Team, laptop: Machine, desktop: Machine) -> str:
    """A thread that holds a secret on two machines and the server."""
    token = team.token()
    laptop.login(team, token)
    desktop.login(team, token)
    thread = laptop.say(f"it is {SECRET}")
    laptop.ok("sync")
    desktop.ok("sync")
    assert holding(server_files(team), SECRET)
    assert holding(desktop.home, SECRET)
    return thread


def test_the_server_and_other_machines_hold_it_no_more(
    team: Team, laptop: Machine, desktop: Machine, thread: str
) -> None:
    done = laptop("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    assert f"{thread}  the server's copy is replaced" in done.stdout
    assert holding(laptop.home / "data", SECRET) == []
    assert holding(server_files(team), SECRET) == []
    assert holding(desktop.home, SECRET)
    desktop.ok("sync")
    assert holding(desktop.home / "data", SECRET) == []
    assert "it is [REDACTED:scrubbed]" in desktop.ok("show", thread)
    assert desktop.journal(thread) == laptop.journal(thread)


def test_without_the_server_it_is_told_and_the_next_sync_does_it(
    team: Team, laptop: Machine, thread: str
) -> None:
    with team.away():
        done = laptop("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 75
    assert "1 records changed" in done.stdout
    assert "the server's copy is replaced" not in done.stdout
    assert f"of {thread}: the server's copy may hold it still; `treadle sync`" in done.stderr
    assert holding(laptop.home / "data", SECRET) == []
    assert holding(server_files(team), SECRET)
    assert laptop.ok("sync").splitlines()[0] == "1 replaced after a scrub"
    assert holding(server_files(team), SECRET) == []


def test_threads_that_the_server_never_had_are_left_to_a_sync(team: Team, laptop: Machine) -> None:
    thread = laptop.say(f"it is {SECRET}")
    laptop.login(team, team.token())
    with team.away():
        assert laptop("scrub", thread, "-", "--yes", stdin=SECRET).returncode == 0


def test_all_that_is_found_today_goes_each_under_its_kind(laptop: Machine) -> None:
    store = LocalStore(Places(*(laptop.home / name for name in ("data", "state", "config"))))
    writer = store.create("treadle/0", workspace="/w")
    fill(writer, (said(f"use {TOKEN} and {SECRET}"),), (answer("Good day."),))
    writer.close()
    key = {"SOME_API_KEY": SECRET}
    thread = writer.thread_id
    for wrong in (("a text",), ("--kind", "x")):
        assert laptop("scrub", thread, *wrong, "--found", "--yes").returncode == 2
    plan = laptop("scrub", thread, "--found", "--dry-run", **key)
    assert (plan.returncode, plan.stdout) == (0, f"{thread}  1 records hold it\n")
    assert holding(laptop.home / "data", SECRET, TOKEN)
    done = laptop("scrub", thread, "--found", "--yes", **key)
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert secret_of(TOKEN) not in done.stdout + done.stderr
    assert holding(laptop.home / "data", SECRET, secret_of(TOKEN)) == []
    shown = laptop.ok("show", thread)
    assert "use [REDACTED:github_token] and [REDACTED:some_api_key]" in shown
    again = laptop("scrub", thread, "--found", "--yes", **key)
    assert again.returncode == 1
    assert "found nowhere" in again.stderr


def test_forks_of_what_the_server_has_no_more_are_removed_there(
    team: Team, laptop: Machine, desktop: Machine, thread: str, tmp_path: Path
) -> None:
    laptop.ok("fork", thread)
    (fork,) = [one["id"] for one in laptop.threads() if one["id"] != thread]
    laptop.ok("sync")
    desktop.ok("private", thread)  # it does not know of the fork
    laptop.ok("sync")
    refused = desktop("sync")
    assert refused.returncode == 1
    assert f"`treadle private {thread} --off` here lets it come" in refused.stdout
    phone = machine(tmp_path, laptop.environment, "phone")
    shutil.copytree(laptop.home / "config", phone.home / "config")
    refused = phone("sync")
    assert refused.returncode == 1
    assert f"goes on from {thread}, which was removed from the server" in refused.stdout
    assert holding(server_files(team), SECRET)
    done = laptop("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    assert f"{fork}  the server's copy is removed: it had its history from {thread}" in done.stdout
    assert holding(server_files(team), SECRET) == []
    laptop.ok("sync")
    laptop.ok("sync", thread, fork)
    assert holding(server_files(team), SECRET) == []
    assert "it is [REDACTED:scrubbed]" in laptop.ok("show", fork)


def test_a_scrub_that_another_one_undid_is_not_told_to_be_found(
    team: Team, laptop: Machine, desktop: Machine, thread: str
) -> None:
    with team.away():
        assert desktop("scrub", thread, "-", "--yes", stdin=SECRET).returncode == 75
    laptop.ok("scrub", thread, "-", "--yes", stdin="Good day")
    done = desktop("sync")
    assert done.returncode == 1
    assert "scrub that text again" in done.stdout
    assert "--found" not in done.stdout
    assert "--found" not in desktop("sync", "--status").stdout
    desktop.ok("scrub", thread, "-", "--yes", stdin=SECRET)
    assert holding(server_files(team), SECRET) == []
