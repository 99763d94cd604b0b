"""Calls in the words of real models: what they were answered, and what they are answered now.

`real_searches.json` and `real_commands.json` say where each kind was collected from. Changed of the
sources are names of folders, and what the files hold that the calls are tried on. `before` is what
this program said until the row was added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import for_every_row
from treadle.risk.commits import UncommittedFile, find_taken_files
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Network, Policy
from treadle.tools import command_hints
from treadle.tools.builtin import builtin_tools
from treadle.tools.command_access import CommandWish
from treadle.tools.command_hints import find_hints

_HERE: Final = Path(__file__).parent
SEARCHES: Final[dict[str, Any]] = json.loads((_HERE / "real_searches.json").read_text())
COMMANDS: Final[dict[str, Any]] = json.loads((_HERE / "real_commands.json").read_text())
PERSONS: Final = (
    UncommittedFile("notes.md", is_staged=True),
    UncommittedFile("src/app.py"),
    UncommittedFile("todo.txt", is_untracked=True),
)

NOT_OFFERED: Final = {"what": "a tool, which you do not have,", "tool": "edit_file or write_file"}
NAMED: Final = {"read_file": {"what": "a tool of yours", "tool": "it"}}


@pytest.fixture
def tree(folder: Path) -> Path:
    (folder / ".git").mkdir()
    for name, text in SEARCHES["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_there_are_as_many_as_promised_and_each_has_a_source() -> None:
    rows = [*SEARCHES["calls"], *COMMANDS["commands"]]
    assert len(rows) + len(COMMANDS["commits"]) >= 90
    sources = SEARCHES["sources"] | COMMANDS["sources"]
    assert {row["kind"] for row in rows} | {"commits"} == set(sources)


async def test_a_search_finds_what_was_meant_or_says_what_is_so(tree: Path, call: Any) -> None:
    missed = []
    for row in SEARCHES["calls"]:
        outcome = await call("search_files", **row["arguments"])
        said = getattr(outcome, "output", None) or f"ERROR: {outcome.error.text}"
        if said != row["after"]:
            missed.append((row["arguments"], said, row["after"]))
    assert missed == []


def test_no_search_is_told_of_no_matches_and_nothing_else() -> None:
    assert [row for row in SEARCHES["calls"] if row["after"] == "[no matches]"] == []


@for_every_row("row", COMMANDS["commands"])
def test_a_command_is_told_the_way_out(tmp_path: Path, row: dict[str, Any]) -> None:
    sandbox = Sandbox(Policy(network=Network(row["network"])), tmp_path, backends=("bubblewrap",))
    sandbox.keep_scratch(str(tmp_path / "T-kept"))
    wish = CommandWish(row["command"], row["access"], network=row["network"] == "on")
    tools = [tool.definition.name for tool in builtin_tools()]
    found = find_hints(row["output"], row["exit_code"], wish, sandbox, str(tmp_path), tools)
    name, _, detail = row["after"].partition(" ")
    wanted = getattr(command_hints, name) if name else ""
    wanted = (
        wanted.format(
            name=detail, folder=detail, kept="$TREADLE_SCRATCH", **NAMED.get(detail, NOT_OFFERED)
        )
        if detail
        else wanted
    )
    assert list(found) == ([wanted] if wanted else [])


@for_every_row(
    "family, name, words",
    [
        (
            "openai",
            "apply_patch",
            "apply_patch is a tool of yours and no program of the shell: call it",
        ),
        (
            "gemini",
            "apply_patch",
            "which you do not have, and no program of the shell: call replace or",
        ),
        ("gemini", "search_files", "call grep_search as a tool"),
        ("", "list_directory", "call list_files as a tool"),
    ],
)
def test_a_tool_that_is_called_as_a_program_is_named_as_it_is_offered(
    family: str, name: str, words: str
) -> None:
    tools = [tool.definition.name for tool in builtin_tools(family)]
    wish = CommandWish(f"{name} x")
    [hint] = find_hints(f"bash: line 1: {name}: command not found", 127, wish, None, "/ws", tools)
    assert words in hint


@for_every_row("row", COMMANDS["commits"])
def test_what_a_command_takes_along_of_a_person_is_known(row: dict[str, Any]) -> None:
    assert list(find_taken_files(row["command"], PERSONS)) == row["taken"]
    assert find_taken_files(row["command"], ()) == ()
