"""What a question of the chat covers, and what stays of it in the scrollback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from rich.console import RenderableType

from case_tables import for_every_row
from processor_time import GROWTH_MAX, growth
from terminal.recording import RecordingTerminal, drawn
from treadle.answers import Answer, Resolution, Verdict
from treadle.app.threads.call_diffs import preview_diff
from treadle.core.approval import Approved, Modified, Question, Rejected, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.terminal.approvals import ApprovalContext, ApprovalDialogs
from treadle.terminal.blocks import question as blocks
from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.dialogs import ListDialog
from treadle.terminal.ports import DialogChoice, ListRow


def question(
    command: str, risk: RiskLevel = RiskLevel.HIGH, kinds: tuple[str, ...] = ("npm test",)
) -> Question:
    call = ToolCall("c1", "bash", json.dumps({"command": command}))
    return Question(call, risk, "asked", Scope(kinds=kinds))


def without_files(asked: Question) -> str | None:
    """What a call would change, by its arguments alone."""
    return preview_diff(asked.call)


async def answered(asked: Question, *answers: str) -> tuple[Verdict, RecordingTerminal]:
    """What came of a question that was answered like this, and what is on the screen."""
    terminal = RecordingTerminal()
    terminal.answers.extend(answers)
    approvals = ApprovalDialogs(
        terminal, without_files, ApprovalContext(lambda: [asked], lambda: None)
    )
    return await approvals.approve(asked), terminal


@for_every_row(
    "answers, decision, words",
    [
        (("y",), Approved(), "✓ allowed once · $ npm test"),
        (("a",), Approved(), "✓ always allowed from now on · npm test"),
        (("n", "too\nearly"), Rejected("too\nearly"), "✗ rejected · $ npm test: too early"),
        (("n", ""), Rejected(""), "✗ rejected · $ npm test"),
        (
            ("e", "npm ci"),
            Modified('{"command": "npm ci"}'),
            "✓ allowed as edited · $ npm ci",
        ),
    ],
)
async def test_an_answer_leaves_one_line_of_its_question(
    answers: tuple[str, ...], decision: object, words: str
) -> None:
    verdict, terminal = await answered(question("npm test"), *answers)
    assert verdict.decision == decision
    assert terminal.text() == f"\n{words}\n"


async def test_the_line_of_a_long_command_is_one() -> None:
    _, terminal = await answered(question("echo " + "漢 a\x1b\n" * 500), "n", "no " * 200)
    _, line = terminal.text().splitlines()
    assert line.startswith("✗ rejected · $ echo 漢 a\ufffd⏎漢")
    assert "\x1b" not in line


async def test_a_change_of_mode_that_answers_leaves_one_line_too() -> None:
    mode = "ask"
    terminal = RecordingTerminal()
    asked = question("npm test")
    begun = asyncio.Event()

    async def never(*_: object, **__: object) -> str:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    terminal.choose = never  # type: ignore[method-assign]
    dialogs = ApprovalDialogs(
        terminal, without_files, ApprovalContext(lambda: [asked], lambda: None, mode=lambda: mode)
    )
    for changed, told in (("ask", ""), ("auto", "\n· answered by mode auto · $ npm test\n")):
        asking = asyncio.ensure_future(dialogs.approve(asked))
        await begun.wait()
        mode = changed
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert terminal.text() == told
        begun.clear()


async def test_a_yes_for_good_is_for_the_kinds_that_are_shown_and_takes_enter_too() -> None:
    guarded: list[str] = []

    class Terminal(RecordingTerminal):
        async def choose(
            self, question: RenderableType, choices: Sequence[DialogChoice], **_: object
        ) -> str:
            guarded.extend(one.key for one in choices if one.needs_enter)
            return "a"

    asked = question("npm test | tail", kinds=("npm test", "tail"))
    verdict = await ApprovalDialogs(
        Terminal(), without_files, ApprovalContext(list, lambda: None)
    ).approve(asked)
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
        async def choose(self, question: object, choices: object, **_: object) -> str:
            seen.append(choices[0].key)  # type: ignore[index]
            return "y"

    for risk in (RiskLevel.HIGH, RiskLevel.CRITICAL):
        asked = question("x", risk)
        await ApprovalDialogs(
            Terminal(), without_files, ApprovalContext(list, lambda: None)
        ).approve(asked)
    assert seen == ["y", "n"]


LONG = "echo " + "x" * 5000 + " THE-END"


class Heard(RecordingTerminal):
    """Keeps the choices it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[dict[str, str]] = []

    async def choose(
        self,
        question: RenderableType,
        choices: Sequence[DialogChoice],
        *,
        body: RenderableType | None = None,
        foot: RenderableType | None = None,
    ) -> str:
        self.offered.append({one.key: one.words for one in choices})
        return await super().choose(question, choices, body=body, foot=foot)


async def test_all_of_a_long_command_is_asked_about_and_nothing_for_good() -> None:
    terminal = Heard()
    terminal.answers.append("y")
    asked = question(LONG)
    verdict = await ApprovalDialogs(
        terminal, without_files, ApprovalContext(lambda: [asked], lambda: None)
    ).approve(asked)
    assert verdict == Verdict(Approved())
    (whole,) = terminal.asked
    assert whole.count("x") == 5000
    assert "THE-END" in whole
    assert "not shown" not in whole
    assert [list(keys) for keys in terminal.offered] == [["y", "e", "n", "l"]]


async def test_a_short_one_can_be_allowed_for_good() -> None:
    terminal = Heard()
    terminal.answers.append("y")
    asked = question("npm test")
    await ApprovalDialogs(
        terminal, without_files, ApprovalContext(lambda: [asked], lambda: None)
    ).approve(asked)
    (offered,) = terminal.offered
    assert list(offered) == ["y", "a", "e", "n", "l"]
    assert offered["a"] == "yes, and always for `npm test` in this thread"
    assert offered["n"] == "no, and what to do instead"


async def test_all_of_a_long_change_is_asked_about() -> None:
    edit = {"old_str": "old", "new_str": "new", "replace_all": True}
    call = ToolCall("c1", "edit_file", json.dumps({"path": "a", "edits": [edit]}))
    asked = Question(call, RiskLevel.MEDIUM, "asked", Scope(kinds=("a",)))
    terminal = Heard()
    terminal.answers.append("y")
    dialogs = ApprovalDialogs(
        terminal,
        lambda asked: preview_diff(asked.call, lambda path: b"old\n" * 300),
        ApprovalContext(lambda: [asked], lambda: None),
    )
    await dialogs.approve(asked)
    (whole,) = terminal.asked
    assert whole.count("- old") == whole.count("+ new") == 300
    assert "  1 - old" in whole
    assert "not shown" not in whole
    assert "more lines" not in whole


async def test_a_file_that_changes_meanwhile_is_read_once_for_each_time_it_is_asked() -> None:
    read: list[str] = []

    def changing(path: str) -> bytes:
        read.append(path)
        return b"old\n" * (1 if len(read) % 2 else 300_000)

    edit = {"old_str": "old", "new_str": "new", "replace_all": True}
    call = ToolCall("c1", "edit_file", json.dumps({"path": "a", "edits": [edit]}))
    asked = Question(call, RiskLevel.MEDIUM, "asked", Scope(kinds=("a",)))
    terminal = Heard()
    terminal.answers.extend(["n", None, "y"])
    dialogs = ApprovalDialogs(
        terminal,
        lambda one: preview_diff(one.call, changing),
        ApprovalContext(lambda: [asked], lambda: None),
    )
    await dialogs.approve(asked)
    short, _, cut = terminal.asked
    assert ("not shown" in short, "not shown" in cut) == (False, True)
    assert ["a" in keys for keys in terminal.offered] == [True, False]
    assert read == ["a", "a"]


async def test_all_of_a_call_that_may_have_happened_is_shown() -> None:
    terminal = Heard()
    terminal.answers.append("f")
    asked = question(LONG)
    answer = await ApprovalDialogs(
        terminal, without_files, ApprovalContext(list, lambda: None)
    ).ask(asked)
    assert answer == Answer(Resolution.FAILED)
    (whole,) = terminal.asked
    assert "THE-END" in whole
    assert [list(keys) for keys in terminal.offered] == [["r", "f", "e", "l"]]


@for_every_row("piece", ["x", "a\n", "\u6f22", "\x1b[2J"])
def test_of_a_megabyte_a_bounded_part_is_shown_and_where_the_rest_is(piece: str) -> None:
    def ask(size: int) -> Heard:
        asked = question("echo " + piece * (size // len(piece)) + "|end")
        terminal = Heard()
        terminal.answers.append("y")
        dialogs = ApprovalDialogs(
            terminal,
            without_files,
            ApprovalContext(lambda: [asked], lambda: None, thread=lambda: "0190"),
        )
        asyncio.run(dialogs.approve(asked))
        return terminal

    terminal = ask(1_000_000)
    (whole,) = terminal.asked
    assert growth(lambda: ask(1_000_000), lambda: ask(250_000)) <= GROWTH_MAX
    assert len(whole) < 4 * blocks.SHOWN_LENGTH_MAX
    assert len(whole.splitlines()) < 2 * blocks.SHOWN_LINES_MAX
    assert "\x1b" not in whole
    assert "treadle show 0190 --json" in whole
    assert "characters are not shown" in " ".join(whole.split())
    assert "a" not in terminal.offered[0]


def test_of_many_long_arguments_each_is_shown_to_the_same_bound() -> None:
    arguments = {f"name{number}": f"{number}" * 300_000 for number in range(4)}
    asked = Question(ToolCall("c1", "other", json.dumps(arguments)), RiskLevel.HIGH, "asked")
    text = drawn(blocks.question_blocks(asked, None).body)
    assert [text.count(f"{number}") // 50_000 for number in range(4)] == [1] * 4
