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
from msgspec.structs import replace

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.models.error_body import is_error_body
from treadle.models.failures import WireError, shorten_to_line
from treadle.models.layout import MessageBuilder, TextBuffer
from treadle.models.openai.responses_request import TEXT_FIELD, strip_text
from treadle.models.token_counts import UsageEstimator, get_token_count
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import ALIVE, StreamError, decode_event, make_cut_stream_error
from treadle.thread.record import replace_surrogates

NOT_OFFERED: Final = frozenset(
    {
        *("custom_tool_call", "computer_call", "local_shell_call", "shell_call"),
        *("apply_patch_call", "mcp_approval_request", "function_call_output"),
    }
)
"""Items that wait for an output of ours, for tools of kinds that requests here never offer; and
outputs, which are ours alone to give. Either would leave a call and its result apart."""

_Data: TypeAlias = dict[str, Any]


class _StreamedItem:
    __slots__ = ("ids", "index", "is_cut", "is_done", "kind", "parts", "value")

    def __init__(self, index: int, kind: str, value: _Data) -> None:
        self.index = index
        self.kind = kind
        self.value = value
        self.ids = {value.get("id")} if _text_or_empty(value.get("id")) else set[str]()
        self.parts: dict[int, _StreamedPart] = {}
        """What was told of its parts, by content index; of a call its arguments, as part 0."""
        self.is_done = False
        self.is_cut = False

    @property
    def is_opaque(self) -> bool:
        return self.kind not in {"message", "function_call"}


class _StreamedPart:
    """The text of one part as it came, to compare it with what is told later."""

    __slots__ = ("kind", "pieces")

    def __init__(self) -> None:
        self.kind = ""
        self.pieces = TextBuffer()


class ResponsesAssembler:
    """Makes the events of one response into those of this program.

    Args:
        source: `provider:model`.
        salt: the number of messages in the request.
        input_size: characters of the request, for an estimate.
    """

    def __init__(self, source: str, *, salt: int, input_size: int) -> None:
        self._builder = MessageBuilder(source, salt)
        self._estimator = UsageEstimator(input_size)
        self._items: dict[int, _StreamedItem] = {}
        self._usage: Usage | None = None
        self._cut_by: str | None = None
        self._is_done = False
        self._last_place = (0, 0)
        """Item and part of the last text: text is shown as it comes, so it comes in order."""
        self._thinking_place: tuple[Any, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether `response.completed` or `response.incomplete` has come."""
        return self._is_done

    @property
    def usage(self) -> Usage | None:
        """What the server reported, which it does at the end; before it a guess."""
        return self._usage or self._estimator.estimate_cut_answer(None)

    def add_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        """The deltas that an event brings; raises `WireError` or `StreamError`."""
        return self._estimator.count_deltas(self._handle_event(event))

    def _handle_event(self, event: SseEvent) -> Iterator[ModelEvent]:
        if self._is_done or event.data.strip() == b"[DONE]":  # the end mark of the chat format
            return
        data = decode_event(event)
        kind = _text_or_empty(data.get("type")) or event.event
        if kind == "error" or data.get("error") or ("type" not in data and is_error_body(data)):
            raise StreamError(data)
        if kind in _FINAL_EVENTS:
            yield from self._end_response(data, kind)
        elif kind in _HANDLERS:
            yield from _HANDLERS[kind](self, data)
        elif "item" in data and _get_index(data, "output_index") not in self._items:
            yield from self._handle_item_added(data)
        else:
            yield ALIVE

    def end(self) -> Iterator[ModelEvent]:
        """Last deltas and `Completed`; raises `WireError` if the end marker did not come."""
        if not self._is_done:
            raise make_cut_stream_error()
        yield from self._builder.end(is_cut=self._cut_by is not None)
        message, usage = self._builder.build_message(), self._usage or self._estimator.estimate()
        usage = replace(usage, web_searches=sum(map(_is_search, self._items.values())))
        yield LlmEvent.Completed(LlmResponse(message, usage, self._choose_finish_reason()))

    def _choose_finish_reason(self) -> str:
        if self._cut_by is not None:
            return "length" if self._cut_by == "max_output_tokens" else self._cut_by
        told = (part for item in self._items.values() for part in item.parts.values())
        if any(part.kind == "refusal" and part.pieces for part in told):
            return "refusal"
        return "tool_calls" if self._builder.has_calls else "stop"

    def _handle_created(self, data: _Data) -> Iterator[ModelEvent]:
        if self._items:
            raise _make_error("a second response begins inside the first")
        yield from ()

    def _handle_item_added(self, data: _Data) -> Iterator[ModelEvent]:
        item = data.get("item")
        if item is not None:  # null is the empty announcement of some servers
            yield from self._begin_item(_get_index(data, "output_index"), item)

    def _begin_item(self, index: int, value: Any) -> Iterator[ModelEvent]:
        """An item begins. What it holds already is not final: later events bring it."""
        kind = _get_text(_check_object(value, "item"), "type")
        last = next(reversed(self._items), -1)
        if index <= last:
            raise _make_error(f"item {index} begins after item {last}")
        if kind in NOT_OFFERED:
            raise _make_error(f"the model calls a tool of a kind that was not offered: {kind}")
        if last >= 0 and self._items[last].is_opaque and not self._items[last].is_done:
            self._store_item(
                self._items[last], self._items[last].value
            )  # so that it keeps its place
        self._items[index] = _StreamedItem(index, kind, value)
        if kind == "message":
            self._builder.open_text((index, 0))
        elif kind == "function_call":
            name = _get_text(value, "name")
            if not name:
                raise _make_error("a call has no name")
            call_id = value.get("call_id") or ""
            if not isinstance(call_id, str):
                raise _make_error("the id of a call is no text")
            yield from self._builder.open_call(index, call_id, name)

    def _handle_item_done(self, data: _Data) -> Iterator[ModelEvent]:
        index, value = _get_index(data, "output_index"), _check_object(data.get("item"), "item")
        if index not in self._items:
            yield from self._begin_item(index, value)
        yield from self._finish_item(self._items[index], value)

    def _finish_item(self, item: _StreamedItem, value: _Data) -> Iterator[ModelEvent]:
        if value.get("type") != item.kind:
            raise _make_error(f"item {item.index} is first {item.kind}, then {value.get('type')}")
        if item.kind == "message":
            yield from self._finish_message(item, value)
        elif item.kind == "function_call":
            for field in ("name", "call_id"):
                first, last = item.value.get(field), value.get(field)
                if first and last and first != last:
                    raise _make_error(f"the {field} of call {item.index} changes")
            yield from self._complete_part(item, 0, "arguments", value.get("arguments") or "")
            item.is_cut = value.get("status") == "incomplete"
        else:
            item.value = value
            self._store_item(item, value)
        item.ids |= {value["id"]} if _text_or_empty(value.get("id")) else set()
        item.is_done = True

    def _finish_message(self, item: _StreamedItem, value: _Data) -> Iterator[ModelEvent]:
        parts = value.get("content") or []
        if not isinstance(parts, list):
            raise _make_error(f"the content of item {item.index} is no list")
        if not parts:
            return
        kinds = [_get_text(_check_object(part, "part"), "type") for part in parts]
        known = [index for index, kind in enumerate(kinds) if kind in TEXT_FIELD]
        told = sorted(index for index, part in item.parts.items() if part.pieces)
        places = known
        if not set(told) <= set(known):
            known = [index for index in known if parts[index].get(TEXT_FIELD[kinds[index]])]
            if len(told) > len(known):
                raise _make_error(f"text of item {item.index} is missing in the end")
            places = [*told, *range(told[-1] + 1, told[-1] + 1 + len(known) - len(told))]
        for index, place in zip(known, places, strict=True):
            kind = kinds[index]
            yield from self._complete_part(
                item, place, kind, parts[index].get(TEXT_FIELD[kind]) or ""
            )
        is_last = next(reversed(self._items)) == item.index
        if is_last and (shape := strip_text(value)):  # it can only stand right behind its text
            self._store_item(item, shape)

    def _store_item(self, item: _StreamedItem, value: _Data) -> None:
        try:
            msgspec.json.encode(replace_surrogates(value))
        except (OverflowError, RecursionError, ValueError) as error:
            raise _make_error(f"item {item.index} cannot be stored: {error}") from error
        self._builder.put_opaque(("item", item.index), value)

    def _handle_part_added(self, data: _Data) -> Iterator[ModelEvent]:
        item = self._get_item(data)
        kind = _get_text(_check_object(data.get("part"), "part"), "type")
        if item.kind == "message" and kind in TEXT_FIELD:
            self._get_part(item, _get_index(data, "content_index"), kind)
        yield from ()

    def _handle_part_done(self, data: _Data) -> Iterator[ModelEvent]:
        item, part = self._get_item(data), _check_object(data.get("part"), "part")
        kind = _get_text(part, "type")
        if item.kind == "message" and kind in TEXT_FIELD:
            whole = part.get(TEXT_FIELD[kind]) or ""
            yield from self._end_part(item, _get_index(data, "content_index"), kind, whole)

    def _handle_text_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "message", "output_text", "delta")

    def _handle_text_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "message", "output_text", "text")

    def _handle_refusal_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "message", "refusal", "delta")

    def _handle_refusal_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "message", "refusal", "refusal")

    def _handle_arguments_delta(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "function_call", "arguments", "delta")

    def _handle_arguments_done(self, data: _Data) -> Iterator[ModelEvent]:
        yield from self._handle_part_text(data, "function_call", "arguments", "arguments")

    def _handle_part_text(
        self, data: _Data, owner: str, kind: str, field: str
    ) -> Iterator[ModelEvent]:
        """A piece of the text of a part, or all of it."""
        item = self._get_item(data)
        if item.kind != owner:
            raise _make_error(f"{kind} for item {item.index}, which is {item.kind}")
        index = 0 if kind == "arguments" else _get_index(data, "content_index")
        piece = _get_text(data, field)
        if field != "delta":
            yield from self._end_part(item, index, kind, piece)
        elif item.is_done:
            raise _make_error(f"{kind} for item {item.index} comes after its end")
        else:
            yield from self._add_text(item, index, kind, piece)

    def _add_text(
        self, item: _StreamedItem, index: int, kind: str, piece: str
    ) -> Iterator[ModelEvent]:
        self._get_part(item, index, kind).pieces.append(piece)
        if kind == "arguments":
            yield from self._builder.add_arguments(item.index, piece)
        elif piece:
            place = (item.index, index)
            if place < self._last_place:
                raise _make_error(f"text of item {item.index} comes after later text")
            self._last_place = place
            yield from self._builder.add_text(place, piece)

    def _end_part(
        self, item: _StreamedItem, index: int, kind: str, whole: Any
    ) -> Iterator[ModelEvent]:
        told = item.parts.get(index)
        is_late = item.kind == "message" and (item.index, index) < self._last_place
        if is_late and not (told and told.pieces):
            return  # numbered otherwise than its deltas, it seems: the end of the item decides
        yield from self._complete_part(item, index, kind, whole)

    def _complete_part(
        self, item: _StreamedItem, index: int, kind: str, whole: Any
    ) -> Iterator[ModelEvent]:
        """All of a part's text: what was not told before is added; empty means not told."""
        if not isinstance(whole, str):
            raise _make_error(f"{kind} of item {item.index} is no text")
        told = self._get_part(item, index, kind)
        said, whole = replace_surrogates(str(told.pieces)), replace_surrogates(whole)
        if not whole.startswith(said) and whole:
            raise _make_error(f"{kind} of item {item.index} is not what was streamed before")
        if len(whole) > len(said):
            yield from self._add_text(item, index, kind, whole[len(said) :])

    def _get_part(self, item: _StreamedItem, index: int, kind: str) -> _StreamedPart:
        told = item.parts.get(index)
        if told is None:
            if index and next(reversed(self._items)) != item.index:
                raise _make_error(f"part {index} of item {item.index} comes out of order")
            told = item.parts[index] = _StreamedPart()
        if told.kind not in {"", kind}:
            raise _make_error(
                f"part {index} of item {item.index} is first {told.kind}, then {kind}"
            )
        told.kind = kind
        return told

    def _get_item(self, data: _Data) -> _StreamedItem:
        index = _get_index(data, "output_index")
        if index not in self._items:
            raise _make_error(f"{data.get('type')} for item {index}, which has not begun")
        return self._items[index]

    def _handle_thinking(self, data: _Data) -> Iterator[ModelEvent]:
        """A piece of reasoning, to be shown; parts of it are paragraphs."""
        piece = _get_text(data, "delta")
        part = data.get("summary_index", data.get("content_index"))
        place = (data.get("output_index"), part)
        if self._thinking_place is not None and self._thinking_place != place:
            yield from self._builder.add_thinking("\n\n")
        self._thinking_place = place
        yield from self._builder.add_thinking(piece)

    def _end_response(self, data: _Data, kind: str) -> Iterator[ModelEvent]:
        response = _check_object(data.get("response"), "response")
        self._usage = parse_usage(response.get("usage"))
        status = _text_or_empty(response.get("status"))
        if kind == "response.failed" or status in {"failed", "cancelled"}:
            otherwise = {"message": f"the response is {status or 'failed'}; no reason given"}
            raise StreamError(response.get("error") or otherwise)
        details = response.get("incomplete_details")
        reason = _text_or_empty(details.get("reason")) if isinstance(details, dict) else ""
        is_cut = kind == "response.incomplete" or status == "incomplete"
        if is_cut and reason == "content_filter":
            text = "a filter of the provider stopped the answer"
            raise StreamError({"code": reason, "message": text})
        if output := response.get("output"):
            yield from self._compare_output(output)
        self._check_complete(is_cut=is_cut)
        if is_cut or any(item.is_cut for item in self._items.values()):
            self._cut_by = shorten_to_line(reason) or "incomplete"
        self._is_done = True

    def _compare_output(self, output: Any) -> Iterator[ModelEvent]:
        """The whole answer once more. Opaque items that are done stay as their `done` said.

        Some servers give fewer items here, or in another order: what was streamed as done holds.
        """
        if not isinstance(output, list):
            raise _make_error("the output of the response is no list")
        items = list(self._items.values())
        values = [_check_object(value, "item") for value in output]
        named = _match_items_by_id(items, values)
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
            raise _make_error(
                f"{len(items)} items were streamed, {len(values)} others are in the end"
            )
        for item, value in zip(named, values, strict=True):
            if item is None:
                index = next(reversed(self._items), -1) + 1
                yield from self._begin_item(index, value)
                item = self._items[index]
            if not (item.is_opaque and item.is_done and value.get("type") == item.kind):
                yield from self._finish_item(item, value)

    def _check_complete(self, *, is_cut: bool) -> None:
        """Only the last item of an answer that was cut may be without its end."""
        last = next(reversed(self._items), None)
        for index, item in self._items.items():
            if (item.is_cut or not item.is_done) and index != last:
                raise _make_error(f"item {index} has no end")
            if not item.is_done and not is_cut:
                raise _make_error(f"the response is complete, but item {index} has no end")


_HANDLERS: Final[Mapping[str, Callable[[ResponsesAssembler, _Data], Iterator[ModelEvent]]]] = {
    "response.created": ResponsesAssembler._handle_created,
    "response.output_item.added": ResponsesAssembler._handle_item_added,
    "response.output_item.done": ResponsesAssembler._handle_item_done,
    "response.content_part.added": ResponsesAssembler._handle_part_added,
    "response.content_part.done": ResponsesAssembler._handle_part_done,
    "response.output_text.delta": ResponsesAssembler._handle_text_delta,
    "response.output_text.done": ResponsesAssembler._handle_text_done,
    "response.refusal.delta": ResponsesAssembler._handle_refusal_delta,
    "response.refusal.done": ResponsesAssembler._handle_refusal_done,
    "response.function_call_arguments.delta": ResponsesAssembler._handle_arguments_delta,
    "response.function_call_arguments.done": ResponsesAssembler._handle_arguments_done,
    "response.reasoning_summary_text.delta": ResponsesAssembler._handle_thinking,
    "response.reasoning_text.delta": ResponsesAssembler._handle_thinking,
}
"""What brings something; every other event is a sign of life."""

_FINAL_EVENTS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _match_items_by_id(
    items: list[_StreamedItem], values: list[_Data]
) -> list[_StreamedItem | None]:
    """For each value the item that has its id; each item once."""
    left, found = list(items), list[_StreamedItem | None]()
    for value in values:
        name = _text_or_empty(value.get("id"))
        found.append(next((one for one in left if name in one.ids), None))
        left = [one for one in left if one is not found[-1]]
    return found


def parse_usage(data: Any) -> Usage | None:
    """The usage as reported; `None` without two numbers that make sense."""
    if not isinstance(data, dict):
        return None
    read, written = get_token_count(data, "input_tokens"), get_token_count(data, "output_tokens")
    if read is None or written is None:
        return None
    inward, outward = data.get("input_tokens_details"), data.get("output_tokens_details")
    cached = get_token_count(inward, "cached_tokens", read) or 0
    return Usage(
        read,
        written,
        cache_read_tokens=cached,
        cache_write_tokens=get_token_count(inward, "cache_write_tokens", read - cached) or 0,
        reasoning_tokens=get_token_count(outward, "reasoning_tokens", written) or 0,
    )


def _is_search(item: _StreamedItem) -> bool:
    """Whether the provider has searched, which it charges for; pages that it opened are free."""
    action = item.value.get("action") if item.kind == "web_search_call" else None
    return isinstance(action, dict) and action.get("type") == "search"


def _check_object(value: Any, what: str) -> _Data:
    if not isinstance(value, dict):
        raise _make_error(f"the {what} is no object")
    return value


def _get_text(data: _Data, field: str) -> str:
    value = data.get(field)
    if not isinstance(value, str):
        raise _make_error(f"{field} is missing or no text")
    return value


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _get_index(data: _Data, field: str) -> int:
    value = data.get(field)
    if type(value) is not int or value < 0:
        raise _make_error(f"{field} is missing or no index")
    return value


def _make_error(what: str) -> WireError:
    return WireError(LlmErrorKind.INVALID_RESPONSE, what)
