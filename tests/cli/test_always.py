"""`--always` is for what a question shows: a call that it does not show whole is no measure."""

from __future__ import annotations

import pytest

from cli.conftest import Run
from cli.test_approve import ASK, BEGIN, only_thread
from cli.test_signals import Script

LONG = f"""
[[replies]]
calls = [{{ tool = "bash", arguments = {{ command = "ls", more = "{"x" * 5000}" }} }}]

[[replies]]
text = "Done."
"""
"""A call that does not fit its tool, which so cannot say what kinds it has."""


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
def test_a_call_that_does_not_fit_its_tool_is_no_measure_for_others(
    treadle: Run, script: Script, what: str
) -> None:
    short = script(LONG.replace("x" * 5000, "x"))
    assert treadle(BEGIN[what], "go", "-m", short, *ASK, "--no-commit").returncode == 4
    thread = only_thread(treadle)["id"]
    shown = treadle("approve", thread).stdout
    assert "it does not fit its tool" in shown
    assert "all of what is asked about" not in shown
    done = treadle("approve", thread, "--yes", "--always")
    assert done.returncode == 2
    assert "can only be allowed by itself" in done.stderr
    assert treadle("approve", thread, "--grants").stdout == ""
