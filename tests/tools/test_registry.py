"""What the registry makes of a call, whatever the tool does."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from tools.definitions import SHAPED
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    EffectClass,
    Outcome,
    RiskLevel,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.errors import UsageError
from treadle.runtime.ports import Tools
from treadle.tool_failure import ToolFailure
from treadle.tools import tool_thread
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import AnyTool, Arguments, tool
from treadle.tools.registry import Registry
from treadle.tools.tool_return import ToolReturn

Success = ToolExecutionOutcome.Success
GOLDEN = {
    family: Path(__file__).parent / (f"tools_{family}.json" if family else "builtin_tools.json")
    for family in ("", *SHAPED)
}


async def run(one: AnyTool, report: Callable[[ToolProgress], None] = lambda _: None) -> Outcome:
    registry: Tools = Registry([one])
    call = ToolCall("id", one.definition.name)
    return await registry.execute(call, key="the key", progress=report)


async def kind_of(one: AnyTool) -> tuple[ToolErrorKind, str]:
    outcome = await run(one)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.call_id == "id"
    return outcome.error.kind, outcome.error.message


def returns(value: Any) -> AnyTool:
    @tool()
    def answer() -> Any:
        """Answer."""
        return value

    return answer


def raises(error: BaseException, *, in_loop: bool = False) -> AnyTool:
    if in_loop:

        @tool()
        async def explode() -> str:
            """Fail in the event loop."""
            raise error

        return explode

    @tool()
    def explode_in_thread() -> str:
        """Fail in a thread."""
        raise error

    return explode_in_thread


@for_every_row(
    "value, output",
    [
        ("text", "text"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ({"a": [1, 2.5, None]}, '{"a":[1,2.5,null]}'),
        (ToolError(ToolErrorKind.IO, "x"), '{"kind":"IO error","message":"x","output":""}'),
        ("half \ud800 pair", "half \ufffd pair"),
        ("whole \ud83d\ude00 pair", "whole \U0001f600 pair"),
    ],
)
async def test_what_a_tool_returns_is_text_or_becomes_json(value: Any, output: str) -> None:
    assert await run(returns(value)) == Success("id", output)


async def test_a_tool_may_say_what_it_wrote() -> None:
    returned = ToolReturn("done", ("a.py", "b\udcff"))
    assert await run(returns(returned)) == Success("id", "done", ("a.py", "b\ufffd"))


@pytest.mark.parametrize("in_loop", [True, False])
async def test_a_failure_keeps_its_kind_message_and_output(in_loop: bool) -> None:
    failure = ToolFailure(ToolErrorKind.TARGET_NOT_FOUND, "no \udc80", "partial \udc80")
    outcome = await run(raises(failure, in_loop=in_loop))
    error = ToolError(ToolErrorKind.TARGET_NOT_FOUND, "no \ufffd", "partial \ufffd")
    assert outcome == ToolExecutionOutcome.Error("id", error)


@for_every_row("in_loop", [True, False])
@for_every_row(
    "error, message",
    [
        (KeyError("k"), "KeyError: 'k'"),
        (OSError(2, "gone"), "FileNotFoundError: [Errno 2] gone"),
        (SystemExit(3), "SystemExit: 3"),
        (RecursionError(), "RecursionError: "),
        (ValueError("\ud800"), "ValueError: \ufffd"),
        (ValueError("x" * 9999), "ValueError: " + "x" * 1988),
    ],
)
async def test_any_exception_of_a_tool_is_an_internal_error(
    error: BaseException, message: str, in_loop: bool
) -> None:
    assert await kind_of(raises(error, in_loop=in_loop)) == (ToolErrorKind.INTERNAL, message)


@for_every_row("kind", ["FAILED", None, 7])
async def test_a_failure_of_a_kind_that_there_is_not_is_an_internal_error(kind: Any) -> None:
    @tool
    def lookup() -> str:
        """Fail in a way of its own."""
        raise ToolFailure(kind, "no order 7")

    assert await kind_of(lookup) == (
        ToolErrorKind.INTERNAL,
        f"ValueError: {kind!r} is not a valid ToolErrorKind",
    )


async def test_even_stop_iteration_comes_out_of_a_thread() -> None:
    kind, message = await kind_of(raises(StopIteration()))
    assert kind is ToolErrorKind.INTERNAL
    assert "StopIteration" in message


async def test_a_value_that_json_cannot_say_is_an_internal_error() -> None:
    kind, message = await kind_of(returns(object()))
    assert kind is ToolErrorKind.INTERNAL
    assert "object" in message


async def test_a_tool_that_cancels_itself_has_failed() -> None:
    cancelled = raises(asyncio.CancelledError(), in_loop=True)
    assert await kind_of(cancelled) == (ToolErrorKind.CANCELLED, "the tool gave up by itself")


async def test_an_unknown_tool_is_answered_with_those_that_exist() -> None:
    call = ToolCall("id", "teh_tool\ud800")
    outcome = await Registry([draw_a, draw_b]).execute(call, key="", progress=lambda _: None)
    message = "teh_tool\ufffd; there are: draw_a, draw_b"
    error = ToolError(ToolErrorKind.NOT_FOUND, message)
    assert outcome == ToolExecutionOutcome.Error("id", error)


async def test_a_tool_that_was_left_out_answers_with_the_reason() -> None:
    registry = Registry([draw_a], unavailable={"draw_b": "no paint"})
    outcome = await registry.execute(ToolCall("id", "draw_b"), key="", progress=lambda _: None)
    error = ToolError(ToolErrorKind.REJECTED, "no paint")
    assert outcome == ToolExecutionOutcome.Error("id", error)


async def test_an_argument_that_was_left_out_is_not_described_and_still_taken() -> None:
    @tool()
    def mix(color: str, is_wet: bool = False) -> str:
        """Mix.

        Args:
            color: Which.
            is_wet: Whether with water.
        """
        return f"{color}, {is_wet}"

    registry = Registry([mix.without_argument("is_wet")])
    (told,) = registry.definitions()
    assert "is_wet" in mix.definition.input_schema["properties"]
    assert list(told.input_schema["properties"]) == ["color"]
    assert {**told.input_schema, "properties": {}} == {
        **mix.definition.input_schema,
        "properties": {},
    }
    call = ToolCall("id", "mix", '{"color": "red", "is_wet": true}')
    outcome = await registry.execute(call, key="", progress=lambda _: None)
    assert outcome == Success("id", "red, True")


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW)
def draw_a() -> str:
    """Draw A."""
    return "A"


@tool()
def draw_b() -> str:
    """Draw B."""
    return "B"


def test_definitions_stand_in_the_order_given() -> None:
    for tools in ([draw_a, draw_b], [draw_b, draw_a]):
        assert list(Registry(tools).definitions()) == [one.definition for one in tools]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called draw_a"):
        Registry([draw_a, draw_b, draw_a])


# ---- the risk of one call ----------------------------------------------------------------------


def assessed(answer: Callable[[Arguments], Any], arguments_json: str = "{}") -> RiskLevel | None:
    """What a registry says of a call of a tool of medium risk that assesses its calls so."""

    @tool(risk=RiskLevel.MEDIUM, risk_of=answer)
    def work(path: str = ".", depth: int = 1) -> str:
        """Work."""
        raise AssertionError("to assess a call is not to run it")

    return Registry([draw_a, work]).risk_of(ToolCall("id", "work", arguments_json))


@for_every_row(
    "said, risk",
    [
        (RiskLevel.LOW, None),
        (RiskLevel.MEDIUM, None),
        (RiskLevel.HIGH, RiskLevel.HIGH),
        (RiskLevel.CRITICAL, RiskLevel.CRITICAL),
    ],
)
def test_arguments_raise_the_risk_of_a_call_and_never_lower_it(
    said: RiskLevel, risk: RiskLevel | None
) -> None:
    assert assessed(lambda _: said) is risk


def test_a_risk_is_told_from_the_validated_arguments_with_their_defaults() -> None:
    seen: list[Arguments] = []

    def look(arguments: Arguments) -> RiskLevel:
        seen.append(arguments)
        return RiskLevel.HIGH if arguments["depth"] > 2 else RiskLevel.LOW

    assert assessed(look, '{"depth": 3}') is RiskLevel.HIGH
    assert assessed(look, '{"path": "a", "depth": 2}') is None
    assert seen == [{"path": ".", "depth": 3}, {"path": "a", "depth": 2}]


@for_every_row("text", ["", "{", '{"depth": "three"}', '{"other": 1}', "\ud800", "[" * 999])
def test_a_call_that_cannot_run_has_no_risk_of_its_own(text: str) -> None:
    assert assessed(lambda _: RiskLevel.CRITICAL, text) is None


def test_an_unknown_tool_and_one_that_does_not_assess_have_no_risk_of_their_own() -> None:
    registry = Registry([draw_a])
    assert registry.risk_of(ToolCall("id", "draw_z\ud800")) is None
    assert registry.risk_of(ToolCall("id", "draw_a")) is None


@pytest.mark.parametrize(
    "error",
    [KeyError("hunter2"), SystemExit(0), RecursionError(), ToolFailure(ToolErrorKind.IO, "")],
)
def test_a_tool_that_fails_to_assess_a_call_counts_as_critical_and_is_logged(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Arguments) -> RiskLevel:
        raise error

    assert assessed(fail) is RiskLevel.CRITICAL
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("treadle.tools", "ERROR")
    assert line.getMessage() == f"risk_of of the tool work failed: {type(error).__name__}"


@for_every_row("value", [None, 0, 5, "high"])
def test_what_is_no_level_of_risk_counts_as_critical(value: object) -> None:
    assert assessed(lambda _: value) is RiskLevel.CRITICAL


def test_an_async_assessment_is_refused() -> None:
    async def later(_: Arguments) -> RiskLevel:
        return RiskLevel.LOW

    with pytest.raises(UsageError, match="the tool work needs a risk_of that is not async"):
        assessed(later)


# ---- a set of tools ----------------------------------------------------------------------------


def test_a_tool_is_still_a_function() -> None:
    assert draw_a() == "A"


async def test_a_tool_without_a_folder_says_so() -> None:
    @tool()
    def look(context: ToolContext) -> str:
        """Look."""
        return str(context.workspace.path)

    kind, message = await kind_of(look)
    assert kind is ToolErrorKind.INTERNAL
    assert "needs a registry with a workspace" in message


async def test_a_sync_tool_reports_on_the_event_loop_and_knows_its_key() -> None:
    seen: list[tuple[ToolProgress, threading.Thread]] = []
    where = contextvars.ContextVar("where", default="nowhere")
    where.set("here")

    @tool()
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(ToolProgress(0.5))
        assert threading.current_thread() is not threading.main_thread()
        return f"{context.key} {where.get()}"

    outcome = await run(work, lambda report: seen.append((report, threading.current_thread())))
    assert outcome == Success("id", "the key here")
    assert seen == [(ToolProgress(0.5), threading.current_thread())]


async def test_a_cancelled_thread_that_ends_soon_tells_what_it_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_thread, "GRACE_S", 60.0)
    started, may_end = threading.Event(), threading.Event()

    @tool()
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(ToolProgress())
        started.set()
        may_end.wait()
        return "done after all"

    task = asyncio.ensure_future(run(work, lambda _: task.cancel()))
    await asyncio.to_thread(started.wait)
    asyncio.get_running_loop().call_later(0.05, may_end.set)
    assert await task == Success("id", "done after all")


async def test_a_cancelled_thread_that_does_not_end_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_thread, "GRACE_S", 0.05)
    may_end = threading.Event()

    @tool()
    def hang(context: ToolContext) -> str:
        """Hang."""
        context.progress(ToolProgress())
        may_end.wait()
        raise ValueError("nobody hears this")

    task = asyncio.ensure_future(run(hang, lambda _: task.cancel()))
    outcome = await task
    may_end.set()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.text == "Cancelled: it does not stop and may still take effect"


async def test_a_cancellation_passes_through_an_async_tool_that_lets_it() -> None:
    @tool()
    async def hang(context: ToolContext) -> str:
        """Hang."""
        context.progress(ToolProgress())
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(run(hang, lambda _: task.cancel()))
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("family", GOLDEN)
def test_the_definitions_of_the_built_in_tools_are_the_same_bytes_in_every_run(family: str) -> None:
    """They are part of every recorded thread and of every provider's prompt cache."""
    env = {**os.environ, "PYTHONHASHSEED": str(len(family) + 1)}
    program = Path(__file__).parent / "definitions.py"
    printed = subprocess.check_output([sys.executable, program, family], env=env)
    advice = "after a change on purpose, `make fmt` writes the files in tests/tools anew"
    assert printed.decode() == GOLDEN[family].read_text(), advice
