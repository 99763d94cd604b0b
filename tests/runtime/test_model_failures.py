"""Whatever a provider does, the turn ends in an answer or in an error, and the thread goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Model, Toolbox, calls, mutate, roles
from treadle import outputs
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import ADVICE, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits
from treadle.core.messages import Message
from treadle.core.retry import RETRYABLE
from treadle.outputs import TurnFinished, TurnOutcome

LIMIT_S = 8.0
IMPATIENT = replace(CONFIG, llm_timeout_s=LIMIT_S, max_retries=0)
ANSWER = LlmEvent.Completed(LlmResponse(Message.assistant("there")))


def now() -> float:
    return asyncio.get_running_loop().time()


def error(kind: str, **rest: Any) -> dict[str, Any]:
    times = rest.pop("times", 1)
    return {"error": {"kind": kind, "message": "so it goes", **rest}, "times": times}


async def retried(desk: Desk, failure: dict[str, Any]) -> list[outputs.Retrying]:
    """A turn with this failure, then an answer; the retries people were told of."""
    model = Model(failure, "done")
    session = desk.new(model)
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    assert len(set(model.sent)) == 1, "the same request each time"
    assert roles(session.conversation) == ["user", "assistant"]
    desk.check(session)
    return desk.heard.of(outputs.Retrying)


async def test_a_model_that_stays_silent_for_too_long_is_asked_again(desk: Desk) -> None:
    model = Model({"text": "Once upon", "hang": True}, "done")
    session = desk.new(model, config=replace(CONFIG, llm_timeout_s=LIMIT_S))
    began = now()
    assert (await session.turn("go")).answer == "done"
    (told,) = desk.heard.of(outputs.Retrying)
    assert told.error.kind is LlmErrorKind.TIMEOUT
    assert told.error.message == "no answer within 8 s"
    assert now() - began == pytest.approx(LIMIT_S + told.delay_s)


async def test_a_model_may_be_slow_as_long_as_it_is_never_silent(desk: Desk) -> None:
    model = Model({"chunks": ["a"] * 20, "first_delay_s": LIMIT_S - 1, "delay_s": LIMIT_S - 1})
    session = desk.new(model, config=IMPATIENT)
    began = now()
    assert (await session.turn("go")).answer == "a" * 20
    assert now() - began == pytest.approx(20 * (LIMIT_S - 1))


async def test_a_stream_that_ends_without_an_end_is_tried_again(desk: Desk) -> None:
    (told,) = await retried(desk, {"text": "Hel", "cut": True})
    assert told.error.kind is LlmErrorKind.CUT_STREAM


async def test_calls_of_a_stream_that_was_cut_are_not_run(desk: Desk) -> None:
    tools = Toolbox(a=mutate())
    session = desk.new(Model({**calls("a", text="I will"), "cut": True}, "done"), tools)
    assert (await session.turn("go")).answer == "done"
    assert tools.ran == []
    assert "I will" not in str(session.conversation[:])


@pytest.mark.parametrize("kind", sorted(kind.value for kind in RETRYABLE))
async def test_a_failure_that_can_pass_is_retried_three_times_and_no_more(
    desk: Desk, kind: str
) -> None:
    model = Model(error(kind, times=0, retry_after_s=0))
    session = desk.new(model)
    finished = await session.turn("go")
    assert len(model.requests) == 4
    assert len(set(model.sent)) == 1
    assert [told.delay_s for told in desk.heard.of(outputs.Retrying)] == [0.0, 0.0, 0.0]
    assert finished.outcome is TurnOutcome.FAILED
    advice = ADVICE[LlmErrorKind(kind)]
    assert finished.error == f"LLM error: {kind.replace('_', ' ')}: so it goes; {advice}"
    assert [told.text for told in desk.heard.of(outputs.ErrorShown)] == [finished.error]
    assert desk.kinds(session.thread_id).count("llm_error") == 4
    desk.check(session)


async def test_delays_double_and_are_spread_and_waited_for(desk: Desk) -> None:
    began = now()
    told = await retried(desk, error("overloaded", times=3))
    for retry, full_s in zip(told, (0.5, 1.0, 2.0), strict=True):
        assert full_s / 2 <= retry.delay_s <= full_s
    assert len({retry.delay_s / told[0].delay_s for retry in told} - {1.0, 2.0, 4.0}) > 0
    assert now() - began == pytest.approx(sum(retry.delay_s for retry in told))


async def test_the_server_says_how_long_to_wait(desk: Desk) -> None:
    began = now()
    told = await retried(desk, error("rate_limited", retry_after_s=77.5))
    assert [retry.delay_s for retry in told] == [77.5]
    assert now() - began == pytest.approx(77.5)


async def test_each_request_of_a_turn_has_three_retries_of_its_own(desk: Desk) -> None:
    broken = {**error("network", times=3, retry_after_s=0), "when": {"step": 0}}
    again = {**error("network", times=3, retry_after_s=0), "when": {"step": 1}}
    model = Model(broken, again, calls("a"), "done")
    session = desk.new(model, Toolbox(a=mutate()))
    assert (await session.turn("go")).answer == "done"
    assert len(model.requests) == 8


@pytest.mark.parametrize("kind", sorted({kind.value for kind in set(LlmErrorKind) - RETRYABLE}))
async def test_a_failure_that_cannot_pass_ends_the_turn_at_once(desk: Desk, kind: str) -> None:
    model = Model(error(kind, times=0))
    session = desk.new(model)
    assert (await session.turn("go")).outcome is TurnOutcome.FAILED
    assert len(model.requests) == 1
    assert desk.heard.of(outputs.Retrying) == []


async def test_a_wait_longer_than_a_person_would_wait_ends_the_turn(desk: Desk) -> None:
    model = Model(error("rate_limited", times=0, retry_after_s=601))
    assert (await desk.new(model).turn("go")).outcome is TurnOutcome.FAILED
    assert len(model.requests) == 1


async def test_without_retries_the_first_failure_ends_the_turn(desk: Desk) -> None:
    model = Model(error("network", times=0))
    session = desk.new(model, config=replace(CONFIG, max_retries=0))
    assert (await session.turn("go")).outcome is TurnOutcome.FAILED
    assert len(model.requests) == 1


async def test_a_thread_goes_on_after_a_turn_that_failed(desk: Desk) -> None:
    model = Model({"when": {"user": "two"}, "text": "done"}, error("bad_request", times=0))
    session = desk.new(model)
    failed = await session.turn("one")
    assert (failed.outcome, failed.answer) == (TurnOutcome.FAILED, "")
    assert session.is_waiting
    finished = await session.turn("two")
    assert (finished.outcome, finished.answer, finished.error) == (TurnOutcome.DONE, "done", "")
    assert roles(session.conversation) == ["user", "user", "assistant"]
    desk.check(session)


class Provider:
    """Does what it is made to do, then answers."""

    name = "scripted"

    def __init__(self, misdeed: str) -> None:
        self.misdeed = misdeed
        self.count = 0

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        self.count += 1
        misdeed, self.misdeed = self.misdeed, ""
        if misdeed == "raises at once":
            raise ValueError("oh")
        yield LlmEvent.TextDelta("the")
        if misdeed == "raises later":
            raise ValueError("oh")
        if misdeed == "raises TimeoutError":
            raise TimeoutError("oh")
        if misdeed == "exits":
            raise SystemExit(2)
        if misdeed == "cancels itself":
            raise asyncio.CancelledError
        if misdeed == "yields nonsense":
            yield None  # type: ignore[misc]
        try:
            yield ANSWER
        finally:
            if misdeed == "raises after the answer":
                raise ValueError("oh")
            if misdeed == "hangs after the answer":
                await asyncio.Event().wait()


async def turn_with(desk: Desk, misdeed: str) -> tuple[TurnFinished, Provider]:
    provider = Provider(misdeed)
    session = desk.new(provider, config=replace(CONFIG, llm_timeout_s=LIMIT_S))
    finished = await session.turn("go")
    assert session.is_waiting
    desk.check(session)
    assert (await session.turn("again")).answer == "there"
    return finished, provider


@pytest.mark.parametrize(
    "misdeed", ["raises at once", "raises later", "raises TimeoutError", "exits", "cancels itself"]
)
async def test_a_provider_that_raises_is_an_error_and_no_crash(desk: Desk, misdeed: str) -> None:
    finished, provider = await turn_with(desk, misdeed)
    assert finished.outcome is TurnOutcome.FAILED
    assert finished.error.startswith("LLM error: internal: the provider scripted failed: ")
    assert provider.count == 2, "a bug is not retried"


@pytest.mark.parametrize(
    "misdeed", ["raises after the answer", "hangs after the answer", "yields nonsense"]
)
async def test_an_answer_that_was_complete_stays_an_answer(desk: Desk, misdeed: str) -> None:
    finished, _ = await turn_with(desk, misdeed)
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "there")


async def test_a_provider_that_cannot_even_begin_is_an_error(desk: Desk) -> None:
    class Broken(Provider):
        def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
            raise RuntimeError("no network library")

    finished = await desk.new(Broken("")).turn("go")
    assert "no network library" in finished.error


async def test_half_a_character_is_shown_and_stored_with_a_replacement(desk: Desk) -> None:
    class Half(Provider):
        async def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
            yield LlmEvent.TextDelta("half \ud83d")
            yield LlmEvent.Completed(LlmResponse(Message.assistant("half \ud83d")))

    finished = await desk.new(Half("")).turn("go \udc00")
    assert finished.answer == "half \ufffd"
    assert [told.prompt for told in desk.heard.of(outputs.TurnStarted)] == ["go \ufffd"]
    assert [told.text for told in desk.heard.of(outputs.TextDelta)] == ["half \ufffd"]


async def test_an_empty_answer_is_an_answer(desk: Desk) -> None:
    session = desk.new(Model({"text": ""}))
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "")
    assert roles(session.conversation) == ["user", "assistant"]
    desk.check(session)


async def test_the_usage_of_every_answer_is_added_up(desk: Desk) -> None:
    usage = {"input_tokens": 100, "output_tokens": 7}
    model = Model({**calls("a"), "usage": usage}, {"text": "done", "usage": usage})
    session = desk.new(model, Toolbox(a=mutate()))
    await session.turn("go")
    finished = await session.turn("go")
    assert (finished.usage.input_tokens, finished.usage.output_tokens) == (400, 28)
    assert not finished.usage.estimated
