"""Turns the chunks of Chat Completions into events.

Endpoints differ, so each leniency below names who needs it. Where a chunk can be read in two ways,
no call may get the arguments of another; what makes no sense at all is a `WireError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from treadle.core.budget import length_of
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.models.counts import Tally, token_count
from treadle.models.error_body import says_error
from treadle.models.failures import WireError, one_line
from treadle.models.layout import Draft, Pieces
from treadle.models.openai.chat_request import (
    CALL,
    CONTENT_PART,
    EXTRA_CONTENT,
    REASONING_DETAILS,
    REASONING_TEXTS,
)
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import StreamError, cut_stream, decode_event

_EXCERPT_LENGTH: Final = 100
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

LOOKED_AT_MAX: Final = 64 * 1024 * 1024
"""Characters of arguments that are looked at, over and over, to tell calls apart."""


class ChatAssembler:
    """The answer to one request.

    Args:
        request: what was asked; its size is the estimate where the endpoint tells no usage.
        source: `provider:model`.
    """

    def __init__(self, request: LlmRequest, source: str) -> None:
        self._tally = Tally(length_of(request))
        self._draft = Draft(source, len(request.messages))
        self._calls = _Calls(self._draft)
        self._reasoning = _Reasoning(self._draft)
        self._parts: list[list[str]] = []
        """Mistral's content is a list: the text of each of its thinking parts."""
        self._is_thinking = False
        self._usage: Usage | None = None
        self._told_at = 0
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
            self._tally.written_length > self._told_at and not self._is_whole
        ):
            return self._tally.at_least(self._usage)
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
            yield from self._tally.count(self._take(event))
        finally:
            if self._usage is not before:
                self._told_at = self._tally.written_length

    def _take(self, event: SseEvent) -> Iterator[ModelEvent]:
        data = event.data.strip()
        if data.startswith(b"[DONE]"):
            self._is_done = True
        if self._is_done or data in (b"", b"null"):
            return
        chunk = decode_event(event)
        groq = _object(chunk.get("x_groq"), "x_groq")
        self._usage = _usage_in(chunk.get("usage")) or _usage_in(groq.get("usage")) or self._usage
        if error := chunk.get("error") or groq.get("error"):
            raise StreamError({"error": error})
        is_none = not chunk.get("choices") and says_error(chunk)
        if event.event == "error" or chunk.get("object") == "error" or is_none:  # older vLLM
            raise StreamError(chunk)
        for choice in _list(chunk.get("choices"), "choices"):
            choice = _object(choice, "a choice")
            if choice.get("index") in (None, 0):
                yield from self._choose(choice)

    def end(self) -> Iterator[ModelEvent]:
        """The last deltas and the answer.

        Raises:
            WireError: it is not complete, or the endpoint withholds it.
        """
        if not self._is_whole or self._reason in _ABORTED:
            raise cut_stream()
        reason, _, why = self._reason.partition(":")  # Gemini says why behind it
        if reason in _FAILURES:
            kind, text = _FAILURES[reason]
            raise WireError(kind, f"{text}:{why}" if why else text)
        is_cut = self._reason in _LENGTH
        yield from self._tally.count(self._calls.end(is_cut=is_cut))
        # Without a reason nobody knows that the last call has no arguments: a proxy says `[DONE]`
        # too when what is behind it has died.
        yield from self._draft.end(is_cut=is_cut or not self._is_finished)
        # after it, because the block that came last is the one that was cut
        self._calls.keep_extras()
        if fields := self._reasoning.fields():
            self._draft.put_opaque("reasoning", fields)
        for number, said in enumerate(self._parts):
            self._draft.put_opaque(("part", number), _thinking_part("".join(said)))
        message = self._draft.message()
        if self._reason in _FULL and not (message.content or message.tool_calls):
            text = "the request left no room in the context window for an answer"
            raise WireError(LlmErrorKind.CONTEXT_TOO_LONG, text)
        usage = self._usage or self._tally.guess()
        yield LlmEvent.Completed(LlmResponse(message, usage, self._finish_reason(message)))

    def _choose(self, choice: dict[str, Any]) -> Iterator[ModelEvent]:
        if error := choice.get("error"):  # OpenRouter
            raise StreamError({"error": error})
        reason = _text(choice.get("finish_reason"), "finish_reason")
        if reason == "error":
            raise StreamError({"message": "the answer ended with an error that it does not name"})
        delta = _object(choice.get("delta"), "a delta")
        content, refusal = delta.get("content"), _text(delta.get("refusal"), "a refusal")
        calls = _list(delta.get("tool_calls"), "tool_calls")
        if (old := delta.get("function_call")) is not None:
            calls = [*calls, {"index": 0, "function": old}]
        if content or refusal or calls:
            # Gemini says "stop" in every chunk; only the last counts
            self._is_finished, self._has_begun = False, True
        if thought := self._reasoning.add_delta(delta):
            self._has_begun = True
            yield from self._draft.thinking(thought)
        for part in content if isinstance(content, list) else ({"type": "text", "text": content},):
            yield from self._take_part(_object(part, "a part of the content"))
        if refusal:
            self._has_refused = True
            yield from self._draft.add_text(("text", len(self._parts)), refusal)
        for position, call in enumerate(calls):
            yield from self._calls.add_piece(_object(call, "a call"), position, len(calls))
        if reason:
            self._is_finished, self._reason = True, reason

    def _take_part(self, part: dict[str, Any]) -> Iterator[ModelEvent]:
        """Text, or a part of a content that is a list: Mistral's, thinking before text."""
        if part.get("type") == "thinking":
            if not self._is_thinking:
                self._is_thinking = True
                self._parts.append([])
                self._draft.put_opaque(("part", len(self._parts) - 1), {})
            said = part.get("thinking")
            for piece in [{"text": said}] if isinstance(said, str) else _list(said, "thinking"):
                text = _text(_object(piece, "a thought").get("text"), "a thought")
                self._parts[-1].append(text)
                yield from self._draft.thinking(text)
        elif text := _text(part.get("text"), "the content"):
            self._is_thinking = False
            yield from self._draft.add_text(("text", len(self._parts)), text)

    def _finish_reason(self, message: Message) -> str:
        if self._reason in _LENGTH:
            return "length"
        if message.tool_calls:
            return "tool_calls"  # whatever it says: Ollama and Gemini say "stop"
        if self._has_refused:
            return "refusal"
        if self._reason in ("", "tool_calls", "function_call"):
            return "stop"
        return one_line(self._reason)[:_REASON_LENGTH_MAX]


class _Reasoning:
    """Reasoning beside the content: shown once, kept once, under the field in which it comes."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._texts: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._growing: list[tuple[dict[str, Any], list[str]]] = []
        self._at: dict[tuple[str, int], int] = {}

    def add_delta(self, delta: dict[str, Any]) -> str:
        """What of it is to be shown."""
        texts = [_text(delta.get(field), field) for field in REASONING_TEXTS]
        for field, text in zip(REASONING_TEXTS, texts, strict=True):
            if text:
                self._texts.setdefault(field, []).append(text)
        details = _list(delta.get(REASONING_DETAILS), REASONING_DETAILS)
        told = "".join([self._add(_object(one, "a reasoning detail")) for one in details])
        return next(filter(None, texts), told)

    def fields(self) -> dict[str, Any]:
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

    def _add(self, detail: dict[str, Any]) -> str:
        """Put the pieces of a detail together: its signature is over the whole text.

        Those of one `index` belong together, those without one if nothing came between them.
        Whatever is not text (encrypted reasoning) comes whole.
        """
        kind, index = _text(detail.get("type"), "a kind of detail"), detail.get("index")
        grows = _GROWING.get(kind)
        if grows is None:
            self._draft.keep(detail)
            self._details.append(detail)
            return ""
        piece = _text(detail.pop(grows, None), "a reasoning detail")
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
            self._draft.keep(fresh)
            known |= fresh
        pieces.append(piece)
        return piece


class _StreamedCall:
    """A call so far. It is opened in the draft when its name is known to be whole."""

    def __init__(self, key: int, call_id: str) -> None:
        self.key = key
        self.id = call_id
        self.name = ""
        self.pieces = Pieces()
        self.extra: Any = None
        self.place: int | None = None
        """Which call of the draft it is, once it is opened."""


class _Calls:
    """Which call a piece belongs to: the part of the format that endpoints bend most.

    By the letter, a call is known by its `index`; id and name come once, with its first piece. In
    fact Ollama (its issue 15457), Dynamo and many proxies give every call the index 0; older Ollama
    (7881) and Gemini leave the index out; some leave out ids, some repeat id and name in every
    piece, some send a name in pieces or after the first arguments.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._count = 0
        self._opened: list[_StreamedCall] = []
        self._waiting: list[_StreamedCall] = []
        self._last: _StreamedCall | None = None
        self._by_index: dict[int, _StreamedCall] = {}
        self._by_id: dict[str, _StreamedCall] = {}
        self._looked_at = 0

    def add_piece(
        self, piece: dict[str, Any], position: int, siblings: int
    ) -> Iterator[ModelEvent]:
        """The deltas that one piece brings.

        Its position among `siblings` pieces is its index, if it has neither index nor id.
        """
        function = _object(piece.get("function"), "the function of a call")
        call_id = _text(piece.get("id"), "the id of a call")
        name = _text(function.get("name"), "the name of a call")
        arguments = _arguments(function.get("arguments"))
        index = piece.get("index")
        if index is None and not call_id and siblings > 1:
            index = position
        if index is not None and type(index) is not int:
            raise _nonsense("the index of a call", index)
        call = self._find(index, call_id, name, arguments)
        if call is None:
            yield from self._open_named()
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
            self._draft.keep(call.extra)
        yield from self._add(call, name, arguments)

    def end(self, *, is_cut: bool) -> Iterator[ModelEvent]:
        """Open what is left. A call without a name is left out if the answer was cut."""
        yield from self._open_named()
        if self._waiting and not is_cut:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, "a call has no name")

    def keep_extras(self) -> None:
        """What hangs on a call goes back with it: the signatures of Gemini."""
        for place, call in enumerate(self._opened):
            if call.extra is not None:
                block = {CALL: place, EXTRA_CONTENT: call.extra}
                self._draft.put_opaque(("extra", call.key), block)

    def _find(
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
        if name and not is_same and arguments.lstrip().startswith("{") and self._is_whole(call):
            return None  # one index, ids missing, every call whole
        return call

    def _is_whole(self, call: _StreamedCall) -> bool:
        """Whether the arguments of a call are an object that has ended: nothing can follow them."""
        said = str(call.pieces)
        self._looked_at += len(said)
        if self._looked_at > LOOKED_AT_MAX:
            raise WireError(LlmErrorKind.INVALID_RESPONSE, "its calls cannot be told apart")
        try:
            return isinstance(msgspec.json.decode(said), dict)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return False

    def _add(self, call: _StreamedCall, name: str, arguments: str) -> Iterator[ModelEvent]:
        if name and name != call.name:
            if call.place is not None:
                text = f"a call to {call.name!r} goes on as one to {name!r}"
                raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
            call.name += name
        call.pieces.append(arguments)
        if call.place is not None:
            yield from self._draft.add_arguments(call.key, arguments)
        elif call.name and arguments:
            yield from self._open_named()

    def _open_named(self) -> Iterator[ModelEvent]:
        """In the order in which they began."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if not call.name:
                self._waiting.append(call)
                continue
            call.place = len(self._opened)
            self._opened.append(call)
            yield from self._draft.open_call(call.key, call.id, call.name)
            yield from self._draft.add_arguments(call.key, str(call.pieces))


def _thinking_part(text: str) -> dict[str, Any]:
    return {CONTENT_PART: {"type": "thinking", "thinking": [{"type": "text", "text": text}]}}


def _usage_in(told: Any) -> Usage | None:
    """The usage that an endpoint tells; `None` if it tells nothing, or nothing sensible.

    The total counts where it is more than the two sums: xAI and Gemini leave the tokens of
    reasoning out of `completion_tokens`. Zeros alone are a place that was never filled.
    """
    if not isinstance(told, dict):
        return None
    read, written = token_count(told, "prompt_tokens"), token_count(told, "completion_tokens")
    if read is None or written is None or read + written == 0:
        return None
    written = max(written, (token_count(told, "total_tokens") or 0) - read)
    of_read = told.get("prompt_tokens_details")
    cached = token_count(of_read, "cached_tokens")
    if cached is None:  # DeepSeek; Moonshot
        cached = token_count(told, "prompt_cache_hit_tokens") or token_count(told, "cached_tokens")
    cached = cached or 0
    stored = token_count(of_read, "cache_write_tokens") or 0
    thought = token_count(told.get("completion_tokens_details"), "reasoning_tokens") or 0
    return Usage(
        read,
        written,
        cache_read_tokens=cached if cached <= read else 0,
        cache_write_tokens=stored if cached + stored <= read else 0,
        reasoning_tokens=thought if thought <= written else 0,
    )


def _arguments(value: Any) -> str:
    """Text; or an object as it stands, from servers that copy Ollama's own format."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return _text(value, "the arguments of a call")


def _nonsense(what: str, value: Any) -> WireError:
    told = repr(value[:_EXCERPT_LENGTH]) if isinstance(value, str) else type(value).__name__
    text = one_line(f"{what} is {told}, which makes no sense there")
    return WireError(LlmErrorKind.INVALID_RESPONSE, text)


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _nonsense(what, value)
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _nonsense(what, value)
    return value


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _nonsense(what, value)
    return value
