"""A recorder passes everything through, and its file holds all of it but the secrets."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import re
import resource
import stat
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.conformance import ProviderConformance, drain
from models.conformance import request as make_request
from models.tapes import TRAITS, Playback, model, record, replay
from models.test_recorded import said
from models.test_scripted_conformance import ASKED, REPLIES
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind, LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message, NativeLayout, OpaquePart, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.errors import DiskError, InternalError, UsageError
from treadle.models.recording.file import ExchangeLine, Header, RecordedSettings, load_recording
from treadle.models.recording.recorder import RecordingProvider
from treadle.models.scripted.provider import ScriptedModel
from treadle.secrets.redaction import Redactor

SECRET = "hunter2-hunter2"
MARK = "[REDACTED:password]"
redact = Redactor({"PASSWORD": SECRET}).redact


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestARecorder(ProviderConformance):
    ASKED = ASKED

    @pytest.fixture
    def provider(self, tape):
        return RecordingProvider(ScriptedModel.of(*REPLIES), tape, redact)


class TestPassingThrough:
    async def test_name_traits_counts_and_closing_are_those_of_who_answers(self, tape):
        inner = Playback()
        provider = RecordingProvider(inner, tape)
        assert provider.name == "playback"
        assert provider.traits("any") is TRAITS
        assert await provider.count_tokens(make_request("a", "b")) == 2
        await provider.aclose()
        assert inner.is_closed

    async def test_secrets_pass_to_the_reader_as_they_are(self, tape):
        await record(tape, (make_request("a"), said(SECRET)), redact=redact)  # it compares


class TestTheFile:
    async def test_it_is_for_the_user_alone_and_says_who_answered(self, tape):
        await RecordingProvider(Playback(), tape, program="treadle 9").aclose()
        assert stat.S_IMODE(tape.stat().st_mode) == 0o600
        assert lines_of(tape) == [
            {"type": "recording", "version": 1, "provider": "playback", "program": "treadle 9"}
        ]

    async def test_an_exchange_is_in_it_before_the_reader_has_the_end(self, tape):
        provider = RecordingProvider(Playback(said("yes")), tape)
        async for event in provider.stream(make_request("a")):
            is_end = isinstance(event, LlmEvent.Completed)
            assert len(load_recording(tape).exchanges) == is_end
        (exchange,) = load_recording(tape).exchanges
        assert (exchange.model, exchange.messages) == ("any-model", (Message.user("a"),))

    async def test_it_grows_with_the_conversation_and_not_with_its_square(self, tape):
        tools = (ToolDefinition("bash", "d" * 3000, {"type": "object"}),)
        main, conversation, exchanges = LlmRequest("m", Conversation()), Conversation(), []
        for index in range(40):
            conversation = conversation.append(Message.user(f"{index} {'x' * 500}"))
            asked = msgspec.structs.replace(main, messages=conversation, tools=tools, system="s")
            exchanges += [(asked, said("y")), (make_request(f"diff {index}"), said("z"))]
        await record(tape, *exchanges)
        assert tape.stat().st_size < 40 * 500 + 3000 + 80 * 400
        playing = model(tape)
        for asked, events in exchanges:
            assert await drain(playing.stream(asked)) == events

    async def test_a_conversation_that_takes_another_way_shares_what_is_the_same(self, tape):
        start = ["one" * 100, "two" * 100]
        ways = [make_request(*start, end) for end in ("left", "right")]
        shorter = make_request(start[0])
        await record(tape, *((way, said("y")) for way in (*ways, shorter)))
        assert [(line.get("shared"), len(line["messages"])) for line in lines_of(tape)[1:]] == [
            (None, 3),
            (2, 1),
            (1, 0),
        ]
        for way in (*ways, shorter):
            assert await replay(tape, way) == said("y")

    @given(ways=st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=8))
    def test_any_requests_in_any_order_are_found_again(self, tmp_path_factory, ways):
        tape = tmp_path_factory.mktemp("ways") / "tape"
        exchanges = [
            (make_request(*way, system="even" * (len(way) % 2)), said(f"{way}")) for way in ways
        ]
        half = len(exchanges) // 2
        asyncio.run(record(tape, *exchanges[:half]))
        asyncio.run(record(tape, *exchanges[half:]))
        for asked, events in exchanges:
            assert asyncio.run(replay(tape, asked)) == events

    async def test_a_stream_that_the_reader_leaves_is_kept_as_far_as_it_came(self, tape):
        provider = RecordingProvider(ScriptedModel.of({"chunks": ["a", "b"]}), tape)
        stream = provider.stream(make_request("x"))
        await anext(stream)
        await stream.aclose()
        assert lines_of(tape)[1]["unfinished"] is True
        assert await replay(tape, make_request("x")) == [LlmEvent.TextDelta("a")]

    async def test_a_stream_that_is_cancelled_is_kept_as_far_as_it_came(self, tape):
        provider = RecordingProvider(ScriptedModel.of({"text": "a", "hang": True}), tape)
        heard = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(make_request("x")):
                heard.set()

        task = asyncio.create_task(read())
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lines_of(tape)[1]["unfinished"] is True
        assert await replay(tape, make_request("x")) == [LlmEvent.TextDelta("a")]

    async def test_streams_at_once_are_whole_lines_each(self, tape):
        slow = {"text": "x" * 5000, "chunk_size": 100, "delay_s": 1}
        inner = ScriptedModel.of(slow, sleep=lambda _: asyncio.sleep(0))
        provider = RecordingProvider(inner, tape)
        await asyncio.gather(*(drain(provider.stream(make_request(f"{i}"))) for i in range(20)))
        assert {each.number for each in load_recording(tape).exchanges} == {*range(1, 21)}


class TestGoingOn:
    async def test_a_recording_is_appended_to(self, tape):
        first, second = make_request("a" * 300), make_request("a" * 300, "b")
        await record(tape, (first, said("1")))
        await record(tape, (second, said("2")))
        assert [line["type"] for line in lines_of(tape)] == ["recording", "exchange", "exchange"]
        assert lines_of(tape)[2]["shared"] == 1
        assert await replay(tape, first) == said("1")
        assert await replay(tape, second) == said("2")

    async def test_somebody_else_who_answers_is_named_in_a_header_of_their_own(self, tape):
        await record(tape, (make_request("a"), said("1")))
        await RecordingProvider(ScriptedModel.of("x"), tape).aclose()
        headers = [line["provider"] for line in lines_of(tape) if line["type"] == "recording"]
        assert headers == ["playback", "scripted"]
        assert await replay(tape, make_request("a")) == said("1")

    @pytest.mark.parametrize("cut", [1, 2, 40])
    async def test_after_a_torn_line_there_is_a_fresh_one(self, tape, cut):
        await record(tape, (make_request("a"), said("1")), (make_request("b"), said("2")))
        tape.write_bytes(tape.read_bytes()[:-cut])
        await record(tape, (make_request("c"), said("3")))
        assert all(line["type"] for line in lines_of(tape))
        assert await replay(tape, make_request("a")) == said("1")
        assert await replay(tape, make_request("c")) == said("3")
        (again,) = (await replay(tape, make_request("b")))[:1]
        assert isinstance(again, LlmEvent.TextDelta) == (cut == 1)

    async def test_an_empty_file_becomes_a_recording(self, tape):
        tape.touch()
        await record(tape, (make_request("a"), said("1")))
        assert await replay(tape, make_request("a")) == said("1")

    @pytest.mark.parametrize("data", [b"my diary", b"my diary\n", b'{"a":1}\n', b"\x00\xff"])
    def test_anything_else_is_left_as_it_is(self, tape, data):
        tape.write_bytes(data)
        with pytest.raises(UsageError, match="is not a recording"):
            RecordingProvider(Playback(), tape)
        assert tape.read_bytes() == data
        with pytest.raises(UsageError, match="is not a recording"):
            RecordingProvider(Playback(), tape)  # and nothing holds it

    def test_a_newer_recording_is_left_as_it_is(self, tape):
        tape.write_text('{"type":"recording","version":2}\n')
        with pytest.raises(UsageError, match="line 1: the recording has version 2"):
            RecordingProvider(Playback(), tape)
        assert lines_of(tape) == [{"type": "recording", "version": 2}]

    async def test_a_damaged_recording_is_left_as_it_is(self, tape):
        await record(tape, (make_request("a"), said("1")), (make_request("b"), said("2")))
        lines = tape.read_bytes().splitlines(keepends=True)
        lines[1] = lines[1][:20] + b"\n"
        tape.write_bytes(b"".join(lines))
        with pytest.raises(UsageError, match=r"line 2: "):
            RecordingProvider(Playback(), tape)
        assert tape.read_bytes() == b"".join(lines)

    @pytest.mark.parametrize("place", ["", "missing/tape", "\0"])
    def test_a_place_where_no_file_can_be_is_refused(self, tmp_path, place):
        with pytest.raises(UsageError, match=r"^cannot record into "):
            RecordingProvider(Playback(), f"{tmp_path}/{place}")

    def test_a_pipe_is_refused_at_once(self, tape):
        os.mkfifo(tape)
        with pytest.raises(UsageError, match="it is not a file"):
            RecordingProvider(Playback(), tape)

    async def test_two_who_answer_in_one_run_are_recorded_into_one_file(self, tape):
        one = RecordingProvider(Playback(said("1"), said("2")), tape)
        other = one.share_file_with(ScriptedModel.of("x"))
        heard = await drain(other.stream(make_request("a")))
        await drain(one.stream(make_request("b")))
        await other.aclose()
        assert await drain(one.stream(make_request("c")))
        await one.aclose()
        headers = [line["provider"] for line in lines_of(tape) if line["type"] == "recording"]
        assert headers == ["playback", "scripted"]
        assert [each.number for each in load_recording(tape).exchanges] == [1, 2, 3]
        assert await replay(tape, make_request("a")) == heard

    async def test_two_cannot_record_into_one_file(self, tape):
        provider = RecordingProvider(Playback(), tape)
        with pytest.raises(UsageError, match="somebody else is recording"):
            RecordingProvider(Playback(), tape)
        await provider.aclose()
        await RecordingProvider(Playback(), tape).aclose()


CALL = ToolCall("c1", "bash", f'{{"command":"echo {SECRET}"}}')


class TestSecrets:
    async def test_nothing_that_holds_a_secret_is_stored_as_it_is(self, tape):
        schema = {"type": "object", "properties": {"a": {"default": SECRET, "enum": [SECRET]}}}
        tool = ToolDefinition("bash", SECRET, schema)
        native = NativeLayout(SECRET, (OpaquePart(f'{{"thinking":"{SECRET}"}}'),))
        message = Message("assistant", SECRET, (CALL,), native=native)
        asked = LlmRequest(
            f"m {SECRET}",
            Conversation([Message.user(SECRET), message, Message.tool(CALL, SECRET)]),
            (tool,),
            SECRET,
        )
        usage = Usage(1, 1, cost_usd=Decimal("0.25"))
        events = [
            LlmEvent.ThinkingDelta(SECRET),
            LlmEvent.TextDelta(SECRET),
            LlmEvent.ToolCallDelta("c1", "bash", CALL.arguments_json),
            LlmEvent.Completed(LlmResponse(message, usage, SECRET)),
        ]
        await record(tape, (asked, events), redact=redact)
        assert SECRET not in tape.read_text()
        (exchange,) = load_recording(tape).exchanges
        assert exchange.events[-1].response.usage == usage

    @given(cuts=st.sets(st.integers(1, 29)))
    def test_a_secret_that_is_split_over_deltas_is_one_delta_without_it(
        self, tmp_path_factory, cuts
    ):
        tape = tmp_path_factory.mktemp("split") / "tape"
        text = f"before {SECRET} behind"
        edges = [0, *sorted(cuts), len(text)]
        pieces = [text[start:end] for start, end in itertools.pairwise(edges) if text[start:end]]
        deltas = [
            delta
            for piece in pieces
            for delta in (
                LlmEvent.TextDelta(piece),
                LlmEvent.ThinkingDelta(piece),
                LlmEvent.ToolCallDelta("c1", "bash", piece),
                LlmEvent.ToolCallDelta("c2", "bash", "untouched"),
            )
        ]
        asyncio.run(record(tape, (make_request("a"), deltas), redact=redact))
        assert SECRET not in tape.read_text()
        clean = f"before {MARK} behind"
        assert asyncio.run(replay(tape, make_request("a"))) == [
            LlmEvent.TextDelta(clean),
            LlmEvent.ThinkingDelta(clean),
            LlmEvent.ToolCallDelta("c1", "bash", clean),
            *[LlmEvent.ToolCallDelta("c2", "bash", "untouched")] * len(pieces),
        ]

    async def test_names_of_calls_hold_no_secret_either_and_still_agree(self, tape):
        call = ToolCall(f"id {SECRET}", f"tool {SECRET}", "{}")
        end = LlmEvent.Completed(LlmResponse(Message.assistant("", (call,))))
        pieces = [LlmEvent.ToolCallDelta(call.id, call.tool_name, piece) for piece in "{}"]
        await record(tape, (make_request("a"), [*pieces, end]), redact=redact)
        assert SECRET not in tape.read_text()
        *deltas, end = await replay(tape, make_request("a"))
        (stored,) = end.response.tool_calls
        assert stored.id == f"id {MARK}"
        assert {(each.call_id, each.tool_name) for each in deltas} == {
            (stored.id, stored.tool_name)
        }

    async def test_deltas_without_a_secret_stay_as_they_were_streamed(self, tape):
        events = [*map(LlmEvent.TextDelta, "abc"), *said(SECRET)[1:]]
        await record(tape, (make_request("a"), events), redact=redact)
        assert (await replay(tape, make_request("a")))[:3] == events[:3]

    async def test_a_request_that_was_redacted_is_found_by_its_redacted_form(self, tape):
        asked = [make_request(SECRET, *more, system=SECRET) for more in ([], ["b"])]
        await record(tape, *((each, said("1")) for each in asked), redact=redact)
        assert lines_of(tape)[2]["shared"] == 1
        for more in ([], ["b"]):
            assert await replay(tape, make_request(MARK, *more, system=MARK)) == said("1")

    async def test_a_secret_that_is_a_word_of_the_format_breaks_nothing(self, tape):
        words = ["assistant", "exchange", "messages", "mutate", "medium", "text_delta", "default"]
        net = Redactor({f"S{index}": word for index, word in enumerate(words)}).redact
        tool = ToolDefinition("t", "default", {"type": "object"})
        asked = msgspec.structs.replace(make_request("assistant"), tools=(tool,))
        await record(tape, (asked, said("messages")), redact=net)
        (exchange,) = load_recording(tape).exchanges
        assert exchange.events[0] == LlmEvent.TextDelta("[REDACTED:s2]")


@contextmanager
def no_room_beyond(size: int):
    """Files of this process cannot grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestAFullDisk:
    async def test_the_answer_is_delivered_the_next_request_told_and_nothing_torn(self, tape):
        inner = Playback(said("1"), said("2" * 5000), said("3"))
        provider = RecordingProvider(inner, tape)
        await drain(provider.stream(make_request("a")))
        before = tape.read_bytes()
        with no_room_beyond(len(before) + 100):
            assert await drain(provider.stream(make_request("b"))) == said("2" * 5000)
        assert tape.read_bytes() == before
        (event,) = await drain(provider.stream(make_request("c")))
        assert event.error.kind is LlmErrorKind.BAD_REQUEST
        assert f"cannot write {tape}: {os.strerror(errno.EFBIG)}" in event.error.message
        assert "\n" not in event.error.text
        await provider.aclose()
        assert inner.is_closed
        assert tape.read_bytes() == before

    async def test_closing_tells_if_no_request_was_told(self, tape):
        inner = Playback(said("1" * 5000))
        provider = RecordingProvider(inner, tape)
        with no_room_beyond(tape.stat().st_size + 100):
            await drain(provider.stream(make_request("b")))
        with pytest.raises(DiskError, match="cannot write"):
            await provider.aclose()
        assert inner.is_closed
        await provider.aclose()

    async def test_a_redaction_that_fails_stores_nothing_and_costs_no_answer(self, tape):
        def broken(text: str) -> str:
            raise ValueError(text)

        provider = RecordingProvider(Playback(said("1")), tape, broken)
        assert await drain(provider.stream(make_request(SECRET))) == said("1")
        with pytest.raises(InternalError) as caught:
            await provider.aclose()
        assert SECRET not in caught.value.message
        assert len(lines_of(tape)) == 1


PAGE = (Path(__file__).parents[2] / "docs" / "recordings.md").read_text()


class TestThePage:
    def test_every_program_on_it_runs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        assert programs
        for program in programs:
            exec(compile(program, "recordings.md", "exec"), {})

    def test_every_key_of_a_line_is_on_it(self):
        keys = (*ExchangeLine.__struct_fields__, *RecordedSettings.__struct_fields__)
        assert [key for key in keys if f"`{key}`" not in PAGE] == []
        assert [key for key in Header.__struct_fields__ if f'"{key}"' not in PAGE] == []
