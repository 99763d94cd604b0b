"""An assistant message and its provider's blocks: from a stream into a message, and back.

`MessageBuilder` puts a message together from what streams in; `list_blocks` takes it apart for the
next request, block by block as they came. Every wire format of this package builds on these two.
"""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind
from treadle.core.messages import (
    CallPart,
    Message,
    NativeLayout,
    OpaquePart,
    Part,
    TextPart,
    ToolCall,
)
from treadle.models.failures import WireError
from treadle.thread.record import replace_surrogates

ANSWER_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of one answer as Python may hold it, all blocks together: four for every character of a
piece that is not all ASCII. The longest answers of models are a tenth of it."""

VALUE_SIZE: Final = 64
"""Bytes that an empty list takes, the largest for the two that it is written with."""

DEPTH_MAX: Final = 64
"""Levels of an opaque block, as of everything that records hold."""

BLOCK_COUNT_MAX: Final = 10_000

REDACTED: Final = "[REDACTED:"
"""How every mark begins that stands for a secret."""

Block: TypeAlias = str | ToolCall | dict[str, Any]
"""A text, a call, or a block that only its model understands."""

MALFORMED: Final = "malformed_arguments"
"""Under this name a provider gets arguments back that are no JSON object; it would refuse them."""


class TextBuffer:
    """A text that comes in any number of pieces, kept as one: a million of them cost no more."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = io.StringIO(newline="")

    def __bool__(self) -> bool:
        return self._text.tell() > 0

    def __str__(self) -> str:
        return self._text.getvalue()

    def append(self, piece: str) -> None:
        """Add a piece at the end."""
        self._text.write(piece)


class _TextLayout:
    __slots__ = ("pieces", "waiting")

    def __init__(self) -> None:
        self.pieces = TextBuffer()
        self.waiting = ""
        """The first half of a surrogate pair, until the second comes."""


class _CallLayout:
    __slots__ = ("fragments", "id", "name")

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.fragments = _TextLayout()


class _OpaqueLayout:
    __slots__ = ("block",)

    def __init__(self, block: Any) -> None:
        self.block = block


class MessageBuilder:
    """The message so far: blocks by key, in the order in which their keys first came.

    Args:
        source: `provider:model`, noted in what only this model understands.
        salt: makes the ids that this class gives unlike those of other turns: the number of
            messages in the request.

    Raises:
        WireError: (every method) the answer is too large, or contradicts itself.
    """

    def __init__(self, source: str, salt: int) -> None:
        self._source = source
        self._salt = salt
        self._blocks: dict[Hashable, _TextLayout | _CallLayout | _OpaqueLayout] = {}
        self._ids: set[str] = set()
        self._size = 0
        self._half: _TextLayout | None = None
        """The text block that waits for the second half of a surrogate pair."""

    def __contains__(self, key: Hashable) -> bool:
        """Whether a block of this key has begun."""
        return key in self._blocks

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun."""
        return bool(self._ids)

    def open_text(self, key: Hashable) -> None:
        """Begin a text block, so that it keeps its place even while it is empty."""
        self._get_block(key, _TextLayout)

    def add_text(self, key: Hashable, piece: str) -> Iterator[ModelEvent]:
        """Add to the text block of this key, which begins with its first piece."""
        text = self._get_block(key, _TextLayout)
        if self._half is not None and self._half is not text:
            # what was begun in the block before stays alone; told now, so that the order is right
            yield LlmEvent.TextDelta(self._flush_text(self._half))
        if piece := self._append_text(text, piece):
            yield LlmEvent.TextDelta(piece)
        self._half = text if text.waiting else None

    def open_call(self, key: Hashable, call_id: str, name: str) -> Iterator[ModelEvent]:
        """Begin a call. One without an id, or with one that is taken, gets an id of its own."""
        if key in self._blocks:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, f"block {key!r} begins twice")
        call_id, name = replace_surrogates(call_id), replace_surrogates(name)
        if not call_id or call_id in self._ids:
            call_id = f"{call_id or 'call'}-{self._salt}-{len(self._blocks)}"
            while call_id in self._ids:
                call_id += "x"
        self._ids.add(call_id)
        self._add_block(key, _CallLayout(call_id, name))
        yield LlmEvent.ToolCallDelta(call_id, name, "")

    def add_arguments(self, key: Hashable, fragment: str) -> Iterator[ModelEvent]:
        """Add to the arguments of a call that has begun."""
        call = self._get_block(key, _CallLayout)
        if piece := self._append_text(call.fragments, fragment):
            yield LlmEvent.ToolCallDelta(call.id, call.name, piece)

    def put_opaque(self, key: Hashable, block: Any) -> None:
        """Set the block of this key, which only its model understands; replaces what it was."""
        self._get_block(key, _OpaqueLayout).block = block
        self.count_size(block)

    def count_size(self, value: Any) -> None:
        """Count what came of the answer and is kept until its end."""
        if _is_deep(value):
            text = f"what is nested deeper than {DEPTH_MAX} levels cannot be stored"
            raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
        data = msgspec.json.encode(replace_surrogates(value))
        self._add_size(len(data) + VALUE_SIZE * sum(map(data.count, (b",", b"[", b"{"))))

    def add_thinking(self, piece: str) -> Iterator[ModelEvent]:
        """A piece of reasoning, to be shown."""
        self._count_text(piece)
        if piece:
            yield LlmEvent.ThinkingDelta(replace_surrogates(piece))

    def end(self, *, is_cut: bool = False) -> Iterator[ModelEvent]:
        """The deltas that are still to come: halves that stay alone, arguments that are empty.

        A call without arguments has the arguments `{}`, unless the answer was cut: then nobody
        knows what they were to be, and what there is stays as it is.
        """
        last = next(reversed(self._blocks), None)
        for key, block in self._blocks.items():
            if isinstance(block, _TextLayout):
                if piece := self._flush_text(block):
                    yield LlmEvent.TextDelta(piece)
            elif isinstance(block, _CallLayout):
                piece = self._flush_text(block.fragments)
                if not block.fragments.pieces and not (is_cut and key == last):
                    block.fragments.pieces.append("{}")
                    piece = "{}"
                if piece:
                    yield LlmEvent.ToolCallDelta(block.id, block.name, piece)

    def build_message(self) -> Message:
        """The message; call `end` before."""
        parts: list[Part] = []
        texts: list[str] = []
        calls: list[ToolCall] = []
        for block in self._blocks.values():
            if isinstance(block, _TextLayout):
                text = str(block.pieces)
                if text:
                    texts.append(text)
                    parts.append(TextPart(len(text)))
            elif isinstance(block, _CallLayout):
                calls.append(ToolCall(block.id, block.name, str(block.fragments.pieces)))
                parts.append(CallPart())
            else:
                parts.append(
                    OpaquePart(msgspec.json.encode(replace_surrogates(block.block)).decode())
                )
        is_plain = len(texts) <= 1 and all(
            isinstance(part, CallPart) for part in parts[len(texts) :]
        )
        native = None if is_plain else NativeLayout(self._source, tuple(parts))
        return Message("assistant", "".join(texts), tuple(calls), native=native)

    def _get_block(self, key: Hashable, kind: Any) -> Any:
        block = self._blocks.get(key)
        if block is None and kind is not _CallLayout:
            block = self._add_block(
                key, _TextLayout() if kind is _TextLayout else _OpaqueLayout(None)
            )
        if not isinstance(block, kind):
            raise WireError(LlmErrorKind.INVALID_RESPONSE, f"block {key!r} changes its kind")
        return block

    def _add_block(
        self, key: Hashable, block: _TextLayout | _CallLayout | _OpaqueLayout
    ) -> _TextLayout | _CallLayout | _OpaqueLayout:
        if len(self._blocks) == BLOCK_COUNT_MAX:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, f"over {BLOCK_COUNT_MAX} blocks")
        self._blocks[key] = block
        return block

    def _count_text(self, piece: str) -> None:
        self._add_size(len(piece) if piece.isascii() else 4 * len(piece))

    def _add_size(self, size: int) -> None:
        self._size += size
        if self._size > ANSWER_SIZE_MAX:
            text = f"the answer is over {ANSWER_SIZE_MAX // 2**20} MiB"
            raise WireError(LlmErrorKind.INVALID_RESPONSE, text)

    def _append_text(self, text: _TextLayout, piece: str) -> str:
        """Take a piece; what of it (and of what waited) can be stored now."""
        self._count_text(piece)
        if piece.isascii() and not text.waiting:
            storable = piece
        else:
            piece = text.waiting + piece
            is_half = bool(piece) and "\ud800" <= piece[-1] <= "\udbff"
            text.waiting = piece[-1] if is_half else ""
            storable = str(replace_surrogates(piece[:-1] if is_half else piece))
        if storable:
            text.pieces.append(storable)
        return storable

    def _flush_text(self, text: _TextLayout) -> str:
        piece, text.waiting = str(replace_surrogates(text.waiting)), ""
        if piece:
            text.pieces.append(piece)
        return piece


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [
            child for one in inner for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def strip_provider(model: str, provider: str) -> str:
    """The model as its endpoint knows it: without our name of the provider, if that stands first.

    The rest may hold colons of its own: `ollama:qwen2.5-coder:7b`.
    """
    return model.removeprefix(f"{provider}:")


def list_blocks(message: Message, source: str) -> tuple[Block, ...]:
    """The blocks of an assistant message, to be sent to `source` (`provider:model`).

    As they came, if it was this model that wrote them and they still cover the message. Blocks that
    hold the mark of a replaced secret are left out: the provider would see that they were changed.
    Otherwise the text, then the calls. Empty for a message without either.
    """
    native = message.native
    if native is not None and native.source == source:
        length = sum(part.length for part in native.parts if isinstance(part, TextPart))
        calls = sum(isinstance(part, CallPart) for part in native.parts)
        if length == len(message.content) and calls == len(message.tool_calls):
            return tuple(_list_native_blocks(message, native))
    text = (message.content,) if message.content else ()
    return (*text, *message.tool_calls)


def _list_native_blocks(message: Message, native: NativeLayout) -> Iterator[Block]:
    done = 0
    calls = iter(message.tool_calls)
    for part in native.parts:
        if isinstance(part, TextPart):
            yield message.content[done : done + part.length]
            done += part.length
        elif isinstance(part, CallPart):
            yield next(calls)
        elif REDACTED not in part.block_json:
            block = msgspec.json.decode(part.block_json)
            assert isinstance(block, dict)
            yield block


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as a JSON object; malformed ones as text under `MALFORMED`."""
    try:
        arguments = msgspec.json.decode(call.arguments_json)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {MALFORMED: call.arguments_json}


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as JSON text: as the model wrote them, if that is an object.

    Mistral, Ollama and the templates of vLLM and llama.cpp parse the arguments of calls long past,
    and answer 400 or 500 to the whole conversation if they cannot.
    """
    given = arguments_object(call)
    if given == {MALFORMED: call.arguments_json}:
        return msgspec.json.encode(given).decode()
    return call.arguments_json
