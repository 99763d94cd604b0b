"""What a question of the chat covers, and what stays of it in the scrollback."""

from __future__ import annotations

import json

import pytest

from cli.chat.recording import RecordingTerminal
from treadle.cli.chat.approvals import Approvals
from treadle.cli.chat.blocks.question import question_block
from treadle.cli.chat.choosing import Choosing
from treadle.cli.chat.dialogs import Picking
from treadle.cli.chat.ports import Choice, Row
from treadle.core.approval import Approved, Modified, Question, Rejected, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.runtime.verdict import Verdict


def question(
    command: str, risk: RiskLevel = RiskLevel.HIGH, kinds: tuple[str, ...] = ("npm test",)
) -> Question:
    call = ToolCall("c1", "bash", json.dumps({"command": command}))
    return Question(call, risk, "asked", Scope(kinds=kinds))


async def answered(asked: Question, *answers: str) -> tuple[Verdict, RecordingTerminal]:
    """What came of a question that was answered like this, and what is on the screen."""
    terminal = RecordingTerminal()
    terminal.answers.extend(answers)
    approvals = Approvals(terminal, question_block, lambda: [asked], lambda: None)
    return await approvals.approve(asked), terminal


@pytest.mark.parametrize(
    ("answers", "decision", "words"),
    [
        (("y",), Approved(), "allowed once"),
        (("a",), Approved(), "always allowed from now on: npm test"),
        (("n", "too early"), Rejected("too early"), "declined: too early"),
        (("n", ""), Rejected(""), "declined"),
        (("e", "npm ci"), Modified('{"command": "npm ci"}'), "edited: $ npm ci"),
    ],
    ids=["yes", "always", "no", "no-reason", "edited"],
)
async def test_the_answer_stays_below_its_question(
    answers: tuple[str, ...], decision: object, words: str
) -> None:
    verdict, terminal = await answered(question("npm test"), *answers)
    assert verdict.decision == decision
    assert terminal.text().endswith(f"  {words}\n")


async def test_a_critical_call_that_was_edited_is_asked_about_as_it_would_run() -> None:
    asked = question("rm -rf /", RiskLevel.CRITICAL, ())
    verdict, terminal = await answered(asked, "e", "ls", "y")
    assert verdict.decision == Modified('{"command": "ls"}')
    assert "$ ls" in terminal.text() or any("$ ls" in one for one in terminal.asked)
    assert not terminal.answers


async def test_an_edit_that_makes_a_call_critical_is_asked_about() -> None:
    verdict, terminal = await answered(question("npm test"), "e", "rm -rf /", "n", "no")
    assert verdict.decision == Rejected("no")
    assert not terminal.answers


def test_choices_wrap_and_nothing_of_them_is_cut() -> None:
    words = "yes, and always for `git status`, `npm test`, `git log` in this thread"
    choosing = Choosing([Choice("a", words)], None, has_draft=False)  # type: ignore[arg-type]
    lines = ["".join(text for _, text in line) for line in choosing.lines(30, 24)]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == f"a {words}"


def test_the_row_that_would_be_picked_is_shown_whole() -> None:
    picking = Picking("title", lambda text: [], None)  # type: ignore[arg-type]
    picking.found([Row("1", "short"), Row("2", "word " * 20, "detail"), Row("3", "last")])
    picking.move(1)
    lines = ["".join(text for _, text in line) for line in picking.lines(10, 40)]
    assert max(map(len, lines[1:-1])) <= 40
    assert " ".join("".join(lines[1:-1]).split()) == f"▸ {'word ' * 20}detail"
    assert len(picking.lines(3, 40)) <= 4


async def test_what_a_yes_for_good_covers_is_listed_where_it_is_long() -> None:
    kinds = tuple(f"git command-{number}" for number in range(9))
    _, terminal = await answered(question("x", kinds=kinds), "y")
    told = "\n".join(terminal.asked) + terminal.text()
    for kind in kinds:
        assert f"    {kind}" in told


async def test_enter_alone_approves_nothing_critical() -> None:
    seen: list[str] = []

    class Terminal(RecordingTerminal):
        async def choose(self, question: object, choices: object) -> str:
            seen.append(choices[0].key)  # type: ignore[index]
            return "y"

    for risk in (RiskLevel.HIGH, RiskLevel.CRITICAL):
        asked = question("x", risk)
        await Approvals(Terminal(), question_block, list, lambda: None).approve(asked)
    assert seen == ["y", "n"]
