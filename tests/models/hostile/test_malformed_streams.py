"""Malformed streams, through the whole chain: a typed error or a valid answer, and on it goes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from models.hostile.chain import Chain
from models.hostile.checks import kind_of
from models.hostile.formats import FORMATS, Format
from models.hostile.malformed import encoded, good, limited, malformed, mutations, told
from treadle.core import retry
from treadle.core.llm import LlmErrorKind
from treadle.core.tools import ToolErrorKind
from treadle.outputs import TurnOutcome

EVERY = 67
"""Of the mutations this one in so many goes through the whole chain; a prime, to meet all kinds."""


@pytest.fixture(autouse=True)
def _no_time_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "DELAY_S_FIRST", 0.0)


async def check_cases(wire: Format, folder: Path, cases: dict[str, bytes]) -> dict[str, str]:
    """Each case in a session of its own; what went wrong, by case."""
    wrong: dict[str, str] = {}
    async with Chain(wire, folder) as chain:
        for name, data in cases.items():
            try:
                await chain.case(data)
            except (AssertionError, TimeoutError) as error:
                wrong[name] = f"{type(error).__name__}: {error}"
    return wrong


@pytest.mark.parametrize("name", FORMATS)
def test_there_are_more_than_eighty_malformed_streams_in_each_format(name: str) -> None:
    wire = FORMATS[name]
    cases = malformed(wire)
    assert len(cases) > 150
    assert len({*cases.values()} - {good(wire)}) > 140
    assert kind_of(wire, good(wire)) == "answer"


@pytest.mark.parametrize("name", FORMATS)
def test_a_malformed_stream_is_a_typed_error_or_a_valid_answer(name: str) -> None:
    wire = FORMATS[name]
    kinds = Counter(kind_of(wire, data) for data in malformed(wire).values())
    assert {*kinds} <= {"answer", *(kind.value for kind in LlmErrorKind)}
    assert kinds["answer"] > 40
    assert kinds["invalid_response"] > 15
    assert kinds["cut_stream"] > 5
    assert kinds["server"] > 5


@pytest.mark.parametrize("table", ["said", "events", "bytes"])
@pytest.mark.parametrize("name", FORMATS)
async def test_after_a_malformed_stream_the_thread_is_whole_and_the_next_turn_works(
    tmp_path: Path, name: str, table: str
) -> None:
    wire = FORMATS[name]
    cases = {case: data for case, data in malformed(wire).items() if f"({table}" in case}
    assert len(cases) > 30
    assert await check_cases(wire, tmp_path, cases) == {}


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_every_event_may_be_missing_or_wrong(name: str) -> None:
    wire = FORMATS[name]
    kinds: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for case, data in mutations(wire, good(wire)):
        try:
            kinds[kind_of(wire, data)] += 1
        except AssertionError as error:
            wrong[case] = str(error)
    assert wrong == {}
    assert kinds.total() > 1000
    assert min(kinds["answer"], kinds["invalid_response"]) > 100


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_the_recorded_streams_may_be_missing_or_wrong(name: str) -> None:
    """A sample, because they are many: each stream begins it at another place."""
    wire = FORMATS[name]
    wrong: dict[str, str] = {}
    count = 0
    for number, (stream_name, data) in enumerate(wire.streams.items()):
        for case, changed in mutations(wire, data, every=47, first=number):
            count += 1
            try:
                kind_of(wire, changed)
            except AssertionError as error:
                wrong[f"{stream_name}: {case}"] = str(error)
    assert wrong == {}
    assert count > 300


@pytest.mark.torture
@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_all_recorded_streams_may_be_missing_or_wrong(name: str) -> None:
    wire = FORMATS[name]
    for data in wire.streams.values():
        for _, changed in mutations(wire, data):
            kind_of(wire, changed)


@pytest.mark.parametrize("name", FORMATS)
async def test_sessions_go_on_after_a_field_was_missing_or_wrong(tmp_path: Path, name: str) -> None:
    wire = FORMATS[name]
    sample = dict(mutations(wire, good(wire), every=EVERY))
    assert len(sample) > 20
    assert await check_cases(wire, tmp_path, sample) == {}


@pytest.mark.parametrize("name", FORMATS)
async def test_an_id_that_comes_again_in_every_round_and_turn_is_sent_once(
    tmp_path: Path, name: str
) -> None:
    """The chain checks that no request holds an id twice."""
    wire = FORMATS[name]
    async with Chain(wire, tmp_path) as chain:
        case = await chain.case(good(wire), good(wire), good(wire))
    assert case.first.outcome is TurnOutcome.DONE
    assert len(case.runs) == 6
    assert len({run.call.id for run in case.runs}) == 6


@pytest.mark.parametrize("name", FORMATS)
async def test_calls_of_unknown_tools_or_with_wrong_arguments_do_not_run_and_are_answered(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    calls = (
        ("c_1", "launch_rocket", "{}"),
        ("c_2", "bash", '{"command": '),
        ("c_3", "bash", '{"command": "ls"}'),
        ("c_4", "write_file", '{"key": "[REDACTED:key]"}'),
    )
    async with Chain(wire, tmp_path) as chain:
        case = await chain.case(encoded(wire, told(wire, "Now.", calls)))
    assert case.first.outcome is TurnOutcome.DONE
    assert [run.call.id for run in case.runs] == ["c_3"]
    errors = [
        event["outcome"]["error"]["kind"]
        for event in case.journal
        if event["type"] == "tool_completed" and event["outcome"]["type"] == "error"
    ]
    assert errors == [
        ToolErrorKind.NOT_FOUND.value,
        ToolErrorKind.INVALID_ARGUMENTS.value,
        ToolErrorKind.INVALID_ARGUMENTS.value,
    ]


@pytest.mark.parametrize("name", FORMATS)
async def test_a_call_that_a_limit_cut_before_its_arguments_does_not_run(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    async with Chain(wire, tmp_path) as chain:
        case = await chain.case(limited(wire))
    assert case.runs == []
    assert case.first.outcome is TurnOutcome.DONE


@pytest.mark.parametrize("name", FORMATS)
async def test_an_error_object_in_the_middle_is_told_in_its_words_and_tried_again(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    data = malformed(wire)["an error in the middle (events)"]
    async with Chain(wire, tmp_path) as chain:
        case = await chain.case(data)
    (failure,) = case.failures
    assert failure.kind is LlmErrorKind.SERVER
    assert "boom" in failure.message
    assert failure.message.isprintable()
    assert case.bodies[0] == case.bodies[1]
    assert case.runs == []
