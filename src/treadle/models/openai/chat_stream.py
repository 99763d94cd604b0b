"""Turns the chunks of Chat Completions into events.

Endpoints differ, so each leniency below names who needs it. Where a chunk can be read in two ways,
no call may get the arguments of another; what makes no sense at all is a `WireError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from treadle.core.budget import count_request_characters
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.models.error_body import is_error_body
from treadle.models.failures import WireError, shorten_to_line
from treadle.models.layout import MessageBuilder, TextBuffer
from treadle.models.openai.chat_request import (
    CALL,
    CONTENT_PART,
    EXTRA_CONTENT,
    REASONING_DETAILS,
    REASONING_TEXTS,
)
from treadle.models.openai.chat_values import (
    check_list,
    check_object,
    check_text,
    make_value_error,
    parse_arguments,
    parse_usage,
)
from treadle.models.token_counts import UsageEstimator
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import StreamError, decode_event, make_cut_stream_error

_REASON_LENGTH_MAX: Final = 40

_FULL: Final = frozenset({"model_length", "model_context_window_exceeded"})
"""The end of the context, for Mistral and z.ai."""

_LENGTH: Final = _FULL | {"length", "max_tokens"}

_ABORTED: Final = frozenset({"abort", "aborted", "cancelled"})
"""vLLM and SGLang, when the server gave up; the text so far is no answer."""

_FAILURES: Final = {
    "content_filter": (LlmErrorKind.CONTENT_FILTERED, "the provider's filter stopped the answer"),
    "sensitive": (LlmErrorKind.CONTENT_FILTERED, "the provider's filter stopped the answer"),
    "function_call_filter": (LlmErrorKind.SERVER, "the model wrote a call that cannot be read"),
    "network_error": (LlmErrorKind.SERVER, "the provider failed in the middle of the answer"),
    "insufficient_system_resource": (LlmErrorKind.OVERLOADED, "the provider ran out of resources"),
}
"""Reasons of a stop without an answer: z.ai (2, 4), Gemini (3, at random), DeepSeek (5)."""

_GROWING: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The kinds of OpenRouter's reasoning details that come in pieces, and the field that grows."""

COMPARED_LENGTH_MAX: Final = 64 * 1024 * 1024
"""Characters of arguments that are looked at, over and over, to tell calls apart."""


class ChatAssembler:
    """The answer to one request.

    Args:
        request: what was asked; its size is the estimate where the endpoint tells no usage.
        source: `provider:model`.
    """

    def __init__(self, request: LlmRequest, source: str) -> None:
        self._estimator = UsageEstimator(count_request_characters(request))
        self._builder = MessageBuilder(source, len(request.messages))
        self._calls = _CallsBuilder(self._builder)
        self._reasoning = _ReasoningBuilder(self._builder)
        self._parts: list[list[str]] = []
        """Mistral's content is a list: the text of each of its thinking parts."""
        self._is_thinking = False
        self._usage: Usage | None = None
        self._usage_length = 0
        """How much was written when the usage was told."""
        self._is_done = False
        self._is_finished = False
        self._reason = ""
        self._has_begun = False
        self._has_refused = False

    @property
    def is_done(self) -> bool:
        """Whether `[DONE]` has come."""
        return self._is_done

    @property
    def usage(self) -> Usage | None:
        """What the endpoint has told; the latest counts, it is a sum each time.

        A guess where nothing was told, or more was written after it and the end has not come.
        """
        if self._usage is None or (
            self._estimator.written_length > self._usage_length and not self._is_whole
        ):
            return self._estimator.estimate_cut_answer(self._usage)
        return self._usage

    @property
    def _is_whole(self) -> bool:
        """A `finish_reason` came after the last of it, or `[DONE]`.

        Proxies leave out the one or the other, and neither is said before its time.
        """
        return self._is_finished or (self._is_done and self._has_begun)

    def add_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        """The deltas that a chunk brings.

        Raises:
            WireError: it is no chunk, or contradicts what came before.
            StreamError: it brings an error.
        """
        before = self._usage
        try:
            yield from self._estimator.count_deltas(self._handle_event(event))
        finally:
            if self._usage is not before:
                self._usage_length = self._estimator.written_length

    def _handle_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        data = event.data.strip()
        if data.startswith(b"[DONE]"):
            self._is_done = True
        if self._is_done or data in (b"", b"null"):
            return
        chunk = decode_event(event)
        groq = check_object(chunk.get("x_groq"), "x_groq")
        self._usage = (
            parse_usage(chunk.get("usage")) or parse_usage(groq.get("usage")) or self._usage
        )
        if error := chunk.get("error") or groq.get("error"):
            raise StreamError({"error": error})
        is_none = not chunk.get("choices") and is_error_body(chunk)
        if event.event == "error" or chunk.get("object") == "error" or is_none:  # older vLLM
            raise StreamError(chunk)
        for choice in check_list(chunk.get("choices"), "choices"):
            choice = check_object(choice, "a choice")
            if choice.get("index") in (None, 0):
                yield from self._handle_choice(choice)

    def end(self) -> Iterator[ModelEvent]:
        """The last deltas and the answer.

        Raises:
            WireError: it is not complete, or the endpoint withholds it.
        """
        if not self._is_whole or self._reason in _ABORTED:
            raise make_cut_stream_error()
        reason, _, why = self._reason.partition(":")  # Gemini says why behind it
        if reason in _FAILURES:
            kind, text = _FAILURES[reason]
            raise WireError(kind, f"{text}:{why}" if why else text)
        is_cut = self._reason in _LENGTH
        yield from self._estimator.count_deltas(self._calls.end(is_cut=is_cut))
        # Without a reason nobody knows that the last call has no arguments: a proxy says `[DONE]`
        # too when what is behind it has died.
        yield from self._builder.end(is_cut=is_cut or not self._is_finished)
        # after it, because the block that came last is the one that was cut
        self._calls.store_extras()
        if fields := self._reasoning.build_fields():
            self._builder.put_opaque("reasoning", fields)
        for number, said in enumerate(self._parts):
            self._builder.put_opaque(("part", number), _make_thinking_part("".join(said)))
        message = self._builder.build_message()
        if self._reason in _FULL and not (message.content or message.tool_calls):
            text = "the request left no room in the context window for an answer"
            raise WireError(LlmErrorKind.CONTEXT_TOO_LONG, text)
        usage = self._usage or self._estimator.estimate()
        yield LlmEvent.Completed(LlmResponse(message, usage, self._choose_finish_reason(message)))

    def _handle_choice(self, choice: dict[str, Any]) -> Iterator[ModelEvent]:
        if error := choice.get("error"):  # OpenRouter
            raise StreamError({"error": error})
        reason = check_text(choice.get("finish_reason"), "finish_reason")
        if reason == "error":
            raise StreamError({"message": "the answer ended with an error that it does not name"})
        delta = check_object(choice.get("delta"), "a delta")
        content, refusal = delta.get("content"), check_text(delta.get("refusal"), "a refusal")
        calls = check_list(delta.get("tool_calls"), "tool_calls")
        if (old := delta.get("function_call")) is not None:
            calls = [*calls, {"index": 0, "function": old}]
        if content or refusal or calls:
            # Gemini says "stop" in every chunk; only the last counts
            self._is_finished, self._has_begun = False, True
        if thought := self._reasoning.add_delta(delta):
            self._has_begun = True
            yield from self._builder.add_thinking(thought)
        for part in content if isinstance(content, list) else ({"type": "text", "text": content},):
            yield from self._handle_content_part(check_object(part, "a part of the content"))
        if refusal:
            self._has_refused = True
            yield from self._builder.add_text(("text", len(self._parts)), refusal)
        for position, call in enumerate(calls):
            yield from self._calls.add_piece(check_object(call, "a call"), position, len(calls))
        if reason:
            self._is_finished, self._reason = True, reason

    def _handle_content_part(self, part: dict[str, Any]) -> Iterator[ModelEvent]:
        """Text, or a part of a content that is a list: Mistral's, thinking before text."""
        if part.get("type") == "thinking":
            if not self._is_thinking:
                self._is_thinking = True
                self._parts.append([])
                self._builder.put_opaque(("part", len(self._parts) - 1), {})
            said = part.get("thinking")
            for piece in (
                [{"text": said}] if isinstance(said, str) else check_list(said, "thinking")
            ):
                text = check_text(check_object(piece, "a thought").get("text"), "a thought")
                self._parts[-1].append(text)
                yield from self._builder.add_thinking(text)
        elif text := check_text(part.get("text"), "the content"):
            self._is_thinking = False
            yield from self._builder.add_text(("text", len(self._parts)), text)

    def _choose_finish_reason(self, message: Message) -> str:
        if self._reason in _LENGTH:
            return "length"
        if message.tool_calls:
            return "tool_calls"  # whatever it says: Ollama and Gemini say "stop"
        if self._has_refused:
            return "refusal"
        if self._reason in ("", "tool_calls", "function_call"):
            return "stop"
        return shorten_to_line(self._reason)[:_REASON_LENGTH_MAX]


class _ReasoningBuilder:
    """Reasoning beside the content: shown once, kept once, under the field in which it comes."""

    def __init__(self, draft: MessageBuilder) -> None:
        self._builder = draft
        self._texts: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._growing: list[tuple[dict[str, Any], list[str]]] = []
        self._at: dict[tuple[str, int], int] = {}

    def add_delta(self, delta: dict[str, Any]) -> str:
        """What of it is to be shown."""
        texts = [check_text(delta.get(field), field) for field in REASONING_TEXTS]
        for field, text in zip(REASONING_TEXTS, texts, strict=True):
            if text:
                self._texts.setdefault(field, []).append(text)
        details = check_list(delta.get(REASONING_DETAILS), REASONING_DETAILS)
        told = "".join(
            [self._add_detail(check_object(one, "a reasoning detail")) for one in details]
        )
        return next(filter(None, texts), told)

    def build_fields(self) -> dict[str, Any]:
        """What goes back. OpenRouter's details say all that its plain text says, and more.

        Of two texts it is `reasoning`: vLLM reads it where it sends both, and Cerebras refuses the
        other.
        """
        for detail, pieces in self._growing:
            detail[_GROWING[detail["type"]]] = "".join(pieces)
        if self._details:
            return {REASONING_DETAILS: self._details}
        field = next((name for name in reversed(REASONING_TEXTS) if name in self._texts), None)
        return {} if field is None else {field: "".join(self._texts[field])}

    def _add_detail(self, detail: dict[str, Any]) -> str:
        """Put the pieces of a detail together: its signature is over the whole text.

        Those of one `index` belong together, those without one if nothing came between them.
        Whatever is not text (encrypted reasoning) comes whole.
        """
        kind, index = check_text(detail.get("type"), "a kind of detail"), detail.get("index")
        grows = _GROWING.get(kind)
        if grows is None:
            self._builder.count_size(detail)
            self._details.append(detail)
            return ""
        piece = check_text(detail.pop(grows, None), "a reasoning detail")
        if type(index) is int:
            place = self._at.get((kind, index))
        else:
            is_next = bool(self._growing) and self._growing[-1][0] is self._details[-1]
            place = len(self._growing) - 1 if is_next else None
            if place is not None and self._growing[place][0]["type"] != kind:
                place = None
        if place is None:
            place = len(self._growing)
            self._growing.append(({"type": kind}, []))
            self._details.append(self._growing[-1][0])
            if type(index) is int:
                self._at[kind, index] = place
        known, pieces = self._growing[place]
        fresh = {
            key: value
            for key, value in detail.items()
            if key not in known or value not in (None, known[key])
        }
        if fresh:  # each piece says the same of the whole; it is kept once
            self._builder.count_size(fresh)
            known |= fresh
        pieces.append(piece)
        return piece


class _StreamedCall:
    """A call so far. It is opened in the draft when its name is known to be whole."""

    def __init__(self, key: int, call_id: str) -> None:
        self.key = key
        self.id = call_id
        self.name = ""
        self.pieces = TextBuffer()
        self.extra: Any = None
        self.place: int | None = None
        """Which call of the draft it is, once it is opened."""


class _CallsBuilder:
    """Which call a piece belongs to: the part of the format that endpoints bend most.

    By the letter, a call is known by its `index`; id and name come once, with its first piece. In
    fact Ollama (its issue 15457), Dynamo and many proxies give every call the index 0; older Ollama
    (7881) and Gemini leave the index out; some leave out ids, some repeat id and name in every
    piece, some send a name in pieces or after the first arguments.
    """

    def __init__(self, draft: MessageBuilder) -> None:
        self._builder = draft
        self._count = 0
        self._opened: list[_StreamedCall] = []
        self._waiting: list[_StreamedCall] = []
        self._last: _StreamedCall | None = None
        self._by_index: dict[int, _StreamedCall] = {}
        self._by_id: dict[str, _StreamedCall] = {}
        self._compared_length = 0

    def add_piece(
        self, piece: dict[str, Any], position: int, siblings: int
    ) -> Iterator[ModelEvent]:
        """The deltas that one piece brings.

        Its position among `siblings` pieces is its index, if it has neither index nor id.
        """
        function = check_object(piece.get("function"), "the function of a call")
        call_id = check_text(piece.get("id"), "the id of a call")
        name = check_text(function.get("name"), "the name of a call")
        arguments = parse_arguments(function.get("arguments"))
        index = piece.get("index")
        if index is None and not call_id and siblings > 1:
            index = position
        if index is not None and type(index) is not int:
            raise make_value_error("the index of a call", index)
        call = self._find_call(index, call_id, name, arguments)
        if call is None:
            yield from self._open_named_calls()
            call = _StreamedCall(self._count, call_id)
            self._count += 1
            self._waiting.append(call)
        self._last = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            call.id = call.id or call_id
            self._by_id.setdefault(call_id, call)
        if piece.get(EXTRA_CONTENT) is not None:
            call.extra = piece[EXTRA_CONTENT]
            self._builder.count_size(call.extra)
        yield from self._append_piece(call, name, arguments)

    def end(self, *, is_cut: bool) -> Iterator[ModelEvent]:
        """Open what is left. A call without a name is left out if the answer was cut."""
        yield from self._open_named_calls()
        if self._waiting and not is_cut:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, "a call has no name")

    def store_extras(self) -> None:
        """What hangs on a call goes back with it: the signatures of Gemini."""
        for place, call in enumerate(self._opened):
            if call.extra is not None:
                block = {CALL: place, EXTRA_CONTENT: call.extra}
                self._builder.put_opaque(("extra", call.key), block)

    def _find_call(
        self, index: int | None, call_id: str, name: str, arguments: str
    ) -> _StreamedCall | None:
        """The call that a piece continues; `None` if it begins one."""
        known = self._by_id.get(call_id) if call_id else None
        if index is None:
            call = known if call_id else self._last
        elif index in self._by_index:
            call = self._by_index[index]
        else:  # an index that drifts from piece to piece, unless it is an id that two calls share
            call = None if name else known
        if call is None:
            return None
        if call_id and call.id and call_id != call.id:
            return known  # one index for all calls
        is_same = bool(call_id) and call_id == call.id
        if (
            name
            and not is_same
            and arguments.lstrip().startswith("{")
            and self._has_whole_arguments(call)
        ):
            return None  # one index, ids missing, every call whole
        return call

    def _has_whole_arguments(self, call: _StreamedCall) -> bool:
        """Whether the arguments of a call are an object that has ended: nothing can follow them."""
        said = str(call.pieces)
        self._compared_length += len(said)
        if self._compared_length > COMPARED_LENGTH_MAX:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, "its calls cannot be told apart")
        try:
            return isinstance(msgspec.json.decode(said), dict)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return False

    def _append_piece(self, call: _StreamedCall, name: str, arguments: str) -> Iterator[ModelEvent]:
        if name and name != call.name:
            if call.place is not None:
                text = f"a call to {call.name!r} goes on as one to {name!r}"
                raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
            call.name += name
        call.pieces.append(arguments)
        if call.place is not None:
            yield from self._builder.add_arguments(call.key, arguments)
        elif call.name and arguments:
            yield from self._open_named_calls()

    def _open_named_calls(self) -> Iterator[ModelEvent]:
        """In the order in which they began."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if not call.name:
                self._waiting.append(call)
                continue
            call.place = len(self._opened)
            self._opened.append(call)
            yield from self._builder.open_call(call.key, call.id, call.name)
            yield from self._builder.add_arguments(call.key, str(call.pieces))


def _make_thinking_part(text: str) -> dict[str, Any]:
    return {CONTENT_PART: {"type": "thinking", "thinking": [{"type": "text", "text": text}]}}
