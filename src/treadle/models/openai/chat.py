"""Chat Completions, for OpenAI and every endpoint that speaks its format.

OpenRouter, Groq, DeepSeek, Mistral, Together, xAI, Ollama, vLLM, LM Studio, llama.cpp: all the same
provider with another name and address. Where they differ in a way that fails, the request
(`chat_request`) and the stream (`chat_stream`) say so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.layout import strip_provider
from treadle.models.openai.chat_request import find_dialect, make_parameters
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.openai.local_traits import fetch_local_traits
from treadle.models.wire.endpoint import ModelEndpoint
from treadle.models.wire.provider import NO_EXTRAS, RequestExtras, WireProvider
from treadle.models.wire.stream import StreamedResponse

OPENAI_URL: Final = "https://api.openai.com/v1"


class OpenAiChatProvider(WireProvider):
    """One endpoint that speaks Chat Completions.

    Args:
        key: sent as a bearer token; empty for an endpoint without keys.
        name: the provider's name in models (`groq:llama-3.3-70b`) and in records.
        base_url: up to the version; the path `/chat/completions` is added.
        traits: what is known of a model, by its bare name; nothing is, without it.
        extras: what else goes with every request.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "openai",
        base_url: str = OPENAI_URL,
        traits: Callable[[str], ModelTraits] | None = None,
        extras: RequestExtras = NO_EXTRAS,
    ) -> None:
        super().__init__(key, name=name, base_url=base_url, traits=traits, extras=extras)
        self._dialect = find_dialect(base_url)
        self._takes_schema_beside_tools = self._dialect.takes_schema_beside_tools

    async def fetch_traits(self, model: str, within_s: float) -> ModelTraits | None:
        """As the list says; where it says but the name, as Ollama and LM Studio tell by themselves.

        They are asked only without a key: what wants one is no server of that kind.
        """
        told = await super().fetch_traits(model, within_s)
        if self._key or told is None or told.context_tokens_max is not None:
            return told
        root = self._base_url.rstrip("/").removesuffix("/v1")
        server = ModelEndpoint("", root, self._extras.headers, self._extras.query)
        try:
            return await fetch_local_traits(server, strip_provider(model, self._name), within_s)
        finally:
            await server.aclose()

    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        body = make_parameters(
            request,
            self._name,
            self.traits(request.model),
            self._dialect,
            self._extras.cache_lifetime,
        )
        return self._get_endpoint().post("/chat/completions", {**body, "stream": True})

    def _make_assembler(self, request: LlmRequest) -> ChatAssembler:
        return ChatAssembler(request, self._make_source(request))
