"""The checks of this folder can fail: each bug that is planted here is found by the one named."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from models.hostile import checks
from treadle.core import retry
from treadle.core.events import LlmEvent
from treadle.models import layout
from treadle.models.anthropic import provider as anthropic
from treadle.models.anthropic import request as anthropic_request
from treadle.models.anthropic import stream as anthropic_stream
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.layout import MessageBuilder
from treadle.models.openai import chat as openai_chat
from treadle.models.openai import chat_values as openai_chat_values
from treadle.models.openai import responses as openai_responses
from treadle.models.openai import responses_stream as openai_responses_stream
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire import sse
from treadle.models.wire import stream as wire
from treadle.runtime import performer

Patch = pytest.MonkeyPatch
ASSEMBLERS: Final[tuple[Any, ...]] = (AnthropicAssembler, ChatAssembler, ResponsesAssembler)


def end_marker_is_ignored(patch: Patch) -> None:
    for kind in ASSEMBLERS:
        right = kind.end

        def wrong(self: Any, right: Any = right) -> Iterator[Any]:
            self._is_done = self._has_begun = True
            yield from right(self)

        patch.setattr(kind, "end", wrong)


def calls_that_were_cut_get_empty_arguments(patch: Patch) -> None:
    right = MessageBuilder.end

    def wrong(self: Any, *, is_cut: bool = False) -> Any:
        return right(self, is_cut=is_cut and False)

    patch.setattr(MessageBuilder, "end", wrong)


def error_objects_are_ignored(patch: Patch) -> None:
    for kind in ASSEMBLERS:
        right = kind.add_event

        def wrong(self: Any, event: Any, right: Any = right) -> Iterator[Any]:
            if event.event != "error":
                yield from right(self, event)

        patch.setattr(kind, "add_event", wrong)


def ids_that_are_taken_are_kept(patch: Patch) -> None:
    right = MessageBuilder.open_call

    def wrong(self: Any, key: Any, call_id: str, name: str) -> Any:
        self._ids.clear()
        return right(self, key, call_id, name)

    patch.setattr(MessageBuilder, "open_call", wrong)


def halves_of_surrogates_are_kept(patch: Patch) -> None:
    patch.setattr(layout, "replace_surrogates", lambda value: value)


def usage_is_believed(patch: Patch) -> None:
    def wrong(numbers: Any, name: str, limit: int = 0) -> Any:
        return numbers.get(name) if isinstance(numbers, dict) else None

    for module in (anthropic_stream, openai_chat_values, openai_responses_stream):
        patch.setattr(module, "get_token_count", wrong)


def blocks_change_their_order(patch: Patch) -> None:
    right = MessageBuilder.build_message

    def wrong(self: Any) -> Any:
        self._blocks = dict(reversed(self._blocks.items()))
        return right(self)

    patch.setattr(MessageBuilder, "build_message", wrong)


def arguments_go_back_as_they_came(patch: Patch) -> None:
    def wrong(call: Any) -> Any:
        return msgspec.json.decode(call.arguments_json)

    patch.setattr(anthropic_request, "arguments_object", wrong)


def lines_have_no_bound(patch: Patch) -> None:
    patch.setattr(sse, "EVENT_SIZE_MAX", 2**60)


def empty_lines_of_data_are_not_counted(patch: Patch) -> None:
    right = sse.SseDecoder._handle_line

    def wrong(self: Any, line: bytes) -> Any:
        event = right(self, line)
        self._size = sum(map(len, self._data[-1:]))
        return event

    patch.setattr(sse.SseDecoder, "_handle_line", wrong)


def blocks_have_no_bound(patch: Patch) -> None:
    patch.setattr(layout, "BLOCK_COUNT_MAX", 2**60)


def a_stream_has_two_ends(patch: Patch) -> None:
    right = wire.stream_events

    async def wrong(*args: Any) -> AsyncIterator[Any]:
        async for event in right(*args):
            yield event
            if isinstance(event, LlmEvent.Error):
                yield event

    patch.setattr("models.hostile.formats.stream_events", wrong)


def every_request_is_another_one(patch: Patch) -> None:
    count = itertools.count()
    for module, name in (
        (anthropic, "make_message_parameters"),
        (openai_chat, "make_parameters"),
        (openai_responses, "make_response_parameters"),
    ):
        right = getattr(module, name)

        def wrong(*args: Any, right: Any = right) -> Any:
            return {**right(*args), "metadata": {"n": str(next(count))}}

        patch.setattr(module, name, wrong)


def calls_run_twice(patch: Patch) -> None:
    right = performer.run_call

    async def wrong(*args: Any) -> Any:
        await right(*args)
        return await right(*args)

    patch.setattr(performer, "run_call", wrong)


PLANTED: Final[dict[Callable[[Patch], None], Callable[..., None]]] = {
    end_marker_is_ignored: checks.check_end_is_waited_for,
    calls_that_were_cut_get_empty_arguments: checks.check_arguments_that_were_cut_are_no_object,
    error_objects_are_ignored: checks.check_errors_are_told,
    ids_that_are_taken_are_kept: checks.check_ids_are_unique,
    halves_of_surrogates_are_kept: checks.check_text_can_be_stored,
    usage_is_believed: checks.check_usage_makes_sense,
    blocks_change_their_order: checks.check_order_is_kept,
    arguments_go_back_as_they_came: checks.check_arguments_go_back_as_objects,
    lines_have_no_bound: checks.check_lines_have_a_bound,
    empty_lines_of_data_are_not_counted: checks.check_empty_lines_count,
    blocks_have_no_bound: checks.check_blocks_have_a_bound,
    a_stream_has_two_ends: checks.check_end_is_waited_for,
    every_request_is_another_one: checks.check_what_a_session_does,
    calls_run_twice: checks.check_what_a_session_does,
}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found_by_the_check_for_it(
    tmp_path: Path, monkeypatch: Patch, bug: Callable[[Patch], None]
) -> None:
    monkeypatch.setattr(retry, "DELAY_S_FIRST", 0.0)
    check = PLANTED[bug]
    needs_folder = check is checks.check_what_a_session_does
    check(*([tmp_path / "right"] if needs_folder else []))
    bug(monkeypatch)
    with pytest.raises((AssertionError, UnicodeError, asyncio.TimeoutError)):
        check(*([tmp_path / "wrong"] if needs_folder else []))


def test_many_bugs_are_planted() -> None:
    assert len(PLANTED) >= 8
    checked = {*PLANTED.values()}
    named = {one for name, one in vars(checks).items() if name.startswith("check_")}
    assert named - checked == {checks.check_case_named}
