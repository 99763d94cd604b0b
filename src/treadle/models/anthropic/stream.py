"""A streamed answer of Anthropic's Messages API, put together event by event.

What the official SDK's accumulator makes of a stream, this makes of it too, with three differences:
what contradicts itself is an error and never a message; a block whose arguments were cut keeps them
as they came; and of citations only those of searches are kept, in a block of their own behind the
text: a text block without a text. As there, a delta of an unknown type changes nothing, and a block
of an unknown type stays as it began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.models.error_body import is_error_body
from treadle.models.failures import WireError, shorten_to_line
from treadle.models.layout import MessageBuilder, TextBuffer
from treadle.models.token_counts import UsageEstimator, get_token_count
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import (
    ALIVE,
    StreamError,
    decode_event,
    decode_object,
    make_cut_stream_error,
)

FINISH_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause_turn",
}
"""`pause_turn` comes where the provider has searched for long; what there is of the answer is a
message all the same, and the model goes on when it is asked to."""

COMPLETE_REASONS: Final = frozenset({"end_turn", "stop_sequence", "tool_use", "pause_turn"})
"""After these reasons nothing is missing. After others, unknown ones included, the last call may
have lost its end, so it must not run unless its arguments are there."""

_TEXT_OF_DELTA: Final[Mapping[str, str]] = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
_KNOWN_BLOCKS: Final = frozenset({"text", "tool_use", "thinking"})
_COUNTS: Final = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)
_REASON_LENGTH_MAX: Final = 40
SEARCH_RESULT: Final = "web_search_result_location"
"""The citations that the API wants back. Others are of documents, which nobody sends it here."""


class _Block:
    """A block as it began, and what came for it."""

    __slots__ = ("body", "citations", "has_ended", "pieces", "type")

    def __init__(self, kind: str, body: dict[str, Any]) -> None:
        self.type = kind
        self.body = body
        self.pieces = TextBuffer()
        self.citations: list[dict[str, Any]] = []
        self.has_ended = False


class AnthropicAssembler:
    """A `wire.Assembler`.

    Args:
        source: `provider:model`.
        salt: the number of messages in the request.
        length: the number of characters in the request, for an estimate.
    """

    def __init__(self, source: str, salt: int, length: int) -> None:
        self._builder = MessageBuilder(source, salt)
        self._estimator = UsageEstimator(length)
        self._blocks: list[_Block] = []
        self._counts: dict[str, int] = {}
        self._has_totals = False
        """Whether the tokens written have been counted to the end."""
        self._has_begun = False
        self._id = ""
        self._is_done = False
        self._reason = ""
        self._details: Any = None
        """What the API says of a refusal."""
        self._handlers: Mapping[Any, Callable[[dict[str, Any]], Iterable[ModelEvent]]] = {
            "message_start": self._handle_message_start,
            "content_block_start": self._handle_block_start,
            "content_block_delta": self._handle_block_delta,
            "content_block_stop": self._handle_block_stop,
            "message_delta": self._handle_message_delta,
            "message_stop": self._handle_message_stop,
        }

    @property
    def is_done(self) -> bool:
        """Whether `message_stop` has come."""
        return self._is_done

    @property
    def usage(self) -> Usage | None:
        """What the API has counted; a guess where it has not come to its totals.

        What `message_start` says of tokens written is no total: it is said before they are.
        """
        if self._counts or self._estimator.written_length:
            return self._compute_usage()
        return None

    def add_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        """The deltas that an event brings; one that brings nothing is a sign of life."""
        return self._estimator.count_deltas(self._handle_event(event))

    def _handle_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        if event.event == "ping":
            yield ALIVE
            return
        body = decode_event(event)
        kind = body.get("type")
        if event.event == "error" or kind == "error" or (kind is None and is_error_body(body)):
            raise StreamError(body)
        take = self._handlers.get(kind) if isinstance(kind, str) else None
        if take is None:
            yield ALIVE  # a ping, or what a later version of the API adds
            return
        if self._is_done or (
            self._reason and take not in (self._handle_message_delta, self._handle_message_stop)
        ):
            raise _make_error(f"{kind} comes after the end")
        if kind == "message_start" and self._id and self._id == _get_message_id(body):
            # Proxies that go on after a lost connection say once more whose answer it is.
            yield ALIVE
            return
        if self._has_begun == (kind == "message_start"):
            raise _make_error(
                f"{kind} comes {'twice' if self._has_begun else 'before message_start'}"
            )
        is_silent = True
        for one in take(body):
            is_silent = False
            yield one
        if is_silent:
            yield ALIVE

    def end(self) -> Iterator[ModelEvent]:
        """The last deltas and the message.

        A refused answer is an error although the API calls it a message: sent back as part of the
        conversation, it would have every later request refused too.
        """
        if not self._is_done:
            raise make_cut_stream_error()
        if self._reason == "refusal":
            raise WireError(LlmErrorKind.CONTENT_FILTERED, _describe_refusal(self._details))
        yield from self._builder.end(is_cut=self._reason not in COMPLETE_REASONS)
        reason = FINISH_REASONS.get(self._reason)
        yield LlmEvent.Completed(
            LlmResponse(
                self._builder.build_message(),
                self._compute_usage(),
                shorten_to_line(self._reason)[:_REASON_LENGTH_MAX] if reason is None else reason,
            )
        )

    def _handle_message_start(self, body: dict[str, Any]) -> Iterable[ModelEvent]:
        message = body.get("message")
        if not isinstance(message, dict) or message.get("content"):
            raise _make_error("message_start brings no empty message")
        self._has_begun = True
        self._id = _get_message_id(body)
        self._update_counts(message.get("usage"))
        return ()

    def _handle_block_start(self, body: dict[str, Any]) -> Iterable[ModelEvent]:
        index, block = _get_index(body), body.get("content_block")
        if not isinstance(block, dict) or not isinstance(kind := block.get("type"), str):
            raise _make_error("content_block_start brings no block")
        if index != len(self._blocks):
            raise _make_error(f"block {_format_index(body.get('index'))} begins out of order")
        self._blocks.append(_Block(kind, block))
        if kind == "text":
            self._builder.open_text(index)
            return self._builder.add_text(index, _get_text(block, "text"))
        if kind == "tool_use":
            return self._builder.open_call(index, _get_text(block, "id"), _get_text(block, "name"))
        self._builder.put_opaque(index, block)
        return self._add_thinking(index, _get_text(block, "thinking")) if kind == "thinking" else ()

    def _handle_block_delta(self, body: dict[str, Any]) -> Iterable[ModelEvent]:
        index, block = self._find_open_block(body)
        delta = body.get("delta")
        if not isinstance(delta, dict) or not isinstance(kind := delta.get("type"), str):
            raise _make_error("content_block_delta brings no delta")
        name = _TEXT_OF_DELTA.get(kind)
        if name is None:
            self._add_citation(block, delta.get("citation"))
            return ()
        piece = _get_text(delta, name)
        match kind, block.type:
            case "text_delta", "text":
                return self._builder.add_text(index, piece)
            case "input_json_delta", "tool_use":
                return self._add_arguments(index, piece)
            case "thinking_delta", "thinking":
                return self._add_thinking(index, piece)
            case "signature_delta", "thinking":
                block.body["signature"] = piece
            case _, known if known in _KNOWN_BLOCKS:
                raise _make_error(f"{kind} comes for a block of type {known}")
            case "input_json_delta", _:
                self._builder.count_size(piece)
                block.pieces.append(piece)
        return ()

    def _handle_block_stop(self, body: dict[str, Any]) -> Iterable[ModelEvent]:
        index, block = self._find_open_block(body)
        block.has_ended = True
        came, given = str(block.pieces), block.body.get("input")
        if block.citations:
            cited = {"type": "text", "citations": block.citations}
            self._builder.put_opaque(("citations", index), cited)
        if block.type == "thinking":
            block.body["thinking"] = came
        elif block.type == "tool_use" and not came and isinstance(given, dict) and given:
            return self._add_arguments(index, msgspec.json.encode(given).decode())
        elif block.type not in _KNOWN_BLOCKS and came and given is not None:
            block.body["input"] = decode_object(came.encode("utf-8", "surrogatepass"))
        return ()

    def _handle_message_delta(self, body: dict[str, Any]) -> Iterable[ModelEvent]:
        delta = body.get("delta")
        if not isinstance(delta, dict):
            raise _make_error("message_delta brings no delta")
        if isinstance(reason := delta.get("stop_reason"), str):
            self._reason = reason
            self._details = delta.get("stop_details")
        self._has_totals |= "output_tokens" in self._update_counts(body.get("usage"))
        return ()

    def _handle_message_stop(self, _: dict[str, Any]) -> Iterable[ModelEvent]:
        if not self._reason:
            raise _make_error("the message ends without a reason")
        for index, block in enumerate(self._blocks):
            if not block.has_ended:
                raise _make_error(f"block {index} does not end")
        self._is_done = True
        return ()

    def _add_citation(self, block: _Block, citation: Any) -> None:
        """Keep a place that a text cites, if a search has found it."""
        is_found = isinstance(citation, dict) and citation.get("type") == SEARCH_RESULT
        if is_found and block.type == "text":
            self._builder.count_size(citation)
            block.citations.append(citation)

    def _find_open_block(self, body: dict[str, Any]) -> tuple[int, _Block]:
        """The block that an event is about, which must have begun and not ended."""
        index = _get_index(body)
        if 0 <= index < len(self._blocks) and not self._blocks[index].has_ended:
            return index, self._blocks[index]
        shown = _format_index(body.get("index"))
        raise _make_error(f"{body['type']} is about block {shown}, which is not open")

    def _add_arguments(self, index: int, piece: str) -> Iterator[ModelEvent]:
        self._blocks[index].pieces.append(piece)
        yield from self._builder.add_arguments(index, piece)

    def _add_thinking(self, index: int, piece: str) -> Iterator[ModelEvent]:
        self._blocks[index].pieces.append(piece)
        yield from self._builder.add_thinking(piece)

    def _update_counts(self, usage: Any) -> Collection[str]:
        """Take the API's counts and tell which; they are totals so far, so the later one holds."""
        if not isinstance(usage, dict):
            return ()
        details = usage.get("output_tokens_details")
        counts = {name: get_token_count(usage, name) for name in _COUNTS}
        counts["thinking_tokens"] = get_token_count(details, "thinking_tokens")
        counts["web_searches"] = get_token_count(
            usage.get("server_tool_use"), "web_search_requests"
        )
        valid = {name: count for name, count in counts.items() if count is not None}
        self._counts |= valid
        return valid

    def _compute_usage(self) -> Usage:
        counts, guess = self._counts, self._estimator.estimate()
        read = counts.get("input_tokens", guess.input_tokens)
        written = counts.get("output_tokens", 0)
        if not self._has_totals:
            written = max(written, guess.output_tokens)
        from_cache = counts.get("cache_read_input_tokens", 0)
        into_cache = counts.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=read + from_cache + into_cache,
            output_tokens=written,
            estimated=not (self._has_totals and "input_tokens" in counts),
            cache_read_tokens=from_cache,
            cache_write_tokens=into_cache,
            reasoning_tokens=counts.get("thinking_tokens", 0),
            web_searches=counts.get("web_searches", 0),
        )


def _make_error(what: str) -> WireError:
    return WireError(LlmErrorKind.INVALID_RESPONSE, f"the stream contradicts itself: {what}")


def _get_index(body: Mapping[str, Any]) -> int:
    """Which block an event is about; -1 if it does not say."""
    index = body.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else -1


def _get_message_id(body: Mapping[str, Any]) -> str:
    """The id of the message that `message_start` begins; empty if there is none."""
    message = body.get("message")
    given = message.get("id") if isinstance(message, dict) else None
    return given if isinstance(given, str) else ""


def _format_index(index: Any) -> str:
    return repr(index)[:_REASON_LENGTH_MAX]


def _get_text(body: Mapping[str, Any], name: str) -> str:
    """A text of an event; one that is not there is empty."""
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise _make_error(f"{name} is no text")
    return text or ""


def _describe_refusal(details: Any) -> str:
    """Why the model refused, as far as the API says."""
    given = details if isinstance(details, dict) else {}
    said = [given[name] for name in ("category", "explanation") if isinstance(given.get(name), str)]
    return ": ".join(["the model declined to answer", *said])
