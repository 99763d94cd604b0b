"""`treadle admin holds`, and what a machine says whose copy on the server is held."""

from __future__ import annotations

import json

from cli.teams import Machine, Team


def test_a_machine_says_which_hold_keeps_the_copy_on_the_server(
    team: Team, laptop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("weave a zanzibar carpet")
    laptop.ok("sync")
    where = ("--database", team.database)
    refused = laptop("admin", "holds", "add", "--user", "nobody", "--reason", "x", *where)
    assert (refused.returncode, "nobody" in refused.stderr) == (2, True)
    placed = laptop("admin", "holds", "add", "--thread", thread, "--reason", "case 14", *where)
    assert placed.stderr == f"hold 1 stands on the thread {thread}\n"
    private = laptop("private", thread)
    told = private.stdout + private.stderr + laptop("sync").stderr
    assert "hold 1 on the thread" in told
    assert "(case 14)" in told
    assert team.status("GET", f"/api/threads/{thread}", token) == 200
    [line] = json.loads(laptop.ok("admin", "holds", "list", "--json", *where))["holds"]
    assert (line["placed_by"], line["reason"]) == ("operator", "case 14")
    assert "stands" in laptop.ok("admin", "holds", "list", *where)
    assert laptop("admin", "holds", "lift", "1", *where).stderr == "lifted the hold 1\n"
    assert laptop("admin", "holds", "lift", "9", *where).returncode == 2
    assert "by operator  case 14" in laptop.ok("admin", "holds", "list", *where)
    laptop.ok("sync", thread)
    assert team.status("GET", f"/api/threads/{thread}", token) == 404
