"""The format: what a script may say, in which files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from case_tables import for_every_row
from treadle.core.llm import LlmErrorKind
from treadle.errors import ScriptError
from treadle.models.scripted.script import (
    Reply,
    Script,
    ScriptedCall,
    ScriptedFailure,
    ScriptedUsage,
    When,
    list_conditions,
    load_script,
    make_script,
    parse_script,
)

EVERYTHING = Script(
    replies=(
        Reply(
            when=When(
                user="a", last="b", last_role="tool", tool="bash", seen="c", system="d", step=3
            ),
            text="hello",
            calls=(
                ScriptedCall("read_file", {"path": "x", "lines": [1, 2.5, None, True]}, id="mine"),
                ScriptedCall("bash", arguments_text="{"),
            ),
            chunk_size=0,
            delay_s=0.5,
            first_delay_s=2.0,
            usage=ScriptedUsage(3, 4),
            finish_reason="length",
        ),
        Reply(
            chunks=("a", "b"),
            error=ScriptedFailure(LlmErrorKind.RATE_LIMITED, "slow down", 1.5),
            times=3,
        ),
        Reply(text="", cut=True),
        Reply(hang=True),
        Reply(text="done"),
    ),
    chunk_size=7,
    delay_s=1.0,
    first_delay_s=3600.0,
)

EVERYTHING_TOML = """
chunk_size = 7
delay_s = 1
first_delay_s = 3600

[[replies]]
when.user = "a"
when.last = "b"
when.last_role = "tool"
when.tool = "bash"
when.seen = "c"
when.system = "d"
when.step = 3
text = "hello"
chunk_size = 0
delay_s = 0.5
first_delay_s = 2.0
usage = { input_tokens = 3, output_tokens = 4 }
finish_reason = "length"
[[replies.calls]]
tool = "bash"
arguments_text = "{"

[[replies]]
chunks = ["a", "b"]
error = { kind = "rate_limited", message = "slow down", retry_after_s = 1.5 }
times = 3

[[replies]]
text = ""
cut = true

[[replies]]
hang = true

[[replies]]
text = "done"
"""


class TestWhatIsAccepted:
    def test_a_script_made_of_structs_comes_back_as_it_is(self):
        assert make_script(EVERYTHING) == EVERYTHING

    def test_a_json_file_says_everything(self, tmp_path):
        path = tmp_path / "all.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(EVERYTHING)))
        assert load_script(path) == EVERYTHING

    def test_a_toml_file_says_everything_but_null(self, tmp_path):
        path = tmp_path / "all.toml"
        path.write_text(EVERYTHING_TOML)
        script = load_script(path)
        first, *rest = script.replies
        assert rest == list(EVERYTHING.replies[1:])
        assert first.calls == EVERYTHING.replies[0].calls[1:]
        assert first.when == EVERYTHING.replies[0].when
        assert (script.chunk_size, script.delay_s, script.first_delay_s) == (7, 1.0, 3600.0)

    def test_a_path_may_be_a_string(self, tmp_path):
        (tmp_path / "a.toml").write_text('replies = [{ text = "a" }]')
        assert load_script(str(tmp_path / "a.toml")) == make_script({"replies": [{"text": "a"}]})

    def test_a_byte_order_mark_is_ignored(self):
        assert parse_script(b'\xef\xbb\xbfreplies = [{ text = "a" }]', "a.toml")
        assert parse_script(b'\xef\xbb\xbf{"replies": [{"text": "a"}]}', "a.json")

    def test_windows_line_ends_are_line_ends(self):
        assert parse_script(b'[[replies]]\r\ntext = "a"\r\n', "a.toml").replies[0].text == "a"

    def test_tables_structs_and_both_mean_the_same(self):
        plain = {"when": {"user": "x"}, "calls": [{"tool": "t", "arguments": {"a": 1}}]}
        mixed = {"when": When(user="x"), "calls": [ScriptedCall("t", {"a": 1})]}
        struct = Reply(when=When(user="x"), calls=(ScriptedCall("t", {"a": 1}),))
        scripts = [make_script({"replies": [reply]}) for reply in (plain, mixed, struct)]
        assert scripts[0] == scripts[1] == scripts[2]

    @for_every_row("kind", LlmErrorKind)
    def test_every_error_kind_can_be_named(self, kind):
        script = make_script({"replies": [{"error": {"kind": kind.value}}]})
        assert script.replies[0].error == ScriptedFailure(kind)

    def test_a_later_reply_may_ask_for_more_than_one_that_only_fails_sometimes(self):
        make_script({"replies": [{"hang": True, "times": 5}, {"cut": True}, {"text": "a"}]})

    def test_steps_may_be_given_in_any_order(self):
        make_script({"replies": [{"when": {"step": step}, "text": "a"} for step in (3, 1, 2, 0)]})

    def test_rules_that_overlap_only_in_part_are_fine(self):
        make_script(
            {
                "replies": [
                    {"when": {"tool": "bash", "last": "x"}, "text": "a"},
                    {"when": {"tool": "bash", "last": "y"}, "text": "b"},
                    {"when": {"tool": "bash"}, "text": "c"},
                    {"when": {"last_role": "tool"}, "text": "d"},
                ]
            }
        )


class TestRows:
    def steps(self, *replies: dict[str, Any]) -> list[str]:
        """Per reply: the step it fits, `+` for all later ones too, `*` for any."""
        asked = list_conditions(make_script({"replies": list(replies)}))
        ranges = [asks.get("step") for asks in asked]
        return [
            "*" if steps is None else f"{steps.start}{'+' * (steps.stop > steps.start + 1)}"
            for steps in ranges
        ]

    def test_replies_without_conditions_stand_in_a_row_whose_last_one_stays(self):
        assert self.steps({"text": "a"}, {"text": "b"}, {"text": "c"}) == ["0", "1", "2+"]

    def test_a_row_of_one_is_for_any_step(self):
        assert self.steps({"text": "a"}) == ["*"]

    def test_a_row_that_ends_with_calls_ends_there(self):
        calls = {"calls": [{"tool": "t"}]}
        assert self.steps(calls) == ["0"]
        assert self.steps(calls, calls) == ["0", "1"]
        assert self.steps(calls, {"text": "a"}) == ["0", "1+"]

    def test_each_pair_of_user_and_system_has_its_own_row(self):
        assert self.steps(
            {"when": {"user": "x", "system": "x"}, "text": "a"},
            {"when": {"user": "x"}, "text": "a"},
            {"when": {"system": "x"}, "text": "a"},
            {"when": {"user": "y"}, "text": "a"},
            {"text": "a"},
            {"when": {"user": "x"}, "text": "b"},
            {"text": "b"},
        ) == ["*", "0", "*", "*", "0", "1+", "1+"]

    def test_a_rule_takes_no_place_in_a_row(self):
        rules = [{"last": "x"}, {"last_role": "tool"}, {"tool": "t"}, {"seen": "x"}]
        for rule in rules:
            assert self.steps({"when": rule, "text": "a"}, {"text": "b"}) == ["*", "*"]
        assert self.steps({"when": {"step": 7}, "text": "a"}, {"text": "b"}) == ["7", "*"]

    def test_a_failure_shares_the_place_of_the_reply_that_follows_it(self):
        assert self.steps(
            {"cut": True}, {"text": "a"}, {"hang": True}, {"cut": True}, {"text": "b"}
        ) == ["0", "0", "1+", "1+", "1+"]

    def test_a_failure_at_the_end_of_a_row_has_the_last_place(self):
        calls = {"calls": [{"tool": "t"}]}
        assert self.steps(calls, {"cut": True}) == ["0", "1+"]
        assert self.steps({"hang": True, "times": 0}) == ["*"]
        assert self.steps({**calls, "cut": True}) == ["*"]


class TestFiles:
    @for_every_row(
        "name, data, problem",
        [
            ("a.toml", b'[[replies]]\ntext = "a\n', "at line 2"),
            ("a.toml", b'[[replies]]\n\ntext = "a"\ntext = "b"\n', "at line 4"),
            ("a.toml", b"[[replies]\n", "at line 1"),
            ("a.json", b'{"replies": [\n  {"text" "a"}\n]}', "line 2 column 11"),
            ("a.json", b"", "line 1 column 1"),
            ("a.json", b'{"replies": []} x', "line 1 column 17"),
            ("a.json", b'{"replies": [{"text": "a", "text": "b"}]}', "the key 'text' stands twice"),
            ("a.toml", b'[[replies]]\ntext = "\xff"', "not UTF-8: invalid start byte (at line 2)"),
            ("a.json", b"[" * 100_000, "recursion"),
            ("a.json", b'{"replies": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
            ("a.yaml", b"replies: []", "a script is a .toml or a .json file"),
            ("toml", b"replies = []", "a script is a .toml or a .json file"),
        ],
    )
    def test_a_syntax_error_is_named_with_file_and_line(self, name, data, problem):
        with pytest.raises(ScriptError) as caught:
            parse_script(data, name)
        assert str(caught.value).startswith(f"{name}: ")
        assert problem in str(caught.value)

    def test_the_name_in_the_error_is_the_path_that_was_given(self, tmp_path):
        path = tmp_path / "demo.toml"
        path.write_text("replies = 1")
        with pytest.raises(ScriptError) as caught:
            load_script(path)
        assert str(caught.value) == f"{path}: replies: expected `array`, got `int`"

    def test_a_file_that_is_not_there_is_named(self, tmp_path):
        path = tmp_path / "none.toml"
        with pytest.raises(ScriptError) as caught:
            load_script(path)
        assert str(caught.value) == f"cannot read {path}: No such file or directory"

    def test_a_folder_is_not_a_script(self, tmp_path):
        with pytest.raises(ScriptError, match="Is a directory"):
            load_script(tmp_path)

    def test_a_path_no_file_can_have_is_refused(self):
        with pytest.raises(ScriptError, match=r"^cannot read a\x00b\.toml: embedded null byte$"):
            load_script("a\0b.toml")

    def test_a_file_that_cannot_be_read_by_anybody_is_named(self, tmp_path):
        path = tmp_path / "loop.toml"
        path.symlink_to(path)
        with pytest.raises(ScriptError, match=r"loop\.toml.*Too many levels"):
            load_script(path)
