"""The event stream of OpenAI's Responses API, made into a message.

An answer is told up to four times: in deltas, in `done` events of its parts, in `done` events of
its items, and whole in `response.completed`. Deltas are shown as they come. What comes later may
add what was not told before (some servers send no deltas, some an empty last `output`); where it
contradicts what was shown, the answer is refused: nobody knows which of the two the model meant.
The item that is done is the truth about its parts: some servers (Bedrock, for gpt-oss) number them
otherwise in deltas, so they are compared in order and not by number.
`sequence_number` is not looked at, because compatible servers do not count; what is lost or comes
twice is noticed by that comparison.

Items that are whole in themselves (reasoning, searches the server made, types that nobody knows
yet) are kept for their model as their last `output_item.done` brings them. Calls of tools that
were not offered wait for an output that nobody will give: they are refused, because the API would
refuse every later request of the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.models.counts import Tally, token_count
from treadle.models.error_body import says_error
from treadle.models.failures import WireError, one_line
from treadle.models.layout import Draft, Pieces
from treadle.models.openai.responses_request import TEXT_FIELD, shape_of
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import ALIVE, StreamError, cut_stream, decode_event
from treadle.thread.record import clean

NOT_OFFERED: Final = frozenset(
    {
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_approval_request",
        "function_call_output",
    }
)
"""Items that wait for an output of ours, for tools of kinds that requests here never offer; and
outputs, which are ours alone to give. Either would leave a call and its result apart."""

_Data: TypeAlias = dict[str, Any]


class _Item:
    __slots__ = ("ids", "index", "is_cut", "is_done", "kind", "told", "value")

    def __init__(self, index: int, kind: str, value: _Data) -> None:
        self.index = index
        self.kind = kind
        self.value = value
        self.ids = {value.get("id")} if _word(value.get("id")) else set[str]()
        self.told: dict[int, _Told] = {}
        """What was told of its parts, by content index; of a call its arguments, as part 0."""
        self.is_done = False
        self.is_cut = False

    @property
    def is_opaque(self) -> bool:
        return self.kind not in {"message", "function_call"}


class _Told:
    """The text of one part as it came, to compare it with what is told later."""

    __slots__ = ("kind", "pieces")

    def __init__(self) -> None:
        self.kind = ""
        self.pieces = Pieces()


class ResponsesAssembler:
    """Makes the events of one response into those of this program.

    Args:
        source: `provider:model`.
        salt: the number of messages in the request.
        input_size: characters of the request, for an estimate.
    """

    def __init__(self, source: str, *, salt: int, input_size: int) -> None:
        self._draft = Draft(source, salt)
        self._tally = Tally(input_size)
        self._items: dict[int, _Item] = {}
        self._usage: Usage | None = None
        self._cut_by: str | None = None
        self._is_done = False
        self._said_at = (0, 0)
        """Item and part of the last text: text is shown as it comes, so it comes in order."""
        self._thought: tuple[Any, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether `response.completed` or `response.incomplete` has come."""
        return self._is_done

    @property
    def usage(self) -> Usage | None:
        """What the server reported, which it does at the end; before it a guess."""
        return self._usage or self._tally.at_least(None)

    def add_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        """The deltas that an event brings; raises `WireError` or `StreamError`."""
        return self._tally.count(self._take(event))

    def _take(self, event: SseEvent) -> Iterator[ModelEvent]:
        if self._is_done or event.data.strip() == b"[DONE]":  # the end mark of the chat format
            return
        data = decode_event(event)
        kind = _word(data.get("type")) or event.event
        if kind == "error" or data.get("error") or ("type" not in data and says_error(data)):
            raise StreamError(data)
        if kind in _LAST:
            yield from self._end_response(data, kind)
        elif kind in _HANDLERS:
            yield from _HANDLERS[kind](self, data)
        elif "item" in data and _index(data, "output_index") not in self._items:
            yield from self._item_added(data)
        else:
            yield ALIVE

    def end(self) -> Iterator[ModelEvent]:
        """Last deltas and `Completed`; raises `WireError` if the end marker did not come."""
        if not self._is_done:
            raise cut_stream()
        yield from self._draft.end(is_cut=self._cut_by is not None)
        message, usage = self._draft.message(), self._usage or self._tally.guess()
        yield LlmEvent.Completed(LlmResponse(message, usage, self._finish_reason()))

    def _finish_reason(self) -> str:
        if self._cut_by is not None:
            return "length" if self._cut_by == "max_output_tokens" else self._cut_by
        told = (part for item in self._items.values() for part in item.told.values())
        if any(part.kind == "refusal" and part.pieces for part in told):
            return "refusal"
        return "tool_calls" if self._draft.has_calls else "stop"

    def _created(self, data: _Data) -> Iterator[ModelEvent]:
        if self._items:
            raise _wrong("a second response begins inside the first")
        yield from ()

    def _item_added(self, data: _Data) -> Iterator[ModelEvent]:
        item = data.get("item")
        if item is not None:  # null is the empty announcement of some servers
            yield from self._begin(_index(data, "output_index"), item)

    def _begin(self, index: int, value: Any) -> Iterator[ModelEvent]:
        """An item begins. What it holds already is not final: later events bring it."""
        kind = _text(_object(value, "item"), "type")
        last = next(reversed(self._items), -1)
        if index <= last:
            raise _wrong(f"item {index} begins after item {last}")
        if kind in NOT_OFFERED:
            raise _wrong(f"the model calls a tool of a kind that was not offered: {kind}")
        if last >= 0 and self._items[last].is_opaque and not self._items[last].is_done:
            self._put(self._items[last], self._items[last].value)  # so that it keeps its place
        self._items[index] = _Item(index, kind, value)
        if kind == "message":
            self._draft.open_text((index, 0))
        elif kind == "function_call":
            name = _text(value, "name")
            if not name:
                raise _wrong("a call has no name")
            call_id = value.get("call_id") or ""
            if not isinstance(call_id, str):
                raise _wrong("the id of a call is no text")
            yield from self._draft.open_call(index, call_id, name)

    def _item_done(self, data: _Data) -> Iterator[ModelEvent]:
        index, value = _index(data, "output_index"), _object(data.get("item"), "item")
        if index not in self._items:
            yield from self._begin(index, value)
        yield from self._finish(self._items[index], value)

    def _finish(self, item: _Item, value: _Data) -> Iterator[ModelEvent]:
        if value.get("type") != item.kind:
            raise _wrong(f"item {item.index} is first {item.kind}, then {value.get('type')}")
        if item.kind == "message":
            yield from self._finish_message(item, value)
        elif item.kind == "function_call":
            for field in ("name", "call_id"):
                first, last = item.value.get(field), value.get(field)
                if first and last and first != last:
                    raise _wrong(f"the {field} of call {item.index} changes")
            yield from self._complete(item, 0, "arguments", value.get("arguments") or "")
            item.is_cut = value.get("status") == "incomplete"
        else:
            self._put(item, value)
        item.ids |= {value["id"]} if _word(value.get("id")) else set()
        item.is_done = True

    def _finish_message(self, item: _Item, value: _Data) -> Iterator[ModelEvent]:
        parts = value.get("content") or []
        if not isinstance(parts, list):
            raise _wrong(f"the content of item {item.index} is no list")
        if not parts:
            return
        kinds = [_text(_object(part, "part"), "type") for part in parts]
        known = [index for index, kind in enumerate(kinds) if kind in TEXT_FIELD]
        told = sorted(index for index, part in item.told.items() if part.pieces)
        places = known
        if not set(told) <= set(known):
            known = [index for index in known if parts[index].get(TEXT_FIELD[kinds[index]])]
            if len(told) > len(known):
                raise _wrong(f"text of item {item.index} is missing in the end")
            places = [*told, *range(told[-1] + 1, told[-1] + 1 + len(known) - len(told))]
        for index, place in zip(known, places, strict=True):
            kind = kinds[index]
            yield from self._complete(item, place, kind, parts[index].get(TEXT_FIELD[kind]) or "")
        is_last = next(reversed(self._items)) == item.index
        if is_last and (shape := shape_of(value)):  # it can only stand right behind its text
            self._put(item, shape)

    def _put(self, item: _Item, value: _Data) -> None:
        try:
            msgspec.json.encode(clean(value))
        except (OverflowError, RecursionError, ValueError) as error:
            raise _wrong(f"item {item.index} cannot be stored: {error}") from error
        self._draft.put_opaque(("item", item.index), value)

    def _part_added(self, data: _Data) -> Iterator[ModelEvent]:
        item = self._item(data)
        kind = _text(_object(data.get("part"), "part"), "type")
        if item.kind == "message" and kind in TEXT_FIELD:
            self._part(item, _index(data, "content_index"), kind)
        yield from ()

    def _part_done(self, data: _Data) -> Iterator[ModelEvent]:
        item, part = self._item(data), _object(data.get("part"), "part")
        kind = _text(part, "type")
        if item.kind == "message" and kind in TEXT_FIELD:
            whole = part.get(TEXT_FIELD[kind]) or ""
            yield from self._end_part(item, _index(data, "content_index"), kind, whole)

    def _text_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "message", "output_text", "delta")

    def _text_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "message", "output_text", "text")

    def _refusal_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "message", "refusal", "delta")

    def _refusal_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "message", "refusal", "refusal")

    def _arguments_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "function_call", "arguments", "delta")

    def _arguments_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._told(data, "function_call", "arguments", "arguments")

    def _told(self, data: _Data, owner: str, kind: str, field: str) -> Iterator[ModelEvent]:
        """A piece of the text of a part, or all of it."""
        item = self._item(data)
        if item.kind != owner:
            raise _wrong(f"{kind} for item {item.index}, which is {item.kind}")
        index = 0 if kind == "arguments" else _index(data, "content_index")
        piece = _text(data, field)
        if field != "delta":
            yield from self._end_part(item, index, kind, piece)
        elif item.is_done:
            raise _wrong(f"{kind} for item {item.index} comes after its end")
        else:
            yield from self._add(item, index, kind, piece)

    def _add(self, item: _Item, index: int, kind: str, piece: str) -> Iterator[ModelEvent]:
        self._part(item, index, kind).pieces.append(piece)
        if kind == "arguments":
            yield from self._draft.add_arguments(item.index, piece)
        elif piece:
            place = (item.index, index)
            if place < self._said_at:
                raise _wrong(f"text of item {item.index} comes after later text")
            self._said_at = place
            yield from self._draft.add_text(place, piece)

    def _end_part(self, item: _Item, index: int, kind: str, whole: Any) -> Iterator[ModelEvent]:
        told = item.told.get(index)
        is_late = item.kind == "message" and (item.index, index) < self._said_at
        if is_late and not (told and told.pieces):
            return  # numbered otherwise than its deltas, it seems: the end of the item decides
        yield from self._complete(item, index, kind, whole)

    def _complete(self, item: _Item, index: int, kind: str, whole: Any) -> Iterator[ModelEvent]:
        """All of a part's text: what was not told before is added; empty means not told."""
        if not isinstance(whole, str):
            raise _wrong(f"{kind} of item {item.index} is no text")
        told = self._part(item, index, kind)
        said, whole = clean(str(told.pieces)), clean(whole)
        if not whole.startswith(said) and whole:
            raise _wrong(f"{kind} of item {item.index} is not what was streamed before")
        if len(whole) > len(said):
            yield from self._add(item, index, kind, whole[len(said) :])

    def _part(self, item: _Item, index: int, kind: str) -> _Told:
        told = item.told.get(index)
        if told is None:
            if index and next(reversed(self._items)) != item.index:
                raise _wrong(f"part {index} of item {item.index} comes out of order")
            told = item.told[index] = _Told()
        if told.kind not in {"", kind}:
            raise _wrong(f"part {index} of item {item.index} is first {told.kind}, then {kind}")
        told.kind = kind
        return told

    def _item(self, data: _Data) -> _Item:
        index = _index(data, "output_index")
        if index not in self._items:
            raise _wrong(f"{data.get('type')} for item {index}, which has not begun")
        return self._items[index]

    def _thinking(self, data: _Data) -> Iterator[ModelEvent]:
        """A piece of reasoning, to be shown; parts of it are paragraphs."""
        piece = _text(data, "delta")
        part = data.get("summary_index", data.get("content_index"))
        place = (data.get("output_index"), part)
        if self._thought is not None and self._thought != place:
            yield from self._draft.thinking("\n\n")
        self._thought = place
        yield from self._draft.thinking(piece)

    def _end_response(self, data: _Data, kind: str) -> Iterator[ModelEvent]:
        response = _object(data.get("response"), "response")
        self._usage = usage_of(response.get("usage"))
        status = _word(response.get("status"))
        if kind == "response.failed" or status in {"failed", "cancelled"}:
            otherwise = {"message": f"the response is {status or 'failed'}; no reason given"}
            raise StreamError(response.get("error") or otherwise)
        details = response.get("incomplete_details")
        reason = _word(details.get("reason")) if isinstance(details, dict) else ""
        is_cut = kind == "response.incomplete" or status == "incomplete"
        if is_cut and reason == "content_filter":
            text = "a filter of the provider stopped the answer"
            raise StreamError({"code": reason, "message": text})
        if output := response.get("output"):
            yield from self._compare(output)
        self._expect_whole(is_cut=is_cut)
        if is_cut or any(item.is_cut for item in self._items.values()):
            self._cut_by = one_line(reason) or "incomplete"
        self._is_done = True

    def _compare(self, output: Any) -> Iterator[ModelEvent]:
        """The whole answer once more. Opaque items that are done stay as their `done` said.

        Some servers give fewer items here, or in another order: what was streamed as done holds.
        """
        if not isinstance(output, list):
            raise _wrong("the output of the response is no list")
        items = list(self._items.values())
        values = [_object(value, "item") for value in output]
        named = _same_ids(items, values)
        is_in_order = all(one in (None, items[nth]) for nth, one in enumerate(named[: len(items)]))
        if len(values) >= len(items) and is_in_order:  # some servers give other ids here, or none
            named = [*items, *[None] * (len(values) - len(items))]
        elif (None in named and (named[-1] is not None or len(values) < len(items))) or any(
            # One that was done under another number than it began with.
            one.ids & other.ids
            for one in items
            if one not in named
            for other in named
            if other is not None
        ):
            raise _wrong(f"{len(items)} items were streamed, {len(values)} others are in the end")
        for item, value in zip(named, values, strict=True):
            if item is None:
                index = next(reversed(self._items), -1) + 1
                yield from self._begin(index, value)
                item = self._items[index]
            if not (item.is_opaque and item.is_done and value.get("type") == item.kind):
                yield from self._finish(item, value)

    def _expect_whole(self, *, is_cut: bool) -> None:
        """Only the last item of an answer that was cut may be without its end."""
        last = next(reversed(self._items), None)
        for index, item in self._items.items():
            if (item.is_cut or not item.is_done) and index != last:
                raise _wrong(f"item {index} has no end")
            if not item.is_done and not is_cut:
                raise _wrong(f"the response is complete, but item {index} has no end")


_HANDLERS: Final[Mapping[str, Callable[[ResponsesAssembler, _Data], Iterator[ModelEvent]]]] = {
    "response.created": ResponsesAssembler._created,
    "response.output_item.added": ResponsesAssembler._item_added,
    "response.output_item.done": ResponsesAssembler._item_done,
    "response.content_part.added": ResponsesAssembler._part_added,
    "response.content_part.done": ResponsesAssembler._part_done,
    "response.output_text.delta": ResponsesAssembler._text_delta,
    "response.output_text.done": ResponsesAssembler._text_done,
    "response.refusal.delta": ResponsesAssembler._refusal_delta,
    "response.refusal.done": ResponsesAssembler._refusal_done,
    "response.function_call_arguments.delta": ResponsesAssembler._arguments_delta,
    "response.function_call_arguments.done": ResponsesAssembler._arguments_done,
    "response.reasoning_summary_text.delta": ResponsesAssembler._thinking,
    "response.reasoning_text.delta": ResponsesAssembler._thinking,
}
"""What brings something; every other event is a sign of life."""

_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _same_ids(items: list[_Item], values: list[_Data]) -> list[_Item | None]:
    """For each value the item that has its id; each item once."""
    left, found = list(items), list[_Item | None]()
    for value in values:
        name = _word(value.get("id"))
        found.append(next((one for one in left if name in one.ids), None))
        left = [one for one in left if one is not found[-1]]
    return found


def usage_of(told: Any) -> Usage | None:
    """The usage as reported; `None` without two numbers that make sense."""
    if not isinstance(told, dict):
        return None
    read, written = token_count(told, "input_tokens"), token_count(told, "output_tokens")
    if read is None or written is None:
        return None
    inward, outward = told.get("input_tokens_details"), told.get("output_tokens_details")
    cached = token_count(inward, "cached_tokens", read) or 0
    return Usage(
        read,
        written,
        cache_read_tokens=cached,
        cache_write_tokens=token_count(inward, "cache_write_tokens", read - cached) or 0,
        reasoning_tokens=token_count(outward, "reasoning_tokens", written) or 0,
    )


def _object(value: Any, what: str) -> _Data:
    if not isinstance(value, dict):
        raise _wrong(f"the {what} is no object")
    return value


def _text(data: _Data, field: str) -> str:
    value = data.get(field)
    if not isinstance(value, str):
        raise _wrong(f"{field} is missing or no text")
    return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(data: _Data, field: str) -> int:
    value = data.get(field)
    if type(value) is not int or value < 0:
        raise _wrong(f"{field} is missing or no index")
    return value


def _wrong(what: str) -> WireError:
    return WireError(LlmErrorKind.INVALID_RESPONSE, what)
