"""What is about to happen is on disk before it happens, and that costs no more than it must."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.desk import (
    CONFIG,
    Desk,
    Folder,
    Model,
    Run,
    Toolbox,
    calls,
    idempotent,
    mutate,
    read,
)
from treadle import outputs
from treadle.core.llm import LlmRequest
from treadle.core.tools import ToolProgress
from treadle.outputs import Output, TurnOutcome
from treadle.runtime.session import Session


async def test_the_prompt_and_the_configuration_are_durable_when_the_model_is_asked(
    desk: Desk,
) -> None:
    found: list[list[str]] = []
    model = Model("hello", on_request=lambda _: found.append(desk.kinds(session.thread_id)))
    session = desk.new(model)
    await session.turn("hi")
    assert found == [["thread_created", "configured", "user_input"]]


@pytest.mark.parametrize("tool", [read, idempotent, mutate])
async def test_the_start_of_a_call_is_durable_when_its_tool_runs(desk: Desk, tool: Any) -> None:
    found: list[list[str]] = []

    async def look(run: Run) -> str:
        events = desk.events(session.thread_id)
        assert {"type": "tool_started", "call_id": run.call.id} == {
            key: value for key, value in events[-1].items() if key != "at"
        }
        found.append([event["type"] for event in events])
        return "seen"

    session = desk.new(Model(calls("look"), "done"), Toolbox(look=tool(look)))
    assert (await session.turn("go")).answer == "done"
    assert found[0][-2:] == ["llm_completed", "tool_started"]


async def test_the_starts_of_all_calls_are_durable_before_the_first_of_them_runs(
    desk: Desk,
) -> None:
    found: list[int] = []

    async def look(_: Run) -> str:
        found.append(desk.kinds(session.thread_id).count("tool_started"))
        return "seen"

    tools = Toolbox(a=read(look), b=mutate(look), c=idempotent(look))
    session = desk.new(Model(calls("a", "b", "c"), "done"), tools)
    await session.turn("go")
    assert found == [3, 3, 3]


async def test_all_results_are_durable_when_the_next_request_leaves(desk: Desk) -> None:
    found: list[list[str]] = []

    def look(_: LlmRequest) -> None:
        found.append(desk.kinds(session.thread_id))

    tools = Toolbox(a=read(), b=mutate())
    session = desk.new(Model(calls("a", "b"), "done", on_request=look), tools)
    await session.turn("go")
    assert found[1].count("tool_completed") == 2
    assert found[1][-1] == "hook_completed"


async def test_results_are_durable_when_the_hook_runs_and_its_end_when_the_request_leaves(
    desk: Desk,
) -> None:
    at_hook: list[list[str]] = []
    at_request: list[list[str]] = []

    async def hook() -> None:
        at_hook.append(desk.kinds(session.thread_id))

    model = Model(
        calls("edit"), "done", on_request=lambda _: at_request.append(desk.kinds(session.thread_id))
    )
    session = desk.new(model, Toolbox(edit=mutate()), workspace=Folder(hook))
    await session.turn("go")
    assert at_hook[0][-1] == "tool_completed"
    assert sorted(at_request[1][-2:]) == ["git_observed", "hook_completed"]


RECORD_OF: dict[type, str] = {
    outputs.TurnStarted: "user_input",
    outputs.ToolStarted: "tool_started",
    outputs.ToolFinished: "tool_completed",
    outputs.HookFinished: "hook_completed",
    outputs.Retrying: "llm_error",
    outputs.ErrorShown: "llm_error",
}


async def test_nothing_is_shown_as_done_before_its_record_is_durable(desk: Desk) -> None:
    told: set[type] = set()

    def check(output: Output) -> None:
        kind = type(output)
        if kind in RECORD_OF:
            told.add(kind)
            durable = desk.kinds(session.thread_id)
            assert durable.count(RECORD_OF[kind]) >= len(desk.heard.of(kind))

    desk.heard.on_output = check
    model = Model(
        calls("a", "b"),
        {"error": {"kind": "network", "retry_after_s": 0}},
        calls("b"),
        {"error": {"kind": "bad_request"}, "times": 0, "when": {"step": 2}},
    )
    session = desk.new(model, Toolbox(a=read(), b=mutate()), workspace=Folder())
    assert (await session.turn("go")).outcome is TurnOutcome.FAILED
    assert told == set(RECORD_OF)


async def test_the_answer_is_durable_when_the_turn_says_that_it_is_finished(desk: Desk) -> None:
    session = desk.new(Model("the answer"))
    finished = await session.turn("go")
    last = desk.events(session.thread_id)[-1]
    assert finished.answer == last["response"]["message"]["content"] == "the answer"
    assert finished.version == len(desk.events(session.thread_id))


async def syncs_of_turn(desk: Desk, session: Session, text: str = "go") -> int:
    before = desk.disk.counts.copy()
    await session.turn(text)
    counts = desk.disk.counts - before
    assert counts["write"] == counts["sync"], "one write and one sync for each batch"
    return counts["sync"]


async def test_a_turn_without_tools_costs_two_syncs(desk: Desk) -> None:
    session = desk.new(Model("done"))
    assert [await syncs_of_turn(desk, session) for _ in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("tool", [read, mutate])
async def test_a_turn_with_a_tool_costs_four_syncs(desk: Desk, tool: Any) -> None:
    session = desk.new(Model(calls("a"), "done"), Toolbox(a=tool()))
    assert [await syncs_of_turn(desk, session) for _ in range(3)] == [4, 4, 4]


async def test_a_turn_with_a_hook_that_commits_costs_five_syncs(desk: Desk) -> None:
    session = desk.new(Model(calls("a"), "done"), Toolbox(a=mutate()), workspace=Folder())
    assert [await syncs_of_turn(desk, session) for _ in range(3)] == [5, 5, 5]


async def test_what_arrives_together_shares_a_sync(desk: Desk) -> None:
    barrier = asyncio.Barrier(8)

    async def meet(_: Run) -> str:
        await barrier.wait()
        return "met"

    names = [f"t{index}" for index in range(8)]
    session = desk.new(
        Model(calls(*names), "done"), Toolbox(**{name: mutate(meet) for name in names})
    )
    assert await syncs_of_turn(desk, session) == 4


async def test_streaming_writes_nothing(desk: Desk) -> None:
    session = desk.new(Model({"chunks": ["a"] * 500}))
    assert await syncs_of_turn(desk, session) == 2
    assert len(desk.heard.of(outputs.TextDelta)) == 500
    assert len(desk.events(session.thread_id)) == 4


async def test_progress_is_shown_and_writes_nothing(desk: Desk) -> None:
    async def work(run: Run) -> str:
        for part in range(100):
            run.progress(ToolProgress(part / 100, "working", part))
        return "worked"

    session = desk.new(Model(calls("work"), "done"), Toolbox(work=mutate(work)))
    assert await syncs_of_turn(desk, session) == 4
    assert [told.progress.units_processed for told in desk.heard.of(outputs.ToolProgressed)] == [
        *range(100)
    ]
    desk.check(session)


async def test_a_turn_costs_the_same_in_bytes_however_long_the_thread_is(desk: Desk) -> None:
    session = desk.new(Model(calls("a", "b"), "done"), Toolbox(a=read(), b=mutate()))
    sizes = []
    for _ in range(60):
        before = desk.disk.written_size
        await session.turn("go")
        sizes.append(desk.disk.written_size - before)
    assert max(sizes[1:]) - min(sizes[1:]) < 60, "digits of numbers may grow, nothing else"


async def test_every_record_says_what_it_must_and_nothing_twice(desk: Desk) -> None:
    session = desk.new(Model(calls("a", "b"), "done"), Toolbox(a=read(), b=mutate()))
    await session.turn("go")
    assert desk.kinds(session.thread_id) == [
        *("thread_created", "configured", "user_input", "llm_completed", "tool_started"),
        *("tool_started", "tool_completed", "tool_completed", "hook_completed", "llm_completed"),
    ]
    desk.check(session)


async def test_a_closed_session_leaves_a_snapshot_that_says_the_same(desk: Desk) -> None:
    model = Model(calls("a"), "done")
    session = desk.new(model, Toolbox(a=mutate()), CONFIG, workspace=Folder())
    await session.turn("go")
    said = tuple(session.conversation)
    await session.close()
    assert desk.disk.open_count == 0
    again = desk.reopen(session.thread_id, model, Toolbox(a=mutate()))
    assert tuple(again.conversation) == said
    desk.check(again)
