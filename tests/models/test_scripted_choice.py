"""Which reply a request gets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from case_tables import for_every_row
from models.conformance import request
from models.playing import after, answer, play
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest
from treadle.core.messages import Message, ToolCall
from treadle.core.retry import is_retryable
from treadle.errors import ScriptError
from treadle.models.scripted.provider import ScriptedModel
from treadle.models.scripted.script import Reply, Script

CALLS = {"tool": "read_file"}


class TestRows:
    def test_replies_without_conditions_answer_the_steps_of_a_turn_in_order(self):
        model = ScriptedModel.of("one", "two", "three")
        assert answer(model, "go") == "one"
        assert answer(model, *after("go", "x")) == "two"
        assert answer(model, *after("go", "x", "y")) == "three"

    def test_every_turn_starts_the_row_again(self):
        model = ScriptedModel.of("one", "two")
        said = [*after("go", "x"), Message.assistant("two")]
        assert answer(model, *said, "again") == "one"
        assert answer(model, *said, *after("again", "x")) == "two"

    def test_a_turn_that_got_no_answer_does_not_count(self):
        assert answer(ScriptedModel.of("one", "two"), "go", "go on") == "one"

    def test_a_cancelled_turn_does_not_count(self):
        cut_short = Message("assistant", "I was ab", interrupted=True)
        assert answer(ScriptedModel.of("one", "two"), "go", cut_short, "again") == "one"

    def test_several_results_of_one_message_are_one_step(self):
        calls = (ToolCall("a", "read_file"), ToolCall("b", "bash"))
        results = [Message.tool(call, "x") for call in calls]
        model = ScriptedModel.of("one", "two", "three")
        assert answer(model, "go", Message.assistant("", calls), *results) == "two"

    def test_a_row_for_some_user_messages_stands_beside_the_row_for_the_others(self):
        model = ScriptedModel.of(
            {"when": {"user": "fix"}, "text": "fix 0"},
            {"when": {"user": "fix"}, "text": "fix 1"},
            "other 0",
            "other 1",
        )
        assert answer(model, "fix it") == "fix 0"
        assert answer(model, *after("fix it", "x")) == "fix 1"
        assert answer(model, "hello") == "other 0"
        assert answer(model, *after("hello", "fix it")) == "other 1"

    def test_the_answer_at_the_end_of_a_row_is_given_at_every_later_step(self):
        model = ScriptedModel.of({"when": {"tool": "bash"}, "calls": [CALLS]}, "zero", "the rest")
        for count in range(1, 5):
            assert answer(model, *after("go", *["x"] * count)) == "the rest"

    def test_a_reply_without_conditions_at_the_end_of_the_file_is_for_everything_else(self):
        model = ScriptedModel.of(
            {"when": {"step": 0}, "text": "a"}, {"when": {"last": "x"}, "text": "b"}, "else"
        )
        assert answer(model, *after("go", "x")) == "b"
        assert answer(model, *after("go", "y")) == "else"
        assert answer(model, *after("go", "x", "y")) == "else"

    def test_a_row_that_ends_with_a_call_does_not_call_for_ever(self):
        model = ScriptedModel.of({"text": "look", "calls": [CALLS]})
        assert answer(model, "go") == "look"
        assert answer(model, *after("go", "x")) == "!bad_request"

    def test_a_row_that_ended_leaves_the_request_to_the_replies_below(self):
        fix = {"when": {"user": "fix"}, "text": "fix 0", "calls": [CALLS]}
        model = ScriptedModel.of(fix, "other 0", "other 1")
        assert answer(model, "fix it") == "fix 0"
        assert answer(model, *after("fix it", "x")) == "other 1"

    def test_a_rule_above_a_row_takes_its_step_and_the_row_does_not_wait(self):
        model = ScriptedModel.of(
            {"when": {"last": "^ERROR"}, "text": "oh"}, "zero", "one", "two", "three"
        )
        assert answer(model, *after("go", "ERROR: no")) == "oh"
        assert answer(model, *after("go", "ERROR: no", "fine")) == "two"

    def test_a_side_request_is_told_by_its_system_prompt(self):
        model = ScriptedModel.of({"when": {"system": "commit message"}, "text": "fix: it"}, "hello")
        assert answer(model, "(a diff)", system="Write a commit message.") == "fix: it"
        assert answer(model, "(a diff)", system="You are an agent.") == "hello"
        assert answer(model, "commit message") == "hello"

    def test_only_assistant_messages_are_steps(self):
        model = ScriptedModel.of("zero", "one")
        assert answer(model, "go", Message("system", "a note")) == "zero"

    def test_a_request_without_a_user_message_is_one_turn(self):
        model = ScriptedModel.of("zero", "one")
        assert answer(model) == "zero"
        assert answer(model, Message.assistant("a")) == "one"

    def test_a_rule_may_answer_any_number_of_times(self):
        model = ScriptedModel.of({"when": {"tool": "read_file"}, "text": "again"}, "first")
        for count in range(1, 6):
            assert answer(model, *after("go", *["x"] * count)) == "again"


class TestConditions:
    @for_every_row(
        "when, fits, fits_not",
        [
            ({"user": "b+"}, ["abbc"], ["ac"]),
            ({"user": "^b"}, ["b"], ["ab"]),
            ({"user": "new"}, ["old", Message.assistant(), "new"], ["new", "old"]),
            ({"last": "^x$"}, ["x"], ["xx"]),
            ({"last": "^x$"}, after("go", "x"), after("x", "go")),
            ({"last_role": "user"}, ["a"], after("a", "b")),
            ({"last_role": "tool"}, after("a", "b"), ["a"]),
            ({"last_role": "assistant"}, ["a", Message.assistant("b")], ["a"]),
            ({"last_role": "system"}, ["a", Message("system", "b")], [Message("system"), "a"]),
            ({"tool": "bash"}, after("a", "b", tool="bash"), after("a", "b", tool="bashful")),
            (
                {"tool": "bash"},
                after("a", "b", tool="bash"),
                ["bash", Message("user", name="bash")],
            ),
            ({"seen": "x"}, ["x"], ["y"]),
            ({"seen": "x"}, after("a", "x", "b"), after("a", "b")),
            ({"seen": "x"}, ["a", Message.assistant("x")], ["x", Message.assistant("x"), "a"]),
            ({"step": 0}, ["a"], after("a", "b")),
            ({"step": 2}, after("a", "b", "c"), after("a", "b", "c", "d")),
            ({"step": 1}, after("a", "b"), [*after("a", "b"), "a"]),
            ({"user": "(?i)FIX", "step": 0}, ["fix"], ["fxi"]),
            ({"last": "a.b"}, ["a-b"], ["a\nb"]),
            ({"last": "(?s)a.b"}, ["a\nb"], ["ab"]),
        ],
    )
    def test_a_condition_holds_for_what_it_says_and_for_nothing_else(self, when, fits, fits_not):
        model = ScriptedModel.of({"when": when, "text": "yes"})
        assert answer(model, *fits) == "yes"
        assert answer(model, *fits_not) == "!bad_request"

    def test_every_combination_of_conditions_needs_all_of_them(self):
        """Each condition absent, holding or not: 3^7 scripts, each shown two steps of a turn."""
        asked = [after("fix the bug"), after("fix the bug", "1 passed")]
        holding: list[dict[str, Any]] = [
            {"last": "bug$", "last_role": "user", "step": 0, "tool": "read_file"},
            {"last": "passed$", "last_role": "tool", "step": 1, "tool": "read_file"},
        ]
        for holds in holding:
            holds.update(user="^fix", seen="bug", system="agent")
        failing = {"user": "x{9}", "seen": "x{9}", "system": "x{9}", "last": "x{9}", "step": 7}
        failing |= {"last_role": "system", "tool": "none"}
        names = sorted(failing)
        outcomes = {"yes": 0, "!bad_request": 0, "refused": 0}
        for step, choice in itertools.product((0, 1), itertools.product("-yn", repeat=len(names))):
            when = {
                name: (holding[step] if how == "y" else failing)[name]
                for name, how in zip(names, choice, strict=True)
                if how != "-"
            }
            has_all = "n" not in choice
            try:
                model = ScriptedModel.of({"when": when, "text": "yes"})
            except ScriptError:
                outcomes["refused"] += 1
                assert "tool" in when or when["step"] == 7  # conditions that contradict each other
                assert not (has_all and step == 1)
                continue
            said = answer(model, *asked[step], system="You are an agent.")
            outcomes[said] += 1
            assert said == (
                "yes" if has_all and not (step == 0 and "tool" in when) else "!bad_request"
            )
        assert all(outcomes.values())
        assert sum(outcomes.values()) == 2 * 3**7

    def test_the_first_reply_that_fits_wins(self):
        replies = [
            {"when": {"tool": "read_file", "last": "x"}, "text": "a"},
            {"when": {"tool": "read_file"}, "text": "b"},
            {"when": {"last_role": "tool"}, "text": "c"},
            {"when": {"seen": "."}, "text": "d"},
        ]
        model = ScriptedModel.of(*replies)
        assert answer(model, *after("go", "x")) == "a"
        assert answer(model, *after("go", "y")) == "b"
        assert answer(model, *after("go", "x", tool="bash")) == "c"
        assert answer(model, "go") == "d"


class TestNoReply:
    def error(self, *messages: Message | str, system: str = "") -> LlmError:
        model = ScriptedModel.of(
            {"when": {"user": "fix"}, "text": "a", "calls": [CALLS]},
            {"when": {"tool": "bash", "last": "ok"}, "text": "b"},
            {"when": {"last_role": "system"}, "text": "c"},
            {"when": {"seen": "never", "step": 9}, "text": "d"},
        )
        (event,) = play(model.stream(request(*messages, system=system)))
        return event.error

    def test_it_is_an_error_that_nobody_retries(self):
        error = self.error("hello")
        assert error.kind is LlmErrorKind.BAD_REQUEST
        assert not is_retryable(error)

    def test_it_shows_what_was_shown_and_the_nearest_replies_first(self):
        assert self.error(*after("fix\nit", "ok"), system="Be brief.").message == (
            "the script has no reply for step 1 of this turn, system prompt 'Be brief.', "
            "user message 'fix\\nit', last message (result of read_file) 'ok'. "
            "Nearest: replies[0] wants step = 0; replies[1] wants tool = 'bash'; "
            "replies[2] wants last_role = 'system'"
        )

    def test_it_shows_long_texts_shortened(self):
        message = self.error("x" * 10**6, Message.assistant("y" * 10**6)).message
        assert len(message) < 600
        assert f"'{'x' * 80}…'" in message
        assert f"last message (assistant) '{'y' * 80}…'" in message

    def test_it_tells_the_end_of_a_row_from_its_other_places(self):
        row = [{"when": {"user": "fix"}, **reply} for reply in ({"calls": [CALLS]}, {"text": "a"})]
        (event,) = play(ScriptedModel.of(*row).stream(request("mend")))
        assert event.error.message.endswith(
            "Nearest: replies[0] wants user = 'fix'; replies[1] wants step >= 1 and user = 'fix'"
        )

    def test_it_shows_a_user_message_that_is_the_last_message_once(self):
        message = self.error("hello").message
        assert message.startswith(
            "the script has no reply for step 0 of this turn, user message 'hello'. Nearest: "
        )

    def test_it_copes_with_no_message_at_all(self):
        assert "for step 0 of this turn. Nearest" in self.error().message

    def test_it_says_when_a_failure_is_used_up(self):
        model = ScriptedModel.of({"cut": True})
        assert play(model.stream(request("a"))) == []
        (event,) = play(model.stream(request("a")))
        assert event.error.message.endswith("Nearest: replies[0] is used up")


class Watched(Conversation):
    """Counts how many messages are read."""

    __slots__ = ("read",)

    def __init__(self, messages: list[Message]) -> None:
        super().__init__(messages)
        self.read = 0

    def __getitem__(self, index: Any) -> Any:
        assert isinstance(index, int)
        self.read += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Message]:
        raise AssertionError("the whole conversation was read")


class TestCost:
    @for_every_row("length", [0, 10, 10_000])
    def test_only_the_current_turn_is_read_however_long_the_conversation(self, length):
        old = [Message.user("old"), Message.assistant("old")] * length
        turn = after("go", "x", "y")
        messages = Watched([*old, *turn])
        model = ScriptedModel.of({"when": {"seen": "nothing"}, "text": "a"}, "0", "1", "2")
        end = play(model.stream(LlmRequest("m", messages)))[-1]
        assert end.response.message.content == "2"
        assert messages.read == len(turn)


class TestWithoutAFile:
    def test_texts_tables_and_structs_may_be_mixed(self):
        model = ScriptedModel.of("zero", {"text": "one"}, Reply(text="two"))
        assert [answer(model, *after("a", *["x"] * count)) for count in range(3)] == [
            "zero",
            "one",
            "two",
        ]

    def test_a_bad_reply_is_named(self):
        with pytest.raises(ScriptError, match=r"^script: replies\[1\]\.txt: unknown key$"):
            ScriptedModel.of("a", {"txt": "b"})

    def test_a_model_needs_a_reply(self):
        with pytest.raises(ScriptError, match=r"^script: replies: expected `array` of length >= 1"):
            ScriptedModel.of()

    def test_a_script_made_by_hand_is_checked_like_a_file(self):
        with pytest.raises(ScriptError, match=r"^script: replies\[0\]: says nothing"):
            ScriptedModel(Script(replies=(Reply(),)))
