"""`treadle private`, and that a private thread asks nothing of any server."""

from __future__ import annotations

import subprocess

from cli.teams import EDITS, Machine, Team
from sync.wire_server import WireServer, reply


def test_a_private_thread_asks_nothing_of_the_server_whatever_is_done_with_it(
    team: Team, laptop: Machine
) -> None:
    laptop.login(team, team.token())
    with WireServer(reply(500)) as server:
        remote = laptop.home / "config" / "remote.json"
        remote.write_text(remote.read_text().replace(team.url, server.url))
        thread = laptop.say("hello", "--private")
        laptop.say("again", "-r", thread)
        laptop.ok("note", thread, "a note")
        laptop.ok("show", thread)
        laptop.ok("private", thread)
        fork = laptop.ok("fork", thread).strip() or laptop.threads()[0]["id"]
        laptop.say("in the fork", "-r", fork)
        assert laptop("share", fork, "--link").returncode == 1
        assert "private" in laptop.ok("sync", "--status")
    assert server.asked == []


def test_what_was_sent_is_removed_and_who_could_see_it_is_said(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    desktop.login(team, token)
    thread = laptop.say("hello")
    desktop.ok("sync")
    link = laptop.ok("share", thread, "--link").strip().removeprefix(team.url)
    done = laptop("private", thread)
    assert done.returncode == 0
    assert done.stdout == f"{thread}: never leaves this machine from now on\n"
    assert "everybody in your organization could read it" in done.stderr
    assert "removed from the server: 1 thread" in done.stderr
    assert team.status("GET", f"/api/threads/{thread}", token) == 404
    assert team.running.ask("GET", link).status == 404
    laptop.say("and more", "-r", thread)
    assert "one private thread stays" in laptop.ok("sync")
    assert team.status("GET", f"/api/threads/{thread}", token) == 404
    assert desktop.ok("sync").count("removed from the server for good") == 1
    assert b"and more" not in desktop.journal(thread)


def test_without_the_server_it_is_private_at_once_and_removed_later(
    team: Team, laptop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("hello")
    path = f"/api/threads/{thread}"
    with team.away():
        done = laptop("private", thread)
        assert (done.returncode, "not yet removed there" in done.stderr) == (75, True)
        assert "never leaves this machine" in done.stdout
        assert "waits to be removed" in laptop("sync", "--status").stdout
    assert team.status("GET", path, token) == 200
    assert "1 removed from the server" in laptop.ok("sync")
    assert team.status("GET", path, token) == 404


def test_off_says_what_will_be_sent_and_asks(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("hello", "--private")
    asked = laptop("private", thread, "--off")
    assert asked.returncode == 2
    assert f"all of it goes to {team.url}: 2 messages" in asked.stderr
    assert "one private thread stays" in laptop.ok("sync")
    laptop.ok("private", thread, "--off", "--yes")
    assert laptop.ok("sync").splitlines()[0] == "1 sent"
    assert team.status("GET", f"/api/threads/{thread}", token) == 200
    assert "is not private" in laptop("private", thread, "--off").stderr


def test_a_fork_of_a_private_thread_is_as_private_as_that(laptop: Machine) -> None:
    thread = laptop.say("hello")
    laptop.ok("fork", thread)
    (fork,) = [one["id"] for one in laptop.threads() if one["id"] != thread]
    done = laptop("private", thread)
    assert fork in done.stderr
    refused = laptop("private", fork, "--off", "--yes")
    assert refused.returncode == 2
    assert f"treadle private {thread} --off" in refused.stderr


def test_no_commit_names_a_private_thread(laptop: Machine) -> None:
    git = ("git", "-C", str(laptop.folder))
    env = laptop.environment
    subprocess.run([*git, "init", "--quiet"], env=env, check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "x"], env=env, check=True)
    for options, is_named in ((("--private",), False), ((), True)):
        (laptop.folder / "new.txt").unlink(missing_ok=True)
        subprocess.run([*git, "rm", "--quiet", "--ignore-unmatch", "new.txt"], env=env, check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "x"], env=env, check=True)
        thread = laptop.say("make it", "--approval-mode", "auto", *options, script=EDITS)
        log = subprocess.run(
            [*git, "log", "-1", "--format=%B"], env=env, check=True, capture_output=True, text=True
        ).stdout
        assert "new.txt" in log
        assert (thread in log) is is_named
