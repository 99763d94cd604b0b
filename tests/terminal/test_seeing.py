"""A question shows all of its call, in a real terminal, and is gone when it is answered."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from terminal.conftest import StartToy
from terminal.harness import ENTER, PAGE_DOWN, PAGE_UP, Screen, ctrl
from terminal.talks import BRISK_S, Start, told
from treadle.terminal.choice_dialog import KEY_PAUSE_S, VISIBLE_S_MIN

WAITING = "y  yes"

LINES = 300


@pytest.fixture
def says(model: str) -> Path:
    """Where the model's words are: in these tests, one call with whatever prompt."""
    return Path(model.removeprefix("scripted:"))


def calling(says: Path, command: str) -> None:
    asked = {"command": command, "access": "write"}
    reply = {"when": {"step": 0}, "calls": [{"tool": "bash", "arguments": asked}]}
    call = json.dumps(reply["calls"]).replace('": ', '" = ')
    says.write_text(
        f'[[replies]]\nwhen.step = 0\ncalls = {call}\n\n[[replies]]\ntext = "It ran."\n'
    )


def long(command: str, size: int = 6000) -> str:
    """The command, and a comment behind it that fills a screen and more."""
    return f"{command} # {'x' * size} \x1b[2JTHE-END"


def changing_all(says: Path, repository: Path) -> None:
    """One call that changes each line of a file."""
    (repository / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, LINES + 1)))
    edits = [{"old_str": "line", "new_str": "LINE", "replace_all": True}]
    arguments = json.dumps({"path": "long.txt", "edits": edits}).replace('": ', '" = ')
    reading = 'calls = [{ tool = "read_file", arguments = { path = "long.txt" } }]'
    says.write_text(
        f"[[replies]]\nwhen.step = 0\n{reading}\n\n"
        f'[[replies]]\nwhen.step = 1\ncalls = [{{ tool = "edit_file", arguments = '
        f"{arguments} }}]\n\n"
        '[[replies]]\ntext = "It is changed."\n'
    )


def place(screen: Screen) -> str:
    """Which lines of the question are shown, as it says."""
    return next((one.strip() for one in screen.lines if "(PgUp, PgDn)" in one), "")


def test_all_of_a_change_is_seen_by_scrolling_and_leaves_one_line(
    start: Start, says: Path, repository: Path
) -> None:
    changing_all(says, repository)
    talk = start(rows=24)
    talk.say("change", WAITING)
    talk.wait_for(lambda screen: screen.is_asking)
    seen = set[str]()
    for _ in range(2 * LINES):
        seen |= {line for line in talk.lines if line.startswith("  │ ")}
        assert "edit_file needs your approval" in talk.shown  # what it is stays in sight
        assert "y  yes, this once" in talk.shown
        before = place(talk)
        if f"-{1 + 2 * LINES} of {1 + 2 * LINES} " in before:
            break
        talk.type(PAGE_DOWN)
        talk.wait_for(lambda screen, before=before: place(screen) not in ("", before))  # type: ignore[misc]
    assert {f"  │ {n:>3} - line {n}" for n in range(1, LINES + 1)} <= seen
    assert {f"  │ {n:>3} + LINE {n}" for n in range(1, LINES + 1)} <= seen
    talk.type(PAGE_UP)
    talk.wait_until_gone(f"LINE {LINES}")
    for _ in range(2):  # to the end, and around to the beginning
        talk.type(ctrl("o"))
    talk.wait_for(lambda screen: place(screen).startswith("lines 1-"))
    assert (repository / "long.txt").read_text().startswith("line 1\n")
    talk.answer("y")
    talk.wait_for("It is changed.")
    assert talk.text.count("✓ allowed once · edit_file long.txt") == 1
    for gone in ("needs your approval", "yes, this once", "(PgUp, PgDn)"):
        assert gone not in talk.text
    assert talk.text.count(" - line 1\n") == 1  # below the result
    assert (repository / "long.txt").read_text().startswith("LINE 1\n")


def test_a_change_stays_in_sight_while_one_writes_what_to_do_instead(
    start: Start, says: Path, repository: Path
) -> None:
    changing_all(says, repository)
    talk = start(rows=24)
    talk.say("change", WAITING)
    talk.wait_for(lambda screen: screen.is_asking)
    talk.answer("n")
    talk.wait_for_shown("No to edit_file")
    talk.type("keep line")
    talk.wait_for_shown("> keep line")
    assert "  │   1 - line 1" in talk.lines
    assert "yes, this once" not in talk.shown
    talk.type(PAGE_DOWN)
    talk.wait_for(lambda screen: not place(screen).startswith("lines 1-"))
    talk.type(" 3" + ENTER)
    talk.wait_for("✗ rejected · edit_file long.txt: keep line 3")
    assert "needs your approval" not in talk.text


def test_all_of_a_long_command_is_asked_about_once_and_answered_on_any_page(
    start: Start, says: Path, repository: Path
) -> None:
    calling(says, long("echo ran >> effects"))
    talk = start()
    talk.say("run", WAITING)
    talk.wait_for(lambda screen: screen.is_asking)
    assert "THE-END" not in talk.text
    talk.type(PAGE_DOWN * 9)
    talk.wait_for_shown("THE-END")
    assert "\ufffd[2JTHE-END" in talk.shown.replace("\n  │ ", "")
    assert "always" not in talk.shown
    assert not (repository / "effects").exists()
    talk.answer("y")
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"
    assert "needs your approval" not in talk.text


def test_a_question_is_laid_out_anew_for_another_width(
    start: Start, says: Path, repository: Path
) -> None:
    calling(says, f"echo {'word ' * 40}END")
    talk = start(columns=100, rows=24)
    talk.say("run", WAITING)
    talk.resize(40, 30)
    talk.wait_for_shown("END")
    talk.wait_for(lambda screen: screen.is_asking)
    lines = [line for line in talk.lines if line.startswith("  │ ")]
    assert sum(line.count("word") for line in lines) == 40
    assert max(map(len, talk.lines)) <= 40
    talk.answer("l")
    talk.wait_for("what is open stays open")


@pytest.mark.parametrize(("columns", "rows"), [(20, 12), (40, 9), (80, 7)], ids=str)
def test_on_a_low_screen_all_of_a_question_can_be_seen(
    start: Start, says: Path, columns: int, rows: int
) -> None:
    calling(says, "echo one && echo two")
    talk = start(columns=columns, rows=rows)
    talk.type("run" + ENTER)
    talk.wait_for(lambda screen: screen.is_asking)
    seen = ""
    for _ in range(12):
        seen += "".join(line.strip(" │") for line in talk.lines)
        talk.type(PAGE_DOWN)
        talk.read_for(BRISK_S)
    for words in ("needs", "$ echo one", "echo two", "access: write", "confined:"):
        assert words in seen
    assert any(line.startswith("▸ ") for line in talk.lines)


def test_of_a_megabyte_the_beginning_is_shown_and_the_rest_is_where_it_says(
    start: Start, says: Path, repository: Path, environment: dict[str, str]
) -> None:
    calling(says, long("echo ran >> effects", 1_000_000))
    talk = start()
    talk.say("run", WAITING)
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert f"all of it: treadle show {line['id']} --json" in " ".join(talk.shown.split())
    assert "characters are not shown" in talk.shown
    assert "THE-END" in told(environment, "show", line["id"], "--json", cwd=repository)
    talk.answer("l")
    talk.wait_for("what is open stays open")
    assert not (repository / "effects").exists()


def test_a_plain_terminal_prints_all_of_it(start: Start, says: Path, repository: Path) -> None:
    calling(says, long("echo ran >> effects"))
    talk = start("--plain")
    talk.type("run" + ENTER)
    talk.wait_for("your choice:")
    assert "\ufffd[2JTHE-END" in talk.text.replace("\n  | ", "")
    assert "\x1b[2J" not in talk.raw.decode()
    assert not (repository / "effects").exists()
    talk.read_for(BRISK_S)
    talk.type("y" + ENTER)
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"
    assert talk.text.count("needs your approval") == 1
    assert "\nallowed once · $ echo ran >> effects" in talk.text


def test_all_of_a_call_is_shown_that_was_running_when_the_process_died(
    start: Start, says: Path, repository: Path
) -> None:
    os.mkfifo(repository / "fifo")
    calling(says, long("cat fifo"))
    dying = start("--approval-mode", "auto")
    dying.say("run", "cat fifo")
    (repository / "fifo").write_text("")  # waits until it is read
    dying.process.kill()
    dying.process.wait()
    talk = start("-c")
    talk.wait_for("It may or may not have happened")
    talk.wait_for(lambda screen: screen.is_asking)
    talk.type(PAGE_DOWN * 9)
    talk.wait_for_shown("THE-END")
    talk.answer("f")
    talk.wait_for("✗ counted as failed · $ cat fifo")
    assert "may or may not" not in talk.shown


def test_a_question_takes_no_key_before_the_terminal_has_taken_it(
    toy: StartToy, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    for order in (f"wait {tmp_path / 'fifo'}", "lines 12000"):
        screen.type(order + ENTER)
    screen.wait_for("line 0")
    (tmp_path / "fifo").write_text("")
    screen.look_away(3 * VISIBLE_S_MIN)
    screen.type("y")
    screen.look_away(3 * KEY_PAUSE_S)
    screen.wait_for(lambda screen: screen.is_asking)
    assert "chose" not in screen.text
    assert "keys before this question were not taken" in screen.shown
    screen.answer(ENTER)
    screen.wait_for("chose n")
