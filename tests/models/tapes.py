"""Providers that answer from a list, and recordings of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from models.conformance import drain
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.models.recording.file import load_recording
from treadle.models.recording.player import RecordedModel
from treadle.models.recording.recorder import RecordingProvider

TRAITS = ModelTraits(context_tokens_max=7)


class Playback:
    """A provider that streams the next of some lists of events to every request, whatever it is."""

    name = "playback"

    def __init__(self, *answers: Sequence[ModelEvent]) -> None:
        self._answers = list(answers)
        self.is_closed = False

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in self._answers.pop(0):
            await asyncio.sleep(0)
            yield event

    def traits(self, model: str) -> ModelTraits:
        return TRAITS

    async def count_tokens(self, request: LlmRequest) -> int | None:
        return len(request.messages)

    async def aclose(self) -> None:
        self.is_closed = True


async def record(
    path: Path,
    *exchanges: tuple[LlmRequest, Sequence[ModelEvent]],
    redact: Callable[[str], str] | None = None,
) -> None:
    """Record these answers to these requests."""
    provider = RecordingProvider(Playback(*(events for _, events in exchanges)), path, redact)
    for request, events in exchanges:
        assert await drain(provider.stream(request)) == list(events)
    await provider.aclose()


def model(path: Path) -> RecordedModel:
    return RecordedModel(load_recording(path))


async def replay(path: Path, request: LlmRequest) -> list[ModelEvent]:
    return await drain(model(path).stream(request))
