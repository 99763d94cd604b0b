"""A colleague's thread is exported, and forked to be gone on with, with a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.teams import Machine
from cli.test_team_threads import OUTPUT, Pair, files_of
from cli.test_team_threads import pair as pair


def said(machine: Machine, thread: str) -> list[str]:
    """What was said in a thread, as its machine shows it."""
    messages = json.loads(machine.ok("show", thread, "--json"))["conversation"]["messages"]
    return [one["content"] for one in messages if one["role"] == "user"]


def owners_of(pair: Pair, thread: str) -> set[str]:
    """Who has a thread of this id on the server."""
    found = json.loads(pair.ada.ok("list", "--team", "--json"))
    return {one["owner"] for one in found if one["id"] == thread}


def test_a_colleagues_thread_is_forked_gone_on_with_and_synced_as_ones_own(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("begin the carpet")
    made = bob.ok("fork", thread[:-3], "--team").strip()
    assert made != thread
    assert said(bob, made) == ["begin the carpet"]
    bob.ok("-r", made, "-p", "and a border")
    bob.ok("sync")
    assert said(bob, made) == ["begin the carpet", "and a border"]
    assert said(ada, thread) == ["begin the carpet"]
    assert owners_of(pair, thread) == {pair.name}, "what it goes on from was not sent again"
    assert len(owners_of(pair, made) - {pair.name}) == 1
    assert thread in ada.ok("show", thread[:-2], "--team"), "its short name means one thread"
    document = json.loads(bob.ok("show", made, "--json"))
    assert document["forked_from"]["thread"] == thread


def test_a_copy_is_brought_up_to_what_its_owner_has_said_since(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("begin the carpet")
    bob.ok("fork", thread, "--team")
    bob.ok("sync")
    ada.ok("-r", thread, "-p", "it is woven")
    ada.ok("sync")
    assert "it is woven" in bob.ok("show", thread, "--team"), "it is ada's still"
    again = bob.ok("fork", thread, "--team", "--turn", "1").strip()
    assert said(bob, again) == ["begin the carpet"]
    assert said(bob, thread) == ["begin the carpet", "it is woven"]
    bob.ok("sync")
    assert owners_of(pair, thread) == {pair.name}
    # Who goes on with the copy itself has a thread of his own, under the same id.
    bob.ok("-r", thread, "-p", "and mine")
    bob.ok("sync")
    assert len(owners_of(pair, thread)) == 2
    assert "and mine" not in bob.ok("show", f"{thread}@{pair.name}", "--team")


def test_what_its_owner_takes_back_is_gone_though_a_colleague_goes_on_from_it(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("begin the carpet")
    made = bob.ok("fork", thread, "--team").strip()
    late = bob.ok("fork", thread, "--team").strip()
    bob.ok("-r", made, "-p", "and a border")
    bob.ok("sync", made)
    ada.ok("private", thread)
    ada.ok("sync")
    assert owners_of(pair, thread) == set()
    assert said(bob, made) == ["begin the carpet", "and a border"]
    # What was not sent before needs what it goes on from: as his own, when he says so.
    bob.ok("-r", late, "-p", "and a fringe")
    refused = bob("sync", late)
    assert f"treadle sync {thread}" in refused.stdout + refused.stderr
    bob.ok("sync", thread)
    bob.ok("sync", late)
    assert len(owners_of(pair, late)) == 1


def test_another_machine_takes_a_fork_with_its_base_and_keeps_that_the_colleagues(
    pair: Pair, tmp_path: Path
) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("begin the carpet")
    made = bob.ok("fork", thread, "--team").strip()
    bob.ok("-r", made, "-p", "and a border")
    bob.ok("sync")
    other = Machine(tmp_path / "other", bob.folder, bob.environment)
    other.login(pair.team, pair.bob_token)
    other.ok("sync")
    assert said(other, made) == ["begin the carpet", "and a border"]
    other.ok("-r", made, "-p", "twice")
    other.ok("sync")
    bob.ok("sync")
    assert said(bob, made)[-1] == "twice"
    assert owners_of(pair, thread) == {pair.name}


def test_its_large_outputs_come_along(pair: Pair, tmp_path: Path) -> None:
    ada, bob = pair.ada, pair.bob
    script = tmp_path / "output.toml"
    script.write_text(OUTPUT)
    ada.ok("-p", "count", "-m", f"scripted:{script}", "--approval-mode", "auto")
    [thread] = [one["id"] for one in ada.threads()]
    ada.ok("sync")
    [call] = [
        one["tool_calls"][0]["id"]
        for one in json.loads(ada.ok("show", thread, "--json"))["conversation"]["messages"]
        if one.get("tool_calls")
    ]
    made = bob.ok("fork", thread, "--team").strip()
    assert said(bob, made) == ["count"]
    assert bob.ok("show", thread, "--output", call) == ada.ok("show", thread, "--output", call)


@pytest.mark.parametrize("form", ["markdown", "html", "json", "jsonl"])
def test_it_is_exported_as_its_owner_exports_it_and_nothing_is_kept(pair: Pair, form: str) -> None:
    ada, bob = pair.ada, pair.bob
    thread = ada.say("weave a carpet")
    before = files_of(bob)
    exported = bob.ok("export", thread, "--team", "--format", form)
    assert exported == ada.ok("export", thread, "--format", form)
    assert files_of(bob) == before


def test_what_may_not_be_seen_or_went_on_differently_is_refused(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    alone = ada.say("alone")
    ada.ok("share", alone, "--visibility", "private")
    for command in ("fork", "export"):
        refused = bob(command, alone, "--team")
        assert refused.returncode == 2
        assert "has nothing like" in refused.stderr
    assert bob.threads() == []
    nobody = bob("fork", alone, "--team", TREADLE_HOME=str(bob.home / "elsewhere"))
    assert (nobody.returncode, "treadle login" in nobody.stderr) == (5, True), nobody.stderr


def test_what_a_quota_refuses_waits_here_and_goes_when_there_is_room(pair: Pair) -> None:
    ada, team = pair.ada, pair.team
    ada.say("first")
    user = f"/api/admin/users/{pair.name}"
    team.ask("PATCH", user, body={"threads_max": 1})
    second = ada.say("second")
    refused = ada("sync")
    assert f"{pair.name} has as many threads here as may be: 1" in refused.stdout + refused.stderr
    assert "ask whoever runs the server for more room" in refused.stdout + refused.stderr
    assert [one["id"] for one in pair.listed()] != [second]
    assert json.loads(ada.ok("show", second, "--json"))["id"] == second
    team.ask("PATCH", user, body={"threads_max": None})
    ada.ok("sync")
    assert second in [one["id"] for one in pair.listed()]
