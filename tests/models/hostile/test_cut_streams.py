"""A stream that is cut anywhere: no tool runs from it, nothing crashes, and it is asked again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from models.hostile.chain import Case, Chain
from models.hostile.formats import FORMATS, RECORDED, Format, asked, heard, listen, proper
from models.loopback import stream
from treadle.core import retry
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse
from treadle.core.retry import is_retryable
from treadle.outputs import TurnOutcome

LOOK: Final = (
    ("call_1", "read_file", {"path": "ünï 🎉.py", "limit": 2}),
    ("call_2", "list_files", {}),
)
ALL: Final = RECORDED | {
    (name, "as spoken"): wire.speak("I look: 世界 🎉.", LOOK, cached=7)
    for name, wire in FORMATS.items()
}

CUT: Final = LlmErrorKind.CUT_STREAM
_REASON: Final = re.compile(rb'"finish_reason": "')


@pytest.fixture(autouse=True)
def _no_time_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "DELAY_S_FIRST", 0.0)


def may_be_complete_at(wire: Format, data: bytes) -> int:
    """How many bytes of a stream there must be for its answer to be complete.

    All of it, but for Chat Completions: there a reason to finish is said before `[DONE]`, which
    some endpoints leave out.
    """
    found = _REASON.search(data) if wire.name == "openai-chat" else None
    if found is None:
        return len(data)
    line_end = b"\r\n\r\n" if b"\r\n" in data else b"\n\n"
    return data.index(line_end, found.end()) + len(line_end) - (len(line_end) == 4)


def check_cut(wire: Format, data: bytes, size: int, whole: LlmResponse | LlmError) -> bool:
    """The first `size` bytes of a stream make an error, or what may be taken for an answer.

    Returns whether they make an answer.
    """
    part = proper(wire, heard(wire, data[:size]))
    if isinstance(part, LlmError):
        is_its_own = isinstance(whole, LlmError) and part.kind is whole.kind
        assert part.kind is CUT or is_its_own, (size, part)
        assert is_its_own or is_retryable(part)
        return False
    assert size >= may_be_complete_at(wire, data), f"an answer from {size} of {len(data)} bytes"
    if isinstance(whole, LlmResponse):
        calls, all_calls = part.message.tool_calls, whole.message.tool_calls
        assert calls == all_calls[: len(calls)]
        assert whole.message.content.startswith(part.message.content)
    return True


def check_cuts(wire: Format, data: bytes, every: int) -> int:
    """Cuts of a stream after each `every` bytes; how many of them make an answer."""
    whole = proper(wire, heard(wire, data))
    return sum(check_cut(wire, data, size, whole) for size in range(0, len(data), every))


def shortest(count: int) -> set[tuple[str, str]]:
    """The shortest streams of each format."""
    keys = [
        sorted((key for key in ALL if key[0] == name), key=lambda key: len(ALL[key]))
        for name in FORMATS
    ]
    return {key for some in keys for key in some[:count]}


EVERY_BYTE: Final = shortest(12)
"""Of these every byte is tried each time; of the others every 13th, and all in `torture`."""


def test_there_are_thirty_streams_and_more_in_three_formats() -> None:
    assert len(EVERY_BYTE) >= 30
    assert all(len(wire.streams) >= 10 for wire in FORMATS.values())
    assert sum(map(len, ALL.values())) > 100_000


@pytest.mark.parametrize(("name", "stream_name"), ALL)
def test_a_stream_cut_after_any_byte_is_an_error_that_can_be_retried_or_the_answer(
    name: str, stream_name: str
) -> None:
    wire, data = FORMATS[name], ALL[name, stream_name]
    answers = check_cuts(wire, data, 1 if (name, stream_name) in EVERY_BYTE else 13)
    assert answers <= len(data) - may_be_complete_at(wire, data) + 1


@pytest.mark.torture
@pytest.mark.parametrize(("name", "stream_name"), [key for key in ALL if key not in EVERY_BYTE])
def test_a_long_stream_cut_after_any_byte_is_an_error_or_the_answer(
    name: str, stream_name: str
) -> None:
    check_cuts(FORMATS[name], ALL[name, stream_name], 1)


@pytest.mark.parametrize("name", ["anthropic-messages", "openai-responses"])
def test_in_formats_with_one_end_only_the_last_byte_completes_an_answer(name: str) -> None:
    wire = FORMATS[name]
    for data in wire.streams.values():
        part = proper(wire, heard(wire, data[:-1]))
        assert isinstance(part, LlmError)
        assert part.kind is CUT


# --- the whole chain


def cuts_of(data: bytes) -> list[int]:
    """Sizes of a stream: nothing, two places inside, and all but the last byte."""
    return [0, len(data) * 2 // 5, len(data) * 4 // 5, len(data) - 1]


def check_case(case: Case, whole: LlmResponse | LlmError, told: list[int]) -> bool:
    """What a session made of a cut stream, the whole one, and a good answer.

    Returns whether the cut was noticed; if not, the answer was complete before it.
    """
    calls = whole.message.tool_calls if isinstance(whole, LlmResponse) else ()
    asked_for = {(call.tool_name, call.arguments_json) for call in calls}
    assert {(run.name, run.call.arguments_json) for run in case.runs} <= asked_for
    if not case.failures or case.failures[0].kind is not CUT:
        return False
    assert case.bodies[0] == case.bodies[1], "the same request leaves again, byte for byte"
    assert case.ran_before[:2] == [0, 0], "nothing ran from the answer that was cut"
    assert told, "the whole answer was asked for"
    assert set(told) == {0}, "nothing runs while an answer comes"
    if isinstance(whole, LlmResponse):
        assert case.first.outcome is TurnOutcome.DONE
        assert len(case.runs) <= len(calls)
    return True


@pytest.mark.parametrize(("name", "stream_name"), ALL)
async def test_a_session_asks_again_after_a_cut_and_runs_only_what_a_whole_answer_asks_for(
    tmp_path: Path, name: str, stream_name: str
) -> None:
    wire, data = FORMATS[name], ALL[name, stream_name]
    whole = proper(wire, await listen(wire, [data], asked()))
    cut_count = 0
    async with Chain(wire, tmp_path) as chain:
        for number, size in enumerate(cuts_of(data)):
            for framing in ("close", "chunked"):
                told: list[int] = []
                how = {"framing": framing, "is_cut": True, "size": 1 + 97 * number}
                case = await chain.case(stream(data[:size], **how), chain.carefully(data, told))
                cut_count += check_case(case, whole, told)
    assert cut_count >= 4


def test_the_end_of_a_chat_is_found_where_its_reason_is() -> None:
    wire = FORMATS["openai-chat"]
    data = wire.streams["openai text"]
    size = may_be_complete_at(wire, data)
    assert isinstance(proper(wire, heard(wire, data[:size])), LlmResponse)
    assert isinstance(proper(wire, heard(wire, data[: size - 1])), LlmError)
