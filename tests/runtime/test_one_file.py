"""A yes to several changes of one file holds for all of them, and for nobody else's changes."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runtime import file_change_process
from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Model, ignore, texts
from treadle import outputs
from treadle.answers import Answer, Resolution, Verdict
from treadle.core.approval import AlwaysAsk, Approved, Question, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass, Outcome
from treadle.runtime.session import Session
from treadle.tools.context import ToolContext
from treadle.tools.files import rewrite
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry
from treadle.tools.tool_return import ToolReturn
from treadle.tools.write_scope import make_write_result, scope_of_writing

REFUSED = "but the file has changed since"


@tool(effect=EffectClass.MUTATE, scope_of=scope_of_writing)
async def add(context: ToolContext, path: str, text: str) -> ToolReturn:
    """Add a text to a file."""
    written = rewrite(context.workspace, path, lambda old: (old or b"") + text.encode())
    return make_write_result(written, f"added {text}")


class Desktop(Registry):
    """A folder in which a paper lies; something may be done before and after each call."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__([add], workspace=folder)
        self.paper = folder / "paper"
        self.before: Callable[[ToolCall], object] = ignore
        self.after: Callable[[ToolCall], object] = ignore

    async def execute(self, call: ToolCall, **rest: Any) -> Outcome:
        self.before(call)
        await tick()
        outcome = await super().execute(call, **rest)
        await tick()
        self.after(call)
        return outcome


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    found = Desktop(tmp_path / "folder")
    found.paper.write_text(".")
    (found.paper.parent / "link").symlink_to(".")
    return found


def adding(*written: tuple[str, str]) -> Model:
    asked = [
        {"tool": "add", "id": text, "arguments": {"path": path, "text": text}}
        for path, text in written
    ]
    return Model({"calls": asked}, "done")


async def yes(_: Question) -> Verdict:
    return Verdict(Approved())


def begin(desk: Desk, desktop: Desktop, model: Model, *, parallel_max: int = 8) -> Session:
    config = replace(CONFIG, approval=AlwaysAsk(), parallel_max=parallel_max)
    return desk.new(model, desktop, config, approve=yes)  # type: ignore[arg-type]


def results(session: Session) -> list[str]:
    return [text for text in texts(session.conversation) if "added" in text or "ERROR" in text]


BOTH = ("paper", "a"), ("paper", "b")


@pytest.mark.parametrize("parallel_max", [0, 1, 2, 8])
async def test_all_changes_that_were_allowed_are_made_in_the_order_in_which_they_were_asked_for(
    desk: Desk, desktop: Desktop, parallel_max: int
) -> None:
    paths = ["paper", "link/paper", "./paper"] * 4
    letters = "abcdefghijkl"
    model = adding(*zip(paths, letters, strict=True))
    session = begin(desk, desktop, model, parallel_max=parallel_max)
    await session.turn("go")
    assert results(session) == [f"added {letter}" for letter in letters]
    assert desktop.paper.read_text() == "." + letters
    desk.check(session)


async def test_other_calls_do_not_wait_for_those_that_write_one_file(
    desk: Desk, desktop: Desktop
) -> None:
    began: list[str] = []
    running: list[str] = []

    def before(call: ToolCall) -> None:
        running.append(call.id)
        began.append("".join(running))

    desktop.before, desktop.after = before, lambda call: running.remove(call.id)
    await begin(desk, desktop, adding(*BOTH, ("other", "c"))).turn("go")
    assert began[:2] == ["a", "ac"]
    assert len(began) == 3
    assert "a" not in began[2]


def by_somebody_else(desktop: Desktop, text: str) -> None:
    desktop.paper.write_text(text)


@pytest.mark.parametrize("parallel_max", [1, 8])
@pytest.mark.parametrize(
    ("when", "text", "left"),
    [
        ("after", "by an editor", "by an editor"),
        ("after", ".", "."),
        ("before", "by an editor", "by an editora"),
    ],
    ids=["after the first", "as it was, after the first", "before the first writes"],
)
async def test_a_change_by_somebody_else_is_none_that_was_allowed(
    desk: Desk, desktop: Desktop, parallel_max: int, when: str, text: str, left: str
) -> None:
    def once(call: ToolCall) -> None:
        if call.id == "a":
            desktop.paper.write_text(text)

    setattr(desktop, when, once)
    session = begin(desk, desktop, adding(*BOTH), parallel_max=parallel_max)
    await session.turn("go")
    first, second = results(session)
    assert (first, REFUSED in second) == ("added a", True)
    assert desktop.paper.read_text() == left
    desk.check(session)


async def test_what_was_made_of_another_file_counts_for_nothing(
    desk: Desk, desktop: Desktop
) -> None:
    def copy(call: ToolCall) -> None:
        if call.id == "a":
            (desktop.paper.parent / "copy").write_text(desktop.paper.read_text())

    (desktop.paper.parent / "copy").write_text(".")
    desktop.after = copy
    session = begin(desk, desktop, adding(("paper", "a"), ("copy", "b")), parallel_max=1)
    await session.turn("go")
    assert REFUSED in results(session)[1]
    assert (desktop.paper.parent / "copy").read_text() == ".a"


@pytest.mark.parametrize("text", ["", "by an editor"], ids=["as it was left", "changed meanwhile"])
async def test_the_yes_to_the_second_holds_in_the_next_process(
    desk: Desk, desktop: Desktop, text: str
) -> None:
    session = begin(desk, desktop, adding(*BOTH))
    desktop.after = lambda _: session.driver.interrupt()
    assert (await session.turn("go")).outcome is outputs.TurnOutcome.INTERRUPTED
    assert desktop.paper.read_text() == ".a"
    desk.crash()
    if text:
        desktop.paper.write_text(text)
    desktop.after = ignore
    session = desk.reopen(session.thread_id, Model("done"), desktop)  # type: ignore[arg-type]
    await session.resume()
    first, second = results(session)
    assert first == "added a"
    assert REFUSED in second if text else second == "added b"
    assert desktop.paper.read_text() == (text or ".ab")
    desk.check(session)


@pytest.mark.parametrize("text", ["", "by an editor"], ids=["as it was left", "changed meanwhile"])
async def test_who_is_asked_about_the_second_is_told_of_changes_by_others_only(
    desk: Desk, desktop: Desktop, text: str
) -> None:
    def die(call: ToolCall) -> None:
        if call.id == "b":
            desk.crash()
            raise SystemExit("killed")

    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Resolution.RUN_AGAIN)

    desktop.before = die
    session = begin(desk, desktop, adding(*BOTH))
    turn = asyncio.ensure_future(session.turn("go"))
    await asyncio.gather(turn, return_exceptions=True)
    if text:
        desktop.paper.write_text(text)
    desktop.before = ignore
    session = desk.reopen(session.thread_id, Model("done"), desktop, ask=ask)  # type: ignore[arg-type]
    await session.resume()
    (question,) = asked
    assert ("the file has changed" in question.reasons[0]) == bool(text)
    assert results(session) == ["added a", "added b"]
    assert desktop.paper.read_text() == (text or ".a") + "b"


async def die_at_the_first(desk: Desk, desktop: Desktop, when: str) -> str:
    """A process that dies right before or after the first call has written; gives its thread."""

    def die(call: ToolCall) -> None:
        desk.crash()
        raise SystemExit("killed")

    setattr(desktop, when, die)
    session = begin(desk, desktop, adding(*BOTH))
    turn = asyncio.ensure_future(session.turn("go"))
    await asyncio.gather(turn, return_exceptions=True)
    setattr(desktop, when, ignore)
    return session.thread_id


async def test_a_call_that_is_run_again_comes_before_those_that_were_asked_for_after_it(
    desk: Desk, desktop: Desktop
) -> None:
    async def ask(question: Question) -> Answer:
        assert question.call.id == "a"
        return Answer(Resolution.RUN_AGAIN)

    thread = await die_at_the_first(desk, desktop, "before")
    session = desk.reopen(thread, Model("done"), desktop, ask=ask)  # type: ignore[arg-type]
    await session.resume()
    assert results(session) == ["added a", "added b"]
    assert desktop.paper.read_text() == ".ab"
    desk.check(session)


@pytest.mark.parametrize(
    ("when", "left"), [("before", ".b"), ("after", ".a")], ids=["as it was", "written by it"]
)
async def test_after_a_call_of_which_nobody_knows_how_it_ended_the_file_must_be_as_it_was(
    desk: Desk, desktop: Desktop, when: str, left: str
) -> None:
    thread = await die_at_the_first(desk, desktop, when)
    session = desk.reopen(thread, Model("done"), desktop)  # type: ignore[arg-type]
    await session.resume()
    first, second = results(session)
    assert "Uncertain" in first
    assert second == "added b" if when == "before" else REFUSED in second
    assert desktop.paper.read_text() == left
    desk.check(session)


@pytest.mark.parametrize("parallel_max", [0, 1, 8])
async def test_however_many_calls_write_one_file_each_is_looked_at_as_often(
    desk: Desk, desktop: Desktop, monkeypatch: pytest.MonkeyPatch, parallel_max: int
) -> None:
    looked: Counter[str] = Counter()
    scope_of = desktop.scope_of

    def counting(call: ToolCall) -> Scope | None:
        looked[call.id] += 1
        return scope_of(call)

    monkeypatch.setattr(desktop, "scope_of", counting)
    most = []
    for count in (3, 24):
        looked.clear()
        texts = [f"{count}.{index}" for index in range(count)]
        model = adding(*(("paper", text) for text in texts))
        session = begin(desk, desktop, model, parallel_max=parallel_max)
        await session.turn("go")
        assert results(session) == [f"added {text}" for text in texts]
        assert len(looked) == count
        most.append(max(looked.values()))
    assert most[0] == most[1]


@pytest.mark.parametrize("text", ["", "one and two"], ids=["as it was left", "changed meanwhile"])
def test_a_process_that_is_killed_between_both_leaves_the_yes_to_the_second(
    tmp_path: Path, text: str
) -> None:
    paper = tmp_path / "folder" / "paper"
    paper.parent.mkdir()
    paper.write_text("one, two")
    died = file_change_process.run("edits", tmp_path / "store", paper.parent)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert paper.read_text() == "1, two"
    if text:
        paper.write_text(text)
    again = file_change_process.run("edits", tmp_path / "store", paper.parent)
    first, killed, second = again.stdout.splitlines()
    assert first.startswith("edited paper")
    assert killed.startswith("ERROR: Uncertain")
    assert REFUSED in second if text else second.startswith("edited paper")
    assert paper.read_text() == (text or "1, 2")
