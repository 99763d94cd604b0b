"""`treadle graph` with the real command: both machines, and graphs that people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Run

ROOT = Path(__file__).parents[2]

REVIEW = """\
from dataclasses import dataclass
from treadle.core.task.events import CustomState, Graph
from treadle.core.task.table import TransitionTable, build_transition_table

print("built")
review = Graph(
    states=(CustomState("Review"),),
    rows=(
        ("Planning", "LlmFinalAnswer", "Review"),
        ("Review", "Accepted", "Done"),
        ("Review", "Refused", "Planning"),
    ),
)
table = TransitionTable([("Idle", "Start", "Done")])
lost = Graph(states=(CustomState("Lost"),), rows=(("Lost", "Found", "Done"),))
number = 7

class Builder:
    @property
    def graph(self):
        return review

class Agent:
    def __init__(self):
        self.kept = None
    def graph(self):
        return self.kept

@dataclass
class Settings:
    graph: "Graph"

builder = Builder()
agent = Agent()
settings = Settings(review)

def make():
    return builder

async def later():
    return review

def needs(what):
    return review

def breaks():
    raise ValueError("out of yarn")
"""


@pytest.fixture
def file(repository: Path) -> Path:
    path = repository / "agents.py"
    path.write_text(REVIEW)
    return path


def test_the_built_in_machines_are_drawn(treadle: Run) -> None:
    chat, task = treadle("graph"), treadle("graph", "--machine", "task")
    assert "[*] --> WaitingForUserInput\n" in chat.stdout
    assert treadle("graph", "--machine", "conversation").stdout == chat.stdout
    assert "[*] --> Idle\n" in task.stdout
    assert task.stdout == (ROOT / "docs" / "task-machine.mmd").read_text()
    assert (chat.stderr, task.stderr) == ("", "")


@pytest.mark.parametrize("name", ["review", "builder", "Builder", "settings", "make"])
def test_a_custom_graph_is_drawn_wherever_it_comes_from(
    treadle: Run, file: Path, name: str
) -> None:
    done = treadle("graph", f"{file.name}:{name}")
    assert done.returncode == 0
    assert "    Planning --> Review : LlmFinalAnswer\n" in done.stdout
    assert "    Review --> Done : Accepted\n" in done.stdout
    assert done.stdout.startswith("stateDiagram-v2\n")
    assert done.stderr == "built\n"


def test_a_table_is_drawn_as_it_is(treadle: Run, file: Path) -> None:
    drawn = treadle("graph", f"{file}:table").stdout.splitlines()
    assert drawn[2:] == ["    [*] --> Idle", "    Idle --> Done : Start", "    Done --> [*]"]


def test_an_agent_without_a_graph_has_the_default_one(treadle: Run, file: Path) -> None:
    default = treadle("graph", "--machine", "task").stdout
    assert treadle("graph", f"{file}:agent").stdout == default


def test_the_file_is_run_like_a_script_and_nothing_is_left_behind(
    treadle: Run, repository: Path
) -> None:
    folder = repository / "deep"
    folder.mkdir()
    (folder / "states.py").write_text("NAME = 'Review'\n")
    (folder / "click.py").write_text(
        "from states import NAME\n"
        "from treadle.core.task.events import CustomState, Graph\n"
        "graph = Graph(states=(CustomState(NAME),), rows=(\n"
        "    ('Planning', 'LlmFinalAnswer', NAME), (NAME, 'Accepted', 'Done')))\n"
        "if __name__ == '__main__':\n"
        "    raise SystemExit('this is not a run of the agent')\n"
    )
    assert "Review --> Done" in treadle("graph", "deep/click.py:graph").stdout
    assert sorted(path.name for path in folder.iterdir()) == ["click.py", "states.py"]


def test_a_graph_that_cannot_run_is_refused_and_drawn(treadle: Run, file: Path) -> None:
    done = treadle("graph", f"{file.name}:lost")
    assert (done.returncode, done.stdout) == (2, "")
    assert "treadle: no path from 'Idle' reaches the state 'Lost'\n" in done.stderr
    assert "stateDiagram-v2\n" in done.stderr
    assert "    Lost --> Done : Found\n" in done.stderr


def test_a_graph_that_is_refused_while_the_file_runs_is_drawn_too(treadle: Run, file: Path) -> None:
    checks = "from treadle.core.task.graph import check_graph\ncheck_graph(lost)\n"
    file.write_text(REVIEW + checks)
    done = treadle("graph", f"{file.name}:review")
    assert done.returncode == 2
    line = len(file.read_text().splitlines())
    assert f"agents.py, line {line}: BuildError: no path from 'Idle'" in done.stderr
    assert "    Lost --> Done : Found\n" in done.stderr


LINE_OF_RAISE = REVIEW.splitlines().index('    raise ValueError("out of yarn")') + 1
WRONG = {
    "agents.py": "agents.py does not say which graph",
    "agents.py:": "agents.py: does not say which graph",
    "agents.py:a-b": "does not say which graph",
    "none.py:review": "none.py is not a file",
    ".:review": ". is not a file",
    "agents.py:revue": "agents.py has no revue; did you mean review?",
    "agents.py:zzz": "agents.py has no zzz\n",
    "agents.py:number": "number in agents.py is not a graph, but of type int\n",
    "agents.py:later": "later in agents.py is not a graph, but of type function\n",
    "agents.py:needs": "agents.py: TypeError: needs() missing 1 required positional argument",
    "agents.py:breaks": f"agents.py, line {LINE_OF_RAISE}: ValueError: out of yarn\n",
}


@pytest.mark.parametrize(("custom", "told"), WRONG.items(), ids=WRONG.keys())
def test_what_names_no_graph_is_told_clearly(
    treadle: Run, file: Path, custom: str, told: str
) -> None:
    done = treadle("graph", custom)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


BROKEN = {
    "x = 1\ny = x / 0\n": "broken.py, line 2: ZeroDivisionError: division by zero",
    "x = 1\n\nif x\n": "broken.py, line 3: SyntaxError: expected ':'",
    "import nothing_of_this_name\n": "broken.py, line 1: ModuleNotFoundError: No module",
    "def f():\n    g()\ndef g():\n    assert 0\nf()\n": "broken.py, line 4: AssertionError\n",
    "import sys\nsys.exit(0)\n": "broken.py, line 2: SystemExit: 0",
    "import json\njson.loads('{')\n": "broken.py, line 2: JSONDecodeError:",
    "import os\n\n\nos.environ['LOOM']\n": "broken.py, line 4: this environment variable "
    "is not set: LOOM\n         export LOOM=..., in the shell that runs this",
    "from treadle.errors import *\nraise ConfigError('no', hint='yes')\n": "ConfigError: no\n",
    "x = '\0'\n": "broken.py",
}


@pytest.mark.parametrize(("source", "told"), BROKEN.items(), ids=list(map(repr, BROKEN)))
def test_a_file_that_fails_is_told_by_its_line(
    treadle: Run, repository: Path, source: str, told: str
) -> None:
    (repository / "broken.py").write_text(source)
    done = treadle("graph", "broken.py:x")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_is_checked_against_each_kind_of_graph(treadle: Run, file: Path) -> None:
    for what in (["--machine", "task"], [f"{file.name}:review"]):
        (file.parent / "fresh.mmd").write_text(treadle("graph", *what).stdout)
        (file.parent / "stale.mmd").write_bytes(b"\xffstale")
        assert treadle("graph", *what, "--check", "fresh.mmd").returncode == 0
        stale = treadle("graph", *what, "--check", "stale.mmd")
        assert stale.returncode == 1
        assert "stale.mmd is not what the table says" in stale.stderr
    assert "run `treadle graph agents.py:review > stale.mmd`" in stale.stderr


def test_a_machine_and_a_file_are_not_both_drawn(treadle: Run, file: Path) -> None:
    done = treadle("graph", "--machine", "task", f"{file}:review")
    assert done.returncode == 2
    assert "--machine is for the built-in machines" in done.stderr
