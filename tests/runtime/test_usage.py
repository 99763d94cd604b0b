"""What a turn used, thinking that streams, and answers that were cut: as people are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal

from runtime.desk import Desk, Folder, Model, Toolbox, calls, mutate
from treadle import outputs
from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message
from treadle.outputs import TurnOutcome


class Says:
    """A provider that streams these events, one list a request."""

    name = "says"

    def __init__(self, *streams: list[ModelEvent]) -> None:
        self._streams = list(streams)

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in self._streams.pop(0):
            yield event


def done(text: str, usage: Usage | None = None, reason: str = "stop") -> LlmEvent.Completed:
    return LlmEvent.Completed(LlmResponse(Message.assistant(text), usage, reason))


def priced(cost: str) -> Usage:
    return Usage(100, 10, cost_usd=Decimal(cost))


async def test_a_turn_tells_what_it_used_and_what_the_thread_did(desk: Desk) -> None:
    session = desk.new(Says([done("one", priced("0.1"))], [done("two", priced("0.02"))]))
    await session.turn("go")
    finished = await session.turn("go")
    assert finished.turn_usage == priced("0.02")
    assert finished.usage == Usage(200, 20, cost_usd=Decimal("0.12"))
    desk.check(session)


async def test_a_failed_request_costs_too(desk: Desk) -> None:
    cut = LlmError(LlmErrorKind.CUT_STREAM, "cut", 0.0, Usage(100, 3, unpriced_tokens=103))
    session = desk.new(Says([LlmEvent.Error(cut)], [done("one", priced("0.1"))]))
    finished = await session.turn("go")
    assert finished.turn_usage == Usage(200, 13, cost_usd=Decimal("0.1"), unpriced_tokens=103)
    desk.check(session)


async def test_what_the_hook_asked_of_a_model_counts_for_the_turn(desk: Desk) -> None:
    spent = [(Usage(7, 1), "small"), (None, "")]
    session = desk.new(
        Model(calls("a"), "done"),
        Toolbox(a=mutate()),
        workspace=Folder(),
        hook_usage=lambda: spent.pop(0),
    )
    finished = await session.turn("go")
    assert spent == [(None, "")]
    (hook,) = [e for e in desk.events(session.thread_id) if e["type"] == "hook_completed"]
    assert hook["usage"] == {"input_tokens": 7, "output_tokens": 1}
    assert hook["model"] == "small"
    without_hook = desk.new(Model(calls("a"), "done"), Toolbox(a=mutate()))
    other = await without_hook.turn("go")
    assert finished.turn_usage == other.turn_usage + Usage(7, 1)
    desk.check(session)


async def test_the_use_of_a_turn_survives_a_crash_in_the_middle_of_it(desk: Desk) -> None:
    model = Model({**calls("a"), "usage": {"input_tokens": 5, "output_tokens": 1}}, {"hang": True})
    session = desk.new(model, Toolbox(a=mutate()))
    turn = asyncio.create_task(session.turn("go"))
    await desk.heard.until(outputs.ToolFinished)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    again = desk.reopen(session.thread_id, Says([done("end", Usage(7, 2))]), Toolbox(a=mutate()))
    finished = await again.resume()
    assert finished.turn_usage == finished.usage == Usage(12, 3)


async def test_thinking_is_shown_and_not_stored(desk: Desk) -> None:
    session = desk.new(
        Says([LlmEvent.ThinkingDelta("hm \ud83d"), LlmEvent.ThinkingDelta(), done("so")])
    )
    assert (await session.turn("go")).answer == "so"
    assert [told.text for told in desk.heard.of(outputs.ThinkingDelta)] == ["hm \ufffd"]
    assert "hm" not in str(desk.events(session.thread_id))


async def test_a_sign_of_life_keeps_a_silent_model_from_being_given_up(desk: Desk) -> None:
    class Slow(Says):
        async def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
            for _second in range(5):
                await asyncio.get_running_loop().create_task(asyncio.sleep(0.9))
                yield LlmEvent.ThinkingDelta()
            yield done("at last")

    session = desk.new(Slow(), config=AgentConfig(llm_timeout_s=1.0, max_retries=0))
    assert (await session.turn("go")).answer == "at last"


async def test_an_answer_that_says_nothing_is_told(desk: Desk) -> None:
    session = desk.new(Says([done(" \n")]))
    await session.turn("go")
    assert [told.text for told in desk.heard.of(outputs.Notice)] == ["the model answered nothing"]


async def test_an_answer_that_was_cut_at_a_limit_says_so(desk: Desk) -> None:
    session = desk.new(Says([done("half an ans", reason="length")], [done("whole")]))
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "half an ans")
    (notice,) = desk.heard.of(outputs.Notice)
    assert notice.text.startswith("the answer was cut")
    await session.turn("go on")
    assert len(desk.heard.of(outputs.Notice)) == 1
