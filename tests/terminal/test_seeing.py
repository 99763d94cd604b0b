"""A question that is cut shows all of its call when it is asked to, in a real terminal."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

import pytest

from terminal.conftest import StartToy
from terminal.harness import ENTER, Hand, Screen, ctrl, steadily
from terminal.talks import BRISK, BRISK_S, Start, Talk, told
from treadle.terminal.choice_dialog import KEY_PAUSE_S, VISIBLE_S_MIN

WAITING = "y  yes"
SEE = "v  see all of it"
HOLDING_OUT = {name: value for name, value in BRISK.items() if "VISIBLE" not in name}


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
    """The command, and a comment behind it that no question shows at once."""
    return f"{command} # {'x' * size} \x1b[2JTHE-END"


def is_asked_again(screen: Screen) -> bool:
    """Whether the question stands below all of its call, and takes keys."""
    return screen.is_asking and screen.text.count("needs your approval") == 2


@pytest.mark.parametrize("key", ["v", ctrl("o")], ids=["letter", "ctrl-o"])
def test_a_key_shows_all_of_a_command_and_answers_nothing(
    start: Start, says: Path, repository: Path, key: str
) -> None:
    calling(says, long("echo ran >> effects"))
    talk = start()
    talk.say("run", WAITING)
    assert SEE in talk.shown
    assert "are not shown" in talk.text
    assert "THE-END" not in talk.text
    talk.wait_for(lambda screen: screen.is_asking)
    talk.type(key)
    talk.wait_for(is_asked_again)
    assert "THE-END" in talk.text
    assert "\ufffd[2JTHE-END" in talk.text.replace("\n  │ ", "")
    assert SEE not in talk.shown
    assert "always" not in talk.shown
    assert not (repository / "effects").exists()
    talk.answer("y")
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"


def test_what_is_pressed_behind_the_key_answers_nothing(
    start: Start, says: Path, repository: Path
) -> None:
    tries = count()

    def press(hand: Hand) -> tuple[Talk, Path]:
        effects = repository / f"effects-{next(tries)}"  # a hand that is held up may have one
        calling(says, long(f"echo ran >> {effects.name}"))
        talk = start(constants=HOLDING_OUT)
        talk.say("run", WAITING)
        talk.wait_for(lambda screen: screen.is_asking)
        talk.type("vy")  # a word
        talk.wait_for_shown("keys in a row were not taken")
        talk.read_for(2 * BRISK_S)
        talk.type("v" + ENTER)
        talk.read_for(2 * BRISK_S)
        talk.type("v")
        talk.wait_for(lambda screen: screen.is_marked("v"))
        talk.read_for(2 * KEY_PAUSE_S)
        assert talk.text.count("needs your approval") == 1
        hand.begin()
        talk.type(ENTER)
        talk.wait_for(lambda screen: screen.text.count("needs your approval") == 2)
        talk.type("y")  # before the question could be read again
        hand.comes_within(VISIBLE_S_MIN)
        return talk, effects

    talk, effects = steadily(press)
    talk.wait_for(lambda screen: screen.is_asking)
    talk.read_for(2 * KEY_PAUSE_S)
    assert "allowed once" not in talk.text
    assert not effects.exists()
    talk.answer("n" + ENTER)
    talk.wait_for("Why not?")


def test_of_a_megabyte_the_beginning_is_shown_and_the_rest_is_where_it_says(
    start: Start, says: Path, repository: Path, environment: dict[str, str]
) -> None:
    calling(says, long("echo ran >> effects", 1_000_000))
    talk = start()
    talk.say("run", "v  see more of it")
    talk.answer("v")
    talk.wait_for(is_asked_again)
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert f"all of it: treadle show {line['id']} --json" in " ".join(talk.shown.split())
    assert "THE-END" in told(environment, "show", line["id"], "--json", cwd=repository)
    talk.answer("l")
    talk.wait_for("what is open stays open")
    assert not (repository / "effects").exists()


def test_lines_ask_for_all_of_it_too(start: Start, says: Path, repository: Path) -> None:
    calling(says, long("echo ran >> effects"))
    talk = start("--plain")
    talk.type("run" + ENTER)
    talk.wait_for("v: see all of it")
    talk.wait_for("your choice:")
    assert "THE-END" not in talk.text
    talk.read_for(BRISK_S)
    talk.type("v" + ENTER)
    talk.wait_for(lambda screen: screen.text.count("your choice:") == 2)
    assert "\ufffd[2JTHE-END" in talk.text.replace("\n  | ", "")
    assert "\x1b[2J" not in talk.raw.decode()
    assert not (repository / "effects").exists()
    assert talk.text.count("v: see all of it") == 1
    talk.read_for(BRISK_S)
    talk.type("y" + ENTER)
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"


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
    talk.answer("v")
    talk.wait_for(lambda screen: screen.text.count("It may or may not") == 2 and screen.is_asking)
    assert "THE-END" in talk.text
    talk.answer("f")
    talk.wait_for("counted as failed")


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
