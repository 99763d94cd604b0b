"""OpenAI's Responses API, and endpoints that speak it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from treadle.core.budget import count_request_characters
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.layout import strip_provider
from treadle.models.openai.responses_request import make_response_parameters
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire.provider import COUNT_S_MAX, NO_EXTRAS, RequestExtras, WireProvider
from treadle.models.wire.stream import StreamedResponse

BASE_URL: Final = "https://api.openai.com/v1"

_COUNTED: Final = ("model", "instructions", "tools", "input", "reasoning", "text", "truncation")
"""What the endpoint that counts tokens takes of a request."""


class OpenAiResponsesProvider(WireProvider):
    """A provider that asks for every response anew and has nothing stored.

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

    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        return self._get_endpoint().post("/responses", {**self._make_body(request), "stream": True})

    def _open_count(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        body = self._make_body(request)
        counted: dict[str, Any] = {field: body[field] for field in _COUNTED if field in body}
        return self._get_endpoint().post("/responses/input_tokens", counted, timeout_s=COUNT_S_MAX)

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
