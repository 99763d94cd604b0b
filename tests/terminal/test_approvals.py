"""What a question of the chat covers, and what stays of it in the scrollback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from rich.console import RenderableType

from processor_time import GROWTH_MAX, growth
from terminal.recording import RecordingTerminal, drawn
from treadle.answers import Answer, Resolution, Verdict
from treadle.core.approval import Approved, Modified, Question, Rejected, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.terminal.approvals import ApprovalDialogs
from treadle.terminal.blocks import question as blocks
from treadle.terminal.call_diffs import FileReader, preview_diff
from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.dialogs import ListDialog
from treadle.terminal.ports import DialogChoice, ListRow


def question(
    command: str, risk: RiskLevel = RiskLevel.HIGH, kinds: tuple[str, ...] = ("npm test",)
) -> Question:
    call = ToolCall("c1", "bash", json.dumps({"command": command}))
    return Question(call, risk, "asked", Scope(kinds=kinds))


class Shown:
    """What calls look like, with files that are read like this."""

    def __init__(self, read: FileReader | None = None) -> None:
        self.read = read

    def preview_diff(self, question: Question) -> str | None:
        return preview_diff(question.call, self.read)

    def question_block(
        self, question: Question, diff: str | None, *, is_whole: bool = False
    ) -> RenderableType:
        return blocks.question_block(question, diff, is_whole=is_whole)

    def describe_omission(
        self, question: Question, diff: str | None, *, is_whole: bool = False
    ) -> str:
        return blocks.describe_omission(question, diff, is_whole=is_whole)


async def answered(asked: Question, *answers: str) -> tuple[Verdict, RecordingTerminal]:
    """What came of a question that was answered like this, and what is on the screen."""
    terminal = RecordingTerminal()
    terminal.answers.extend(answers)
    approvals = ApprovalDialogs(terminal, Shown(), lambda: [asked], lambda: None)
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


async def test_a_yes_for_good_is_for_the_kinds_that_are_shown_and_takes_enter_too() -> None:
    guarded: list[str] = []

    class Terminal(RecordingTerminal):
        async def choose(self, question: RenderableType, choices: Sequence[DialogChoice]) -> str:
            guarded.extend(one.key for one in choices if one.needs_enter)
            return "a"

    asked = question("npm test | tail", kinds=("npm test", "tail"))
    verdict = await ApprovalDialogs(Terminal(), Shown(), list, lambda: None).approve(asked)
    assert verdict == Verdict(Approved(), always=True, kinds=("npm test", "tail"))
    assert guarded == ["a"]


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
    choosing = ChoiceDialog([DialogChoice("a", words)], None, has_draft=False)  # type: ignore[arg-type]
    lines = ["".join(text for _, text in line) for line in choosing.lines(30, 24)]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == f"a {words}"


def test_the_row_that_would_be_picked_is_shown_whole() -> None:
    picking = ListDialog("title", lambda text: [], None)  # type: ignore[arg-type]
    picking.show_rows(
        [ListRow("1", "short"), ListRow("2", "word " * 20, "detail"), ListRow("3", "last")]
    )
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
        await ApprovalDialogs(Terminal(), Shown(), list, lambda: None).approve(asked)
    assert seen == ["y", "n"]


LONG = "echo " + "x" * 5000 + " THE-END"


class Heard(RecordingTerminal):
    """Keeps the choices it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[dict[str, str]] = []

    async def choose(self, question: RenderableType, choices: Sequence[DialogChoice]) -> str:
        self.offered.append({one.key: one.words for one in choices})
        return await super().choose(question, choices)


async def test_all_of_a_long_command_is_shown_and_asked_about_again() -> None:
    terminal = Heard()
    terminal.answers.extend(["v", "n", None, "y"])
    asked = question(LONG)
    verdict = await ApprovalDialogs(terminal, Shown(), lambda: [asked], lambda: None).approve(asked)
    assert verdict == Verdict(Approved())
    cut, whole, _, again = terminal.asked
    assert "are not shown" in cut
    assert "THE-END" not in cut
    assert whole.count("x") - cut.count("x") == 1000 + len("$ echo ") - len("$ ")
    assert "THE-END" in whole
    assert "are not shown" not in whole
    assert again == cut
    assert [list(keys) for keys in terminal.offered] == [
        ["y", "e", "n", "v", "l"],
        ["y", "e", "n", "l"],  # nothing for good, seen or not
        ["y", "e", "n", "v", "l"],
    ]


async def test_where_all_is_shown_there_is_nothing_to_see() -> None:
    terminal = Heard()
    terminal.answers.append("y")
    asked = question("npm test")
    await ApprovalDialogs(terminal, Shown(), lambda: [asked], lambda: None).approve(asked)
    assert [list(keys) for keys in terminal.offered] == [["y", "a", "e", "n", "l"]]


async def test_a_change_that_is_cut_is_seen_whole_and_allowed_once() -> None:
    edit = {"old_str": "old", "new_str": "new", "replace_all": True}
    call = ToolCall("c1", "edit_file", json.dumps({"path": "a", "edits": [edit]}))
    asked = Question(call, RiskLevel.MEDIUM, "asked", Scope(kinds=("a",)))
    terminal = Heard()
    terminal.answers.extend(["v", "y"])
    await ApprovalDialogs(
        terminal, Shown(lambda path: b"old\n" * 300), lambda: [asked], lambda: None
    ).approve(asked)
    cut, whole = terminal.asked
    assert "careful: 400 of 600 lines of the change are not shown" in cut
    assert whole.count("- old") == whole.count("+ new") == 300
    assert "not shown" not in whole
    assert "more lines" not in whole
    assert all("a" not in keys for keys in terminal.offered)


async def test_a_file_that_changes_meanwhile_is_read_once_for_what_is_shown_and_offered() -> None:
    read: list[str] = []

    def changing(path: str) -> bytes:
        read.append(path)
        return b"old\n" * (1 if len(read) % 2 else 300)

    edit = {"old_str": "old", "new_str": "new", "replace_all": True}
    call = ToolCall("c1", "edit_file", json.dumps({"path": "a", "edits": [edit]}))
    asked = Question(call, RiskLevel.MEDIUM, "asked", Scope(kinds=("a",)))
    terminal = Heard()
    terminal.answers.extend(["n", None, "y"])
    await ApprovalDialogs(terminal, Shown(changing), lambda: [asked], lambda: None).approve(asked)
    short, _, cut = terminal.asked
    assert ("not shown" in short, "not shown" in cut) == (False, True)
    assert ["a" in keys for keys in terminal.offered] == [True, False]
    assert read == ["a", "a"]


async def test_all_of_a_call_that_may_have_happened_can_be_seen() -> None:
    terminal = Heard()
    terminal.answers.extend(["v", "f"])
    asked = question(LONG)
    answer = await ApprovalDialogs(terminal, Shown(), list, lambda: None).ask(asked)
    assert answer == Answer(Resolution.FAILED)
    cut, whole = terminal.asked
    assert "are not shown" in cut
    assert "THE-END" in whole
    assert [list(keys) for keys in terminal.offered] == [
        ["r", "f", "e", "v", "l"],
        ["r", "f", "e", "l"],
    ]


@pytest.mark.parametrize("piece", ["x", "a\n", "\u6f22", "\x1b[2J"], ids=ascii)
def test_of_a_megabyte_a_bounded_part_is_shown_and_where_the_rest_is(piece: str) -> None:
    def ask(size: int) -> Heard:
        asked = question("echo " + piece * (size // len(piece)) + "|end")
        terminal = Heard()
        terminal.answers.extend(["v", "y"])
        ways = ApprovalDialogs(
            terminal, Shown(), lambda: [asked], lambda: None, thread=lambda: "0190"
        )
        asyncio.run(ways.approve(asked))
        return terminal

    terminal = ask(1_000_000)
    cut, whole = terminal.asked
    assert growth(lambda: ask(1_000_000), lambda: ask(250_000)) <= GROWTH_MAX
    assert len(cut) < len(whole) < 4 * blocks.WHOLE_LENGTH_MAX
    assert len(whole.splitlines()) < 2 * blocks.WHOLE_LINES_MAX
    assert "\x1b" not in whole
    assert "treadle show 0190 --json" in whole
    assert "treadle show" not in cut
    assert "characters are not shown" in " ".join(whole.split())
    assert terminal.offered[0]["v"] == "see more of it"


def test_of_many_long_arguments_each_is_shown_to_the_same_bound() -> None:
    arguments = {f"name{number}": f"{number}" * 300_000 for number in range(4)}
    asked = Question(ToolCall("c1", "other", json.dumps(arguments)), RiskLevel.HIGH, "asked")
    text = drawn(blocks.question_block(asked, None, is_whole=True))
    assert [text.count(f"{number}") // 50_000 for number in range(4)] == [1] * 4
