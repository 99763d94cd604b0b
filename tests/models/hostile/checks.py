"""What the tests of this folder check, one function each, so that planted bugs can be put to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from models.hostile.chain import Chain
from models.hostile.formats import FORMATS, Format, heard, proper
from models.hostile.malformed import good, limited, malformed
from models.loopback import stream
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse
from treadle.models.wire import sse


def kind_of(wire: Format, data: bytes) -> str:
    """How a stream ends: `answer`, or the kind of the error."""
    end = proper(wire, heard(wire, data))
    return "answer" if isinstance(end, LlmResponse) else end.kind.value


def check_end_is_waited_for() -> None:
    for wire in FORMATS.values():
        data = good(wire)
        for size in range(0, len(data) // 2, 7):
            assert kind_of(wire, data[:size]) == "cut_stream"


def check_arguments_that_were_cut_are_no_object() -> None:
    for wire in FORMATS.values():
        end = proper(wire, heard(wire, limited(wire)))
        if isinstance(end, LlmResponse):
            assert all(not is_object(call.arguments_json) for call in end.message.tool_calls)


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def check_case_named(name: str, *kinds: str) -> None:
    """A malformed stream ends in one of these ways, in every format."""
    for wire in FORMATS.values():
        assert kind_of(wire, malformed(wire)[name]) in kinds


def check_errors_are_told() -> None:
    check_case_named("an error in the middle (events)", "server")


def check_ids_are_unique() -> None:
    check_case_named("ten calls with one id (said)", "answer", "invalid_response")


def check_text_can_be_stored() -> None:
    check_case_named("text with half a surrogate (said, escaped)", "answer")


def check_usage_makes_sense() -> None:
    check_case_named("negative usage (events)", "answer")
    check_case_named("huge usage (events)", "answer")


def check_order_is_kept() -> None:
    check_case_named("300 calls (said)", "answer")


def check_arguments_go_back_as_objects() -> None:
    check_case_named("arguments that are no object (said)", "answer")


def check_lines_have_a_bound() -> None:
    for wire in FORMATS.values():
        end = proper(wire, heard(wire, *[b"x" * 2**20] * 10))
        assert isinstance(end, LlmError)
        assert end.kind is LlmErrorKind.INVALID_RESPONSE
        assert "one event of the stream is over" in end.message


def check_empty_lines_count() -> None:
    """Comments do not count towards the size of an event, nor hide what does."""
    wire = FORMATS["openai-chat"]
    lines = b"data:\n:\n" * 2**12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse, "EVENT_SIZE_MAX", 2**18)
        assert kind_of(wire, b": x\n" * 2**17 + lines + b"\n") == "cut_stream"
        end = proper(wire, heard(wire, *[lines] * 14))
    assert isinstance(end, LlmError)
    assert "one event of the stream is over" in end.message


def check_blocks_have_a_bound() -> None:
    check_case_named("10,001 calls (said)", "invalid_response")


def check_what_a_session_does(folder: Path) -> None:
    """After a cut stream the same request leaves again, and calls run once."""

    async def run(wire: Format, place: Path) -> Any:
        async with Chain(wire, place) as chain:
            data = good(wire)
            return await chain.case(stream(data[: len(data) // 2], framing="close"), data)

    for name, wire in FORMATS.items():
        case = asyncio.run(run(wire, folder / name))
        assert [failure.kind for failure in case.failures] == [LlmErrorKind.CUT_STREAM]
        assert case.bodies[0] == case.bodies[1]
        assert case.ran_before[:2] == [0, 0]
        assert len(case.runs) == 2
