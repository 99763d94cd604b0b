"""A change of a file that needs a yes is shown as a diff, at once and later."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_approve import ASK, BEGIN, Script, only_thread, terminal
from cli.test_ask import ANSI, QUESTION

EDIT = """
[[replies]]
text = "I mend it."
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b\\u001b[2K" }] }

[[replies]]
text = "It adds."
"""
DIFF = (
    "  │ path: calc.py",
    "  │ @@ -1,2 +1,2 @@",
    "  │  def add(a, b):",
    "  │ -    return a - b",
    "  │ +    return a + b�[2K",
)
"""How the edit is shown where its file is: what would steer the terminal is marked."""


@pytest.mark.parametrize("kind", BEGIN)
def test_a_change_is_asked_about_as_a_diff_of_its_file(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    kind: str,
) -> None:
    below = repository / "below"
    below.mkdir()
    (below / "calc.py").write_text("another one, which the call does not change")
    begun = terminal(
        below, environment, BEGIN[kind], "go", "-m", script(EDIT), *ASK, "-C", str(repository)
    )
    begun.read_until(QUESTION)
    begun.process.kill()
    begun.read_to_the_end()
    begun.process.wait()
    # The folder is the thread's, wherever it is gone on with.
    resumed = terminal(below, environment, "resume", str(only_thread(treadle)["id"]))
    resumed.read_until(QUESTION)
    resumed.type("y\r")
    assert "It adds." in resumed.read_to_the_end()
    for one in (begun, resumed):
        lines = ANSI.sub("", one.shown).splitlines()
        at = lines.index(DIFF[0])
        assert tuple(lines[at : at + len(DIFF)]) == DIFF
        assert "edits" not in one.shown
    assert "a + b" in (repository / "calc.py").read_text()


def test_a_change_that_waits_is_shown_as_a_diff_to_who_asks_later(
    treadle: Run, script: Script, repository: Path
) -> None:
    done = treadle("-p", "go", "-m", script(EDIT), *ASK, "--no-commit")
    thread = str(only_thread(treadle)["id"])
    waiting = (done.stderr, treadle("approve", thread).stdout, treadle("show", thread).stdout)
    changed = (DIFF[0], "  │ -a - b", DIFF[-1].replace("    return ", ""))
    for told in waiting:
        lines = told.splitlines()
        at = lines.index(changed[0])
        assert tuple(lines[at : at + len(changed)]) == changed, told
