"""An answer grows on the screen, each piece once, and its record adds only what is missing."""

from __future__ import annotations

from random import Random

from treadle.app.threads.streaming_output import StreamingAnswer
from treadle.store.live_answer import LiveAnswer


class Screen:
    """What was shown."""

    def __init__(self) -> None:
        self.text = ""
        self.growing = StreamingAnswer(lambda: self.show("assistant:\n"), self.show)

    def show(self, text: str) -> None:
        self.text += text

    def grow(self, text: str, *, after: int = 1, start: int = 0) -> None:
        self.growing.update(LiveAnswer(after, start, text, 1))


def test_however_it_is_cut_up_the_answer_stands_there_once() -> None:
    random = Random(1)
    for _ in range(300):
        content = "".join(random.choice("ab \n") for _ in range(random.randrange(1, 60)))
        screen, length = Screen(), 0
        for _ in range(random.randrange(1, 6)):
            start = random.randint(0, length)
            length = random.randint(max(length, 1), len(content))
            screen.grow(content[start:length], start=start)
        assert screen.growing.finish(content)
        assert screen.text == "assistant:\n" + content + "\n" * (not content.endswith("\n"))


def test_what_could_not_be_read_in_time_is_marked_and_the_rest_follows() -> None:
    screen = Screen()
    screen.grow("one ")
    screen.grow("nine ", start=20)
    assert screen.growing.finish("one " + "x" * 16 + "nine ten")
    assert screen.text == "assistant:\none …nine ten\n"


def test_an_answer_that_is_not_what_was_shown_is_to_be_shown_whole() -> None:
    screen = Screen()
    screen.grow("one")
    assert not screen.growing.finish("two and more")
    assert screen.text == "assistant:\none\n"
    assert not screen.growing.finish("three"), "nothing of it was shown"


def test_another_attempt_begins_anew() -> None:
    screen = Screen()
    screen.grow("one")
    screen.growing.interrupt()
    screen.grow("two", after=2)
    assert screen.growing.finish("two.")
    assert screen.text == "assistant:\none\nassistant:\ntwo.\n"


def test_what_is_shown_meanwhile_stands_in_a_line_of_its_own() -> None:
    screen = Screen()
    screen.grow("one ")
    screen.growing.interrupt()
    screen.show("said meanwhile\n")
    screen.grow("one two")
    assert screen.growing.finish("one two")
    assert screen.text == "assistant:\none \nsaid meanwhile\ntwo\n"


def test_half_of_a_line_break_is_waited_for() -> None:
    screen = Screen()
    screen.grow("one\r")
    assert screen.text.endswith("one")
    screen.grow("one\r\ntwo")
    assert screen.text == "assistant:\none\r\ntwo"
