"""`treadle fleet`, as a person types it beside a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.queue_checks import until
from fleet.teams import Team, make_team
from fleet.teams import run_fleet_command as run
from server.databases import Postgres


@pytest.fixture
def team(tmp_path: Path, postgres: Postgres) -> Iterator[Team]:
    with make_team(tmp_path, postgres, "folder") as found:
        yield found


def read(team: Team) -> dict[str, Any]:
    done = run(team, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


async def are(team: Team, statuses: list[str]) -> bool:
    return sorted(one.status.value for one in await team.program.fleet.jobs()) == statuses


async def test_tasks_are_submitted_shown_cancelled_and_tried_again(team: Team) -> None:
    assert "one of: clerk, many, asking, deadly" in run(team, "submit", "Pay.").stderr
    done = run(team, "submit", "-", "--agent", "clerk", "--user", "ann", stdin="One\n\nTwo\n")
    first, second = done.stdout.split()
    for options, line, why in (
        (["--max-cost", "-1"], "Pay.", "--max-cost"),
        (["--model", "nobody:x"], "Pay.", "nobody"),
        ([], '{"task": "Pay.", "cost": 1}', "line 2 is no task"),
        ([], '{"task": "Pay.", "model": "nobody:x"}', "nobody"),
    ):
        refused = run(team, "submit", "-", "--agent", "clerk", *options, stdin=f"One\n{line}\n")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert why in refused.stderr
    assert run(team, "submit", "Ask me", "--agent", "asking", "--key", "k").returncode == 0
    assert run(team, "submit", "Ask me", "--agent", "asking", "--key", "k").returncode == 0
    assert run(team, "cancel", first[-8:]).stderr == "cancelled\n"
    view = read(team)
    assert (view["workers"], view["counts"]) == ([], {"queued": 2, "cancelled": 1})
    team.start()

    await until(lambda: are(team, ["cancelled", "done", "waiting"]))
    assert run(team, "retry", first).stderr == "queued\n"
    assert "nothing left" in run(team, "retry", second).stderr

    await until(lambda: are(team, ["done", "done", "waiting"]))
    shown = run(team).stdout.splitlines()
    assert shown[0] == "1 worker · 1 waiting · 2 done"
    assert shown[1].split() == [shown[1].split()[0], "waiting", "Ask", "me", "(asking)"]
    assert "Two  (clerk, ann)" in "".join(shown[2:])
    asking = shown[1].split()[0]
    assert "pay needs your approval" in run(team, "approve", asking).stdout
    assert run(team, "approve", asking, "--no", "not yet").stderr == "queued\n"
    watched = run(team, "watch", asking).stdout.splitlines()
    assert json.loads(watched[-1])["type"] == "task_ended"
    assert "not yet" in run(team, "watch", asking).stdout
    assert "no call waits" in run(team, "approve", asking, "--yes").stderr
    assert "no task 'zz'" in run(team, "cancel", "zz").stderr
    await team.program.fleet.scheduler.close()
