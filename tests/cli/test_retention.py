"""`treadle admin retention`, and what a machine does with a thread that a rule has taken."""

from __future__ import annotations

import json

from sqlalchemy import text

from cli.teams import Machine, Team


def test_a_machine_puts_away_what_a_rule_put_away_and_keeps_what_it_removed(
    team: Team, laptop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    thread = laptop.say("weave a lisbon carpet")
    laptop.ok("sync")
    where = ("--database", team.database)
    retention = ("admin", "retention")
    assert laptop.ok(*retention, "show", *where) == "all is kept for ever\n"
    rule = ("--put-away-after", "365d", "--remove-after", "30")
    done = laptop(*retention, "set", *rule, *where)
    assert (done.returncode, "put away 0 threads and remove 0" in done.stderr) == (0, True)
    laptop.ok(*retention, "set", "--organization", "team", "--remove-after", "server", *where)
    shown = laptop.ok(*retention, "show", *where)
    assert "the whole server  put away after 365 days" in shown
    assert shown.count("as for the whole server") == 2
    for wrong in ("0", "-1", "x", "999999", "000001000"):
        assert laptop(*retention, "set", "--remove-after", wrong, *where).returncode == 2
    assert laptop(*retention, "set", *where).returncode == 2
    unknown = laptop(*retention, "set", "--organization", "none", *rule, *where)
    assert (unknown.returncode, "no organization 'none'" in unknown.stderr) == (2, True)

    old = "2024-01-01T00:00:00.000000Z"  # as if nothing had come since
    its = {"old": old, "id": thread}
    with team.running.database.write() as db:
        db.execute(text("UPDATE threads SET last_activity_at = :old WHERE id = :id"), its)
        db.execute(text("UPDATE changes SET at = :old WHERE thread_id = :id"), its)
    dry = laptop(*retention, "run", "--dry-run", *where)
    assert dry.stdout.split()[:3] == ["put", "away", thread]
    assert "would put away 1 thread and remove 0" in dry.stderr
    assert laptop.ok(*retention, "run", *where) == "put away 1 thread, removed 0 (0 B)\n"
    laptop.ok("sync")
    assert laptop.threads() == []
    assert [one["id"] for one in json.loads(laptop.ok("list", "--trashed", "--json"))] == [thread]
    with team.running.database.write() as db:
        db.execute(text("UPDATE threads SET deleted_at = :old WHERE id = :id"), its)
        db.execute(text("UPDATE changes SET at = :old WHERE thread_id = :id"), its)
    plan = json.loads(laptop.ok(*retention, "run", "--dry-run", "--json", *where))
    assert [(one["thread"], one["act"]) for one in plan["due"]] == [(thread, "remove")]
    assert "removed 1 (" in laptop.ok(*retention, "run", *where)
    told = laptop("sync")
    assert f"{thread} was removed from the server for good; it stays here" in (
        told.stdout + told.stderr
    )
    assert "lisbon" in laptop.ok("show", thread)
    laptop.ok("restore", thread)
    laptop.ok("sync")
    assert team.status("GET", f"/api/threads/{thread}", token) == 404, "it does not come back"
    laptop.ok("sync", thread)
    assert team.status("GET", f"/api/threads/{thread}", token) == 200, "but on somebody's word"
