"""OpenAI's Responses API, and endpoints that speak it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, Final

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.openai_client import make_openai_client, without_key
from treadle.models.openai_responses_request import parameters_of
from treadle.models.openai_responses_stream import ResponsesAssembler
from treadle.models.wire import Answer, stream_events

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BASE_URL: Final = "https://api.openai.com/v1"

_COUNTED: Final = ("model", "instructions", "tools", "input", "reasoning", "truncation")
"""What the endpoint that counts tokens takes of a request."""


class OpenAiResponsesProvider:
    """A provider that asks for every response anew and has nothing stored.

    The body of a request goes to the SDK as it is: its own handling of parameters walks through
    every item by type, half a millisecond each, on the event loop (measured: 6.6 s for 12,000).

    Args:
        key: of the endpoint.
        name: as recorded in threads.
        base_url: up to the version.
        traits: what is known of a model; by default nothing.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str = "openai",
        base_url: str = BASE_URL,
        traits: Callable[[str], ModelTraits] | None = None,
    ) -> None:
        self._key = key.strip()  # files end with a line break, and no header may hold one
        self._name = name
        self._base_url = base_url
        self._traits = traits
        self._opened: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"<OpenAiResponsesProvider {self._name} at {self._base_url}>"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one response."""
        size = len(request.system) + sum(
            len(message.content) + sum(len(call.arguments_json) for call in message.tool_calls)
            for message in request.messages
        )
        source = f"{self._name}:{self._model(request)}"
        assembler = ResponsesAssembler(source, salt=len(request.messages), input_size=size)

        def open_answer() -> AbstractAsyncContextManager[Answer]:
            body = self._body(request)
            return self._client().responses.with_streaming_response.create(
                stream=True, extra_body=body
            )

        async with aclosing(stream_events(open_answer, assembler, self._name)) as events:
            async for event in events:
                if isinstance(event, LlmEvent.Error):
                    event = LlmEvent.Error(without_key(event.error, self._key))
                yield event

    def traits(self, model: str) -> ModelTraits:
        """What is known of a model."""
        if self._traits is None:
            return ModelTraits()
        return self._traits(model.removeprefix(f"{self._name}:"))

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """As the endpoint counts them; `None` if it does not."""
        try:
            body = self._body(request)
            counted = await self._client().responses.input_tokens.count(
                extra_body={field: body[field] for field in _COUNTED if field in body}
            )
            number: Any = counted.input_tokens
        except Exception:  # noqa: BLE001  whatever it is: nobody counted
            return None
        return number if type(number) is int and number >= 0 else None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    def _client(self) -> AsyncOpenAI:
        if self._opened is None:
            self._opened = make_openai_client(self._key, self._base_url)
        return self._opened

    def _body(self, request: LlmRequest) -> dict[str, Any]:
        model = self._model(request)
        return parameters_of(request, model, f"{self._name}:{model}", self.traits(model))

    def _model(self, request: LlmRequest) -> str:
        return request.model.removeprefix(f"{self._name}:")
