"""`treadle login` and `logout`: which server, as whom, and what is done about the token."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli.teams import Machine, Team
from sync.wire_server import WireServer, reply


def test_who_one_is_is_told_and_the_token_is_kept_for_oneself(team: Team, laptop: Machine) -> None:
    token = team.token()
    done = laptop("login", team.url, "--token-stdin", stdin=f"{token}\n")
    assert done.returncode == 0
    assert done.stdout.startswith("user-")
    assert team.url in done.stdout
    kept = laptop.home / "config" / "remote.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["token"] == token
    assert token not in done.stdout + done.stderr


def test_what_is_here_already_waits_for_a_word(team: Team, laptop: Machine) -> None:
    laptop.say("hello")
    laptop.say("by myself", "--private")
    token = team.token()
    done = laptop("login", team.url, "--token-stdin", "--json", stdin=token)
    assert json.loads(done.stdout)["organization"] == "team"
    assert "one thread is here already" in done.stderr
    assert "one private thread stays on this machine" in done.stderr
    assert team.ask("GET", "/api/heads", token)["heads"] == []


def test_a_token_that_is_none_there_changes_nothing(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    before = (laptop.home / "config" / "remote.json").read_bytes()
    done = laptop("login", team.url, "--token-stdin", stdin="trd_wrong")
    assert (done.returncode, done.stdout) == (5, "")
    assert "the token is not valid at" in done.stderr
    assert "trd_wrong" not in done.stderr
    assert (laptop.home / "config" / "remote.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "\n", "two words"])
def test_no_token_is_a_mistake(team: Team, laptop: Machine, text: str) -> None:
    done = laptop("login", team.url, "--token-stdin", stdin=text)
    assert done.returncode == 2
    assert "the token from standard input" in done.stderr


def test_without_a_terminal_the_token_is_asked_of_nobody(team: Team, laptop: Machine) -> None:
    done = laptop("login", team.url)
    assert done.returncode == 2
    assert "--token-stdin" in done.stderr


def test_the_token_does_not_go_over_the_network_in_the_open(laptop: Machine) -> None:
    done = laptop("login", "http://treadle.example.org", "--token-stdin", stdin="x")
    assert done.returncode == 2
    assert "in the open" in done.stderr


def test_another_kind_of_server_is_told_from_a_team_server(laptop: Machine) -> None:
    with WireServer(reply(200, b"<html>", "text/html")) as server:
        done = laptop("login", server.url, "--token-stdin", stdin="x")
    assert done.returncode == 1
    assert "does not look like a Treadle server" in done.stderr
    assert not (laptop.home / "config" / "remote.json").exists()


def test_where_nobody_answers_it_is_tried_again_later(laptop: Machine) -> None:
    with WireServer(reply()) as server:
        url = server.url
    done = laptop("login", url, "--token-stdin", stdin="x")
    assert done.returncode == 75
    assert "nobody answers there" in done.stderr


def test_logging_out_makes_the_token_worthless(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    done = laptop("logout")
    assert done.returncode == 0
    assert "worthless" in done.stderr
    assert not (laptop.home / "config" / "remote.json").exists()
    assert team.status("GET", "/api/me", token) == 401
    assert laptop("logout").returncode == 2
    assert laptop("sync").returncode == 5


def test_logging_out_revokes_this_token_and_none_of_the_others_of_its_name(
    team: Team, laptop: Machine
) -> None:
    first = team.token()
    laptop.login(team, first)
    name = team.ask("GET", "/api/me", first)["user"]
    others = [team.token(name) for _ in range(2)]
    laptop.ok("logout")
    assert team.status("GET", "/api/me", first) == 401
    assert [team.status("GET", "/api/me", one) for one in others] == [200, 200]


def test_logging_out_of_a_server_by_its_address(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    for other in ("https://treadle.example.org", "treadle.example.org", "http://127.0.0.1:9"):
        done = laptop("logout", other)
        assert done.returncode == 2
        assert f"this machine is logged in to {team.url}, and to no other server" in done.stderr
    assert "no key is kept for 'anthropic'" in laptop("logout", "anthropic").stderr
    assert "worthless" in laptop("logout", team.url).stderr
    assert "logged in to no server" in laptop("logout", team.url).stderr


def test_a_token_that_is_used_elsewhere_can_be_kept(team: Team, laptop: Machine) -> None:
    token = team.token()
    laptop.login(team, token)
    assert "stays valid" in laptop("logout", "--keep-token").stderr
    assert team.status("GET", "/api/me", token) == 200


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that fails when read")
def test_an_account_that_the_disk_fails_to_read_is_forgotten_but_not_written_over(
    laptop: Machine,
) -> None:
    account = laptop.home / "config" / "remote.json"
    account.parent.mkdir(parents=True, exist_ok=True)
    account.symlink_to("/proc/self/mem")
    done = laptop("login", "http://127.0.0.1:9", "--token-stdin", stdin="x")
    assert done.returncode == 75
    assert "Input/output error" in done.stderr
    assert account.is_symlink()
    done = laptop("logout")
    assert done.returncode == 1
    assert "the token could not be read, and stays valid" in done.stderr
    assert not account.is_symlink()


def test_logging_out_works_without_the_server_and_says_what_stays(laptop: Machine) -> None:
    me = {"user": "ada", "organization": "o", "role": "member", "is_admin": False}
    with WireServer(reply(body={**me, "is_support": False, "token_name": "t"})) as server:
        laptop.ok("login", server.url, "--token-stdin", stdin="x")
    done = laptop("logout")
    assert done.returncode == 1
    assert "the token stays valid" in done.stderr
    assert "treadle admin tokens revoke NUMBER" in done.stderr
    assert not (laptop.home / "config" / "remote.json").exists()
