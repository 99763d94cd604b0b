"""What the stream of a reply brings, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from models.conformance import arguments_of, drain, request, text_of
from models.playing import after, answer, completed, play
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, Usage
from treadle.core.messages import Message, ToolCall
from treadle.errors import ScriptError
from treadle.models.scripted.provider import ScriptedModel
from treadle.models.scripted.script import Reply, ScriptedFailure, make_script

TEXTS = st.text(max_size=200)


class TestChunks:
    @given(text=TEXTS, size=st.integers(0, 40))
    def test_deltas_concatenate_to_the_text_for_any_text_and_size(self, text, size):
        events = play(ScriptedModel.of(Reply(text=text, chunk_size=size)).stream(request("a")))
        *deltas, end = events
        assert text_of(events) == end.response.message.content == text
        sizes = [len(delta.content) for delta in deltas]
        if size == 0:
            assert sizes == ([len(text)] if text else [])
        else:
            assert sizes == [size] * (len(text) // size) + [len(text) % size] * bool(
                len(text) % size
            )
        for delta in deltas:
            delta.content.encode()

    @given(text=st.text(st.characters(), min_size=1, max_size=50))
    def test_a_text_with_a_lone_surrogate_is_refused_and_any_other_accepted(self, text):
        try:
            text.encode()
        except UnicodeEncodeError:
            with pytest.raises(ScriptError, match=r"^script: replies\[0\]\.text: holds half"):
                ScriptedModel.of(text)
        else:
            assert answer(ScriptedModel.of(text), "a") == text

    @given(raw=TEXTS, size=st.integers(0, 40))
    def test_call_deltas_concatenate_to_the_arguments(self, raw, size):
        reply = {"calls": [{"tool": "t", "arguments_text": raw}], "chunk_size": size}
        events = play(ScriptedModel.of(reply).stream(request("a")))
        (call,) = events[-1].response.tool_calls
        assert arguments_of(events) == {(call.id, "t"): raw}
        assert call.arguments_json == raw

    @given(chunks=st.lists(st.text(min_size=1), min_size=1, max_size=9))
    def test_explicit_chunks_arrive_as_they_are(self, chunks):
        *deltas, end = play(ScriptedModel.of({"chunks": chunks}).stream(request("a")))
        assert [delta.content for delta in deltas] == chunks
        assert end.response.message.content == "".join(chunks)

    def test_the_default_is_24_characters(self):
        *deltas, _ = play(ScriptedModel.of("x" * 50).stream(request("a")))
        assert [len(delta.content) for delta in deltas] == [24, 24, 2]

    def test_a_reply_overrides_the_script(self):
        replies = [{"text": "abcd"}, {"text": "abcd", "chunk_size": 1}]
        model = ScriptedModel(make_script({"chunk_size": 2, "replies": replies}))
        assert len(play(model.stream(request("a")))) == 2 + 1
        assert len(play(model.stream(request(*after("a", "b"))))) == 4 + 1


class TestCalls:
    def test_text_comes_before_calls_and_calls_in_order(self):
        reply = {"text": "hm", "calls": [{"tool": "a"}, {"tool": "b", "arguments": {"x": [1]}}]}
        events = play(ScriptedModel.of(reply).stream(request("go")))
        assert events[:-1] == [
            LlmEvent.TextDelta("hm"),
            LlmEvent.ToolCallDelta("call-1-0", "a", "{}"),
            LlmEvent.ToolCallDelta("call-1-1", "b", '{"x":[1]}'),
        ]
        assert events[-1].response.message == Message.assistant(
            "hm", (ToolCall("call-1-0", "a"), ToolCall("call-1-1", "b", '{"x":[1]}'))
        )

    def test_default_ids_follow_from_the_conversation_and_never_recur(self):
        model = ScriptedModel.of({"when": {"seen": "."}, "calls": [{"tool": "t"}, {"tool": "t"}]})
        conversation = Conversation([Message.user("go")])
        ids: list[str] = []
        for _ in range(20):
            message = completed(model, LlmRequest("m", conversation))
            ids += [call.id for call in message.tool_calls]
            conversation = conversation.append(message)
            conversation = conversation.extend(Message.tool(c, "x") for c in message.tool_calls)
        assert len(set(ids)) == 40
        assert ids[:4] == ["call-1-0", "call-1-1", "call-4-0", "call-4-1"]

    def test_ids_of_the_script_are_kept(self):
        model = ScriptedModel.of({"calls": [{"tool": "t", "id": "mine"}, {"tool": "t"}]})
        message = completed(model, request("go"))
        assert [call.id for call in message.tool_calls] == ["mine", "call-1-1"]

    def test_arguments_keep_the_order_and_characters_of_the_script(self):
        arguments = {"z": "ü\n", "a": {"y": 1.5, "b": None}}
        message = completed(
            ScriptedModel.of({"calls": [{"tool": "t", "arguments": arguments}]}), request("go")
        )
        assert message.tool_calls[0].arguments_json == '{"z":"ü\\n","a":{"y":1.5,"b":null}}'

    def test_a_call_with_empty_arguments_is_announced_all_the_same(self):
        model = ScriptedModel.of({"calls": [{"tool": "t", "arguments_text": ""}]})
        events = play(model.stream(request("go")))
        assert events[0] == LlmEvent.ToolCallDelta("call-1-0", "t", "")


class TestTheEnd:
    def response(self, *messages: Message | str, system: str = "", **reply: Any) -> Any:
        model = ScriptedModel.of(reply)
        return play(model.stream(request(*messages, system=system)))[-1].response

    def test_usage_of_the_script_is_reported_as_it_is(self):
        usage = self.response("a", text="b", usage={"input_tokens": 7, "output_tokens": 9}).usage
        assert usage == Usage(7, 9, estimated=False)

    def test_usage_is_otherwise_estimated_from_the_turn_and_marked(self):
        said = ["long ago " * 99, Message.assistant("x" * 999), "12345678"]
        response = self.response(*said, system="1234", text="123456789", calls=[{"tool": "t"}])
        assert response.usage == Usage(12 // 4, 11 // 4 + 1, estimated=True)

    def test_an_estimate_counts_calls_and_results_of_the_turn(self):
        call = ToolCall("c", "t", "x" * 40)
        said = ["1234", Message.assistant("", (call,)), Message.tool(call, "y" * 20)]
        response = self.response(*said, when={"tool": "t"}, text="")
        assert response.usage == Usage(16, 0, estimated=True)

    def test_the_finish_reason_tells_calls_from_answers(self):
        assert self.response("a", text="b").finish_reason == "stop"
        assert self.response("a", calls=[{"tool": "t"}]).finish_reason == "tool_calls"
        assert self.response("a", text="b", finish_reason="length").finish_reason == "length"

    def test_an_empty_answer_is_an_answer(self):
        assert self.response("a", text="").message == Message.assistant()


class TestFailures:
    @for_every_row("kind", LlmErrorKind)
    def test_every_kind_of_error_can_come_at_once_and_in_the_middle(self, kind):
        failure = ScriptedFailure(kind, "because", 2.5)
        model = ScriptedModel.of(
            Reply(error=failure), Reply(text="I was ab", error=failure), "fine"
        )
        end = LlmEvent.Error(LlmError(kind, "because", 2.5))
        assert play(model.stream(request("a"))) == [end]
        assert play(model.stream(request("a"))) == [LlmEvent.TextDelta("I was ab"), end]
        assert answer(model, "a") == "fine"

    def test_a_failure_happens_times_times_and_then_the_next_reply_answers(self):
        model = ScriptedModel.of({"error": {"kind": "server"}, "times": 3}, "fine", "then")
        assert [answer(model, "a") for _ in range(5)] == ["!server"] * 3 + ["fine"] * 2
        assert answer(model, *after("a", "b")) == "then"

    def test_a_failure_happens_once_if_nothing_is_said(self):
        model = ScriptedModel.of({"error": {"kind": "timeout"}}, "fine")
        assert [answer(model, "a") for _ in range(2)] == ["!timeout", "fine"]

    def test_times_0_is_always(self):
        model = ScriptedModel.of({"error": {"kind": "server"}, "times": 0})
        assert {answer(model, "a") for _ in range(20)} == {"!server"}
        assert answer(model, *after("a", "b", "c")) == "!server"

    def test_a_failure_before_the_end_of_a_row_hits_any_later_step(self):
        model = ScriptedModel.of({"cut": True, "times": 2}, "fine")
        assert answer(model, *after("a", "b")) == "?"
        assert answer(model, *after("a", "b", "c")) == "?"
        assert answer(model, *after("a", "b", "c")) == "fine"

    def test_failures_in_the_middle_of_a_row_hit_their_own_step_only(self):
        model = ScriptedModel.of("one", {"cut": True}, {"error": {"kind": "network"}}, "two")
        assert [answer(model, "a") for _ in range(3)] == ["one"] * 3
        said = [answer(model, *after("a", "b")) for _ in range(4)]
        assert said == ["?", "!network", "two", "two"]

    def test_a_cut_stream_brings_its_deltas_and_no_end(self):
        cut = {"text": "Hel", "calls": [{"tool": "t", "arguments_text": '{"a'}], "cut": True}
        assert play(ScriptedModel.of(cut).stream(request("a"))) == [
            LlmEvent.TextDelta("Hel"),
            LlmEvent.ToolCallDelta("call-1-0", "t", '{"a'),
        ]

    async def test_a_hanging_stream_brings_its_text_and_waits_until_it_is_cancelled(self):
        model = ScriptedModel.of({"text": "Hm", "hang": True}, "fine")
        stream = model.stream(request("a"))
        assert await anext(stream) == LlmEvent.TextDelta("Hm")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert answer(model, "a") == "fine"

    def test_a_stream_that_nobody_reads_uses_nothing_up(self):
        model = ScriptedModel.of({"cut": True}, "fine")
        model.stream(request("a"))
        assert answer(model, "a") == "?"

    def test_a_rule_can_fail_as_well(self):
        model = ScriptedModel.of(
            {"when": {"tool": "read_file"}, "error": {"kind": "overloaded"}, "times": 2},
            {"when": {"last_role": "tool"}, "text": "fine"},
        )
        said = [answer(model, *after("a", "b")) for _ in range(3)]
        assert said == ["!overloaded", "!overloaded", "fine"]


class TestTime:
    async def test_delays_stand_before_the_first_event_and_between_deltas(self):
        happened: list[object] = []

        async def sleep(delay_s: float) -> None:
            happened.append(delay_s)

        reply = {"chunks": ["a", "b"], "calls": [{"tool": "t"}], "delay_s": 0.1}
        model = ScriptedModel.of({**reply, "first_delay_s": 5}, sleep=sleep)
        stream = model.stream(request("go"))
        while (event := await anext(stream, None)) is not None:
            happened.append(type(event))
        text, call, end = LlmEvent.TextDelta, LlmEvent.ToolCallDelta, LlmEvent.Completed
        assert happened == [5.0, text, 0.1, text, 0.1, call, end]

    @for_every_row("reply", [{"text": ""}, {"cut": True}, {"error": {"kind": "server"}}])
    async def test_the_first_delay_passes_before_an_end_without_deltas(self, reply):
        slept: list[float] = []

        async def sleep(delay_s: float) -> None:
            slept.append(delay_s)

        script = make_script({"first_delay_s": 2, "delay_s": 1, "replies": [reply]})
        await drain(ScriptedModel(script, sleep=sleep).stream(request("go")))
        assert slept == [2.0]

    async def test_delays_of_the_script_hold_where_the_reply_has_none(self):
        slept: list[float] = []

        async def sleep(delay_s: float) -> None:
            slept.append(delay_s)

        replies = [{"chunks": ["a", "b"]}, {"chunks": ["a", "b"], "delay_s": 0, "first_delay_s": 3}]
        script = make_script({"first_delay_s": 2, "delay_s": 1, "replies": replies})
        model = ScriptedModel(script, sleep=sleep)
        await drain(model.stream(request("go")))
        await drain(model.stream(request(*after("go", "x"))))
        assert slept == [2.0, 1.0, 3.0]

    def test_without_delays_the_event_loop_is_never_asked_to_wait(self):
        model = ScriptedModel.of({"text": "x" * 10_000, "chunk_size": 1})
        assert len(play(model.stream(request("go")))) == 10_001
