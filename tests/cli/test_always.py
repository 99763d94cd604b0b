"""`--always` is for what a question shows: a call that it does not show whole is no measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_approve import ASK, BEGIN, only_thread
from cli.test_signals import Script

LONG = f"""
[[replies]]
calls = [{{ tool = "write_file", arguments = {{ path = "a", content = "{"x" * 5000}" }} }}]

[[replies]]
text = "Done."
"""
"""A call that no question shows whole."""


@pytest.mark.parametrize("what", BEGIN)
def test_always_is_refused_for_a_call_that_is_not_shown_whole(
    treadle: Run, script: Script, what: str
) -> None:
    assert treadle(BEGIN[what], "go", "-m", script(LONG), *ASK, "--no-commit").returncode == 4
    thread = only_thread(treadle)["id"]
    shown = treadle("approve", thread).stdout
    assert "characters are not shown" in shown
    assert f"all of what is asked about:\n  treadle approve {thread} --json\n" in shown
    assert "x" * 5000 in treadle("approve", thread, "--json").stdout
    done = treadle("approve", thread, "--yes", "--always")
    assert done.returncode == 2
    assert "can only be allowed by itself: a question does not show all of it" in done.stderr
    assert treadle("approve", thread, "--grants").stdout == ""
    assert treadle("approve", thread, "--yes").stdout == "Done.\n"


@pytest.mark.parametrize("what", BEGIN)
def test_a_call_that_does_not_fit_its_tool_is_never_asked_about(
    treadle: Run, script: Script, what: str
) -> None:
    odd = script(LONG.replace("content", "more"))
    done = treadle(BEGIN[what], "go", "-m", odd, *ASK, "--no-commit")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    thread = only_thread(treadle)["id"]
    assert "accepted: path, content" in treadle("show", thread).stdout


ROUND = """
[[replies]]
calls = [
  { tool = "write_file", arguments = { path = "x.sh", content = "echo one >> ran" } },
  { tool = "bash", arguments = { access = "write", command = "bash x.sh" } },
]
[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "bash x.sh" } }]
[[replies]]
calls = [{ tool = "write_file", arguments = { path = "x.sh", content = "echo two >> ran" } }]
[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "bash x.sh" } }]
[[replies]]
text = "Done."
"""


def test_a_yes_follows_the_script_that_its_round_writes_and_a_grant_ends_with_it(
    treadle: Run, script: Script, repository: Path
) -> None:
    def ran() -> list[str]:
        path = repository / "ran"
        return path.read_text().split() if path.exists() else []

    assert treadle("-p", "go", "-m", script(ROUND), *ASK, "--no-commit").returncode == 4
    thread = only_thread(treadle)["id"]
    assert treadle("approve", thread, "--yes").returncode == 4
    assert ran() == ["one"]
    assert treadle("approve", thread, "--yes", "--always").returncode == 4
    assert ran() == ["one", "one"]
    assert "bash: bash x.sh (content " in treadle("approve", thread, "--grants").stdout
    assert treadle("approve", thread, "--yes").returncode == 4
    assert ran() == ["one", "one"]
    # Somebody changes the script while the question stands: the yes to it is for nothing else.
    call = json.loads(treadle("approve", thread, "--json").stdout)[0]["call"]["id"]
    (repository / "x.sh").write_text("echo three >> ran")
    treadle("approve", thread, call, "--yes")
    assert ran() == ["one", "one"]
