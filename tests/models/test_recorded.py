"""A recorded model is a provider like any other, and answers what was recorded."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from models.conformance import ProviderConformance, drain
from models.conformance import request as make_request
from models.playing import after
from models.tapes import model, record, replay
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import CallPart, Message, NativeLayout, OpaquePart, TextPart, ToolCall
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition
from treadle.errors import UsageError
from treadle.models.recording.file import load_recording
from treadle.models.recording.player import EXCERPT_SIZE_MAX
from treadle.models.recording.recorder import RecordingProvider
from treadle.models.scripted.provider import ScriptedModel

Text, Thinking, Arguments = LlmEvent.TextDelta, LlmEvent.ThinkingDelta, LlmEvent.ToolCallDelta


def completed(message: Message, **more: Any) -> LlmEvent.Completed:
    return LlmEvent.Completed(LlmResponse(message, **more))


def said(text: str) -> list[ModelEvent]:
    return [Text(text), completed(Message.assistant(text), finish_reason="stop")]


def failed(kind: LlmErrorKind) -> list[ModelEvent]:
    return [LlmEvent.Error(LlmError(kind, "no", 0.5))]


CALL = ToolCall("c1", "bash", '{"command": "ls"}')
CALLED = Message.assistant("", (CALL,))
PARTS = (OpaquePart('{"signature": "=="}'), TextPart(2), CallPart(), TextPart(3))
NATIVE = msgspec.structs.replace(
    Message.assistant("I look", (CALL,)), native=NativeLayout("anthropic:one", PARTS)
)
COMMAND = Arguments("c1", "bash", CALL.arguments_json)
EXCHANGES: dict[str, list[ModelEvent]] = {
    "text": [Text("Grüße, "), Text("世界!"), completed(Message.assistant("Grüße, 世界!"))],
    "calls": [
        Arguments("c1", "bash", '{"command":'),
        Arguments("c1", "bash", ' "ls"}'),
        completed(CALLED, usage=Usage(9, 2), finish_reason="tool_calls"),
    ],
    "both": [Text("I look"), COMMAND, completed(Message.assistant("I look", (CALL,)))],
    "error": [Text("I was"), *failed(LlmErrorKind.OVERLOADED)],
    "native": [Text("I "), COMMAND, Text("look"), completed(NATIVE)],
}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


@pytest.fixture(scope="session")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "tape.jsonl"
    asyncio.run(record(path, *((make_request(name), each) for name, each in EXCHANGES.items())))
    return path


class TestARecordedModel(ProviderConformance):
    ASKED = (*EXCHANGES, "what nobody recorded")

    @pytest.fixture
    def provider(self, all_kinds):
        return model(all_kinds)


class TestWhatIsPlayed:
    @for_every_row("name", EXCHANGES)
    async def test_the_events_are_those_that_were_streamed(self, all_kinds, name):
        assert await replay(all_kinds, make_request(name)) == EXCHANGES[name]

    async def test_thinking_is_played_too_and_so_are_signs_of_life(self, tape):
        events = [Thinking(), Thinking("hm"), *said("yes")]
        await record(tape, (make_request("a"), events))
        assert await replay(tape, make_request("a")) == events

    async def test_the_name_of_the_model_makes_no_difference(self, tape):
        await record(tape, (make_request("a"), said("yes")))
        asked = msgspec.structs.replace(make_request("a"), model="another")
        assert await replay(tape, asked) == said("yes")

    async def test_a_whole_number_for_temperature_is_the_same_as_its_fraction(self, tape):
        one, other = (
            msgspec.structs.replace(make_request("a"), temperature=degree) for degree in (1, 1.0)
        )
        await record(tape, (one, said("yes")))
        assert await replay(tape, one) == await replay(tape, other) == said("yes")

    async def test_half_a_surrogate_pair_neither_stops_a_recording_nor_a_match(self, tape):
        await record(tape, (make_request("a\ud800"), said("b\ud800")))
        assert await replay(tape, make_request("a\ud800")) == said("b\ufffd")

    async def test_a_request_without_messages_is_one_like_any_other(self, tape):
        await record(tape, (make_request(system="s"), said("yes")))
        assert await replay(tape, make_request(system="s")) == said("yes")
        assert (await replay(tape, make_request(system="t")))[-1].error.kind.value == "bad_request"

    async def test_a_request_that_was_repeated_is_answered_in_order_and_then_by_the_last(
        self, tape
    ):
        asked = make_request("a")
        answers = [failed(LlmErrorKind.SERVER), said("one"), said("two")]
        other = (make_request("b"), said("other"))
        await record(tape, (asked, answers[0]), other, *((asked, each) for each in answers[1:]))
        playing = model(tape)
        heard = [await drain(playing.stream(asked)) for _ in range(4)]
        assert heard == [*answers, answers[-1]]

    async def test_what_was_left_unfinished_is_played_as_a_cut_stream(self, tape):
        await record(tape, (make_request("a"), [Text("I was")]), (make_request("b"), []))
        assert await replay(tape, make_request("a")) == [Text("I was")]
        assert await replay(tape, make_request("b")) == []

    async def test_nobody_knows_limits_of_a_recording_nor_the_size_of_a_request(self, all_kinds):
        playing = model(all_kinds)
        assert playing.traits("any") == ModelTraits(sees_images=True, reads_pdf=True)
        assert await playing.count_tokens(make_request("a")) is None
        await playing.aclose()


TEXTS = st.text(max_size=30)
CALLS = st.fixed_dictionaries({"tool": st.text(min_size=1, max_size=8), "arguments_text": TEXTS})
ENDS = st.one_of(
    st.sampled_from([{}, {"cut": True}, {"error": {"kind": "timeout", "retry_after_s": 2}}]),
    st.fixed_dictionaries({"usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 99)})}),
)
REPLIES = st.builds(
    lambda said, end: {**said, **end},
    st.fixed_dictionaries(
        {"text": TEXTS, "calls": st.lists(CALLS, max_size=3), "chunk_size": st.integers(0, 9)}
    ),
    ENDS,
)


@given(reply=REPLIES, system=TEXTS, texts=st.lists(TEXTS, max_size=4))
def test_whatever_a_scripted_model_streams_is_played_again(reply, system, texts):
    asked = make_request(*texts, system=system)

    async def both(path: Path) -> tuple[list[Any], list[Any]]:
        provider = RecordingProvider(ScriptedModel.of(reply), path)
        heard = await drain(provider.stream(asked))
        await provider.aclose()
        return heard, await replay(path, asked)

    with TemporaryDirectory() as folder:
        heard, played = asyncio.run(both(Path(folder) / "tape"))
    assert heard == played


def tool(name: str, **more: Any) -> ToolDefinition:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return ToolDefinition(
        **{"name": name, "description": f"The tool {name}.", "input_schema": schema, **more}
    )


TURN = after("fix it", "old contents", tool="bash")
TOOLS = (tool("bash"), tool("edit_file"))
BASE = LlmRequest("any", Conversation(TURN), TOOLS, "You are an agent.")


@dataclass
class Change:
    """Another request, and what is said of it."""

    request: LlmRequest
    said: str


def changed(said: str, **more: Any) -> Change:
    if "messages" in more:
        more["messages"] = Conversation(more["messages"])
    return Change(msgspec.structs.replace(BASE, **more), said)


def retold(index: int, said: str, **more: Any) -> Change:
    messages = list(TURN)
    messages[index] = msgspec.structs.replace(messages[index], **more)
    return changed(said, messages=messages)


CHANGES = {
    "system": changed(
        "system prompt, character 9: recorded 'You are an agent.', now 'You are the agent.'",
        system="You are the agent.",
    ),
    "tool gone": changed("tools: edit_file is missing", tools=TOOLS[:1]),
    "tool new": changed("tools: x was not there", tools=(*TOOLS, tool("x"))),
    "tool order": changed("tools, their order, character 1: ", tools=TOOLS[::-1]),
    "tool text": changed(
        "tools: bash, description, character 1: recorded 'The tool bash.', now 'A tool.'",
        tools=(tool("bash", description="A tool."), TOOLS[1]),
    ),
    "tool schema": changed(
        "tools: edit_file, schema, character ", tools=(TOOLS[0], tool("edit_file", input_schema={}))
    ),
    "tool effect": changed(
        "tools: bash, effect, character 1: recorded 'mutate', now 'read'",
        tools=(tool("bash", effect=EffectClass.READ), TOOLS[1]),
    ),
    "tool risk": changed(
        "tools: bash, risk, character 1: recorded 'medium', now 'critical'",
        tools=(tool("bash", risk=RiskLevel.CRITICAL), TOOLS[1]),
    ),
    "max_tokens": changed("max_tokens, character 1: recorded '4096', now '77'", max_tokens=77),
    "temperature": changed(
        "temperature, character 1: recorded 'not set', now '0.5'", temperature=0.5
    ),
    "reasoning": changed("reasoning, character 1: recorded 'default'", reasoning="high"),
    "user": retold(0, "messages[0] (user), character 5: recorded 'fix it'", content="fix that"),
    "result": retold(
        2,
        "messages[2] (tool result of bash), character 5: recorded 'old contents', now 'old text'",
        content="old text",
    ),
    "arguments": retold(
        1,
        "messages[1] (assistant), call 0 (arguments), character 2: recorded '{}', now '{\"a\":1}'",
        tool_calls=(ToolCall("c1", "bash", '{"a":1}'),),
    ),
    "call tool": retold(
        1, "call 0 (tool), character 1: recorded 'bash'", tool_calls=(ToolCall("c1", "ls"),)
    ),
    "call id": retold(
        1, "call 0 (id), character 2: recorded 'c1'", tool_calls=(ToolCall("c2", "bash"),)
    ),
    "calls": retold(1, "number of calls, character 1: recorded '1', now '0'", tool_calls=()),
    "role": retold(2, "messages[2] (tool result of bash), role, ", role="user"),
    "name": retold(2, "name, character 1: recorded 'bash', now 'sh'", name="sh"),
    "result id": retold(2, "call id, character 2: recorded 'c1'", tool_call_id="c9"),
    "interrupted": retold(1, "interrupted, character 1: recorded 'False'", interrupted=True),
    "native": retold(1, "native form, character 1: recorded 'null'", native=NATIVE.native),
    "longer": changed(
        "messages[3] (user) was not there: 'more'", messages=[*TURN, Message.user("more")]
    ),
    "shorter": changed(
        "messages[2] (tool result of bash) is missing: 'old contents'", messages=TURN[:2]
    ),
}


class TestWhatIsSaidOfAnotherRequest:
    @pytest.mark.parametrize("name", CHANGES)
    async def test_the_first_difference_is_named(self, tape, name):
        await record(tape, (BASE, said("yes")))
        (event,) = await replay(tape, CHANGES[name].request)
        assert event.error.kind is LlmErrorKind.BAD_REQUEST
        assert f"Nearest is exchange 1 (line 2 of {str(tape)!r}): " in event.error.message
        assert CHANGES[name].said in event.error.message

    async def test_what_comes_first_in_a_request_is_named_first(self, tape):
        await record(tape, (BASE, said("yes")))
        asked = msgspec.structs.replace(CHANGES["result"].request, system="else", max_tokens=1)
        (event,) = await replay(tape, asked)
        assert "system prompt" in event.error.message

    async def test_long_texts_are_cut_around_the_difference_and_stay_on_one_line(self, tape):
        old, new = ("\n".join(["line"] * 1000) + end + "\ntail" * 1000 for end in ("old", "new"))
        await record(tape, (make_request(old), said("yes")))
        (event,) = await replay(tape, make_request(new))
        assert f"messages[0] (user), character {5 * 1000}: recorded …" in event.error.message
        assert "lineold" in event.error.message
        assert "linenew" in event.error.message
        assert "\n" not in event.error.message
        assert len(event.error.message) < 4 * EXCERPT_SIZE_MAX + 200 + len(str(tape))

    async def test_the_nearest_exchange_shares_most_messages(self, tape):
        side = make_request("a diff", system="Write a message.")
        longer = msgspec.structs.replace(BASE, messages=Conversation([*TURN, Message.user("b")]))
        await record(tape, (BASE, said("1")), (side, said("2")), (longer, said("3")))
        asked = msgspec.structs.replace(BASE, messages=Conversation([*TURN, Message.user("c")]))
        (event,) = await replay(tape, asked)
        assert "exchange 3 (line 4" in event.error.message
        assert "messages[3] (user), character 1: recorded 'b', now 'c'" in event.error.message

    async def test_among_those_the_nearest_has_the_same_settings_and_then_the_same_text(self, tape):
        sides = [make_request(f"diff of {name}", system="Write.") for name in ("aa", "bb", "cc")]
        main = make_request("diff of bx", system="Work.")
        await record(tape, *((each, said("x")) for each in (main, *sides)))
        (event,) = await replay(tape, make_request("diff of bx", system="Write."))
        assert "exchange 1" in event.error.message  # it shares its only message
        (event,) = await replay(tape, make_request("diff of b!", system="Write."))
        assert "exchange 3" in event.error.message

    async def test_a_recording_without_exchanges_says_so(self, tape):
        await record(tape)
        (event,) = await replay(tape, BASE)
        assert event.error.message == f"the recording {str(tape)!r} holds no exchange"


HEADER = b'{"type":"recording","version":1}\n'
LINE = b'{"type":"exchange","exchange":%d,"model":"m","settings":{},"messages":[%b],"events":[]}\n'
MESSAGE = b'{"role":"user","content":"a"}'


class TestAFileThatIsNoRecording:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", "is empty"),
            (b"\n", "is empty"),
            (b"no recording at all", "is not a recording (line 1: "),
            (b"\xff\xfe\n", "is not a recording (line 1: "),
            (b'{"seq":1,"at":"","event":{},"hash":""}\n', "is not a recording (line 1: "),
            (LINE % (1, b""), "is not a recording (line 1: it has no header)"),
            (HEADER[:-5], "is not a recording (line 1: "),
            (b"[" * 100_000, "is not a recording (line 1: "),
            (b'{"type":"recording","version":2,"x":1}\n', "line 1: the recording has version 2"),
            (HEADER + b"garbage\n" + LINE % (1, b""), ", line 2: "),
            (HEADER + b"garbage\n", ", line 2: "),
            (HEADER + LINE % (1, b"") + LINE % (1, b""), "line 3: there is an exchange 1 before"),
            (
                HEADER + b'{"type":"exchange","exchange":2,"model":"m","settings_of":1}\n',
                "line 2: it refers to exchange 1, not before it",
            ),
            (
                HEADER
                + LINE % (1, MESSAGE)
                + b'{"type":"exchange","exchange":2,"model":"m","settings_of":1,"shared":2,'
                b'"shared_with":1}\n',
                "line 3: exchange 1 has 1 messages, not 2",
            ),
            (
                HEADER
                + LINE % (1, MESSAGE)
                + b'{"type":"exchange","exchange":2,"model":"m","settings_of":1,"shared":-1}\n',
                "line 3: ",
            ),
        ],
    )
    def test_it_is_refused_with_file_and_line(self, tape, data, words):
        tape.write_bytes(data)
        with pytest.raises(UsageError) as caught:
            load_recording(tape)
        assert words in caught.value.message
        assert str(tape) in caught.value.message
        assert caught.value.hint

    @pytest.mark.parametrize("name", ["missing", ".", "\0"])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path, name):
        with pytest.raises(UsageError, match=r"^cannot read "):
            load_recording(f"{tmp_path}/{name}")

    def test_a_pipe_and_a_device_are_refused_at_once(self, tape):
        os.mkfifo(tape)
        for path in (tape, "/dev/zero"):
            with pytest.raises(UsageError, match="it is not a file"):
                load_recording(path)

    async def test_what_a_dead_process_left_of_a_last_line_is_passed_over(self, tape):
        await record(tape, (make_request("a"), said("yes")), (make_request("b"), said("no")))
        data = tape.read_bytes()
        whole = data.index(b"\n", data.index(b"\n") + 1) + 1
        for size in range(whole, len(data) - 1):
            tape.write_bytes(data[:size])
            assert len(load_recording(tape).exchanges) == 1, size
        tape.write_bytes(data[:-1])
        assert len(load_recording(tape).exchanges) == 2

    async def test_a_line_can_be_edited_and_one_nobody_refers_to_taken_out(self, tape):
        await record(
            tape, (make_request("a"), said("yes")), (make_request("b", system="s"), said("no"))
        )
        header, _, second = tape.read_text().splitlines()
        tape.write_text(f"{header}\r\n\n{second.replace('no', 'well')}")
        assert await replay(tape, make_request("b", system="s")) == said("well")
