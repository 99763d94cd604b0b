"""Anthropic's models, through the official SDK.

The SDK makes the client's headers and its errors; the body is read by `wire`. It is imported when
the first request is made, because that takes longer than everything else at the start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from treadle.core.budget import count_request_characters
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.anthropic.request import (
    make_message_parameters,
    make_source,
    select_counted_parameters,
)
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.wire.provider import COUNT_S_MAX, NO_EXTRAS, RequestExtras, SdkProvider
from treadle.models.wire.stream import StreamedResponse, make_client

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL: Final = "https://api.anthropic.com"


class AnthropicProvider(SdkProvider):
    """A provider that speaks the Messages API.

    Args:
        key: the API key; empty for an endpoint without keys.
        name: what the provider is called in a model's name and in records.
        base_url: where the API is, without `/v1`.
        traits: what is known of a model, by its name without the provider's; by default nothing.
        extras: what else goes with every request.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "anthropic",
        base_url: str = BASE_URL,
        traits: Callable[[str], ModelTraits] | None = None,
        extras: RequestExtras = NO_EXTRAS,
    ) -> None:
        super().__init__(key, name=name, base_url=base_url, traits=traits, extras=extras)

    def _make_client(self) -> AsyncAnthropic:
        """With a key given the SDK asks neither `ANTHROPIC_AUTH_TOKEN` nor profiles.

        Traces (with what was said in them, if a variable asks for that) and the headers of
        `ANTHROPIC_CUSTOM_HEADERS` it must be forbidden.
        """
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            http_client=make_client(self._key, self._base_url),
            open_telemetry=False,
            default_query=dict(self._extras.query),
        )
        # no argument takes those of the variable out
        client._custom_headers = dict(self._extras.headers)
        return client

    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        messages = self._get_client().messages
        create: Any = messages.with_streaming_response.create
        opened: AbstractAsyncContextManager[StreamedResponse] = create(
            stream=True, **self._make_parameters(request)
        )
        return opened

    def _open_count(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        messages = self._get_client().messages
        count: Any = messages.with_streaming_response.count_tokens
        opened: AbstractAsyncContextManager[StreamedResponse] = count(
            timeout=COUNT_S_MAX, **select_counted_parameters(self._make_parameters(request))
        )
        return opened

    def _make_assembler(self, request: LlmRequest) -> AnthropicAssembler:
        source = make_source(request, self._name)
        return AnthropicAssembler(source, len(request.messages), count_request_characters(request))

    def _make_parameters(self, request: LlmRequest) -> dict[str, Any]:
        return make_message_parameters(
            request, self._name, self.traits(request.model), self._extras.cache_lifetime
        )
