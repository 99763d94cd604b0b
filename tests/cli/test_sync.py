"""`treadle sync` and what is synced beside a session, with real processes and a real server."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.teams import EDITS, Machine, Team, machine
from sync.wire_server import WireServer, reply


def gone(team: Team, laptop: Machine) -> str:
    """Log in to a server that is not there any more; its address."""
    with WireServer(reply()) as server:
        url = server.url
    laptop.login(team, team.token())
    remote = laptop.home / "config" / "remote.json"
    remote.write_text(remote.read_text().replace(team.url, url))
    return url


def test_the_first_sync_says_what_it_will_send_and_to_whom(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    """A store from before the login: asked about, sent on a yes, and had on another machine."""
    first, second = laptop.say("one"), laptop.say("two", "--private")
    token = team.token()
    laptop.login(team, token)
    asked = laptop("sync")
    assert asked.returncode == 1
    assert f"{first}  not sent: nobody could be asked" in asked.stdout
    assert "one thread from before the login would be sent" in asked.stderr
    assert "everybody in your organization" in asked.stderr
    assert "one private thread stays on this machine" in asked.stderr
    assert "--yes" in asked.stdout
    assert team.ask("GET", "/api/heads", token)["heads"] == []
    told = laptop.ok("sync", "--yes")
    assert told.splitlines()[0] == "1 sent"
    desktop.login(team, token)
    assert desktop.ok("sync").splitlines()[0] == "1 received"
    assert desktop.journal(first) == laptop.journal(first)
    assert [one["id"] for one in desktop.threads()] == [first]
    assert second not in desktop.ok("list", "--json")
    assert "nothing new" in laptop.ok("sync"), "asked once"


def test_what_nobody_could_be_asked_about_stays_and_all_others_are_synced(
    team: Team, laptop: Machine
) -> None:
    old = laptop.say("before the login")
    token = team.token()
    laptop.login(team, token)
    status = laptop("sync", "--status")
    assert status.returncode == 0, "nothing waits that was ever to be sent"
    assert "1  from before the login: `treadle sync` asks" in status.stdout
    laptop.say("after it", TREADLE_SYNC="manual")
    fork = laptop.ok("fork", old).split()[0]
    done = laptop("sync", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["unasked"] == [old]
    [new] = told["sent"]
    assert [one["thread_id"] for one in told["waiting"]] == [fork]
    assert [one["thread"] for one in team.ask("GET", "/api/heads", token)["heads"]] == [new]
    assert new not in (old, fork)
    assert laptop("sync", old).returncode == 0
    assert laptop("sync").returncode == 0


def test_who_wants_to_be_alone_is_alone_with_old_threads_too(team: Team, laptop: Machine) -> None:
    thread = laptop.say("one")
    token = team.token()
    laptop.login(team, token, "--visibility", "private")
    done = laptop("sync", "--yes")
    assert "you alone" in done.stderr
    found = team.ask("GET", f"/api/threads/{thread}", token)
    assert found["visibility"] == "private"
    new = laptop.say("two")
    assert team.ask("GET", f"/api/threads/{new}", token)["visibility"] == "private"


def test_a_new_thread_is_sent_beside_its_session_and_an_old_one_is_not(
    team: Team, laptop: Machine
) -> None:
    old = laptop.say("before the login")
    token = team.token()
    laptop.login(team, token)
    laptop.say("again", "-r", old)
    new = laptop.say("after it")
    manual = laptop.ok(
        "-p", "by hand", "-m", f"scripted:{laptop.folder}/script.toml", TREADLE_SYNC="manual"
    )
    assert manual
    heads = team.ask("GET", "/api/heads", token)["heads"]
    assert [one["thread"] for one in heads] == [new]
    assert heads[0]["version"] == laptop.journal(new).count(b"\n"), "to the last record"
    assert f"synced   version {heads[0]['version']} at {team.url}" in laptop.ok("show", new)


def waiting(team: Team, laptop: Machine, desktop: Machine) -> str:
    """A thread of the laptop that waits for a yes, and has come to the desktop."""
    token = team.token()
    laptop.login(team, token)
    desktop.login(team, token)
    script = laptop.folder / "script.toml"
    script.write_text(EDITS)
    assert laptop("-p", "x", "-m", f"scripted:{script}", "--approval-mode", "ask").returncode == 4
    thread: str = laptop.threads()[0]["id"]
    desktop.ok("sync")
    return thread


def test_a_yes_on_another_machine_is_refused_before_anything_is_changed_or_counts(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    thread = waiting(team, laptop, desktop)
    before = desktop.journal(thread)
    mode = {"TREADLE_APPROVAL_MODE": "plan"}
    assert "a yes needs --approval-mode ask" in desktop.ok("approve", thread, **mode)
    refused = desktop("approve", thread, "--yes", **mode)
    assert refused.returncode == 2
    assert f"treadle approve {thread} --yes --approval-mode ask" in refused.stderr
    assert desktop.journal(thread) == before
    done = desktop("approve", thread, "--yes", "--approval-mode", "ask", **mode)
    assert done.returncode == 0, done
    assert f"approval mode ask; it works in {laptop.folder}" in done.stderr
    assert (laptop.folder / "new.txt").read_text() == "new"


def test_where_the_folder_is_not_here_the_same_repository_is_named(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    for one in (laptop, desktop):
        for command in ("init -q", "remote add origin https://example.org/loom.git"):
            subprocess.run(["git", *command.split()], cwd=one.folder, check=True)
    thread = waiting(team, laptop, desktop)
    shutil.rmtree(laptop.folder)
    before = desktop.journal(thread)
    done = desktop("resume", thread)
    assert done.returncode == 2
    assert "this folder is in the same repository" in done.stderr
    assert f"treadle resume {thread} -C ." in done.stderr
    assert desktop.journal(thread) == before
    strange = desktop.home.parent / "strange"
    strange.mkdir()
    elsewhere = Machine(desktop.home, strange, desktop.environment)
    assert "the same repository" not in elsewhere("resume", thread).stderr


def test_a_session_works_without_the_server_and_says_so_in_one_line(
    team: Team, laptop: Machine
) -> None:
    url = gone(team, laptop)
    script = laptop.folder / "script.toml"
    script.write_text('[[replies]]\ntext = "Good day."\n')
    done = laptop("-p", "hello", "-m", f"scripted:{script}")
    assert (done.returncode, done.stdout) == (0, "Good day.\n")
    told = [line for line in done.stderr.splitlines() if "sync" in line]
    assert told == [
        f"treadle: not synced yet: {url} cannot be reached: nobody answers there; it is tried again"
    ]
    synced = laptop("sync")
    assert synced.returncode == 75
    assert "not all is synced" in synced.stdout
    assert "nothing new" not in synced.stdout
    status = laptop("sync", "--status")
    assert status.returncode == 75
    assert "nobody answers there" in status.stdout
    machine_read = json.loads(laptop("sync", "--status", "--json").stdout)
    assert machine_read["unsent"] == [laptop.threads()[0]["id"]]


def test_all_is_well_without_a_word(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    script = laptop.folder / "script.toml"
    script.write_text('[[replies]]\ntext = "Good day."\n')
    done = laptop("-p", "hello", "-m", f"scripted:{script}")
    assert "sync" not in done.stderr
    status = laptop("sync", "--status")
    assert (status.returncode, status.stdout.splitlines()[-1]) == (0, "nothing waits")


@pytest.mark.parametrize("how", ["merge", "fork"])
def test_two_machines_that_went_on_keep_what_both_said(
    team: Team, laptop: Machine, desktop: Machine, how: str
) -> None:
    token = team.token()
    laptop.login(team, token)
    desktop.login(team, token)
    thread = laptop.say("hello")
    desktop.ok("sync")
    laptop.say("from the laptop", "-r", thread)
    desktop.ok(
        "-p",
        "from the desktop",
        "-r",
        thread,
        TREADLE_SYNC="manual",
        stdin=None,
    )
    done = desktop("sync", "--on-conflict", how)
    assert done.returncode == 0, done
    assert "two machines had gone on with it" in done.stdout
    laptop.ok("sync")
    said = [laptop.ok("show", one["id"]) for one in laptop.threads()]
    assert len(said) == (1 if how == "merge" else 2)
    assert any("from the laptop" in one for one in said)
    assert any("from the desktop" in one for one in said)
    shown = desktop("show", thread)
    assert "another machine had gone on" in shown.stdout
    assert "damaged" not in shown.stderr
    if how == "merge":
        lines = shown.stdout.splitlines()
        head = next(n for n, one in enumerate(lines) if one.endswith("joined here"))
        assert lines[head].startswith("── from ")
        assert "conflict, merged" in lines[head + 1]
        assert "from the desktop" in lines[head + 4]
        assert f"`treadle show {thread}`; what was here before: " in desktop.ok("sync", "--status")


def test_a_secret_holds_a_thread_back_and_a_scrub_lets_it_go(team: Team, laptop: Machine) -> None:
    secret = "xq7Zp2mVd9Lr4Tn8Wb3K"
    token = team.token()
    laptop.login(team, token)
    script = laptop.folder / "script.toml"
    script.write_text('[[replies]]\ntext = "Good day."\n')
    laptop.ok("-p", f"it is {secret}", "-m", f"scripted:{script}", TREADLE_SYNC="manual")
    thread = laptop.threads()[0]["id"]
    key = {"SOME_API_KEY": secret}
    done = laptop("sync", **key)
    assert done.returncode == 1
    assert f"{thread}  held back: some_api_key in record" in done.stdout
    assert f"treadle scrub {thread} --found" in done.stdout
    assert secret not in done.stdout + done.stderr
    assert laptop("sync", "--status", **key).returncode == 1
    shared = laptop("share", thread, "--link", **key)
    assert (shared.returncode, shared.stdout) == (1, "")
    assert team.ask("GET", "/api/heads", token)["heads"] == []
    laptop.ok("scrub", thread, "--found", "--yes", **key)
    assert laptop.ok("sync", **key).splitlines()[0] == "1 sent"


def test_a_wrong_server_changes_nothing_here(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    thread = laptop.say("hello")
    before = laptop.journal(thread)
    with WireServer(reply(200, b"<html>", "text/html")) as server:
        remote = laptop.home / "config" / "remote.json"
        remote.write_text(remote.read_text().replace(team.url, server.url))
        done = laptop("sync", "--yes")
    assert done.returncode == 1
    assert "does not look like a Treadle server" in done.stderr + done.stdout
    assert laptop.journal(thread) == before


def test_a_token_that_was_revoked_is_said_to_be_so(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    for one in team.ask("GET", "/api/tokens", token)["tokens"]:
        team.ask("DELETE", f"/api/tokens/{one['id']}", token)
    done = laptop("sync")
    assert done.returncode == 5
    assert "the token is not valid at" in done.stderr


def test_a_watcher_sends_and_fetches_until_it_is_interrupted(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    desktop.login(team, token)
    watcher = subprocess.Popen(
        [sys.executable, "-u", "-m", "treadle", "sync", "--watch"],
        env={**desktop.environment, "TREADLE_HOME": str(desktop.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        thread = laptop.say("hello")
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "1 received\n"
        while desktop.journal(thread) != laptop.journal(thread):  # it came in the middle of a turn
            assert watcher.stdout.readline() == "1 received\n"
        desktop.ok("note", thread, "seen here")
        assert watcher.stdout.readline() == "1 sent\n"
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    assert laptop.ok("sync").splitlines()[0] == "1 received"


def test_the_environment_stands_in_for_a_login(
    team: Team, tmp_path: Path, environment: dict[str, str]
) -> None:
    runner = machine(tmp_path, environment, "runner")
    token = team.token()
    script = runner.folder / "script.toml"
    script.write_text('[[replies]]\ntext = "Good day."\n')
    runner.ok(
        "-p",
        "build it",
        "-m",
        f"scripted:{script}",
        TREADLE_SERVER_URL=team.url,
        TREADLE_TOKEN=token,
    )
    assert len(team.ask("GET", "/api/heads", token)["heads"]) == 1
    assert not (runner.home / "config" / "remote.json").exists()
