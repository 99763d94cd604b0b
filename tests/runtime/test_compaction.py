"""A long conversation is summed up for the model; no message of it is lost."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import (
    CONFIG,
    Desk,
    Model,
    Toolbox,
    calls,
    calls_of,
    imbalance,
    read,
    texts,
)
from treadle import outputs
from treadle.core.budget import TokenBudget
from treadle.core.compaction import SUMMARY_INSTRUCTION
from treadle.core.config import COMPACT_AT_TOKENS
from treadle.core.conversation import SUMMARY_AFTER_WORDS
from treadle.core.llm import Usage
from treadle.errors import UsageError
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session
from treadle.thread.codec import decode_entry
from treadle.thread.usage import UsageEntry, list_usage, sum_usage_by_turn

LIMITED: Final = replace(CONFIG, context_tokens_max=1000, compact_at=0.8)
SUMMARY: Final[dict[str, Any]] = {
    "when": {"system": "^You write the summary", "last_role": "user"},
    "text": "They want a scarf.",
    "usage": {"input_tokens": 70, "output_tokens": 7},
}
SHOWN: Final = f"{SUMMARY_AFTER_WORDS}They want a scarf."
FULL: Final[dict[str, Any]] = {
    "when": {"user": "^one$", "last_role": "user"},
    "text": "first",
    "usage": {"input_tokens": 790, "output_tokens": 10},
}
NEXT: Final[dict[str, Any]] = {
    "when": {"user": "^two$", "last_role": "user"},
    "text": "second",
    "usage": {"input_tokens": 80, "output_tokens": 10},
}


def spent(desk: Desk, session: Session) -> list[UsageEntry]:
    records = desk.store.scan(session.thread_id).records
    return [*list_usage((one.seq, one.at, decode_entry(one.event)) for one in records)]


async def test_near_the_limit_the_beginning_is_summed_up_before_the_next_request(
    desk: Desk,
) -> None:
    model = Model(SUMMARY, FULL, NEXT)
    session = desk.new(model, config=LIMITED)
    await session.turn("one")
    assert (await session.turn("two")).answer == "second"
    assert len(model.requests) == 3
    assert texts(model.requests[2].messages) == ["one", SHOWN, "two"]
    assert texts(session.conversation) == ["one", "first", "two", "second"]
    assert outputs.Notice("compacting the conversation") in desk.heard.outputs
    desk.check(session)


async def test_below_the_limit_nothing_is_summed_up(desk: Desk) -> None:
    full = {**FULL, "usage": {"input_tokens": 789, "output_tokens": 10}}
    model = Model(SUMMARY, full, NEXT)
    session = desk.new(model, config=LIMITED)
    await session.turn("one")
    await session.turn("two")
    assert len(model.requests) == 2
    desk.check(session)


async def test_in_the_middle_of_a_turn_the_last_calls_stay_as_they_are(desk: Desk) -> None:
    usage = {"input_tokens": 800, "output_tokens": 10}
    model = Model(
        SUMMARY,
        {"when": {"last": "^one$"}, **calls("look"), "usage": usage},
        {"when": {"tool": "look"}, "text": "done"},
    )
    session = desk.new(model, Toolbox(look=read("wool")), LIMITED)
    await session.turn("zero")  # nobody answers this one: it fails
    assert (await session.turn("one")).answer == "done"
    last = model.requests[-1].messages
    assert [m.role for m in last] == ["user", "user", "user", "assistant", "tool"]
    assert texts(last)[:3] == ["zero", "one", SHOWN]
    assert imbalance(last) == ""
    desk.check(session)


async def test_the_prompt_of_a_turn_outlives_every_compaction_in_it(
    desk: Desk,
) -> None:
    usage = {"input_tokens": 80_000, "output_tokens": 10}
    summary = {"when": {"last": r"^\[The context"}, "text": "They want a scarf.", "usage": usage}
    model = Model(
        summary,
        {"when": {"last": "^knit it blue$"}, **calls("look"), "usage": usage},
        {"when": {"tool": "look"}, **calls("peek"), "usage": usage},
        {"when": {"tool": "peek"}, **calls("find"), "usage": usage},
        {"text": "done"},
    )
    tools = Toolbox(look=read("wool"), peek=read("needles"), find=read("colours"))
    config = replace(LIMITED, context_tokens_max=100_000, system_prompt="be brief")
    session = desk.new(model, tools, config)
    await session.turn("zero")
    assert (await session.turn("knit it blue")).answer == "done"
    prompts = [
        one for one in model.requests if one.messages[-1].content.startswith(SUMMARY_INSTRUCTION)
    ]
    assert len(prompts) == 3
    for before, asked in zip(model.requests[1:], model.requests[2:], strict=False):
        assert "knit it blue" in texts(asked.messages)
        if asked in prompts:  # what the provider has in its cache, and nothing else before its end
            assert asked.messages[:-1] == before.messages[:]
            assert replace(asked, messages=before.messages) == before
    desk.check(session)
    await session.close()
    kept = texts(desk.reopen(session.thread_id, Model(SUMMARY)).conversation.in_view)
    assert kept[:2] == ["zero", "knit it blue"]


async def test_no_summary_is_written_when_the_budget_of_the_turn_is_used_up(desk: Desk) -> None:
    usage = {"input_tokens": 800, "output_tokens": 10}
    model = Model(SUMMARY, {"when": {"last": "^one$"}, **calls("look"), "usage": usage})
    tools, budget = Toolbox(look=read("wool")), TokenBudget(max_total=810)
    session = desk.new(model, tools, LIMITED, budget=budget)
    await session.turn("zero")  # nobody answers this one: it fails
    count = len(model.requests)
    finished = await session.turn("one")
    assert finished.outcome is TurnOutcome.LIMIT
    assert "810 of 810 tokens used" in finished.error
    assert session.is_waiting
    finished = await session.compact()
    assert finished.outcome is TurnOutcome.LIMIT
    assert session.is_waiting
    assert len(model.requests) == count + 1
    assert outputs.Notice("compacting the conversation") not in desk.heard.outputs
    desk.check(session)


async def test_a_turn_that_has_used_its_steps_is_not_summed_up_but_on_request(desk: Desk) -> None:
    usage = {"input_tokens": 800, "output_tokens": 10}
    model = Model(SUMMARY, {"when": {"last": "^one$"}, **calls("look"), "usage": usage})
    config = replace(LIMITED, max_steps=1)
    session = desk.new(model, Toolbox(look=read("wool")), config)
    await session.turn("zero")  # nobody answers this one: it fails
    count = len(model.requests)
    assert (await session.turn("one")).outcome is TurnOutcome.LIMIT
    assert len(model.requests) == count + 1
    assert (await session.compact()).outcome is TurnOutcome.DONE
    assert len(model.requests) == count + 2
    desk.check(session)


async def test_compacting_by_hand_keeps_every_message(desk: Desk) -> None:
    model = Model(SUMMARY, FULL, NEXT)
    session = desk.new(model)
    await session.turn("one")
    finished = await session.compact("the colour")
    assert finished.outcome is TurnOutcome.DONE
    assert "keep this: the colour" in model.requests[1].messages[-1].content
    await session.turn("two")
    assert texts(model.requests[2].messages) == ["one", SHOWN, "two"]
    assert texts(session.conversation) == ["one", "first", "two", "second"]
    desk.check(session)
    await session.close()
    session = desk.reopen(session.thread_id, Model(NEXT))
    await session.turn("two")
    sent = desk.providers[-1].requests[0].messages  # type: ignore[attr-defined]
    assert texts(sent)[:2] == ["one", SHOWN]
    desk.check(session)


async def test_there_must_be_something_to_compact_and_no_turn_running(desk: Desk) -> None:
    session = desk.new(Model({"text": "Once", "hang": True}))
    with pytest.raises(UsageError, match="nothing to compact"):
        await session.compact()
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.TextDelta)
    with pytest.raises(UsageError, match="a turn is running"):
        await session.compact()
    session.cancel()
    await turn
    desk.check(session)


FAILING: Final[dict[str, Any]] = {
    "a refusal": {**SUMMARY, "text": "", "error": {"kind": "authentication", "message": "no key"}},
    "nothing": {**SUMMARY, "text": " "},
}


@pytest.mark.parametrize("name", FAILING)
async def test_a_summary_that_fails_leaves_the_conversation_as_it_is(desk: Desk, name: str) -> None:
    reply = {key: value for key, value in FAILING[name].items() if key != "text" or value}
    if "error" in reply:
        del reply["usage"]
    model = Model(reply, FULL, NEXT)
    session = desk.new(model, config=LIMITED)
    await session.turn("one")
    assert (await session.turn("two")).answer == "second"
    assert texts(model.requests[-1].messages) == ["one", "first", "two"]
    finished = await session.compact()
    assert finished.outcome is TurnOutcome.FAILED
    assert finished.error
    assert session.is_waiting
    desk.check(session)


async def test_what_summaries_use_counts_and_stands_in_the_ledger(desk: Desk) -> None:
    session = desk.new(Model(SUMMARY, FULL, NEXT), config=LIMITED)
    await session.turn("one")
    finished = await session.turn("two")
    assert finished.turn_usage == Usage(70 + 80, 7 + 10)
    assert finished.usage == Usage(790 + 70 + 80, 10 + 7 + 10)
    found = spent(desk, session)
    assert [(one.turn, one.purpose, one.model) for one in found] == [
        (1, "answer", "model-1"),
        (2, "summary", "model-1"),
        (2, "answer", "model-1"),
    ]
    assert sum_usage_by_turn(found)[2] == finished.turn_usage
    desk.check(session)


async def test_a_summary_of_nothing_is_paid_for_too(desk: Desk) -> None:
    session = desk.new(Model(FAILING["nothing"], FULL, NEXT), config=LIMITED)
    await session.turn("one")
    finished = await session.turn("two")
    assert finished.turn_usage == Usage(70 + 80, 7 + 10)
    assert [one.purpose for one in spent(desk, session)] == ["answer", "failed summary", "answer"]
    desk.check(session)


async def test_a_process_that_dies_while_the_summary_is_written_asks_for_it_again(
    desk: Desk,
) -> None:
    waiting = {key: value for key, value in SUMMARY.items() if key not in ("text", "usage")}
    model = Model({**waiting, "hang": True}, FULL, NEXT)
    session = desk.new(model, config=LIMITED)
    await session.turn("one")
    turn = asyncio.ensure_future(session.turn("two"))
    await desk.heard.until(outputs.Notice)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    again = Model(SUMMARY, FULL, NEXT)
    session = desk.reopen(session.thread_id, again)
    assert (await session.resume()).answer == "second"
    assert again.sent[0] == model.sent[-1], "byte for byte"
    assert texts(again.requests[1].messages)[:2] == ["one", SHOWN]
    desk.check(session)


async def test_a_result_that_was_left_out_can_be_read_again(desk: Desk) -> None:
    """Also one that was short enough to stand in its message, of which nothing is kept apart."""
    wool = "wool\n" * 2_000
    used = {"input_tokens": 800, "output_tokens": 10}
    arguments = {"path": "output:c1", "start_line": 2000}
    model = Model(
        {"when": {"last": "^count it$"}, "calls": [{"tool": "look", "id": "c1"}]},
        {"when": {"tool": "look"}, **calls("peek"), "usage": used},
        {
            "when": {"tool": "peek"},
            "calls": [{"tool": "read_file", "arguments": arguments}],
        },
        {"when": {"tool": "read_file"}, "text": "two thousand"},
    )
    tools = Toolbox(look=read(wool), peek=read("a needle"), read_file=read("no such file"))
    session = desk.new(model, tools, LIMITED)
    assert (await session.turn("count it")).answer == "two thousand"
    stub = (
        '[The result of look was left out to make room: 10000 bytes; read_file("output:c1") has it]'
    )
    last = model.requests[-1].messages
    assert [one.content for one in last if one.role == "tool"] == [stub, "a needle", "wool\n"]
    assert calls_of(session.conversation)["look"] == wool
    assert tools.ran == ["look", "peek"], "it was read from the thread"
    told = outputs.Notice("the model is not shown old results among the first 3 messages")
    assert told in desk.heard.outputs
    assert desk.kinds(session.thread_id).count("results_masked") == 1
    assert "compacted" not in desk.kinds(session.thread_id)
    desk.check(session)
    await session.close()
    again = desk.reopen(session.thread_id, Model({"text": "done"}), tools)
    assert again.conversation.in_view[:-1] == last[:]


async def test_a_new_thread_records_where_room_is_made_and_an_old_one_when_it_goes_on(
    desk: Desk,
) -> None:
    session = desk.new(Model({"text": "done"}), config=CONFIG)
    await session.turn("go")
    [event] = [one for one in desk.events(session.thread_id) if one["type"] == "configured"]
    assert event["config"]["compact_at_tokens"] == COMPACT_AT_TOKENS
    own = replace(CONFIG, compact_at_tokens=90_000)
    await session.close()
    session = desk.reopen(session.thread_id, Model({"text": "done"}), config=own)
    await session.turn("go")
    *_, event = [one for one in desk.events(session.thread_id) if one["type"] == "configured"]
    assert event["config"]["compact_at_tokens"] == 90_000
