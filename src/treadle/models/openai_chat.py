"""Chat Completions, for OpenAI and every endpoint that speaks its format.

OpenRouter, Groq, DeepSeek, Mistral, Together, xAI, Ollama, vLLM, LM Studio, llama.cpp: all the same
provider with another name and address. Where they differ in a way that fails, the request
(`openai_chat_request`) and the stream (`openai_chat_stream`) say so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.openai_chat_request import bare_model, dialect_of, make_parameters
from treadle.models.openai_chat_stream import ChatAssembler
from treadle.models.openai_client import make_openai_client, without_key
from treadle.models.wire import Answer, stream_events

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"


class OpenAiChatProvider:
    """One endpoint; any number of streams may run at once.

    Args:
        key: sent as a bearer token; empty for an endpoint without keys.
        name: the provider's name in models (`groq:llama-3.3-70b`) and in records.
        base_url: up to the version; the path `/chat/completions` is added.
        traits: what is known of a model, by its bare name; nothing is, without it.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "openai",
        base_url: str = OPENAI_URL,
        traits: Callable[[str], ModelTraits] | None = None,
    ) -> None:
        self._key = key.strip()
        self._name = name
        self._base_url = base_url
        self._traits = traits
        self._dialect = dialect_of(base_url)
        self._client: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"<OpenAiChatProvider {self._name} at {self._base_url}>"

    @property
    def name(self) -> str:
        """The provider's name, as recorded in the thread."""
        return self._name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one response; every failure is an `Error` event, and shows no key."""
        model = bare_model(request.model, self._name)
        assembler = ChatAssembler(request, f"{self._name}:{model}")
        events = stream_events(lambda: self._open(request), assembler, self._name)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, LlmEvent.Error):
                    event = LlmEvent.Error(without_key(event.error, self._key))
                yield event

    def traits(self, model: str) -> ModelTraits:
        """What is known of a model; `model` with or without the provider's name."""
        if self._traits is None:
            return ModelTraits()
        return self._traits(bare_model(model, self._name))

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """Unknown: the format has no such question."""
        return None

    async def aclose(self) -> None:
        """Free connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self, request: LlmRequest) -> AbstractAsyncContextManager[Answer]:
        if self._client is None:
            self._client = make_openai_client(self._key, self._base_url)
        body = make_parameters(request, self._name, self.traits(request.model), self._dialect)
        # As `extra_body`, because the SDK walks typed parameters key by key: 1.5 s for 9000
        # messages, during which nothing else would run.
        return self._client.chat.completions.with_streaming_response.create(
            model=body["model"], messages=(), stream=True, extra_body=body
        )
