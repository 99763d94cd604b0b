"""What has no end, or is far too big, is stopped at a bound: in size, in time, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from models.hostile.big import (
    MIB,
    Big,
    Swallowed,
    call_mould,
    filled,
    repeat,
    swallow,
    text_mould,
)
from models.hostile.chain import CONFIG, Chain
from models.hostile.formats import FORMATS, Format
from models.hostile.malformed import encoded
from models.loopback import Answer
from models.loopback import sse as sse_bytes
from runtime.clock import skip, tick
from treadle.core import retry
from treadle.core.llm import LlmErrorKind
from treadle.models import layout
from treadle.models.wire import sse
from treadle.models.wire import stream as wire
from treadle.outputs import TurnOutcome

MEMORY_MAX: Final = 64 * MIB
"""Over the base."""

STOPS_WITHIN_S: Final = 30.0
"""After a bound is reached, on a machine with other work."""
UNREAD_SIZE_MAX: Final = 32 * MIB
"""What may be on its way, in buffers, when nobody reads any more."""

EVERY_NAME: Final = tuple(FORMATS)


@pytest.fixture(autouse=True)
def _no_time_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "DELAY_S_FIRST", 0.0)


# --- the rules, with small bounds


def beginning(spoken: Format) -> bytes:
    """A good stream up to where its text begins."""
    return text_mould(spoken).before


def blocks(spoken: Format) -> Iterator[bytes]:
    """Calls without end."""
    mould = call_mould(spoken)
    yield mould.before
    for number in range(1, 10**9):
        match spoken.name:
            case "anthropic-messages":
                block = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {}}
                index = number + 1
                events = [
                    {"type": "content_block_start", "index": index, "content_block": block},
                    {"type": "content_block_stop", "index": index},
                ]
                if number == 1:
                    events.insert(0, {"type": "content_block_stop", "index": 1})
            case "openai-chat":
                function = {"name": "bash", "arguments": "{}"}
                piece = {"index": number, "id": f"c{number}", "function": function}
                events = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}]
            case _:
                item = {"type": "function_call", "call_id": f"c{number}", "name": "bash"}
                events = [
                    {"type": "response.output_item.added", "output_index": number + 1, "item": item}
                ]
        yield encoded(spoken, [(str(one.get("type", "")), one) for one in events], done=False)


def for_ever(*pieces: bytes, first: bytes = b"") -> Iterator[bytes]:
    yield first
    while True:
        yield from pieces


Endless = Callable[[Format], Iterator[bytes]]

RULES: Final[dict[str, tuple[Endless, object, str, int, str]]] = {
    "comments": (
        lambda spoken: for_ever(b": keep-alive\n" * 500),
        *(wire, "RESPONSE_SIZE_MAX", 2 * MIB, "the stream is over"),
    ),
    "pings": (
        lambda spoken: for_ever(b'event: ping\ndata: {"type": "ping"}\n\n' * 100),
        *(wire, "RESPONSE_SIZE_MAX", MIB // 2, "the stream is over"),
    ),
    "unknown events": (
        lambda spoken: for_ever(b'data: {"type": "dream"}\n\n' * 100, first=beginning(spoken)),
        *(wire, "RESPONSE_SIZE_MAX", MIB // 2, "the stream is over"),
    ),
    "line ends": (
        lambda spoken: for_ever(b"\n" * 5000),
        *(wire, "RESPONSE_SIZE_MAX", MIB // 2, "the stream is over"),
    ),
    "a line": (
        lambda spoken: for_ever(b"x" * 5000, first=b"data: "),
        *(sse, "EVENT_SIZE_MAX", MIB // 2, "one event of the stream is over"),
    ),
    "an event of many lines": (
        lambda spoken: for_ever(b"data: x\n" * 500),
        *(sse, "EVENT_SIZE_MAX", MIB // 2, "one event of the stream is over"),
    ),
    "an event of unknown fields": (
        lambda spoken: for_ever(b"id: x\n" * 500),
        *(sse, "EVENT_SIZE_MAX", MIB // 2, "one event of the stream is over"),
    ),
    "an event with comments between": (
        lambda spoken: for_ever(b"data: x\n: y\n" * 500),
        *(sse, "EVENT_SIZE_MAX", MIB // 8, "one event of the stream is over"),
    ),
    "text": (
        lambda spoken: for_ever(
            text_mould(spoken).piece("x" * 5000), first=text_mould(spoken).before
        ),
        *(layout, "ANSWER_SIZE_MAX", MIB, "the answer is over"),
    ),
    "arguments": (
        lambda spoken: for_ever(
            call_mould(spoken).piece("x" * 5000), first=call_mould(spoken).before
        ),
        *(layout, "ANSWER_SIZE_MAX", MIB, "the answer is over"),
    ),
    "calls": (blocks, layout, "BLOCK_COUNT_MAX", 500, "over 500 blocks"),
}


@pytest.mark.parametrize("what", RULES)
@pytest.mark.parametrize("name", EVERY_NAME)
async def test_a_stream_without_an_end_is_stopped_at_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    make, module, constant, bound, words = RULES[what]
    monkeypatch.setattr(module, constant, bound)
    spoken = FORMATS[name]
    async with Chain(spoken, tmp_path) as chain:
        case = await chain.case(Answer(make(spoken)))
    assert case.first.outcome is TurnOutcome.FAILED
    assert case.first.error_kind is LlmErrorKind.INVALID_RESPONSE
    assert words in case.first.error
    assert case.runs == []


DRIPS: Final[dict[str, bytes]] = {
    "comments": b": x\n",
    "pings": b'event: ping\ndata: {"type": "ping"}\n\n',
    "unknown events": b'data: {"type": "dream"}\n\n',
    "one line": b"x",
}


@pytest.mark.parametrize("what", DRIPS)
@pytest.mark.parametrize("name", EVERY_NAME)
async def test_a_stream_that_only_shows_that_it_lives_ends_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    """It never is silent, and never reaches a bound of size."""
    monkeypatch.setattr(wire, "RESPONSE_S_MAX", 40.0)
    spoken = FORMATS[name]

    async def body() -> AsyncIterator[bytes]:
        while True:
            await tick(20)
            skip(1.0)
            yield DRIPS[what]

    loop = asyncio.get_running_loop()
    skip(0.0)
    async with Chain(spoken, tmp_path) as chain:
        began_s = loop.time()
        case = await chain.case(Answer(body), config=replace(CONFIG, llm_timeout_s=30.0))
        took_s = loop.time() - began_s
    (failure,) = case.failures
    assert failure.kind is LlmErrorKind.TIMEOUT
    assert "the answer is not complete after" in failure.message
    assert 40.0 <= took_s < 40.0 + STOPS_WITHIN_S


# --- the bounds as they are, in a process of its own


def check_swallowed(case: Big, swallowed: Swallowed) -> None:
    """What holds for each answer, however big."""
    assert swallowed.next == "done", swallowed
    assert swallowed.imbalance == ""
    assert swallowed.growth <= MEMORY_MAX, f"{swallowed.growth / MIB:.0f} MiB over the base"
    if case.too_many:
        assert swallowed.kind == "invalid_response"
        assert swallowed.full_s > 0, "the bound was reached"
        assert swallowed.sent_size < case.too_many + UNREAD_SIZE_MAX
        assert swallowed.ended_s - swallowed.full_s < STOPS_WITHIN_S


def big_cases(spoken: Format) -> dict[str, Big]:
    text, call = text_mould(spoken), call_mould(spoken)
    delta = text.piece("@")
    return {
        "200 MB without a line end": Big(lambda: repeat(b"data: xxxxxxxxxx", 200 * MIB), 8 * MIB),
        "a delta of 100 MB": Big(
            lambda: [text.before, delta[: delta.index(b"@")], *repeat(b"x", 100 * MIB), b'"}}\n\n'],
            8 * MIB,
        ),
        "200 MB of comments": Big(lambda: repeat(b": " + b"x" * 999 + b"\n", 200 * MIB), 128 * MIB),
        "20,000 deltas of one byte": Big(lambda: filled(text, "x", 20_000)),
        "20,000 pieces of arguments": Big(lambda: filled(call, " ", 20_000)),
        "3 million characters": Big(lambda: filled(text, "x" * MIB, 3)),
        "20 million characters": Big(lambda: filled(text, "x" * 65536, 320), 3 * MIB),
        "a million wide characters": Big(lambda: filled(text, "\U0001f600" * 65536, 15)),
        "many million wide characters": Big(
            lambda: filled(text, "\U0001f600" * 65536, 320), 3 * MIB
        ),
        "an event of empty lists": Big(
            lambda: [text.before, *lists(b'data: {"type": "dream", "x": [', 7 * MIB, b"]}\n\n")],
            6 * MIB,
        ),
        "blocks of empty lists": Big(lambda: kept_lists(spoken), 100_000),
    }


def lists(before: bytes, size: int, after: bytes) -> Iterator[bytes]:
    """So many bytes of empty lists: one of three bytes takes twenty times that in memory."""
    yield before
    yield from repeat(b"[],", size)
    yield b"[]" + after


def kept_lists(spoken: Format) -> Iterator[bytes]:
    """Events of 36 kB without an end, kept until the end of the answer; none is a large one."""
    empty = [[]] * 12_000  # type: ignore[var-annotated]
    yield text_mould(spoken).before
    if spoken.name == "anthropic-messages":
        yield b'data: {"type": "content_block_stop", "index": 0}\n\n'
    for number in range(1, 10**9):
        block = {"type": "dream", "data": empty}
        match spoken.name:
            case "anthropic-messages":
                begins = {"type": "content_block_start", "index": number, "content_block": block}
                yield sse_bytes(begins, {"type": "content_block_stop", "index": number})
            case "openai-chat":
                yield sse_bytes(reasoning({**block, "type": "reasoning.encrypted"}))
            case _:
                done = {"type": "response.output_item.done", "output_index": number}
                yield sse_bytes({**done, "item": block})


def reasoning(*details: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"reasoning_details": details}}]}


def sealed(count: int, size: int) -> Iterator[bytes]:
    """Reasoning that only its model can read, in long strings."""
    before, after = sse_bytes(reasoning({"type": "reasoning.encrypted", "data": "@"})).split(b"@")
    for _ in range(count):
        yield before
        yield from repeat(b"x", size)
        yield after


@pytest.mark.timeout(600)  # of a machine that does other things
@pytest.mark.parametrize("name", EVERY_NAME)
async def test_big_answers_take_little_memory_and_are_stopped_soon(
    tmp_path: Path, name: str
) -> None:
    spoken = FORMATS[name]
    cases = big_cases(spoken)
    found = dict(zip(cases, await swallow(spoken, tmp_path, *cases.values()), strict=True))
    for what, case in cases.items():
        check_swallowed(case, found[what])
    assert found["20,000 deltas of one byte"].characters == 20_000
    assert found["3 million characters"].characters == 3 * MIB
    assert found["a million wide characters"].characters == 15 * 65536


async def test_reasoning_in_long_strings_is_stopped_before_it_fills_the_memory(
    tmp_path: Path,
) -> None:
    case = Big(lambda: sealed(16, 7 * MIB), 6 * MIB)
    (swallowed,) = await swallow(FORMATS["openai-chat"], tmp_path, case)
    check_swallowed(case, swallowed)
    assert "the answer is over 4 MiB" in swallowed.error


@pytest.mark.torture
@pytest.mark.parametrize("name", EVERY_NAME)
async def test_a_million_deltas_of_one_byte_make_an_answer_or_are_too_many_bytes(
    tmp_path: Path, name: str
) -> None:
    spoken = FORMATS[name]
    cases = [
        Big(lambda: filled(text_mould(spoken), "x", 1_000_000)),
        Big(lambda: repeat(b'event: ping\ndata: {"type": "ping"}\n\n', 200 * MIB), 128 * MIB),
    ]
    deltas, pings = await swallow(spoken, tmp_path, *cases)
    check_swallowed(cases[0], deltas)
    check_swallowed(cases[1], pings)
    assert deltas.characters == 1_000_000 or "over 128 MiB" in deltas.error
