"""The digest of a task keeps why something was done, and how it ended."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from core.task.tasks import agent, call, cycle, does, fine, request, says
from treadle.core.conversation import SUMMARY_HEAD
from treadle.core.messages import Message
from treadle.core.task.digest import make_digest
from treadle.core.task.events import DIGEST_TOKENS_MAX, TaskConfig
from treadle.core.task.memory import SUMMARY

TESTS: Final = "collecting\n" + "test_loom.py::test_warp PASSED\n" * 100 + "3 failed, 97 passed"


def step(words: str, result: str, name: str = "a", arguments: str = "{}") -> list[Message]:
    wish = call(name, "bash", arguments)
    return [Message.assistant(words, (wish,)), Message.tool(wish, result)]


def digest(*messages: Message, size: int = 16_000) -> str:
    return make_digest([Message.user("mend the loom"), *messages], size)


def test_of_a_result_the_end_stays_and_beside_it_why_it_was_asked_for() -> None:
    text = digest(*step("The warp is torn, so I run its tests first.", TESTS))
    assert "mend the loom" not in text
    _, said = text.split("\nAgent: ", 1)
    assert said.startswith("The warp is torn, so I run its tests first.\nCall of bash: {}\n")
    assert said.endswith("3 failed, 97 passed")
    assert "-> bash: collecting\ntest_loom.py" in said
    assert f"[... {len(TESTS) - 1_000} characters ...]" in said
    assert len(said) < 1_300


def test_of_a_long_reason_the_decision_at_its_end_stays() -> None:
    words = "First I thought of the treadle. " * 60 + "So I replace the shuttle."
    assert "So I replace the shuttle." in digest(*step(words, "done"))


def test_notes_and_answers_that_were_refused_stay_too() -> None:
    text = digest(Message.assistant("It is mended."), Message.note("That is too short."))
    assert text.endswith("\nAgent: It is mended.\nNote: That is too short.")


def test_older_messages_are_a_line_and_of_the_oldest_the_number_is_told() -> None:
    text = digest(
        *(
            message
            for number in range(99)
            for message in step(f"Reason {number}.", f"{TESTS} in run {number}", f"c{number}")
        )
    )
    lines = text.splitlines()
    told = [number for number in range(99) if f"Reason {number}." in text]
    assert told == list(range(told[0], 99))
    assert all(f"in run {number}" in text for number in told)
    assert f"[{2 * told[0]} earlier messages are left out.]" in lines
    oldest = text.index(f"Reason {told[0]}.")
    assert "\n" not in text[text.index("-> bash: ", oldest) : text.index("in run", oldest)]
    assert len(text.encode()) < 16_400


PARTS = st.text("aß漢🧵\n ", max_size=3_000)


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), max_size=30), st.integers(0, 20_000))
def test_a_digest_is_bounded_whatever_was_said(
    steps: list[tuple[str, str, str]], size: int
) -> None:
    messages = [
        message
        for words, result, arguments in steps
        for message in step(words, result, "a", arguments)
    ]
    assert len(digest(*messages, size=size).encode()) <= size + 300


# ---- in a task -----------------------------------------------------------------------------------


def test_a_task_that_says_how_large_its_digest_is_has_one_of_its_messages() -> None:
    machine = agent(max_steps=200, digest_tokens_max=DIGEST_TOKENS_MAX)
    for number in range(1, 10):
        name = f"n{number}"
        does(machine, says(f"Reason {number}.", call(name)), fine(name, f"{TESTS} {number}"))
    sent = request(cycle(machine, 10, "fact 10"))
    first = sent.messages[0].content
    assert first.startswith(f"{SUMMARY_HEAD}Task: count the lines\n\nWhat was done so far:\n[Taken")
    for number in range(1, 6):
        assert f"Agent: Reason {number}." in first
        assert f"97 passed {number}" in first
    assert "Reason 6" not in first
    for number in range(11, 16):
        sent = request(cycle(machine, number, f"fact {number}"))
    first = sent.messages[0].content
    assert first.count("[Taken") == 1, "made anew of the messages, not of the digest before it"
    assert "97 passed 1\n" in first
    assert machine.memory.history[0].tool.tool_name == SUMMARY


def test_a_digest_takes_an_eighth_of_a_small_window() -> None:
    sizes = {}
    for window in (0, 4_000):
        machine = agent(
            max_steps=200, digest_tokens_max=DIGEST_TOKENS_MAX, context_tokens_max=window
        )
        for number in range(1, 36):
            cycle(machine, number, f"{TESTS} {number}")
        sizes[window] = len(request(machine.obligations()).messages[0].content)
    assert 12_000 < sizes[0] < 17_000
    assert sizes[4_000] < 2_700


def test_a_new_task_has_such_a_digest_and_one_of_its_own_size_keeps_it() -> None:
    assert TaskConfig().with_digest().digest_tokens_max == DIGEST_TOKENS_MAX
    assert TaskConfig(digest_tokens_max=9).with_digest().digest_tokens_max == 9
