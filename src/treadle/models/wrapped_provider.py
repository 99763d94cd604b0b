"""What a provider that stands before another one asks of it, and how a function becomes one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol, TypeAlias

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


WrapStream: TypeAlias = Callable[[WrappedProvider, LlmRequest], AsyncGenerator[ModelEvent, None]]
"""Streams one response in place of the provider behind, which it may ask, or not, or twice."""


def wrap_provider(behind: WrappedProvider, stream: WrapStream) -> WrappedProvider:
    """A provider whose responses come by way of a function: to log, to cache, to fall back.

    Args:
        behind: says all else, and is given to the function.
        stream: an asynchronous generator of events, as `stream` of a provider.
    """
    return _Wrapper(behind, stream)


class _Wrapper:
    def __init__(self, behind: WrappedProvider, stream: WrapStream) -> None:
        self._behind, self._stream = behind, stream
        self.name: Final = behind.name
        self.traits: Final = behind.traits
        self.count_tokens: Final = behind.count_tokens
        self.aclose: Final = behind.aclose

    def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        return self._stream(self._behind, request)
