"""The plan of an agent on the command line: shown, watched, forked, gone back from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from cli.conftest import Run

SCRIPT = """
[[replies]]
when = { user = "^one", step = 0 }
[[replies.calls]]
tool = "plan"
[replies.calls.arguments]
steps = [{ step = "look", status = "completed" }, { step = "change\\u001b[2J it" }]

[[replies]]
when = { user = "^two", step = 0 }
[[replies.calls]]
tool = "plan"
arguments = { steps = [{ step = "something else", status = "in_progress" }] }

[[replies]]
text = "So it is."
"""


def test_where_nobody_can_be_asked_a_plan_is_shown_and_nothing_else_happens(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    model = script(SCRIPT)
    done = treadle("-p", "one", "-m", model, "--approval-mode", "plan")
    assert (done.returncode, done.stdout) == (0, "So it is.\n")
    lines = done.stderr.splitlines()
    assert "● plan: 1 of 2 done" in lines
    assert "  [x] look" in lines
    assert "  [ ] change\ufffd[2J it" in lines
    (line,) = json.loads(treadle("list", "--json").stdout)
    shown = treadle("show", line["id"]).stdout
    assert "plan     1 of 2 done\n         [x] look\n         [ ] change\ufffd[2J it\n" in shown
    watched = treadle("watch", line["id"], "--from", "1").stdout
    assert "● plan: 1 of 2 done\n  [x] look\n" in watched
    document = json.loads(treadle("show", line["id"], "--json").stdout)
    assert document["worker_configuration"]["approval_mode"] == "plan"


def test_a_fork_has_the_plan_and_going_back_brings_back_the_earlier_one(
    treadle: Run, script: Callable[[str], str]
) -> None:
    model = script(SCRIPT)
    assert treadle("-p", "one", "-m", model).returncode == 0
    assert treadle("-c", "-p", "two", "-m", model).returncode == 0
    (line,) = json.loads(treadle("list", "--json").stdout)
    thread = line["id"]
    assert "0 of 1 done, now: something else" in treadle("show", thread).stdout
    assert treadle("rewind", thread, "--turn", "1").returncode == 0
    assert "plan     1 of 2 done" in treadle("show", thread).stdout
    fork = treadle("fork", thread)
    assert fork.returncode == 0, fork.stderr
    newest = json.loads(treadle("list", "--json").stdout)
    other = next(one["id"] for one in newest if one["id"] != thread)
    assert "plan     1 of 2 done" in treadle("show", other).stdout
