"""What is typed while something else is at work: none of it is lost, done twice, or too early."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from terminal.harness import ENTER, ESC, SHIFT_TAB, TAB, UP, Screen, ctrl, pasted
from terminal.talks import Start, Talk, held, told
from terminal.test_chat_commands import is_at_rest

NOTHING_BEGINS = "what is queued waits for your next prompt"


def set_hooks(environment: dict[str, str], text: str) -> None:
    path = Path(environment["TREADLE_HOME"], "config", "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def hook(on: str, script: str, name: str = "one") -> str:
    words = json.dumps(["sh", "-c", script])
    return f'[hooks.{name}]\non = "{on}"\ncommand = {words}\ntimeout_s = 600\n'


def waiting_hook(on: str, words: str = "") -> str:
    """A hook that waits at the fifo `gate`, for inputs with these words."""
    return hook(on, f"grep -q '{words}' && cat gate; exit 0")


def open_gate(repository: Path, name: str = "gate") -> None:
    (repository / name).write_text("through\n")


def journal(environment: dict[str, str]) -> bytes:
    """All that the threads have on disk."""
    threads = Path(environment["TREADLE_HOME"], "data")
    return b"".join(path.read_bytes() for path in threads.rglob("*") if path.is_file())


def start_waiting(start: Start, repository: Path, *arguments: str) -> Talk:
    """A chat whose agent is in the middle of a turn that ends with `open_gate(..., "fifo")`."""
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto", *arguments)
    talk.wait_for("a new thread in")
    talk.say("wait", "cat fifo")
    return talk


def test_a_mode_that_was_chosen_before_the_prompt_holds_for_it(
    start: Start, repository: Path
) -> None:
    talk = start("--approval-mode", "auto")
    talk.wait_for("a new thread in")
    talk.type(SHIFT_TAB + "make" + ENTER)
    talk.wait_for("It is made.")
    assert not (repository / "made").exists()
    assert talk.shown.splitlines()[-1].startswith("plan")


def test_a_mode_that_is_chosen_while_the_thread_is_left_is_no_mistake(start: Start) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.type(SHIFT_TAB + "/new" + ENTER)
    talk.wait_for("a new thread begins")
    talk.say("second", "The second answer.")


def test_a_hook_hears_what_is_queued_and_can_hold_it_back(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    script = "grep -q second && { echo FORBIDDEN >&2; exit 2; }; exit 0"
    set_hooks(environment, hook("before_turn", script))
    talk = start_waiting(start, repository)
    for count, key in enumerate((TAB, ENTER), 1):
        talk.type("second" + key)
        talk.wait_for(lambda s, n=count: s.text.count("FORBIDDEN") == n)  # type: ignore[misc]
        talk.wait_for_shown("> second")
        talk.type(ctrl("c"))
        talk.wait_until_gone("> second")
    talk.type("steered" + ENTER)
    talk.wait_for_shown("» steered")
    open_gate(repository, "fifo")
    talk.wait_for("You steered.")
    assert "The second answer." not in talk.text


def test_a_prompt_that_a_hook_still_hears_is_shown_as_not_sent_and_up_takes_it_back(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    os.mkfifo(repository / "gate")
    set_hooks(environment, waiting_hook("before_turn", "second"))
    talk = start_waiting(start, repository)
    talk.type("second" + ENTER)
    talk.wait_for_shown("» second  (not sent yet)")
    assert b"second" not in journal(environment)
    talk.type(UP)
    talk.wait_for_shown("> second")
    talk.type(ctrl("c"))
    open_gate(repository, "fifo")
    talk.wait_for("It came through.")
    assert b"second" not in journal(environment)


def heard_by_a_hook(start: Start, repository: Path, environment: dict[str, str]) -> Talk:
    """A chat whose first prompt, `second`, a hook hears that does not end."""
    os.mkfifo(repository / "gate")
    set_hooks(environment, waiting_hook("before_turn", "second"))
    talk = start()
    talk.wait_for("a new thread in")
    talk.type("second" + ENTER)
    talk.wait_for_shown("(not sent yet)")
    return talk


@pytest.mark.parametrize("key", [ESC, UP], ids=["esc", "up"])
def test_a_prompt_is_not_said_once_it_was_taken_back_from_its_hook(
    start: Start, repository: Path, environment: dict[str, str], key: str
) -> None:
    talk = heard_by_a_hook(start, repository, environment)
    talk.type(key)
    talk.wait_for_shown("> second")
    talk.type(ctrl("c"))
    talk.say("good morning", "Hello there.")
    assert b"second" not in journal(environment)


def test_leaving_does_not_wait_for_a_hook_nor_say_what_it_hears(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = heard_by_a_hook(start, repository, environment)
    os.kill(talk.process.pid, signal.SIGTERM)
    assert talk.wait_for_end() == 143
    assert b"second" not in journal(environment)


def test_prompts_typed_at_once_are_on_disk_in_their_order_as_soon_as_the_first_is_said(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.type("wait" + ENTER + "good morning" + ENTER)
    talk.wait_for("cat fifo")
    talk.type("precious words" + TAB)
    talk.wait_for_shown("precious words  (after this turn)")
    assert "not sent yet" not in talk.shown
    kept = journal(environment)
    assert 0 < kept.index(b"good morning") < kept.index(b"precious words")


def test_a_prompt_that_comes_while_the_turn_is_wound_up_is_said_after_it(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    os.mkfifo(repository / "gate")
    set_hooks(environment, waiting_hook("after_turn", "Hello"))
    talk = start()
    talk.wait_for("a new thread in")
    talk.say("good morning", "Hello there.")
    talk.wait_for("tokens in")
    talk.type("second" + ENTER)
    talk.wait_for_shown("» second")
    open_gate(repository)
    talk.wait_for("The second answer.")


def test_a_hook_after_turns_hears_of_each_rest_however_work_began(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    set_hooks(environment, hook("after_turn", "echo x >> rests"))
    talk = start_waiting(start, repository)
    with held(repository / "fifo"):
        os.kill(talk.process.pid, signal.SIGTERM)
        talk.wait_for_end()
    rests = repository / "rests"
    rests.write_text("")
    again = start("-c")
    again.wait_for("I go on.")
    again.wait_for(is_at_rest)
    again.say("/compact", "summary")
    again.wait_for(is_at_rest)
    again.wait_for(lambda _: rests.read_text() == "x\nx\n")


def test_esc_leaves_what_is_queued_and_the_next_prompt_comes_behind_it(
    start: Start, repository: Path
) -> None:
    talk = start_waiting(start, repository)
    talk.type("second" + TAB)
    talk.wait_for_shown("» second")
    talk.type("!touch own" + ENTER)
    talk.wait_for_shown("» !touch own")
    talk.type(ESC)
    talk.wait_for(NOTHING_BEGINS)
    assert "» second" in talk.shown
    talk.say("/rename Mine", "Mine")  # a command is no prompt
    talk.wait_for(is_at_rest)
    assert not (repository / "own").exists()
    assert "The second answer." not in talk.text
    talk.say("good morning", "Hello there.")
    assert talk.text.index("The second answer.") < talk.text.index("Hello there.")
    assert (repository / "own").exists()


def test_what_was_left_queued_begins_nothing_by_itself_in_the_next_chat(
    start: Start, repository: Path
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    talk.type("second" + TAB)
    talk.wait_for(lambda screen: "second" in screen.shown and "not sent" not in screen.shown)
    talk.type(ESC)
    talk.wait_for("what is queued waits for your next prompt")
    assert talk.leave() == 0
    again = start("-c")
    again.wait_for("what is queued waits for your next prompt")
    assert "The second answer." not in again.text


def test_up_takes_back_commands_too(start: Start, repository: Path) -> None:
    talk = start_waiting(start, repository)
    talk.type("!touch own" + ENTER)
    talk.wait_for_shown("» !touch own")
    talk.type(UP)
    talk.wait_for_shown("> !touch own")
    talk.type(ctrl("c"))
    open_gate(repository, "fifo")
    talk.wait_for("It came through.")
    talk.say("good morning", "Hello there.")
    assert not (repository / "own").exists()


def test_a_prompt_behind_new_is_said_in_the_new_thread(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start_waiting(start, repository)
    talk.type("/new" + ENTER)
    talk.wait_for_shown("» /new")
    talk.type("second" + TAB)
    talk.wait_for_shown("» second  (not sent yet)")
    open_gate(repository, "fifo")
    talk.wait_for("The second answer.")
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    assert len(json.loads(told(environment, "list", "--json", cwd=repository))) == 2


def test_a_prompt_that_the_disk_refuses_stands_in_the_input_again(
    repository: Path, environment: dict[str, str], model: str
) -> None:
    shell = f"ulimit -f 60; exec {sys.executable} -m treadle --private -m {model}"
    with Screen(["bash", "-c", shell], cwd=repository, env=environment, rows=40) as talk:
        talk.wait_for("a new thread in")
        talk.type("good morning" + ENTER)
        talk.wait_for("Hello there.")
        talk.wait_for(is_at_rest)
        talk.type(pasted("second precious " + "xyzw " * 16000))
        talk.wait_for(lambda screen: "xyzw" in screen.shown)
        talk.type(ENTER)
        talk.wait_for(
            lambda screen: "open the thread again" in screen.text or "large" in screen.text
        )
        talk.wait_for(lambda screen: screen.shown.splitlines()[-2].strip().endswith("xyzw"))


@pytest.mark.parametrize("gone", ["folder", "home"])
def test_a_prompt_that_cannot_be_said_is_tried_once(
    start: Start, repository: Path, environment: dict[str, str], gone: str
) -> None:
    talk = start()
    if gone == "folder":
        talk.say("good morning", "Hello there.")
        talk.wait_for(is_at_rest)
        shutil.rmtree(repository)
        talk.type("/new" + ENTER)
    else:
        talk.wait_for("a new thread in")
        home = Path(environment["TREADLE_HOME"])
        shutil.rmtree(home, ignore_errors=True)
        home.write_text("x")
    talk.type("second" + ENTER)
    talk.wait_for(lambda screen: screen.shown.splitlines()[-2].strip() == "> second")
    assert talk.process.poll() is None
    assert len(talk.scrollback) < 20


def test_what_is_typed_behind_a_private_thread_is_not_kept(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    private = start("--private")
    private.say("good morning", "Hello there.")
    assert private.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    talk = start()
    talk.wait_for("a new thread in")
    talk.type(f"/resume {line['id']}" + ENTER + "my second secret" + ENTER)
    talk.wait_for("The second answer.")
    assert talk.leave() == 0
    kept = Path(environment["TREADLE_HOME"], "state", "chat-history").read_text()
    assert "/resume" in kept
    assert "secret" not in kept


def test_a_new_thread_has_the_approval_mode_of_the_one_before(
    start: Start, repository: Path
) -> None:
    talk = start("--approval-mode", "auto-edit")
    talk.say("good morning", "Hello there.")
    talk.say("/new", "a new thread begins")
    talk.say("edit", "It adds now.")  # unasked
    assert "a + b" in (repository / "calc.py").read_text()


def test_a_new_thread_of_a_private_one_is_private(start: Start) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.type("/private" + ENTER)
    talk.wait_for(lambda screen: screen.shown.splitlines()[-1].startswith("private"))
    talk.say("/new", "a new thread begins")
    talk.say("second", "The second answer.")
    assert talk.shown.splitlines()[-1].startswith("private")


def test_an_own_command_alone_makes_no_thread(start: Start, environment: dict[str, str]) -> None:
    talk = start()
    talk.wait_for("a new thread in")
    talk.say("!echo own-$((20+3))", "own-23")
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    assert not Path(environment["TREADLE_HOME"], "data", "threads").exists()


def test_an_order_to_end_ends_the_editor_too(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    environment["EDITOR"] = "sh -c 'trap \"\" TERM; echo there > there; exec sleep 600'"
    talk = start()
    talk.wait_for("a new thread in")
    talk.type("word" + ctrl("g"))
    talk.wait_for(lambda _: (repository / "there").exists())
    os.kill(talk.process.pid, signal.SIGTERM)
    assert talk.wait_for_end() == 143


def test_a_plain_chat_tells_each_time_what_waits_and_not_what_is_said_at_once(
    start: Start, repository: Path
) -> None:
    talk = start_waiting(start, repository, "--plain")
    assert "heard after" not in talk.text
    assert "not sent yet" not in talk.text
    for count in (1, 2):
        talk.type(">again" + ENTER)
        talk.wait_for(lambda s, n=count: s.text.count("heard after this turn: again") == n)  # type: ignore[misc]
    talk.type("!touch own" + ENTER)
    talk.wait_for("when the turn is over: !touch own")
