"""The Chat Completions provider over real sockets, with the official SDK as its judge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import openai
import pytest

from case_tables import for_every_row
from models.conformance import ProviderConformance, drain
from models.conformance import request as make_request
from models.loopback import Answer, Loopback, Seen, stream
from models.openai_chat_streams import STREAMS
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, ModelTraits
from treadle.core.messages import Message
from treadle.models.openai.chat import OpenAiChatProvider

KEY = "sk-proj-Zq7Wm2Xv9Tn4Rb6Yc1Kd8Lf3"
K = LlmErrorKind


def provider_at(server: Loopback, **how: Any) -> OpenAiChatProvider:
    return OpenAiChatProvider(KEY, base_url=f"{server.url}/v1", **how)


async def ask(*answers: Answer | Callable[[Seen], Answer], **how: Any) -> list[Any]:
    """The events of one request; the errors among them in one line and without the key."""
    async with Loopback(*answers) as server:
        provider = provider_at(server, **how)
        events = await drain(provider.stream(make_request("hi")))
        await provider.aclose()
    assert [isinstance(one, LlmEvent.Completed | LlmEvent.Error) for one in events[:-1]] == [
        False
    ] * (len(events) - 1)
    return events


async def response_to(data: bytes, **how: Any) -> LlmResponse:
    end = (await ask(stream(data, **how)))[-1]
    assert isinstance(end, LlmEvent.Completed), end
    return end.response


async def failure_of(*answers: Answer) -> LlmError:
    end = (await ask(*answers))[-1]
    assert isinstance(end, LlmEvent.Error), end
    assert "\n" not in end.error.text
    assert not any(part in end.error.text for part in pieces_of_the_key())
    return end.error


def pieces_of_the_key() -> list[str]:
    return [KEY[start : start + 8] for start in range(len(KEY) - 7)]


# --- the suite that every provider passes


class TestAChatProvider(ProviderConformance):
    ASKED = ("openai text", "openai both", "openai refusal", "deepseek", "groq error")
    SIZE = 0

    @pytest.fixture
    async def provider(self) -> AsyncIterator[OpenAiChatProvider]:
        def chosen(seen: Seen) -> Answer:
            return stream(STREAMS[seen.json["messages"][-1]["content"]], size=self.SIZE)

        async with Loopback(chosen) as server:
            provider = provider_at(server)
            yield provider
            await provider.aclose()


class TestAChatProviderWhoseAnswersCrumble(TestAChatProvider):
    SIZE = 7


class TestAChatProviderWhoseAnswersComeByteByByte(TestAChatProvider):
    ASKED = ("openai both", "openai refusal")
    SIZE = 1


# --- the SDK as judge


async def judged(data: bytes | Answer) -> Any:
    """The completion that the SDK's own accumulator makes of a stream, or its exception."""
    async with Loopback(data if isinstance(data, Answer) else stream(data)) as server:
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        try:
            async with client.chat.completions.stream(**asked) as events:  # type: ignore[arg-type]
                return await events.get_final_completion()
        except openai.OpenAIError as error:
            return error
        finally:
            await client.close()


READABLE = [
    *("openai text", "openai tools", "openai both", "openai refusal", "azure", "deepseek"),
    *("openrouter", "groq", "mistral tools", "xai", "vllm", "llama.cpp"),
]
"""The dialects that the SDK can read; the others it takes for something else, or fails at."""


@for_every_row("name", READABLE)
async def test_the_sdk_reads_the_same_answer(name: str) -> None:
    theirs = (await judged(STREAMS[name])).choices[0].message
    ours = (await response_to(STREAMS[name])).message
    assert ours.content == (theirs.content or "") + (theirs.refusal or "")
    theirs_called = [
        (call.id, call.function.name, call.function.arguments) for call in theirs.tool_calls or ()
    ]
    ours_called = [(call.id, call.tool_name, call.arguments_json) for call in ours.tool_calls]
    assert [one[1:] for one in ours_called] == [one[1:] for one in theirs_called]
    if all(one[0] for one in theirs_called):
        assert ours_called == theirs_called


@for_every_row("name", ["openai text", "openai tools", "openrouter", "vllm"])
async def test_the_sdk_reads_the_same_usage(name: str) -> None:
    theirs = (await judged(STREAMS[name])).usage
    ours = (await response_to(STREAMS[name])).usage
    assert ours is not None
    assert (ours.input_tokens, ours.output_tokens) == (
        theirs.prompt_tokens,
        theirs.completion_tokens,
    )
    cached = theirs.prompt_tokens_details and theirs.prompt_tokens_details.cached_tokens
    assert ours.cache_read_tokens == (cached or 0)


async def test_the_sdk_calls_the_same_streams_broken() -> None:
    assert isinstance(await judged(STREAMS["openrouter error"]), openai.APIError)
    error = await failure_of(stream(STREAMS["openrouter error"]))
    assert (error.kind, "Provider disconnected" in error.message) == (K.SERVER, True)
    assert error.usage is not None
    assert isinstance(await judged(STREAMS["openai length"]), openai.LengthFinishReasonError)
    assert isinstance(
        await judged(STREAMS["openai filtered"]), openai.ContentFilterFinishReasonError
    )


async def test_the_sdk_takes_half_an_answer_for_an_answer_and_we_do_not() -> None:
    half = STREAMS["openai text"][: STREAMS["openai text"].index(b'"stop"')]
    assert (await judged(half)).choices[0].message.content == "Grüße, 世界! 🎉"
    assert (await failure_of(stream(half))).kind is K.CUT_STREAM


async def test_the_sdk_reads_a_stream_whatever_its_label_says_and_so_do_we() -> None:
    labelled = stream(STREAMS["openai both"], headers={"content-type": "application/json"})
    theirs = (await judged(labelled)).choices[0].message
    end = (await ask(labelled))[-1]
    assert isinstance(end, LlmEvent.Completed)
    assert end.response.message.content == theirs.content
    assert len(end.response.tool_calls) == len(theirs.tool_calls) > 0


# --- streams that end early


@pytest.mark.parametrize("framing", ["close", "chunked"])
@pytest.mark.parametrize("name", ["openai both", "deepseek", "ollama"])
async def test_a_connection_lost_in_the_middle_is_never_an_answer(name: str, framing: str) -> None:
    data = STREAMS[name]
    whole = await response_to(data)
    cuts = [*range(1, len(data), 97), len(data) - 1]
    lost = [stream(data[:cut], framing=framing, is_cut=True) for cut in cuts]
    async with Loopback(*lost) as server:
        provider = provider_at(server)
        for _ in cuts:
            *deltas, end = await drain(provider.stream(make_request("hi")))
            assert not any(isinstance(one, LlmEvent.Completed | LlmEvent.Error) for one in deltas)
            if isinstance(end, LlmEvent.Completed):
                assert end.response.message == whole.message
            else:
                assert end.error.kind is K.CUT_STREAM
        await provider.aclose()


async def test_a_stream_after_its_end_marker_is_read_no_further() -> None:
    events = await ask(stream(STREAMS["openai both"] + b"data: garbage\n\n", framing="close"))
    assert isinstance(events[-1], LlmEvent.Completed)


async def test_one_connection_serves_many_requests() -> None:
    async with Loopback(stream(STREAMS["openai text"])) as server:
        provider = provider_at(server)
        for _ in range(5):
            await drain(provider.stream(make_request("hi")))
        assert server.connections == 1
        await provider.aclose()


# --- reasoning


@for_every_row(
    "name, fields",
    [
        ("deepseek", {"reasoning_content": "The user wants the date."}),
        ("groq", {"reasoning": "Need the files."}),
        ("vllm", {"reasoning": "Hm."}),
        (
            "openrouter",
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "format": "anthropic-claude-v1",
                        "index": 0,
                        "signature": "Et8BCmUIDxgC",
                        "text": "Let me compute.",
                    },
                    {"type": "reasoning.encrypted", "data": "gAAAA=", "id": "rs_1", "index": 1},
                ]
            },
        ),
    ],
)
async def test_reasoning_comes_back_to_the_model_that_thought_it(name: str, fields: Any) -> None:
    async with Loopback(stream(STREAMS[name])) as server:
        provider = provider_at(server, name="router")
        asked = msgspec.structs.replace(make_request("hi"), model="router:m")
        end = (await drain(provider.stream(asked)))[-1]
        again = asked.messages.append(end.response.message).append(Message.user("go on"))
        for model in ("m", "n"):
            more = msgspec.structs.replace(asked, model=model, messages=again)
            await drain(provider.stream(more))
        await provider.aclose()
    _, ours, theirs = (seen.json["messages"] for seen in server.requests)
    known = {"role", "content", "tool_calls"}
    assert {key: value for key, value in ours[1].items() if key not in known} == fields
    assert {*theirs[1]} <= known
    assert theirs[1]["content"] == ours[1]["content"]


async def test_what_mistral_thought_comes_back_before_what_it_said() -> None:
    message = (await response_to(STREAMS["mistral"])).message
    async with Loopback(stream(STREAMS["mistral"])) as server:
        provider = provider_at(server)
        await drain(
            provider.stream(
                msgspec.structs.replace(make_request("hi", message, "go on"), model="any-model")
            )
        )
        await provider.aclose()
    assert server.requests[0].json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Okay, hello."}]},
        {"type": "text", "text": "Hello!"},
    ]


# --- what goes out


async def test_nothing_of_the_environment_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/from-the-environment")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS",
        "X-From: from-the-environment\nAuthorization: Bearer from-the-environment",
    )
    async with Loopback(stream(STREAMS["openai text"])) as server:
        for key in (KEY, ""):
            provider = OpenAiChatProvider(key, base_url=server.url)
            assert isinstance(
                (await drain(provider.stream(make_request("hi"))))[-1], LlmEvent.Completed
            )
            await provider.aclose()
    with_key, without = server.requests
    assert with_key.headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in without.headers
    assert without.path == "/chat/completions"
    for seen in server.requests:
        assert "from-the-environment" not in str(seen)
        assert not {*seen.headers} & {"openai-organization", "openai-project", "x-from"}
        assert seen.headers["accept-encoding"] == "identity"


async def test_a_key_with_spaces_around_it_is_the_key() -> None:
    async with Loopback(stream(STREAMS["openai text"])) as server:
        provider = OpenAiChatProvider(f" {KEY}\n", base_url=server.url)
        await drain(provider.stream(make_request("hi")))
        await provider.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@for_every_row("odd", ["\n", "é", "\x00"])
async def test_a_key_that_no_header_can_hold_is_an_error_that_hides_it(odd: str) -> None:
    provider = OpenAiChatProvider(KEY[:20] + odd + KEY[20:], base_url="http://127.0.0.1:1")
    end = (await drain(provider.stream(make_request("hi"))))[-1]
    assert isinstance(end, LlmEvent.Error)
    assert not any(part in end.error.text for part in pieces_of_the_key())


# --- the rest


async def test_a_provider_knows_traits_by_the_bare_name() -> None:
    asked: list[str] = []

    def traits(model: str) -> ModelTraits:
        asked.append(model)
        return ModelTraits(output_tokens_max=7)

    async with Loopback(stream(STREAMS["openai text"])) as server:
        provider = provider_at(server, name="groq", traits=traits)
        request = msgspec.structs.replace(make_request("hi"), model="groq:a:b")
        await drain(provider.stream(request))
        assert provider.traits("groq:x") == ModelTraits(output_tokens_max=7)
        assert await provider.count_tokens(request) is None
        await provider.aclose()
    assert asked == ["a:b", "x"]
    assert (server.requests[0].json["model"], server.requests[0].json["max_tokens"]) == ("a:b", 7)
    assert OpenAiChatProvider(KEY).traits("x") == ModelTraits()


async def test_a_provider_shows_no_key() -> None:
    provider = OpenAiChatProvider(KEY, name="groq", base_url="https://api.groq.com/openai/v1")
    assert repr(provider) == "<OpenAiChatProvider groq at https://api.groq.com/openai/v1>"


async def test_calls_of_different_turns_have_different_ids_where_the_endpoint_gives_none() -> None:
    data = STREAMS["ollama native"]
    async with Loopback(stream(data)) as server:
        provider = provider_at(server)
        ids: list[str] = []
        for length in (1, 2):
            end = (await drain(provider.stream(make_request(*["hi"] * length))))[-1]
            ids += [call.id for call in end.response.tool_calls]
        await provider.aclose()
    assert len({*ids}) == 4
