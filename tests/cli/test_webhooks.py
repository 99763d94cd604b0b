"""`treadle webhooks`: made, tried, listed and removed at the server that one is logged in to."""

from __future__ import annotations

import json

from cli.teams import Machine, Team


def test_a_person_makes_tries_lists_and_removes_them(team: Team, laptop: Machine) -> None:
    laptop.login(team, team.token())
    url = "https://hooks.example.invalid/a"
    made = laptop("webhooks", "add", url, "--event", "question")
    assert made.returncode == 0
    assert made.stdout.startswith("whsec_")
    [line] = json.loads(laptop("webhooks", "list", "--json").stdout)
    assert (line["id"], line["url"], line["events"]) == (1, url, ["question"])
    listed = laptop("webhooks", "list").stdout
    assert f"1  {url}  question  nothing was sent yet" in listed
    assert made.stdout.strip() not in listed
    assert laptop("webhooks", "test", "1").returncode == 0
    assert laptop("webhooks", "remove", "1").returncode == 0
    gone = laptop("webhooks", "remove", "1")
    assert gone.returncode == 2
    assert "no webhook 1" in gone.stderr
    assert laptop("webhooks", "list").stdout == ""
    inside = laptop("webhooks", "add", "http://127.0.0.1/")
    assert inside.returncode == 1
    assert "nothing can be sent there" in inside.stderr


def test_without_a_server_there_are_none(laptop: Machine) -> None:
    done = laptop("webhooks", "list")
    assert done.returncode == 5
    assert "treadle login" in done.stderr
