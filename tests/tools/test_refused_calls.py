"""Nobody is asked about a call that its tool would refuse, in a conversation or a task."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.conftest import desk as desk
from runtime.desk import Desk, Model
from runtime.task.agents import DONE, agent, close
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, OnlyRead, Question
from treadle.core.config import AgentConfig
from treadle.outputs import TurnOutcome
from treadle.tools.apply_patch import apply_patch
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

READ = {"path": "seen.txt"}
MISSING = "*** Begin Patch\n*** Update File: no.txt\n@@\n-a\n+b\n*** End Patch"
MISFIT = "*** Begin Patch\n*** Update File: seen.txt\n@@\n-no such line\n+b\n*** End Patch"
UNREAD = "*** Begin Patch\n*** Delete File: other.txt\n*** End Patch"
SAME = "*** Begin Patch\n*** Update File: seen.txt\n@@\n-one\n+one\n*** End Patch"
MARK = "[REDACTED:token]"


def edit(path: str, old: str, new: str = "x", **rest: Any) -> dict[str, Any]:
    return {"path": path, "edits": [{"old_str": old, "new_str": new, **rest}]}


REFUSED: Sequence[tuple[str, dict[str, Any], str]] = (
    # what is asked for, and a piece of what the model reads of it
    ("write_file", {"path": "a"}, "content"),
    ("write_file", {"path": "a", "content": "x", "wrong_field": 1}, "wrong_field"),
    ("write_file", {"path": "../a", "content": "x"}, "../a"),
    ("write_file", {"path": ".git/config", "content": "x"}, ".git"),
    ("write_file", {"path": ".git/new/x", "content": "x"}, ".git"),
    ("write_file", {"path": "folder", "content": "x"}, "folder"),
    ("write_file", {"path": "seen.txt/x", "content": "x"}, "seen.txt/x"),
    ("write_file", {"path": "unread.txt", "content": "x"}, "you have not read it"),
    ("write_file", {"path": "a", "content": f"x {MARK}"}, "REDACTED"),
    ("edit_file", {"path": "seen.txt", "edits": []}, "edits"),
    ("edit_file", {"path": "seen.txt", "edits": [{"old": "a"}]}, "edits"),
    ("edit_file", edit("no.txt", "a"), "no.txt"),
    ("edit_file", edit("seen.txt", "no such text"), "does not occur"),
    ("edit_file", edit("seen.txt", "o"), "more than once"),
    ("edit_file", edit("seen.txt", "", "x"), "has content"),
    ("edit_file", edit("../b", "a"), "../b"),
    ("edit_file", edit("folder", "a"), "folder"),
    ("apply_patch", {"input": "no patch"}, "Begin Patch"),
    ("apply_patch", {"input": MISSING}, "no.txt"),
    ("apply_patch", {"input": MISFIT}, "seen.txt"),
    ("apply_patch", {"input": UNREAD}, "you have not read it"),
    ("apply_patch", {"input": SAME}, "as they are"),
    ("bash", {}, "command"),
    ("bash", {"command": "true", "timeout_s": -1}, "timeout_s"),
    ("bash", {"command": "true", "cwd": "no"}, "no"),
    ("bash", {"command": "a\0b"}, "null byte"),
    ("bash", {"command": f"echo {MARK}", "access": "write"}, "REDACTED"),
    ("read_file", {"path": "no.txt"}, "no.txt"),
    ("read_file", {"path": "seen.txt", "start_line": 3, "end_line": 2}, "line"),
    ("list_files", {"path": "no"}, "no"),
    ("search_files", {"pattern": "x", "path": "no"}, "no"),
    ("web_fetch", {"url": "http://127.0.0.1/"}, "this machine"),
    ("web_fetch", {"url": "no address"}, "address"),
    ("background_command", {"timeout_s": -1}, "timeout_s"),
    ("plan", {"steps": 5}, "steps"),
)
"""Each way in which a built-in tool refuses a call before it does anything."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "folder").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / "seen.txt").write_text("one\ntwo\nfour\n")
    (made / "unread.txt").write_text("of somebody else\n")
    (made / "other.txt").write_text("of somebody else too\n")
    return made


def files_of(folder: Path) -> dict[str, bytes]:
    found = {}
    for place, _, names in os.walk(folder):
        found |= {f"{place}/{name}": (Path(place) / name).read_bytes() for name in names}
    return found


def reply(*asked: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"calls": [{"tool": name, "arguments": arguments} for name, arguments in asked]}


def all_tools(folder: Path) -> Registry:
    return Registry([*builtin_tools(), apply_patch], workspace=folder)


class Desks:
    """Who is asked, and what came of each call."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, question: Question) -> Verdict:
        self.asked.append(question.call.tool_name)
        return Verdict(Approved())


@pytest.mark.parametrize("kind", ["conversation", "task"])
async def test_no_call_that_its_tool_would_refuse_is_asked_about(
    desk: Desk, folder: Path, kind: str
) -> None:
    tools, before = all_tools(folder), files_of(folder)
    assert {name for name, _, _ in REFUSED} <= {one.name for one in tools.definitions()}
    asked = [(name, given) for name, given, _ in REFUSED]
    person = Desks()
    if kind == "conversation":
        config = AgentConfig(model_name="m", tools=(*tools.definitions(),), approval=AlwaysAsk())
        replies = [reply(("read_file", READ)), *map(reply, asked), "done"]
        session = desk.new(Model(*replies), tools, config, approve=person.approve)  # type: ignore[arg-type]
        assert (await session.turn("go")).outcome is TurnOutcome.DONE
        results = [one.content for one in session.conversation if one.role == "tool"]
        desk.check(session)
    else:

        def decide(question: Question) -> Approved:
            person.asked.append(question.call.tool_name)
            return Approved()

        replies = [reply(("read_file", READ)), reply(*asked), DONE]
        builder = agent(desk, *replies, approval=AlwaysAsk(), on_approval=decide)
        engine = builder.tools(tools).build()
        assert await engine.run() == DONE
        results = [one.content for one in engine.memory.transcript if one.role == "tool"]
        await close(desk, engine)
    missed = [
        f"{name} {given}: {result}"
        for (name, given, words), result in zip(REFUSED, results[1:], strict=True)
        if words not in result or not result.startswith("ERROR: ")
    ]
    assert missed == []
    assert person.asked == ["read_file"], "it can be read, and each call is asked about here"
    assert files_of(folder) == before


async def test_what_a_call_before_it_changes_is_not_held_against_a_call(
    desk: Desk, folder: Path
) -> None:
    tools, person = all_tools(folder), Desks()
    config = AgentConfig(model_name="m", tools=(*tools.definitions(),), approval=AlwaysAsk())
    asked = (
        ("write_file", {"path": "new.txt", "content": "one\n"}),
        ("edit_file", edit("new.txt", "one", "two")),
        ("edit_file", edit("new.txt", "no such text")),
        ("edit_file", {"path": "new.txt", "edits": 5}),
    )
    session = desk.new(Model(reply(*asked), "done"), tools, config, approve=person.approve)  # type: ignore[arg-type]
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert person.asked == ["write_file", "edit_file", "edit_file"]
    assert (folder / "new.txt").read_text() == "two\n"
    desk.check(session)


async def test_a_call_that_could_run_a_moment_after_it_was_refused_has_no_yes(
    desk: Desk, folder: Path
) -> None:
    tools, person = all_tools(folder), Desks()
    config = AgentConfig(model_name="m", tools=(*tools.definitions(),), approval=AlwaysAsk())
    asked = reply(("edit_file", edit("late.txt", "a", "b")))
    session = desk.new(Model(asked, "done"), tools, config, approve=person.approve)  # type: ignore[arg-type]

    def mend(output: Any) -> None:
        if isinstance(output, outputs.ToolStarted):
            (folder / "late.txt").write_text("a\n")

    desk.heard.on_output = mend
    await session.turn("go")
    (ended,) = desk.heard.of(outputs.ToolFinished)
    assert "has changed while it was looked at" in ended.outcome.error.message
    assert person.asked == []
    assert (folder / "late.txt").read_text() == "a\n"
    desk.check(session)


async def test_a_mode_that_only_reads_refuses_without_a_question(desk: Desk, folder: Path) -> None:
    tools, person = all_tools(folder), Desks()
    config = AgentConfig(model_name="m", tools=(*tools.definitions(),), approval=OnlyRead())
    asked = (
        ("write_file", {"path": "a", "content": "x"}),
        ("edit_file", edit("no.txt", "a")),
        ("bash", {"command": "touch a", "access": "write"}),
    )
    session = desk.new(Model(*map(reply, asked), "done"), tools, config, approve=person.approve)  # type: ignore[arg-type]
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    ended = desk.heard.of(outputs.ToolFinished)
    assert all("plan mode" in one.outcome.error.message for one in ended)
    assert (len(ended), person.asked) == (3, [])
