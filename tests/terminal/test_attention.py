"""A person who has gone elsewhere is called, and hooks hear that the agent waits for them."""

from __future__ import annotations

import json
from pathlib import Path

from case_tables import for_every_row
from terminal.harness import ENTER
from terminal.talks import BRISK, Start, told
from terminal.test_chat_queue import hook, set_hooks
from terminal.test_view import BASH, Scene, ended, finished
from treadle import outputs
from treadle.terminal.attention import LONG_TURN_S, Attention

WAITING = "y  yes"
GONE = {**BRISK, "treadle.terminal.attention.ABSENT_S": 0.1}
"""Who presses no key for so long is elsewhere."""
TITLE = "\x1b]2;a question · repository\a"
BELL = "\a"


@for_every_row(
    "environ, note",
    [
        ({"TERM": "xterm-256color"}, "\a"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;done · app\a"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "\x1b]9;done · app\a"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "\x1b]9;done · app\a"),
        ({"TERM": "xterm-kitty"}, "\x1b]99;;done · app\x1b\\"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm", "TMUX": "/x"}, "\a"),
        ({"TERM": "screen", "TERM_PROGRAM": "iTerm.app", "STY": "1"}, "\a"),
        ({}, "\a"),
    ],
)
def test_each_terminal_is_given_the_note_that_it_knows(environ: dict[str, str], note: str) -> None:
    sent: list[str] = []
    Attention(sent.append, environ, "app").call("done")
    assert sent == [note]


def test_the_title_is_given_back_and_no_folder_ends_a_sequence() -> None:
    sent: list[str] = []
    attention = Attention(sent.append, {"TERM": "xterm"}, "a\x1b]0;x\a\nb")
    for words in ("", "done", "done", "", ""):
        attention.show(words)
    attention.end()
    attention.end()
    first, *titles, last = sent
    assert (first, last) == ("\x1b[22;2t", "\x1b[23;2t")
    assert len(titles) == 2
    assert all(one.count("\x1b") == one.count("\a") == 1 for one in titles)
    console: list[str] = []
    Attention(console.append, {"TERM": "linux"}, "app").show("done")
    assert console == []


def test_a_question_calls_who_has_gone_and_says_so_in_the_title(start: Start) -> None:
    talk = start(constants=GONE)
    talk.say("run", WAITING)
    talk.wait_for(lambda screen: TITLE.encode() in screen.raw)
    at = talk.raw.index(TITLE.encode()) + len(TITLE.encode())
    talk.wait_for(lambda screen: BELL.encode() in screen.raw[at:])
    talk.answer("y")
    talk.wait_for(lambda screen: b"\x1b]2;repository\a" in screen.raw[at:])
    talk.wait_for("It ran.")
    assert talk.leave() == 0
    assert talk.raw.count(b"\x1b[22;2t") == talk.raw.count(b"\x1b[23;2t") == 1


def test_who_is_there_is_not_called(start: Start) -> None:
    talk = start()
    talk.say("run", WAITING)
    talk.answer("y")
    talk.wait_for("It ran.")
    talk.read_for(0.2)
    assert b"\a" not in bytes(talk.raw).replace(TITLE.encode(), b"").replace(
        b"\x1b]2;repository\a", b""
    )


def test_nobody_is_called_who_does_not_want_it(start: Start, environment: dict[str, str]) -> None:
    environment["TREADLE_NOTIFY"] = "false"
    talk = start(constants={**GONE, "treadle.terminal.view.LONG_TURN_S": 0.0})
    talk.say("run", WAITING)
    talk.answer("y")
    talk.wait_for("It ran.")
    talk.read_for(0.2)
    assert b"\a" not in talk.raw


def test_the_end_of_a_long_turn_calls_and_that_of_a_short_one_does_not(start: Start) -> None:
    for is_long in (False, True):
        constants = {**GONE, "treadle.terminal.view.LONG_TURN_S": 0.0 if is_long else 1e9}
        talk = start(constants=constants)
        talk.say("good morning", "Hello there.")
        if is_long:
            title = "\x1b]2;done · repository\a".encode()
            talk.wait_for(lambda screen, title=title: title in screen.raw)  # type: ignore[misc]
            at = talk.raw.index(title) + len(title)
            talk.wait_for(lambda screen, at=at: b"\a" in screen.raw[at:])  # type: ignore[misc]
        talk.say("second", "The second answer.")
        assert (b"\a" in talk.raw) == is_long


def test_a_hook_hears_of_a_question_and_of_a_person_who_says_nothing(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    note = "cat >> $TREADLE_HOME/{}.json"
    set_hooks(
        environment,
        hook("approval_needed", note.format("asked")) + hook("idle", note.format("idle"), "two"),
    )
    talk = start("--no-commit", constants={**BRISK, "treadle.terminal.turn_queue.IDLE_S": 0.1})
    talk.say("run", WAITING)
    folder = Path(environment["TREADLE_HOME"])
    talk.wait_for(lambda screen: (folder / "asked.json").exists())
    talk.wait_for(lambda screen: (folder / "asked.json").read_bytes().endswith(b"}"))
    asked = json.loads((folder / "asked.json").read_text())
    assert (asked["event"], asked["risk"]) == ("approval_needed", "high")
    assert asked["call"]["tool"] == "bash"
    assert asked["reasons"][-1].startswith("calls of medium risk and above")
    assert not (folder / "idle.json").exists()
    talk.answer("y")
    talk.wait_for("It ran.")
    talk.wait_for(lambda screen: (folder / "idle.json").exists())
    talk.wait_for(lambda screen: (folder / "idle.json").read_bytes().endswith(b"}"))
    idle = json.loads((folder / "idle.json").read_text())
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert (idle["event"], idle["thread"]) == ("idle", line["id"])
    assert talk.leave() == 0


def test_a_hook_hears_of_a_question_that_nobody_is_there_for(
    environment: dict[str, str], repository: Path, model: str
) -> None:
    set_hooks(environment, hook("approval_needed", "cat >> $TREADLE_HOME/asked.json"))
    import warm_process

    arguments = ("-p", "run", "-m", model, "--approval-mode", "ask")
    done = warm_process.run(arguments, repository, environment, None, timeout_s=60)
    assert done.returncode != 0, done.stdout + done.stderr
    asked = json.loads((Path(environment["TREADLE_HOME"]) / "asked.json").read_text())
    assert asked["call"]["arguments"]["command"] == "echo ran >> effects"


def test_what_is_typed_takes_the_title_back(start: Start) -> None:
    talk = start(constants={**GONE, "treadle.terminal.view.LONG_TURN_S": 0.0})
    talk.say("good morning", "Hello there.")
    talk.wait_for(lambda screen: b"\x1b]2;done" in screen.raw)
    talk.type("x" + ENTER)
    talk.wait_for(lambda screen: b"\x1b]2;repository\a" in screen.raw)


def test_the_time_in_which_it_waits_for_a_person_is_not_the_turns() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "go"), outputs.ToolStarted(BASH))
    scene.now_s += 3
    scene.view.pause(is_waiting=True)
    scene.now_s += 600
    assert "working" not in scene.terminal.live()
    scene.view.pause(is_waiting=False)
    scene.now_s += 1
    assert "  4.0 s" in scene.terminal.live()
    text = scene.show(ended(BASH, "fine"), finished())
    assert "npm test  4.0 s" in text
    assert text.rstrip().endswith("4.0 s")
    assert scene.terminal.called == []


def test_the_end_of_a_long_turn_calls_the_person() -> None:
    scene = Scene()
    for seconds in (LONG_TURN_S - 0.1, LONG_TURN_S):
        scene.show(outputs.TurnStarted("t", "go"))
        scene.now_s += seconds
        scene.show(finished())
    assert scene.terminal.called == ["done"]
