"""Anthropic's models, through the official SDK.

The SDK makes the client's headers and its errors; the body is read by `wire`. It is imported when
the first request is made, because that takes longer than everything else at the start.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmRequest, ModelTraits
from treadle.models.anthropic_request import bare_model, counted, length_of, parameters_of
from treadle.models.anthropic_stream import TOKENS_MAX, AnthropicAssembler
from treadle.models.failures import WireError
from treadle.models.wire import HEAD_SIZE_MAX, make_client, stream_events

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

BASE_URL: Final = "https://api.anthropic.com"

COUNT_S_MAX: Final = 30.0
"""A count is asked for on the way to something else; nobody waits longer for it."""

KEY_LENGTH_MIN: Final = 8
"""A shorter key is a word, as servers without keys let one write; there is nothing to hide."""

_KEY: Final = re.compile(r"[\x21-\x7e]*")


class AnthropicProvider:
    """A provider that speaks the Messages API; any number of streams may run at once.

    Args:
        key: the API key, empty for an endpoint without keys. No other credential is used, whatever
            the environment or the SDK's own files offer.
        name: what the provider is called in a model's name and in records.
        base_url: where the API is, without `/v1`.
        traits: what is known of a model, by its name without the provider's; by default nothing.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "anthropic",
        base_url: str = BASE_URL,
        traits: Callable[[str], ModelTraits] | None = None,
    ) -> None:
        self._key = key
        self._name = name
        self._base_url = base_url
        self._traits = traits
        self._made: AsyncAnthropic | None = None

    def __repr__(self) -> str:
        return f"<AnthropicProvider {self._name}>"

    @property
    def name(self) -> str:
        """The provider's name, as recorded in the thread."""
        return self._name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one response; failures are `Error` events, without the key in them."""
        parameters = self._parameters(request)
        source = f"{self._name}:{parameters['model']}"
        assembler = AnthropicAssembler(source, len(request.messages), length_of(request))

        def open_answer() -> Any:
            messages = self._client().messages
            return messages.with_streaming_response.create(stream=True, **parameters)

        async with aclosing(stream_events(open_answer, assembler, self._name)) as events:
            async for event in events:
                yield self._without_key(event) if isinstance(event, LlmEvent.Error) else event

    def traits(self, model: str) -> ModelTraits:
        """What a model can do; its name may begin with the provider's."""
        if self._traits is None:
            return ModelTraits()
        return self._traits(bare_model(model, self._name))

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """How many tokens the request would be, by the API's own count; `None` if it gives none."""
        parameters = counted(self._parameters(request))
        body = b""
        try:
            messages = self._client().messages
            async with messages.with_streaming_response.count_tokens(
                timeout=COUNT_S_MAX, **parameters
            ) as answer:
                async for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > HEAD_SIZE_MAX:
                        return None
            count = msgspec.json.decode(body)["input_tokens"]
        except Exception:  # noqa: BLE001  whatever went wrong, there is no count
            return None
        is_count = isinstance(count, int) and not isinstance(count, bool)
        return count if is_count and 0 <= count <= TOKENS_MAX else None

    async def aclose(self) -> None:
        """Free connections."""
        if self._made is not None:
            await self._made.close()

    def _parameters(self, request: LlmRequest) -> dict[str, Any]:
        return parameters_of(request, self._name, self.traits(request.model))

    def _client(self) -> AsyncAnthropic:
        """The SDK's client: one key, one address, no retries, nothing from the environment.

        With a key given it asks neither `ANTHROPIC_AUTH_TOKEN` nor profiles; with an address given
        not `ANTHROPIC_BASE_URL`. Traces (with what was said in them, if a variable asks for that)
        and the headers of `ANTHROPIC_CUSTOM_HEADERS` it must be forbidden.
        """
        if not _KEY.fullmatch(self._key):
            text = "the key holds a character that no key has"
            raise WireError(LlmErrorKind.AUTHENTICATION, text)
        if self._made is None:
            from anthropic import AsyncAnthropic

            http_client = make_client()
            if not self._key:
                http_client.event_hooks["request"].append(_drop_key)
            self._made = AsyncAnthropic(
                api_key=self._key,
                base_url=self._base_url,
                max_retries=0,
                http_client=http_client,
                open_telemetry=False,
            )
            self._made._custom_headers = {}  # no argument takes them out
        return self._made

    def _without_key(self, event: LlmEvent.Error) -> LlmEvent.Error:
        """The error without the key, which a server may repeat."""
        if len(self._key) < KEY_LENGTH_MIN:
            return event
        mark = f"[REDACTED:{self._name}_api_key]"
        message = event.error.message.replace(self._key, mark)
        return LlmEvent.Error(replace(event.error, message=message))


async def _drop_key(request: httpx2.Request) -> None:
    request.headers.pop("authorization", None)
