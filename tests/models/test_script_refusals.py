"""Every mistake in a script is refused, with its exact place."""

from __future__ import annotations

from typing import Any

import pytest

from case_tables import for_every_row
from treadle.core.llm import LlmErrorKind
from treadle.errors import ScriptError, UsageError
from treadle.models.scripted.script import make_script, parse_script


def refusal(data: object, name: str = "script") -> str:
    with pytest.raises(ScriptError) as caught:
        make_script(data, name)
    assert isinstance(caught.value, UsageError)
    return str(caught.value)


def with_reply(**reply: Any) -> dict[str, Any]:
    """A script whose second reply is this one."""
    return {"replies": [{"when": {"user": "first"}, "text": "fine"}, reply]}


def with_call(**call: Any) -> dict[str, Any]:
    return with_reply(calls=[{"tool": "fine"}, call])


def with_when(**when: Any) -> dict[str, Any]:
    return with_reply(when=when, text="a")


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


NO_PAIR = "holds half of a surrogate pair, which is no character"
KINDS = ", ".join(kind.value for kind in LlmErrorKind)

BAD = [
    # the whole
    ([], "expected `object`, got `array`"),
    (None, "expected `object`, got `null`"),
    ({}, "replies: missing"),
    ({"replies": []}, "replies: expected `array` of length >= 1"),
    ({"replies": {}}, "replies: expected `array`, got `object`"),
    ({"replies": ["hello"]}, "replies[0]: expected `object`, got `str`"),
    ({"replies": [{"text": "a"}], "reply": []}, "reply: unknown key"),
    ({"replies": [{"text": "a"}], "chunk_size": -1}, "chunk_size: expected `int` >= 0"),
    ({"replies": [{"text": "a"}], "delay_s": "1"}, "delay_s: expected `float`, got `str`"),
    # types and names
    (with_reply(txet="a"), "replies[1].txet: unknown key"),
    (with_reply(text=1), "replies[1].text: expected `str | null`, got `int`"),
    (with_reply(chunks="a"), "replies[1].chunks: expected `array`, got `str`"),
    (with_reply(chunks=["a", 1]), "replies[1].chunks[1]: expected `str`, got `int`"),
    (with_reply(chunks=["a", ""]), "replies[1].chunks[1]: expected `str` of length >= 1"),
    (
        with_reply(text="a", chunk_size=1.5),
        "replies[1].chunk_size: expected `int | null`, got `float`",
    ),
    (with_reply(text="a", delay_s=-0.1), "replies[1].delay_s: expected `float` >= 0.0"),
    (with_reply(text="a", delay_s=3601), "replies[1].delay_s: expected `float` <= 3600.0"),
    (
        with_reply(text="a", delay_s=float("nan")),
        "replies[1].delay_s: nan is not a number that JSON knows",
    ),
    (
        with_reply(text="a", first_delay_s=float("inf")),
        "replies[1].first_delay_s: inf is not a number that JSON knows",
    ),
    (with_reply(cut=1), "replies[1].cut: expected `bool`, got `int`"),
    (
        with_reply(text="a", usage={"input": 1}),
        "replies[1].usage.input: unknown key",
    ),
    (
        with_reply(text="a", usage={"input_tokens": -1}),
        "replies[1].usage.input_tokens: expected `int` >= 0",
    ),
    # conditions
    (with_when(usr="a"), "replies[1].when.usr: unknown key"),
    (with_when(user=1), "replies[1].when.user: expected `str | null`, got `int`"),
    (
        with_when(user="("),
        "replies[1].when.user: not a regular expression: missing ), unterminated subpattern at "
        "position 0",
    ),
    (
        with_when(last="a**"),
        "replies[1].when.last: not a regular expression: multiple repeat at position 2",
    ),
    (
        with_when(seen="[z-a]"),
        "replies[1].when.seen: not a regular expression: bad character range z-a at position 1",
    ),
    (
        with_when(system="a{9999999999999}"),
        "replies[1].when.system: not a regular expression: the repetition number is too large",
    ),
    (
        with_when(last_role="person"),
        "replies[1].when.last_role: invalid enum value 'person'; one of: user, assistant, tool, "
        "system",
    ),
    (with_when(step=-1), "replies[1].when.step: expected `int` >= 0"),
    (with_when(tool=""), "replies[1].when.tool: expected `str` of length >= 1"),
    (
        with_when(tool="bash", last_role="user"),
        "replies[1].when.last_role: cannot hold together with tool: a result has the role tool",
    ),
    (
        with_when(tool="bash", step=0),
        "replies[1].when.step: cannot hold: at step 0 the model has not said anything yet",
    ),
    (
        with_when(last_role="assistant", step=0),
        "replies[1].when.step: cannot hold: at step 0 the model has not said anything yet",
    ),
    (
        with_when(last_role="user", step=2),
        "replies[1].when.step: cannot hold: after a user message the step is 0",
    ),
    # content
    (with_reply(), "replies[1]: says nothing: give text, chunks, calls, error, cut or hang"),
    (
        with_reply(when={"user": "a"}, delay_s=1),
        "replies[1]: says nothing: give text, chunks, calls, error, cut or hang",
    ),
    (with_reply(text="", chunks=["a"]), "replies[1].chunks: give either text or chunks"),
    (with_reply(text="a\ud800b"), f"replies[1].text: {NO_PAIR}"),
    (with_reply(chunks=["\ud83d", "\ude00"]), f"replies[1].chunks[0]: {NO_PAIR}"),
    # calls
    (with_call(), "replies[1].calls[1].tool: missing"),
    (with_call(tool=""), "replies[1].calls[1].tool: expected `str` of length >= 1"),
    (with_call(tool="t", args={}), "replies[1].calls[1].args: unknown key"),
    (
        with_call(tool="t", arguments="{}"),
        "replies[1].calls[1].arguments: expected `object | null`, got `str`",
    ),
    (
        with_call(tool="t", arguments={}, arguments_text=""),
        "replies[1].calls[1].arguments_text: give either arguments or arguments_text",
    ),
    (
        with_call(tool="t", arguments={"a": [float("-inf")]}),
        "replies[1].calls[1].arguments.a[0]: -inf is not a number that JSON knows",
    ),
    (
        with_call(tool="t", arguments={"a": 2**63}),
        "replies[1].calls[1].arguments.a: an integer beyond 64 bits",
    ),
    (
        with_call(tool="t", arguments={"\udc00": 1}),
        "replies[1].calls[1].arguments: the key '\\udc00' is not text",
    ),
    (
        with_call(tool="t", arguments={1: 1}),
        "replies[1].calls[1].arguments: the key 1 is not text",
    ),
    (
        with_call(tool="t", arguments={"a": b"x"}),
        "replies[1].calls[1].arguments.a: a bytes is not JSON; write it as a string",
    ),
    (with_call(tool="t", arguments={"a": object}), "Encoding objects of type type is unsupported"),
    (
        with_call(tool="t", arguments_text="\ud800"),
        f"replies[1].calls[1].arguments_text: {NO_PAIR}",
    ),
    (with_call(tool="t", id=""), "replies[1].calls[1].id: expected `str` of length >= 1"),
    (
        with_call(tool="t", id="call-1-0"),
        "replies[1].calls[1].id: ids that begin with 'call-' are given by the model",
    ),
    (
        with_reply(calls=[{"tool": "t", "id": "x"}, {"tool": "u", "id": "x"}]),
        "replies[1].calls[1].id: 'x' is used twice in one reply",
    ),
    # ends
    (with_reply(error={}), "replies[1].error.kind: missing"),
    (with_reply(error="server"), "replies[1].error: expected `object | null`, got `str`"),
    (
        with_reply(error={"kind": "teapot"}),
        f"replies[1].error.kind: invalid enum value 'teapot'; one of: {KINDS}",
    ),
    (
        with_reply(error={"kind": "server", "retry_after_s": -1}),
        "replies[1].error.retry_after_s: expected `float` >= 0.0",
    ),
    (
        with_reply(error={"kind": "server"}, cut=True),
        "replies[1].cut: a stream ends once, and error is given",
    ),
    (with_reply(cut=True, hang=True), "replies[1].hang: a stream ends once, and cut is given"),
    (with_reply(hang=True, usage={}), "replies[1].usage: has no meaning with hang"),
    (
        with_reply(error={"kind": "server"}, finish_reason="x"),
        "replies[1].finish_reason: has no meaning with error",
    ),
    (
        with_reply(text="a", times=2),
        "replies[1].times: has no meaning without error, cut or hang",
    ),
    (with_reply(cut=True, times=-1), "replies[1].times: expected `int` >= 0"),
    # replies nobody can get
    (
        with_reply(when={"user": "first", "step": 0}, text="b"),
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {"replies": [{"hang": True, "times": 0}, {"text": "a"}]},
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {"replies": [{"text": "a"}, {"when": {"system": "x"}, "text": "b"}]},
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {
            "replies": [
                {"when": {"tool": "t"}, "text": "a"},
                {"when": {"tool": "u"}, "text": "b"},
                {"when": {"last": "x", "tool": "t"}, "text": "c"},
            ]
        },
        "replies[2]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {
            "replies": [
                {"when": {"last_role": "tool"}, "text": "a"},
                {"when": {"tool": "t"}, "cut": True},
            ]
        },
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {"replies": [{"text": "a"}, {"when": {"tool": "t", "step": 5}, "text": "b"}]},
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
    (
        {
            "replies": [
                {"calls": [{"tool": "t"}]},
                {"text": "a"},
                {"when": {"step": 3}, "text": "b"},
            ]
        },
        "replies[2]: can never be used: replies[1] comes first wherever it fits",
    ),
    (
        {"replies": [{"calls": [{"tool": "t"}]}, {"when": {"last_role": "user"}, "text": "b"}]},
        "replies[1]: can never be used: replies[0] comes first wherever it fits",
    ),
]


class TestWhatIsRefused:
    @for_every_row("data, problem", BAD)
    def test_a_bad_script_is_refused_with_its_exact_place(self, data, problem):
        assert refusal(data, "demo.toml") == f"demo.toml: {problem}"

    def test_the_table_of_bad_scripts_has_no_entry_twice(self):
        assert len(BAD) > 60
        assert len({repr(data) for data, _ in BAD}) == len(BAD)

    def test_a_script_nests_at_most_64_levels(self):
        levels_above = 5  # replies, its second reply, calls, its second call, arguments
        make_script(with_call(tool="t", arguments=deep(64 - levels_above)))
        message = refusal(with_call(tool="t", arguments=deep(65 - levels_above)))
        assert message.endswith(".a: nested deeper than 64 levels")

    def test_arguments_too_deep_for_the_interpreter_are_refused_too(self):
        told = refusal(with_call(tool="t", arguments=deep(5000)))
        assert "recursion" in told or "nested deeper" in told  # interpreters differ in depth

    def test_a_refusal_says_where_the_format_is_described(self):
        with pytest.raises(ScriptError) as caught:
            make_script({})
        assert caught.value.hint == "docs/scripted-models.md describes the format"

    @for_every_row(
        "date", ["2026-11-21", "2026-11-21T08:15:30Z", "2026-11-21T08:15:30", "08:15:30"]
    )
    def test_a_date_of_toml_is_not_taken_for_text(self, date):
        with pytest.raises(ScriptError, match=r"^a\.toml: replies\[0\]\.text: a \w+ is not JSON"):
            parse_script(f"replies = [{{ text = {date} }}]".encode(), "a.toml")

    def test_nan_is_refused_wherever_a_file_can_say_it(self):
        for name, data in (
            ("a.toml", b"replies = [{ delay_s = nan }]"),
            ("a.json", b'{"replies": [{"delay_s": NaN}]}'),
        ):
            with pytest.raises(ScriptError, match=r"replies\[0\]\.delay_s: nan is not a number"):
                parse_script(data, name)

    def test_a_lone_surrogate_is_refused_wherever_a_file_can_say_it(self):
        with pytest.raises(ScriptError, match=r"^a\.json: replies\[0\]\.text: holds half of a"):
            parse_script(b'{"replies": [{"text": "\\ud800"}]}', "a.json")
        with pytest.raises(ScriptError, match=r"^a\.toml: .*at line 2"):
            parse_script(b'[[replies]]\ntext = "\\ud800"', "a.toml")
