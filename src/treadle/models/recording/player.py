"""A model that plays a recording: the answers of a real one, without network, key or cost.

The answer is a function of the request: the recorded exchange with the same request, whatever the
model's name. A request that was recorded several times (it was tried again after an error) is
answered in that order, the last one from then on; that count lives here, in memory.

A request that was not recorded gets an error that names the first difference to the nearest one
that was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from msgspec import Struct

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits
from treadle.core.messages import Message
from treadle.core.tools import ToolDefinition
from treadle.models.recording.file import (
    Exchange,
    RecordedSettings,
    Recording,
    leave_out_situation,
    message_digests,
    request_key,
    settings_digest,
    to_json,
)
from treadle.thread.record import replace_surrogates

EXCERPT_SIZE_MAX: Final = 60
"""Characters that a difference shows of each side."""

_BEFORE: Final = 16
"""Of these, how many stand before the difference."""


class RecordedModel:
    """A provider that plays a recording; any number of streams may run at once.

    Args:
        recording: what to play: `load_recording` reads it from a file.
    """

    name: Final = "recorded"

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._answers: dict[bytes, list[Exchange]] = {}
        for exchange in recording.exchanges:
            self._answers.setdefault(exchange.key, []).append(exchange)
        self._played: dict[bytes, int] = {}
        """How often each request was answered, by its key; starts anew with the process."""

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream what was recorded for this request, or an error that says what is different.

        What was left unfinished when it was recorded ends as a cut stream.
        """
        asked = _ComparedRequest.of(request)
        answers = self._answers.get(asked.key)
        if answers is None:
            why = self._describe_mismatch(asked)
            yield LlmEvent.Error(LlmError(LlmErrorKind.BAD_REQUEST, why))
            return
        played = self._played.get(asked.key, 0)
        self._played[asked.key] = played + 1
        for event in answers[min(played, len(answers) - 1)].events:
            yield event

    def traits(self, model: str) -> ModelTraits:
        """A recording has no limits."""
        return ModelTraits(sees_images=True, reads_pdf=True)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """Nothing was recorded about it."""
        return None

    async def aclose(self) -> None:
        """Nothing to free."""

    def _describe_mismatch(self, asked: _ComparedRequest) -> str:
        exchanges = self._recording.exchanges
        if not exchanges:
            return f"the recording {self._recording.name!r} holds no exchange"
        nearest = max(exchanges, key=asked.measure_similarity)
        what = _describe_difference(nearest, asked) or "they differ in their bytes only"
        where = f"exchange {nearest.number} (line {nearest.line} of {self._recording.name!r})"
        return f"the recording has no answer to this request. Nearest is {where}: {what}"


class _ComparedRequest(Struct, frozen=True, gc=False):
    """A request, with what it is compared by."""

    settings: RecordedSettings
    settings_digest: bytes
    messages: tuple[Message, ...]
    digests: tuple[bytes, ...]

    @classmethod
    def of(cls, request: LlmRequest) -> _ComparedRequest:
        request = leave_out_situation(request)
        settings = RecordedSettings.of(request)
        return cls(
            settings,
            settings_digest(settings),
            request.messages[:],
            tuple(message_digests(request.messages)),
        )

    @property
    def key(self) -> bytes:
        return request_key(self.settings_digest, self.digests)

    def count_shared_messages(self, exchange: Exchange) -> int:
        """How many messages are the same, from the first on."""
        pairs = zip(self.digests, exchange.digests, strict=False)
        return next(
            (index for index, (ours, theirs) in enumerate(pairs) if ours != theirs),
            min(len(self.digests), len(exchange.digests)),
        )

    def measure_similarity(self, exchange: Exchange) -> tuple[int, bool, int, int]:
        """More for an exchange that is nearer: by messages, settings, text, length."""
        shared = self.count_shared_messages(exchange)
        similar = 0
        if shared < min(len(self.messages), len(exchange.messages)):
            ours, theirs = self.messages[shared].content, exchange.messages[shared].content
            similar = _count_shared_characters(ours, theirs)
        return (
            shared,
            self.settings_digest == exchange.settings_digest,
            similar,
            -abs(len(self.messages) - len(exchange.messages)),
        )


def _describe_difference(recorded: Exchange, asked: _ComparedRequest) -> str:
    """The first difference, in words for people; empty if there is none."""
    found = _describe_settings_difference(recorded.settings, asked.settings)
    if found:
        return found
    index = asked.count_shared_messages(recorded)
    old = recorded.messages[index] if index < len(recorded.messages) else None
    new = asked.messages[index] if index < len(asked.messages) else None
    if old is not None and new is not None:
        place = _describe_place(old, index)
        return _describe_first_difference(
            _list_message_texts(old, place), _list_message_texts(new, place)
        )
    if new is not None:
        return f"{_describe_place(new, index)} was not there: {_make_excerpt(new.content)}"
    return (
        ""
        if old is None
        else f"{_describe_place(old, index)} is missing: {_make_excerpt(old.content)}"
    )


def _describe_settings_difference(recorded: RecordedSettings, asked: RecordedSettings) -> str:
    names, now = ([tool.name for tool in each.tools] for each in (recorded, asked))
    return (
        _describe_first_difference(
            {"system prompt": recorded.system}, {"system prompt": asked.system}
        )
        or next((f"tools: {name} is missing" for name in names if name not in now), "")
        or next((f"tools: {name} was not there" for name in now if name not in names), "")
        or _describe_first_difference(
            {"tools, their order": ", ".join(names)}, {"tools, their order": ", ".join(now)}
        )
        or _describe_first_difference(
            _list_tool_texts(recorded.tools), _list_tool_texts(asked.tools)
        )
        or _describe_first_difference(_list_number_texts(recorded), _list_number_texts(asked))
    )


def _list_tool_texts(tools: tuple[ToolDefinition, ...]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for tool in tools:
        texts |= {
            f"tools: {tool.name}, description": tool.description,
            f"tools: {tool.name}, schema": to_json(tool.input_schema).decode(),
            f"tools: {tool.name}, effect": tool.effect.value,
            f"tools: {tool.name}, risk": tool.risk.name.lower(),
        }
    return texts


def _list_number_texts(settings: RecordedSettings) -> dict[str, str]:
    return {
        "max_tokens": str(settings.max_tokens),
        "temperature": "not set" if settings.temperature is None else str(settings.temperature),
        "reasoning": settings.reasoning,
    }


def _describe_place(message: Message, index: int) -> str:
    role = f"tool result of {message.name}" if message.role == "tool" else message.role
    return f"messages[{index}] ({role})"


def _list_message_texts(message: Message, place: str) -> dict[str, str]:
    """What a message holds, in the order in which a person would look."""
    texts = {
        f"{place}, role": message.role,
        f"{place}, name": message.name or "",
        place: message.content,
        f"{place}, number of calls": str(len(message.tool_calls)),
    }
    for index, call in enumerate(message.tool_calls):
        texts |= {
            f"{place}, call {index} (tool)": call.tool_name,
            f"{place}, call {index} (arguments)": call.arguments_json,
            f"{place}, call {index} (id)": call.id,
        }
    return texts | {
        f"{place}, call id": message.tool_call_id or "",
        f"{place}, interrupted": str(message.interrupted),
        f"{place}, native form": to_json(message.native).decode(),
    }


def _describe_first_difference(recorded: dict[str, str], asked: dict[str, str]) -> str:
    """The first text that is not the same, and where in it; empty if all are.

    Args:
        recorded: texts by the words for their place.
        asked: the same of the request, in the same order.
    """
    for place in recorded | asked:
        old, new = (
            replace_surrogates(recorded.get(place, "")),
            replace_surrogates(asked.get(place, "")),
        )
        if old != new:
            at = _count_shared_characters(old, new)
            told = f"recorded {_make_excerpt(old, at)}, now {_make_excerpt(new, at)}"
            return f"{place}, character {at + 1}: {told}"
    return ""


def _make_excerpt(text: str, at: int = 0) -> str:
    """The text around a place, on one line."""
    start = max(0, at - _BEFORE)
    end = start + EXCERPT_SIZE_MAX
    return f"{'…' * (start > 0)}{text[start:end]!r}{'…' * (end < len(text))}"


def _count_shared_characters(one: str, other: str) -> int:
    """With how many characters both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
