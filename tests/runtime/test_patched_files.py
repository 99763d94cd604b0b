"""A yes to patches of several files holds for what the round makes of them, and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from runtime import file_change_process
from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Model, ignore, texts
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, Question, Scope, join_scopes
from treadle.core.call_decision import apply_round_writes
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    ApprovalBinding,
    EffectClass,
    Outcome,
    RewrittenFile,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)
from treadle.tools import apply_patch as patch_tool
from treadle.tools.apply_patch import scope_of_patch
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry
from treadle.tools.tool_return import ToolReturn


@tool(effect=EffectClass.MUTATE, scope_of=scope_of_patch)
async def apply_patch(context: ToolContext, input: str) -> ToolReturn:  # noqa: A002
    """Apply a patch, on the loop: the clock of these tests does not wait for threads."""
    return patch_tool.apply_patch(context, input)


class Folder(Registry):
    """Two files, and something that may be done after each call."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__([apply_patch], workspace=folder)
        self.folder = folder
        self.running: list[str] = []
        self.began: list[str] = []
        self.after: Callable[[ToolCall], object] = ignore
        for name in "ab":
            (folder / name).write_text("0\n")

    async def execute(self, call: ToolCall, **rest: Any) -> Outcome:
        self.running.append(call.id)
        self.began.append("".join(self.running))
        await tick()
        outcome = await super().execute(call, **rest)
        self.running.remove(call.id)
        self.after(call)
        return outcome


def count_up(name: str, *files: tuple[str, int]) -> dict[str, Any]:
    sections = [f"*** Update File: {file}\n@@\n-{old}\n+{old + 1}" for file, old in files]
    text = "\n".join(["*** Begin Patch", *sections, "*** End Patch"])
    return {"tool": "apply_patch", "id": name, "arguments": {"input": text}}


async def yes(_: Question) -> Verdict:
    return Verdict(Approved())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "ws")


ROUND = [
    count_up("x", ("a", 0), ("b", 0)),
    count_up("y", ("b", 1)),
    count_up("z", ("a", 1), ("b", 2)),
]


async def test_patches_of_the_same_files_run_one_after_the_other_under_one_yes(
    desk: Desk, folder: Folder
) -> None:
    config = replace(CONFIG, approval=AlwaysAsk(), parallel_max=8)
    session = desk.new(Model({"calls": ROUND}, "done"), folder, config, approve=yes)
    await session.turn("go")
    assert folder.began == ["x", "y", "z"]
    assert [(folder.folder / name).read_text() for name in "ab"] == ["2\n", "3\n"]
    desk.check(session)


async def test_a_change_by_somebody_else_in_one_of_the_files_ends_the_yes(
    desk: Desk, folder: Folder
) -> None:
    def write(call: ToolCall) -> None:
        if call.id == "x":
            (folder.folder / "b").write_text("theirs\n")

    folder.after = write
    config = replace(CONFIG, approval=AlwaysAsk(), parallel_max=8)
    session = desk.new(Model({"calls": ROUND}, "done"), folder, config, approve=yes)
    await session.turn("go")
    said = [text for text in texts(session.conversation) if "but the file has changed" in text]
    assert len(said) == 2
    assert [(folder.folder / name).read_text() for name in "ab"] == ["1\n", "theirs\n"]


def test_a_process_that_dies_between_two_files_leaves_a_call_that_is_told_as_uncertain(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    for name in "ab":
        (workspace / name).write_text("old\n")
    died = file_change_process.run("patch", tmp_path / "store", workspace)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert [(workspace / name).read_text() for name in "ab"] == ["new\n", "old\n"]
    again = file_change_process.run("patch", tmp_path / "store", workspace)
    assert again.stdout.startswith("ERROR: Uncertain: "), again.stderr
    assert [(workspace / name).read_text() for name in "ab"] == ["new\n", "old\n"]


# ---- the values behind it ----------------------------------------------------------------------


def part(file: str, **more: Any) -> Scope:
    return Scope(
        **{"kinds": (f"{file}/",), "ground": "g", "content": f"{file}0", "file": file, **more}
    )


def test_the_scope_of_all_is_as_careful_as_each_part() -> None:
    whole = join_scopes([part("a"), part("b", reasons=("r",)), part("a")])
    assert (whole.files, whole.content, whole.file) == (("a", "b"), "a0 b0", "")
    assert (whole.kinds, whole.reasons, whole.ground) == (("a/", "b/"), ("r",), "g")
    assert not join_scopes([part("a"), part("b", kinds=())]).kinds
    assert join_scopes([part("a"), part("b", must_ask=True)]).must_ask
    assert join_scopes([part("a"), part("b", refused="no")]).refused == "no"
    assert join_scopes([part("a"), part("a")]) == part("a")


def done(*files: tuple[str, str, str]) -> ToolExecutionStatus.Completed:
    outcome = ToolExecutionOutcome.Success(
        "c", "", rewritten=tuple(RewrittenFile(*file) for file in files)
    )
    return ToolExecutionStatus.Completed("c", "t", "", "", outcome)


@for_every_row(
    "statuses, content",
    [
        ([], "a0 b0"),
        ([done(("a", "a0", "a1"))], "a1 b0"),
        ([done(("a", "a0", "a1"), ("b", "b0", "b1"))], "a1 b1"),
        ([done(("b", "b0", "b1")), done(("b", "b1", "b2"))], "a0 b2"),
        ([done(("b", "b0", "b1")), done(("b", "gap", "b2"))], "a0 b0"),
        ([done(("other", "x", "y"))], "a0 b0"),
    ],
)
def test_what_a_yes_stands_on_follows_what_the_round_writes(
    statuses: list[ToolExecutionStatus.Completed], content: str
) -> None:
    bound = ApprovalBinding("g", "a0 b0")
    assert apply_round_writes(bound, ("a", "b"), statuses) == ApprovalBinding("g", content)
    assert apply_round_writes(bound, (), statuses) == bound
    assert apply_round_writes(bound, ("a", "b", "c"), statuses) == bound
