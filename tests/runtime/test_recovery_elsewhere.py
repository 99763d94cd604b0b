"""A process that died elsewhere: the same request, the same hook, the same retry, once each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import (
    CONFIG,
    Desk,
    Folder,
    Model,
    Toolbox,
    calls,
    idempotent,
    mutate,
    read,
    roles,
)
from treadle import outputs
from treadle.core.chat.states import CallingLlm, Error, PostToolsHook
from treadle.core.config import AgentConfig
from treadle.errors import StoreError
from treadle.outputs import Output, TurnOutcome
from treadle.runtime.session import Session
from treadle.thread.facts import PrivacySet

REPLIES: tuple[Any, ...] = (calls("look", "edit", text="I look\u2028é"), calls("put"), "done")
FAILS: dict[str, Any] = {"error": {"kind": "network", "retry_after_s": 40}, "times": 0}


def toolbox() -> Toolbox:
    return Toolbox(look=read("seen \u2028 é"), edit=mutate(), put=idempotent())


async def dies(desk: Desk, session: Session, text: str = "go") -> str:
    """A turn in which the disk is killed from somewhere; the thread's id."""
    with pytest.raises(StoreError):
        await session.turn(text)
    desk.crash()
    return session.thread_id


def stops_at(model: Model, number: int, stop: Any) -> None:
    """Call `stop` when the model is asked for the so-many-eth time."""

    def count(_: object) -> None:
        if len(model.requests) == number:
            stop()

    model._on_request = count


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("config", [None, CONFIG], ids=["recorded", "given"])
async def test_the_request_after_a_crash_is_byte_for_byte_the_one_before(
    desk: Desk, number: int, config: AgentConfig | None
) -> None:
    whole, died, again = Model(*REPLIES), Model(*REPLIES), Model(*REPLIES)
    await desk.new(whole, toolbox()).turn("go")
    stops_at(died, number, desk.disk.kill)
    thread_id = await dies(desk, desk.new(died, toolbox()))
    resumed = desk.reopen(thread_id, again, toolbox(), config)
    assert (await resumed.resume()).answer == "done"
    assert died.sent == whole.sent[:number]
    assert again.sent == whole.sent[number - 1 :]
    desk.check(resumed)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_the_request_after_an_interruption_and_a_snapshot_is_byte_for_byte_the_one_before(
    desk: Desk, number: int
) -> None:
    whole, stopped, again = Model(*REPLIES), Model(*REPLIES), Model(*REPLIES)
    await desk.new(whole, toolbox()).turn("go")
    first = desk.new(stopped, toolbox())
    stops_at(stopped, number, first.driver.interrupt)
    assert (await first.turn("go")).outcome in (TurnOutcome.INTERRUPTED, TurnOutcome.DONE)
    await first.close()
    second = desk.reopen(first.thread_id, again, toolbox())
    await second.resume()
    assert (
        stopped.sent + again.sent
        in (
            whole.sent,  # the answer had come before the stop did
            [*whole.sent[:number], *whole.sent[number - 1 :]],
        )
    )
    assert second.conversation[-1].content == "done"


async def test_a_prompt_that_was_durable_is_answered_by_the_next_process(desk: Desk) -> None:
    desk.heard.on_output = lambda output: (
        desk.disk.kill() if isinstance(output, outputs.TurnStarted) else None
    )
    thread_id = await dies(desk, desk.new(Model("done")))
    again = desk.reopen(thread_id, Model("done"))
    assert type(again.driver.journal.writer.fold.state) is CallingLlm
    assert (await again.resume()).answer == "done"
    assert roles(again.conversation) == ["user", "assistant"]
    assert len(desk.heard.of(outputs.Notice)) == 1


async def test_a_prompt_that_was_not_durable_was_not_accepted(desk: Desk) -> None:
    session = desk.new(Model("done"))
    desk.disk.kill()
    thread_id = await dies(desk, session)
    again = desk.reopen(thread_id, Model("done"))
    assert again.is_waiting
    await again.resume()
    assert again.conversation == session.conversation[:0] or not again.conversation


async def test_resuming_what_is_finished_does_nothing(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    before = desk.events(session.thread_id)
    desk.heard.outputs.clear()
    model = Model("never")
    again = desk.reopen(session.thread_id, model)
    finished = await again.resume()
    assert (finished.outcome, model.requests) == (TurnOutcome.DONE, [])
    assert desk.events(session.thread_id) == before
    assert desk.heard.outputs == []


async def test_a_retry_that_was_waited_for_is_waited_for_again_and_counted(desk: Desk) -> None:
    def die(output: Output) -> None:
        if isinstance(output, outputs.Retrying) and len(desk.heard.of(outputs.Retrying)) == 2:
            desk.disk.kill()

    desk.heard.on_output = die
    died = Model(FAILS)
    thread_id = await dies(desk, desk.new(died))
    assert len(died.requests) == 2
    model = Model(FAILS)
    again = desk.reopen(thread_id, model)
    assert type(again.driver.journal.writer.fold.state) is Error
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await again.resume()).outcome is TurnOutcome.FAILED
    assert len(model.requests) == 2, "four attempts in all"
    assert loop.time() - began == pytest.approx(80)
    assert {*died.sent, *model.sent} == {died.sent[0]}
    desk.check(again)


async def test_attempts_before_a_crash_in_a_retry_count(desk: Desk) -> None:
    died, model = Model(FAILS), Model(FAILS)
    stops_at(died, 3, desk.disk.kill)
    thread_id = await dies(desk, desk.new(died))
    again = desk.reopen(thread_id, model)
    assert (await again.resume()).outcome is TurnOutcome.FAILED
    assert len(model.requests) == 2, "the third is made again, then the fourth"


async def test_a_hook_whose_process_died_is_run_again_and_told_so(desk: Desk) -> None:
    async def die() -> None:
        desk.disk.kill()

    tools = Toolbox(edit=mutate())
    thread_id = await dies(desk, desk.new(Model(calls("edit")), tools, workspace=Folder(die)))
    folder = Folder()
    folder.head = 7
    again = desk.reopen(thread_id, Model(calls("edit"), "done"), tools, workspace=folder)
    assert type(again.driver.journal.writer.fold.state) is PostToolsHook
    assert (await again.resume()).answer == "done"
    (told,) = folder.rounds
    assert not told.is_whole
    assert told.before is not None
    assert told.before.head == f"{1:040x}", "as it stood before the round, not as it stands now"
    assert tools.ran == ["edit"], "the tool is not run again"
    assert [info.tool_name for info in told.completed] == ["edit"]
    desk.check(again)


async def test_a_commit_is_signed_with_the_thread_and_its_version(desk: Desk) -> None:
    folder = Folder()
    session = desk.new(Model(calls("edit"), "done"), Toolbox(edit=mutate()), workspace=folder)
    await session.turn("go")
    kinds = desk.kinds(session.thread_id)
    version = kinds.index("tool_completed") + 1
    assert folder.rounds[0].trailer == f"Treadle-Thread: {session.thread_id}@{version}"


async def test_no_commit_names_a_thread_that_never_leaves_this_machine(desk: Desk) -> None:
    """Neither one that began so nor one that became so: a commit travels with the repository."""
    tools, folder = Toolbox(edit=mutate()), Folder()
    writer = desk.store.create("test", is_private=True)
    session = desk.sit(writer, Model(calls("edit"), "done"), tools, workspace=folder)
    await session.turn("go")
    assert folder.rounds[0].trailer == ""
    later = desk.new(Model(calls("edit"), calls("edit"), "done"), tools, workspace=folder)
    later.driver.journal.writer.stage(PrivacySet(True))
    later.driver.journal.writer.commit()
    await later.turn("go")
    assert [one.trailer for one in folder.rounds] == ["", "", ""]


async def test_what_opening_had_to_mend_is_told_and_recorded_once(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    with desk.journal(session.thread_id).open("ab") as file:
        file.write(b'{"seq":5,"at":"20')
    again = desk.reopen(session.thread_id, Model("done"))
    await again.turn("go")
    await again.turn("go")
    (notice,) = desk.heard.of(outputs.Notice)
    assert "unfinished write" in notice.text
    (event,) = [e for e in desk.events(session.thread_id) if e["type"] == "recovered"]
    assert event["note"] == notice.text
    desk.check(again)


async def test_a_thread_may_be_taken_up_many_times_in_a_row(desk: Desk) -> None:
    died = Model(*REPLIES)
    stops_at(died, 1, desk.disk.kill)
    thread_id = await dies(desk, desk.new(died, toolbox()))
    for number in (1, 1, 2, 2):
        model = Model(*REPLIES)
        stops_at(model, number, desk.disk.kill)
        session = desk.reopen(thread_id, model, toolbox())
        with pytest.raises(StoreError):
            await session.resume()
        desk.crash()
    again = desk.reopen(thread_id, Model(*REPLIES), toolbox())
    assert (await again.turn("go on")).answer == "done"
    desk.check(again)


async def test_a_turn_that_another_model_takes_up_says_so_in_its_request(desk: Desk) -> None:
    died, model = Model("done"), Model("done")
    stops_at(died, 1, desk.disk.kill)
    thread_id = await dies(desk, desk.new(died))
    again = desk.reopen(thread_id, model, None, replace(CONFIG, model_name="model-2"))
    await again.resume()
    assert [request.model for request in model.requests] == ["model-2"]
    desk.check(again)
