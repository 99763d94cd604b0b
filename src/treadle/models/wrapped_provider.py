"""What a provider that stands before another one asks of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits


class WrappedProvider(Protocol):
    """The provider behind; the runtime's `Provider` says what each of these must do."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """One response."""
        ...

    def traits(self, model: str) -> ModelTraits:
        """What a model can do."""
        ...

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """The size of a request."""
        ...

    async def aclose(self) -> None:
        """Free what it holds."""
        ...
