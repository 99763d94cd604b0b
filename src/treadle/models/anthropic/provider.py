"""Anthropic's models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, ClassVar, Final

from treadle.core.budget import count_request_characters
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.anthropic.request import (
    make_message_parameters,
    make_source,
    select_counted_parameters,
)
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.native_output import ANTHROPIC_RULES, SchemaRules
from treadle.models.wire.provider import COUNT_S_MAX, NO_EXTRAS, RequestExtras, WireProvider
from treadle.models.wire.stream import StreamedResponse

BASE_URL: Final = "https://api.anthropic.com"

API_VERSION: Final = "2026-10-21"
"""Of the API whose rules `request` keeps."""


class AnthropicProvider(WireProvider):
    """A provider that speaks the Messages API.

    Args:
        key: the API key; empty for an endpoint without keys.
        name: what the provider is called in a model's name and in records.
        base_url: where the API is, without `/v1`.
        traits: what is known of a model, by its name without the provider's; by default nothing.
        extras: what else goes with every request.
    """

    _models_path: ClassVar[str] = "/v1/models"
    _fixed_headers: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"anthropic-version": API_VERSION}
    )
    _schema_rules: ClassVar[SchemaRules] = ANTHROPIC_RULES

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

    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        body = self._make_parameters(request)
        headers, more = body.pop("extra_headers", {}), body.pop("extra_body", {})
        return self._get_endpoint().post(
            "/v1/messages", {**body, **more, "stream": True}, headers=headers
        )

    def _open_count(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        body = select_counted_parameters(self._make_parameters(request))
        return self._get_endpoint().post("/v1/messages/count_tokens", body, timeout_s=COUNT_S_MAX)

    def _make_assembler(self, request: LlmRequest) -> AnthropicAssembler:
        source = make_source(request, self._name)
        return AnthropicAssembler(source, len(request.messages), count_request_characters(request))

    def _make_parameters(self, request: LlmRequest) -> dict[str, Any]:
        return make_message_parameters(
            request, self._name, self.traits(request.model), self._extras.cache_lifetime
        )
