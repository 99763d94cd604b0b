"""A handler that fails: the task stands where it stood, and the mended program goes on."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import Desk
from runtime.task.agents import DONE, close
from runtime.task.test_graphs import Handling, checked
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State
from treadle.errors import AgentFailed, HandlerFailed, InvalidTransition
from treadle.runtime.handlers import FAULT_LENGTH_MAX


def _raises(error: BaseException) -> Handling:
    def handler(memory: AgentMemory) -> str:
        raise error

    return handler


async def _cancels(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
    raise asyncio.CancelledError


def _extra(value: Any) -> Handling:
    return lambda memory: (replace(memory, extra={"found": value}), "Fine")


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


FAULTS: Final[dict[str, tuple[Handling, str]]] = {
    "an exception": (_raises(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero"),
    "an exit": (_raises(SystemExit(3)), "SystemExit: 3"),
    "a cancellation of its own": (_cancels, "CancelledError"),
    "no event": (lambda memory: None, "it returned None, no event"),
    "an event that is no text": (lambda memory: (memory, 7), "no event"),
    "a memory alone": (lambda memory: memory, "no event"),
    "an object in extra": (_extra(object()), "memory.extra\\['found'\\] is <object"),
    "a set in extra": (_extra({1, 2}), "which JSON cannot say"),
    "a number that is none": (_extra(float("nan")), "is nan, which JSON cannot say"),
    "a key that is no text": (_extra({1: 2}), "has the key 1"),
    "a number without end": (_extra(10**400), "which JSON cannot say"),
    "no bottom": (_extra(_nested(5000)), "RecursionError|deep"),
    "extra that is no mapping": (lambda memory: (replace(memory, extra=7), "Fine"), "TypeError"),
    "an answer that is no text": (
        lambda memory: (replace(memory, final_answer=42), "Fine"),
        "cannot be stored: Expected `str \\| null`, got `int`",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_what_goes_wrong_in_a_handler_stops_the_task_until_the_program_is_mended(
    desk: Desk, name: str
) -> None:
    handler, words = FAULTS[name]
    engine = checked(desk, handler, owns=("final_answer",)).build()
    with pytest.raises(HandlerFailed, match=rf"the handler of Check failed: .*({words})"):
        await engine.run()
    assert engine.state == "Check"
    assert engine.memory.error is None
    assert engine.trace[-1].event == "HANDLER_FAILED"
    assert re.search(words, engine.trace[-1].data)
    last = desk.events(engine.thread_id)[-1]
    assert last["type"] == "state_failed"
    assert re.search(words, last["error"].splitlines()[-1])
    await close(desk, engine)

    engine = checked(desk, lambda memory: "Fine", owns=("final_answer",)).resume(engine.thread_id)
    assert await engine.run() == DONE
    assert engine.memory.faults == 0
    await close(desk, engine)


async def test_it_is_recorded_where_a_handler_failed_and_no_value(desk: Desk) -> None:
    def helper(secret: str) -> None:
        raise KeyError("colour")

    def check(memory: AgentMemory) -> str:
        helper("hunter2")
        return "Fine"

    engine = checked(desk, check).build()
    with pytest.raises(HandlerFailed) as failed:
        await engine.run()
    assert isinstance(failed.value.__cause__, KeyError)
    error = desk.events(engine.thread_id)[-1]["error"]
    assert [line.rpartition(" in ")[2] for line in error.splitlines()] == [
        "check",
        "helper",
        "KeyError: 'colour'",
    ]
    assert "hunter2" not in error
    await close(desk, engine)


async def test_a_handler_that_always_fails_runs_only_when_a_person_has_looked(desk: Desk) -> None:
    runs = []

    def check(memory: AgentMemory) -> str:
        runs.append(memory.faults)
        if len(runs) < 6:
            raise ValueError("it is Tuesday")
        return "Fine"

    engine = checked(desk, check).build()
    for count in range(5):
        with pytest.raises(HandlerFailed, match="it is Tuesday") as failed:
            await engine.run()
        assert ("does not run by itself" in failed.value.message) == (count >= 3)
        await close(desk, engine)
        engine = checked(desk, check).resume(engine.thread_id)
    assert runs == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(HandlerFailed, match=r"ValueError: it is Tuesday$"):
            await engine.retry()
        with pytest.raises(HandlerFailed, match="does not run by itself"):
            await engine.run()
    assert await engine.retry() == DONE
    await close(desk, engine)


async def test_a_graph_may_say_what_comes_of_a_handler_that_fails(desk: Desk) -> None:
    builder = checked(desk, _raises(ValueError("oh"))).state("Mend", lambda memory: "Fine")
    builder.transition("Check", Event.FATAL_ERROR, "Mend").transition("Mend", "Fine", State.DONE)
    engine = builder.build()
    assert await engine.run() == DONE
    assert engine.memory.error == "the handler of Check failed: ValueError: oh"
    await close(desk, engine)


async def test_a_handler_can_fail_in_its_own_words(desk: Desk) -> None:
    def refuse(memory: AgentMemory) -> tuple[AgentMemory, str]:
        return replace(memory, error="I do not like it"), Event.FATAL_ERROR

    engine = checked(desk, refuse).build()
    with pytest.raises(AgentFailed, match="I do not like it"):
        await engine.run()
    await close(desk, engine)


async def test_a_handler_that_fails_without_a_word_is_still_said_to_have_failed(desk: Desk) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise self.args[0]

    cases: tuple[tuple[Any, str, type[Exception]], ...] = (
        (_raises(MuteError(ValueError("no words"))), "failed: MuteError$", HandlerFailed),
        (_raises(MuteError(SystemExit(3))), "failed: MuteError$", HandlerFailed),
        (lambda _: Event.FATAL_ERROR, "Unknown", AgentFailed),
    )
    for handler, words, kind in cases:
        engine = checked(desk, handler).build()
        with pytest.raises(kind, match=words):
            await engine.run()
        await close(desk, engine)


class _Redactor:
    def redact(self, text: str) -> str:
        return text.replace("hunter2-hunter2", "[secret]")


async def test_of_what_a_handler_says_a_line_is_kept_without_secrets(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    # The log has the exception as it is, and a report of pytest with a surrogate ends a worker.
    caplog.set_level(logging.CRITICAL, "treadle.runtime")
    long = "x" * (FAULT_LENGTH_MAX - 20)
    cases: tuple[tuple[Handling, type[Exception]], ...] = (
        (_raises(ValueError(f"{long}hunter2-hunter2{long}")), HandlerFailed),
        (_raises(ValueError(f"\ud800 hunter2-hunter2\nin {long * 9}")), HandlerFailed),
        (lambda _: f"hunter2-hunter2{long * 9}", InvalidTransition),
    )
    for handler, kind in cases:
        engine = checked(desk, handler).redactor(_Redactor()).build()
        with pytest.raises(kind):
            await engine.run()
        (error,) = (one["error"] for one in desk.events(engine.thread_id)[-1:])
        assert "[secret]" in error
        assert "hunter2" not in error
        assert len(error.splitlines()[-1]) == FAULT_LENGTH_MAX
        assert engine.trace[-1].data == error.splitlines()[-1]
        await close(desk, engine)
