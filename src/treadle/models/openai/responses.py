"""OpenAI's Responses API, and endpoints that speak it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from treadle.core.budget import count_request_characters
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.layout import strip_provider
from treadle.models.openai.client import make_openai_client
from treadle.models.openai.responses_request import make_response_parameters
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire.provider import COUNT_S_MAX, NO_EXTRAS, RequestExtras, SdkProvider
from treadle.models.wire.stream import StreamedResponse

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BASE_URL: Final = "https://api.openai.com/v1"

_COUNTED: Final = ("model", "instructions", "tools", "input", "reasoning", "truncation")
"""What the endpoint that counts tokens takes of a request."""


class OpenAiResponsesProvider(SdkProvider):
    """A provider that asks for every response anew and has nothing stored.

    The body of a request goes to the SDK as it is: its own handling of parameters walks through
    every item by type, half a millisecond each, on the event loop (measured: 6.6 s for 12,000).

    Args:
        key: of the endpoint.
        name: as recorded in threads.
        base_url: up to the version.
        traits: what is known of a model; by default nothing.
        extras: what else goes with every request.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "openai",
        base_url: str = BASE_URL,
        traits: Callable[[str], ModelTraits] | None = None,
        extras: RequestExtras = NO_EXTRAS,
    ) -> None:
        super().__init__(key, name=name, base_url=base_url, traits=traits, extras=extras)

    def _make_client(self) -> AsyncOpenAI:
        return make_openai_client(self._key, self._base_url, self._extras)

    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        opened: AbstractAsyncContextManager[StreamedResponse] = (
            self._get_client().responses.with_streaming_response.create(
                stream=True, extra_body=self._make_body(request)
            )
        )
        return opened

    def _open_count(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        body = self._make_body(request)
        tokens = self._get_client().responses.input_tokens
        opened: AbstractAsyncContextManager[StreamedResponse] = (
            tokens.with_streaming_response.count(
                extra_body={field: body[field] for field in _COUNTED if field in body},
                timeout=COUNT_S_MAX,
            )
        )
        return opened

    def _make_assembler(self, request: LlmRequest) -> ResponsesAssembler:
        return ResponsesAssembler(
            self._make_source(request),
            salt=len(request.messages),
            input_size=count_request_characters(request),
        )

    def _make_body(self, request: LlmRequest) -> dict[str, Any]:
        model = strip_provider(request.model, self._name)
        return make_response_parameters(
            request, model, self._make_source(request), self.traits(model)
        )
