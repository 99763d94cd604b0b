"""What a thread works with is recorded when it changes, and holds over processes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Folder, Model, Toolbox, calls, mutate, read
from treadle import outputs
from treadle.core.llm import ModelTraits
from treadle.core.tools import ToolDefinition
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome

LIMITED = replace(CONFIG, max_steps=3)


def configured(desk: Desk, thread_id: str) -> list[dict[str, Any]]:
    return [event for event in desk.events(thread_id) if event["type"] == "configured"]


async def test_the_same_configuration_is_recorded_once_only(desk: Desk) -> None:
    tools = Toolbox(a=read(), b=mutate())
    session = desk.new(Model("done"), tools)
    for config in (CONFIG, None, replace(CONFIG)):
        await session.turn("go")
        await session.turn("go")
        await session.close()
        session = desk.reopen(session.thread_id, Model("done"), tools, config)
    await session.turn("go")
    (event,) = configured(desk, session.thread_id)
    assert event["provider"] == "scripted"
    assert [tool["name"] for tool in event["config"]["tools"]] == ["a", "b"]


async def test_a_schema_that_json_tells_differently_is_still_the_same(desk: Desk) -> None:
    class Odd(Toolbox):
        def definitions(self) -> list[ToolDefinition]:
            schema = {"type": "object", "required": ("a", "b"), "maximum": 1.0}
            return [ToolDefinition("odd", "odd", schema)]

    session = desk.new(Model("done"), Odd())
    await session.turn("go")
    await session.close()
    again = desk.reopen(session.thread_id, Model("done"), Odd())
    await again.turn("go")
    assert len(configured(desk, session.thread_id)) == 1


CHANGES: list[dict[str, Any]] = [
    {"model_name": "model-2"},
    {"system_prompt": "be kind"},
    {"max_steps": 9},
    {"max_retries": 0},
    {"temperature": 0.5},
    {"tool_timeout_s": 1.5},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_a_changed_configuration_is_recorded_before_it_is_used(
    desk: Desk, change: dict[str, Any]
) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    found: list[int] = []
    model = Model(
        "done", on_request=lambda _: found.append(len(configured(desk, session.thread_id)))
    )
    again = desk.reopen(session.thread_id, model, None, replace(CONFIG, **change))
    await again.turn("go")
    assert found == [2]
    event = configured(desk, session.thread_id)[1]
    assert change.items() <= event["config"].items()
    desk.check(again)


async def test_tools_that_changed_are_recorded(desk: Desk) -> None:
    session = desk.new(Model("done"), Toolbox(a=read()))
    await session.turn("go")
    await session.close()
    model = Model("done")
    again = desk.reopen(session.thread_id, model, Toolbox(a=mutate()))
    await again.turn("go")
    assert len(configured(desk, session.thread_id)) == 2
    assert [tool.effect.value for tool in model.requests[0].tools] == ["mutate"]


class Sized(Model):
    """A provider whose models read so many tokens each."""

    sizes: Final = {"model-1": 1000, "model-2": 2000, "model-3": None}

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits(context_tokens_max=self.sizes[model])


@pytest.mark.parametrize(("model", "size"), [("model-2", 2000), ("model-3", 0), ("model-1", 1000)])
async def test_another_model_has_a_context_of_its_own(desk: Desk, model: str, size: int) -> None:
    session = desk.new(Sized("done"))
    await session.turn("go")
    recorded = session.driver.journal.writer.fold.machine.config
    assert recorded.context_tokens_max == 1000
    await session.close()
    config = replace(recorded, model_name=model)
    again = desk.reopen(session.thread_id, Sized("done"), None, config)
    await again.turn("go")
    assert again.driver.journal.writer.fold.machine.config.context_tokens_max == size
    assert again.driver.model_name == model
    desk.check(again)


async def test_a_context_that_is_said_to_be_smaller_is_taken_at_that(desk: Desk) -> None:
    session = desk.new(Sized("done"), None, replace(CONFIG, context_tokens_max=500))
    await session.turn("go")
    assert session.driver.journal.writer.fold.machine.config.context_tokens_max == 500
    desk.check(session)


async def test_a_change_of_provider_is_recorded(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    other = Model("done")
    other.name = "other"
    again = desk.reopen(session.thread_id, other)
    await again.turn("go")
    assert [e["provider"] for e in configured(desk, session.thread_id)] == ["scripted", "other"]
    assert again.driver.journal.writer.fold.document().provider == "other"


async def test_a_recorded_configuration_holds_where_none_is_given(desk: Desk) -> None:
    config = replace(CONFIG, model_name="model-7", system_prompt="be odd", max_tokens=77)
    session = desk.new(Model("done"), config=config)
    await session.turn("go")
    await session.close()
    model = Model("done")
    await desk.reopen(session.thread_id, model).turn("go")
    (request,) = model.requests
    assert (request.model, request.system, request.max_tokens) == ("model-7", "be odd", 77)


async def test_a_turn_is_stopped_by_the_limit_of_its_steps_and_the_next_goes_on(
    desk: Desk,
) -> None:
    model = Model({"when": {"user": "two"}, "text": "done"}, {"when": {"seen": "."}, **calls("a")})
    tools = Toolbox(a=mutate())
    session = desk.new(model, tools, LIMITED, workspace=Folder())
    finished = await session.turn("one")
    assert finished.outcome is TurnOutcome.LIMIT
    assert "3 model requests" in finished.error
    assert len(model.requests) == len(tools.runs) == 3
    assert desk.kinds(session.thread_id)[-1] == "cancel_requested"
    desk.check(session)
    finished = await session.turn("two")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    desk.check(session)


async def test_a_turn_of_just_as_many_steps_as_it_may_have_is_done(desk: Desk) -> None:
    session = desk.new(Model(calls("a"), calls("a"), "done"), Toolbox(a=read()), LIMITED)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE


async def test_retries_are_no_steps(desk: Desk) -> None:
    fails = {"error": {"kind": "network", "retry_after_s": 0}, "times": 3}
    model = Model(fails, calls("a"), calls("a"), "done")
    session = desk.new(model, Toolbox(a=read()), LIMITED)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert len(model.requests) == 6


@pytest.mark.parametrize("steps_before", [1, 2, 3])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
async def test_steps_before_a_crash_count(desk: Desk, steps_before: int, is_closed: bool) -> None:
    model = Model({"when": {"seen": "."}, **calls("a")})

    def stop(_: object) -> None:
        if len(model.requests) == steps_before + 1:
            session.driver.interrupt() if is_closed else desk.disk.kill()

    model._on_request = stop
    session = desk.new(model, Toolbox(a=read()), LIMITED)
    if is_closed or steps_before == 3:
        await session.turn("go")
        await session.close()
    else:
        with pytest.raises(StoreError):
            await session.turn("go")
        desk.crash()
    again = desk.reopen(
        session.thread_id, Model({"when": {"seen": "."}, **calls("a")}), Toolbox(a=read())
    )
    finished = await again.resume()
    assert finished.outcome is (TurnOutcome.DONE if steps_before == 3 else TurnOutcome.LIMIT)
    answers = desk.kinds(session.thread_id).count("llm_completed")
    assert answers == 3, "three in all, whoever asked"
    desk.check(again)


async def test_queued_input_after_a_limit_has_a_turn_of_its_own(desk: Desk) -> None:
    model = Model({"when": {"user": "two"}, "text": "done"}, {"when": {"seen": "."}, **calls("a")})
    session = desk.new(model, Toolbox(a=read()), LIMITED)
    writer = session.driver.journal.writer
    await session.turn("one")
    assert writer.fold.turn_steps == 3
    finished = await session.turn("two")
    assert (finished.outcome, finished.error) == (TurnOutcome.DONE, "")
    assert [told.prompt for told in desk.heard.of(outputs.TurnStarted)] == ["one", "two"]
