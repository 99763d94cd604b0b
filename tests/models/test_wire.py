"""What all formats share of HTTP: where requests go, how long they may take, whose fault it is."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

from models.conformance import drain
from models.conformance import request as make_request
from models.hostile.formats import FORMATS, KEY
from models.loopback import Answer, Loopback, refusal, stream
from runtime.clock import skip, tick
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.responses import OpenAiResponsesProvider
from treadle.models.wire.endpoint import ModelEndpoint
from treadle.models.wire.provider import COUNT_S_MAX, LIST_S_MAX, RequestExtras
from treadle.models.wire.stream import make_client

PROXIES = ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy")


@pytest.fixture(autouse=True)
def _no_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("variable", PROXIES)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2"])
async def test_what_is_for_this_machine_goes_through_no_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, host: str
) -> None:
    data = FORMATS["openai-chat"].speak("Hello.")
    async with Loopback(stream(data)) as server, Loopback(refusal(502, {})) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        port = server.url.rpartition(":")[2]
        provider = OpenAiChatProvider(KEY, base_url=f"http://{host}:{port}/v1")
        await drain(provider.stream(make_request("hi")))
        await provider.aclose()
        assert proxy.requests == []
        assert len(server.requests) == (host != "127.0.0.2")  # nobody listens there


@pytest.mark.parametrize("variable", PROXIES)
async def test_what_is_for_others_goes_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with Loopback(stream(FORMATS["openai-chat"].speak("Hello."))) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        provider = OpenAiChatProvider(KEY, base_url="http://models.example.com/v1")
        await drain(provider.stream(make_request("hi")))
        await provider.aclose()
        assert [seen.path for seen in proxy.requests] == [
            "http://models.example.com/v1/chat/completions"
        ]


@pytest.mark.parametrize("url", ["https://localhost:1/v1", "https://models.example.com/v1"])
def test_certificates_are_those_of_the_environment_for_every_host(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(FileNotFoundError):
        make_client(url)


async def dripping() -> AsyncIterator[bytes]:
    while True:
        await tick(20)
        skip(1.0)
        yield b" "


async def test_lists_and_counts_that_come_byte_by_byte_are_not_waited_for() -> None:
    """The client's own timeout begins anew with every byte."""
    answer = Answer(dripping, headers={"content-type": "application/json"})
    async with Loopback(answer) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        async with asyncio.timeout(LIST_S_MAX + COUNT_S_MAX + 60):
            found = await provider.list_models()
            count = await provider.count_tokens(make_request("hi"))
        await provider.aclose()
        assert len(server.requests) == 2
    assert isinstance(found, LlmError)
    assert found.kind is LlmErrorKind.TIMEOUT
    assert "is not complete after 10 seconds" in found.message
    assert count is None


async def test_a_fault_before_the_request_is_made_is_our_own() -> None:
    class Broken(OpenAiChatProvider):
        def _make_endpoint(self) -> ModelEndpoint:
            raise KeyError("no such setting")

    provider = Broken(KEY, base_url="http://127.0.0.1:1")
    (end,) = await drain(provider.stream(make_request("hi")))
    assert end.error.kind is LlmErrorKind.INTERNAL
    listed = await provider.list_models()
    assert isinstance(listed, LlmError)
    assert listed.kind is LlmErrorKind.INTERNAL


EXTRAS = RequestExtras({"x-beta": "one", "Anthropic-Beta": "a,b"}, {"api-version": "preview"})


@pytest.mark.parametrize("make", [AnthropicProvider, OpenAiChatProvider, OpenAiResponsesProvider])
async def test_headers_and_parameters_of_the_settings_go_with_every_request(make: Any) -> None:
    async with Loopback(refusal(500, b"")) as server:
        provider = make("k" * 20, base_url=f"{server.url}/v1", extras=EXTRAS)
        await drain(provider.stream(make_request("hi")))
        await provider.list_models()
        await provider.count_tokens(make_request("hi"))
        await provider.aclose()
    assert len(server.requests) >= 2
    for seen in server.requests:
        assert seen.headers["x-beta"] == "one"
        assert seen.headers["anthropic-beta"] == "a,b"
        assert seen.path.endswith("?api-version=preview") or "&api-version=preview" in seen.path


HALF = b'{"error":{"message":"no such k'


@pytest.mark.parametrize("make", [AnthropicProvider, OpenAiChatProvider, OpenAiResponsesProvider])
async def test_a_refusal_is_one_whatever_became_of_its_body(make: Any) -> None:
    """Taken for a lost connection it would be asked again and again."""
    gzipped = refusal(401, gzip.compress(b'{"error":{}}'), content_encoding="gzip")
    bodies = {
        "cut": Answer((HALF,), 401, is_cut=True),
        "cut before its first byte": Answer((), 401, is_cut=True),
        "compressed": gzipped,
        "not compressed": refusal(401, b"", content_encoding=""),
    }
    async with Loopback(*bodies.values()) as server:
        provider = make("k" * 20, base_url=server.url)
        found = {what: (await drain(provider.stream(make_request("hi"))))[-1] for what in bodies}
        await provider.aclose()
    kinds = {what: end.error.kind for what, end in found.items()}
    assert kinds == dict.fromkeys(bodies, LlmErrorKind.AUTHENTICATION)
    assert "no such k" in found["cut"].error.message
    assert "\ufffd" not in found["compressed"].error.message


@pytest.mark.parametrize("name", FORMATS)
async def test_a_provider_answers_on_each_loop_that_asks(name: str) -> None:
    wire = FORMATS[name]
    loops = [asyncio.new_event_loop() for _ in range(2)]
    async with Loopback(stream(wire.speak("Hello."))) as server:
        provider = wire.provider(server.url)

        async def ask() -> type:
            return type((await drain(provider.stream(make_request("hi"))))[-1])

        for loop in loops * 2:
            end = await asyncio.to_thread(loop.run_until_complete, ask())
            assert end is LlmEvent.Completed
        assert server.connections == len(loops), "each keeps one of its own"
        for loop in loops:
            await asyncio.to_thread(loop.run_until_complete, provider.aclose())
            loop.close()
        assert not provider._endpoints


async def test_nothing_is_kept_of_a_loop_that_was_closed_without_a_word() -> None:
    wire = FORMATS["openai-chat"]
    loop = asyncio.new_event_loop()
    async with Loopback(stream(wire.speak("Hello."), framing="close")) as server:
        provider = wire.provider(server.url)
        await asyncio.to_thread(loop.run_until_complete, drain(provider.stream(make_request("hi"))))
        loop.close()
        await drain(provider.stream(make_request("hi")))
        assert [*provider._endpoints] == [asyncio.get_running_loop()]
        await provider.aclose()
