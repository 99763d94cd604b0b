"""Keys that were not meant for a question do not answer it."""

from __future__ import annotations

import os
from asyncio import Future, new_event_loop
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from case_tables import for_every_row
from terminal.conftest import StartToy
from terminal.harness import DOWN, ENTER, ESC, Screen, ctrl, pasted, steadily
from terminal.harness import Hand as RealHand
from treadle.terminal.choice_dialog import (
    BURST_S,
    KEY_PAUSE_S,
    QUIET_S,
    QUIET_WRITER_S,
    VISIBLE_S_MIN,
    ChoiceDialog,
)
from treadle.terminal.ports import DialogChoice
from treadle.terminal.toolkit_application import ESC_S

CHOICES = (
    DialogChoice("y", "yes, this once"),
    DialogChoice(
        "a", "yes, and always for `git push origin main` in this thread", needs_enter=True
    ),
    DialogChoice("e", "edit it first"),
    DialogChoice("n", "no, and say why"),
    DialogChoice("l", "later: end the turn, it is asked again when you go on"),
)

UNHURRIED_S = 0.1
"""Between a letter and Enter, at the least."""


def _pressed(screen: Screen, hand: RealHand, keys: str, gap_s: float) -> None:
    for key in keys:
        screen.type(key)
        hand.comes_within(QUIET_S)
        screen.read_for(gap_s)


class Hand:
    """Presses keys on a question that has a clock of its own; what follows is never too late."""

    def __init__(self, *, has_draft: bool = False, rows: int = 20, columns: int = 80) -> None:
        self.answer: Future[str] = Future(loop=new_event_loop())
        self.answer.get_loop().close()
        self.question = ChoiceDialog(CHOICES, self.answer, has_draft=has_draft)
        self.size = (columns, rows)
        self.now = 100.0
        self.question.mark_visible(self.now)
        self.question.is_open = True
        self.look()

    def look(self) -> list[str]:
        return ["".join(text for _, text in line) for line in self.question.lines(*self.size)]

    def press(self, *keys: str, after: float = 1.0) -> None:
        """Each key so long after the one before; what is pending by then is taken."""
        for key in keys:
            self._wait(after)
            self.question.press(key, self.now)
            self.look()

    def _wait(self, seconds: float) -> None:
        self.now += seconds
        if seconds >= KEY_PAUSE_S and self.question.pending is not None:
            self.question.settle(CHOICES[self.question.pending].key)

    @property
    def answered(self) -> str:
        self._wait(1.0)
        return self.answer.result() if self.answer.done() else ""


def test_a_held_key_answers_one_question_of_many(toy: StartToy) -> None:
    def hold(hand: RealHand) -> Screen:
        screen = toy()
        screen.type(("ask" + ENTER) * 3)
        screen.wait_for(lambda s: s.is_asking)
        hand.begin()
        screen.type("y")
        screen.wait_for(lambda s: not s.is_asking)
        _pressed(screen, hand, "y" * 40, 0.03)
        return screen

    screen = steadily(hold)
    screen.wait_for_shown("▸ n  no")
    assert screen.text.count("chose") == 1
    assert "keys before this question were not taken" in screen.shown


def test_what_is_pressed_when_a_question_comes_up_is_not_its_answer(toy: StartToy) -> None:
    def press(keys: str, hand: RealHand) -> Screen:
        screen = toy()
        hand.begin()
        screen.type("ask" + ENTER)
        screen.wait_for("always")
        screen.type(keys)
        hand.comes_within(VISIBLE_S_MIN)
        return screen

    tried = ["y", "n", ENTER, DOWN + ENTER, "yes" + ENTER, pasted("y")]
    screens = [steadily(partial(press, keys)) for keys in tried]
    for keys, screen in zip(tried, screens, strict=True):
        screen.wait_for_shown("▸ n  no")  # it takes keys; nothing that does something is marked
        assert "chose" not in screen.text, repr(keys)
        assert "keys before this question were not taken" in screen.shown, repr(keys)
        screen.answer(ENTER)
        screen.wait_for("chose n")


def test_who_goes_on_writing_a_word_does_not_answer(toy: StartToy) -> None:
    def write(hand: RealHand) -> tuple[Screen, bool]:
        screen = toy()
        hand.begin()
        screen.type("ask" + ENTER)
        screen.wait_for("always")
        _pressed(screen, hand, "always yes n", 0.12)
        is_open = screen.is_asking
        hand.comes_within(QUIET_S)
        return screen, is_open

    screen, is_open = steadily(write)
    assert not is_open
    screen.wait_for_shown("▸ n  no")
    assert "chose" not in screen.text


def test_an_unbracketed_paste_is_no_answer(toy: StartToy) -> None:
    screen = toy()
    screen.type("ask" + ENTER)
    screen.wait_for_shown("▸ y  yes")
    screen.type("yes, always\r")
    screen.wait_for_shown("keys in a row were not taken")
    assert "chose" not in screen.text
    screen.read_for(QUIET_S)
    screen.answer(ENTER)
    screen.wait_for("chose n")


def test_what_was_being_written_stays_and_only_enter_answers(toy: StartToy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    screen.type(f"wait {tmp_path / 'fifo'}" + ENTER)
    screen.type("a draft ")
    screen.wait_for_shown("> a draft")
    screen.type("and yy")
    (tmp_path / "fifo").write_text("")
    screen.wait_for_shown("▸ n  no")
    assert "what you were writing comes back" in screen.shown
    screen.type("y")
    screen.wait_for_shown("▸ y  yes")
    screen.read_for(2 * KEY_PAUSE_S)
    assert "chose" not in screen.text
    screen.answer(ENTER)
    screen.wait_for("chose y")
    screen.wait_for(lambda s: s.lines[s.cursor[0]] == "> a draft and yy")


def test_a_line_that_comes_with_the_question_does_not_answer_it_in_plain(toy: StartToy) -> None:
    dropped = "lines before this question, or in a row, were not taken"

    def come(hand: RealHand) -> Screen:
        screen = toy("--plain")
        hand.begin()
        screen.type("ask\r")
        screen.wait_for("your choice:")
        screen.type("y\r")
        screen.wait_for(lambda s: dropped in s.text or "chose" in s.text)
        if dropped not in screen.text:  # it may have been read late
            hand.comes_within(VISIBLE_S_MIN)
        return screen

    screen = steadily(come)
    assert dropped in screen.text
    screen.wait_for(lambda s: s.text.count("your choice:") == 2)
    screen.read_for(VISIBLE_S_MIN)
    screen.type("y\rmore\r")
    screen.wait_for(lambda s: s.text.count("your choice:") == 3)
    assert screen.text.count("were not taken") == 2
    assert "chose" not in screen.text
    screen.read_for(VISIBLE_S_MIN)
    screen.type("n\r")
    screen.wait_for("chose n")
    assert "submitted" not in screen.text


def test_an_esc_that_comes_with_the_question_is_a_key_by_itself(
    toy: StartToy, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for fifo in (first, second):
        os.mkfifo(fifo)
    screen = toy()
    screen.type(f"late {first} {second}" + ENTER)
    screen.read_for(3 * ESC_S)  # the keys so far are over
    first.write_bytes(b"")
    with second.open("w"):  # from here on none is heard
        screen.type(ESC)
    screen.wait_for("chose n")


def test_a_question_that_was_suspended_takes_no_key_at_once(toy: StartToy) -> None:
    def come_back(hand: RealHand) -> Screen:
        screen = toy(in_shell=True)
        screen.type("ask" + ENTER)
        screen.wait_for_shown("▸ y  yes")
        screen.type(ctrl("z"))
        screen.wait_for("Stopped")
        hand.begin()
        screen.type("fg" + ENTER)
        screen.wait_for(lambda s: "always" in s.shown[s.shown.rfind("fg") :])
        screen.type("y")
        hand.comes_within(VISIBLE_S_MIN)
        return screen

    screen = steadily(come_back)
    screen.wait_for_shown("▸ n  no")
    assert "chose" not in screen.text


@pytest.mark.parametrize("order", ["enter", "pick"])
def test_every_dialog_can_be_suspended(toy: StartToy, order: str) -> None:
    screen = toy(in_shell=True)
    screen.type(order + ENTER)
    asked = {"enter": "A name", "pick": "▸ row 0"}[order]
    screen.wait_for_shown(asked)
    screen.type(ctrl("z"))
    screen.wait_for("Stopped")
    screen.type("fg" + ENTER)
    screen.wait_for(lambda s: asked in s.shown[s.shown.rfind("fg") :])
    screen.type(ESC)
    screen.wait_for("ed None")


@pytest.mark.parametrize(("columns", "rows"), [(60, 4), (12, 2), (80, 1)], ids=str)
def test_on_a_low_screen_every_choice_can_be_seen_before_it_is_taken(
    columns: int, rows: int
) -> None:
    for at, choice in enumerate(CHOICES):
        hand = Hand(columns=columns, rows=rows)
        hand.press(*["down"] * at)
        shown = hand.look()
        assert len(shown) <= rows
        assert any(line.startswith(f"▸ {choice.key}  ") for line in shown)
        assert all("…" in "".join(shown) or word in "".join(shown) for word in choice.words.split())
    unseen = Hand(columns=columns, rows=rows)
    unseen.press("l")
    assert unseen.answered == ""
    unseen.press("enter")
    assert unseen.answered == "l"


def test_what_is_allowed_for_good_is_read_in_whole_before() -> None:
    low = Hand(columns=12, rows=2)
    low.press("a", "enter")
    assert low.answered == ""
    assert low.question.hint == "there is too little room to show what it covers"
    high = Hand(columns=12, rows=40)
    high.press("a")
    assert high.answered == ""
    high.press("enter", after=UNHURRIED_S)
    assert high.answered == "a"


def _typed_at_a_pace(hand: Hand) -> None:
    hand.press(*"okay yes please", after=0.6)


def _written_slowly_and_sent(hand: Hand) -> None:
    hand.press(*"easy", "enter", after=0.6)


def _a_word(hand: Hand) -> None:
    hand.press(*"yes", after=KEY_PAUSE_S / 2)


def _a_word_and_enter(hand: Hand) -> None:
    hand.press(*"always", "enter", after=KEY_PAUSE_S / 2)


def _pasted(hand: Hand) -> None:
    hand.press("y", "enter", after=BURST_S / 2)


@for_every_row(
    "act, has_draft",
    [
        (_typed_at_a_pace, True),
        (_written_slowly_and_sent, True),
        (_a_word, False),
        (_a_word, True),
        (_a_word_and_enter, False),
        (_a_word_and_enter, True),
        (_pasted, False),
        (_pasted, True),
    ],
)
def test_who_writes_does_not_answer(act: Callable[[Hand], None], has_draft: bool) -> None:
    hand = Hand(has_draft=has_draft)
    act(hand)
    assert hand.answered == ""


def test_a_key_by_itself_answers_and_enter_behind_it_too() -> None:
    for keys in (["y"], ["y", "enter"], ["enter"], ["down", "up", "enter"]):
        hand = Hand()
        hand.press(*keys, after=UNHURRIED_S)
        assert hand.answered == "y", keys


def test_a_question_takes_keys_when_it_has_stood_and_the_keyboard_was_quiet() -> None:
    hand = Hand()
    hand.question.mark_hidden()
    assert hand.question.wait_s(0, 200) > 0
    hand.question.mark_visible(200)
    assert hand.question.wait_s(0, 200) == pytest.approx(VISIBLE_S_MIN)
    assert hand.question.wait_s(200.6, 200.7) == pytest.approx(QUIET_S - 0.1)
    writer = Hand(has_draft=True)
    writer.question.mark_hidden()
    writer.question.mark_visible(200)
    assert writer.question.wait_s(200.6, 200.7) == pytest.approx(QUIET_WRITER_S - 0.1)
