"""An answer has the form that was asked for, or goes back with what is wrong with it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from msgspec import Struct

from runtime.desk import Desk, Model, Toolbox, calls, for_ever, read
from runtime.task.agents import agent, close, events
from treadle import outputs
from treadle.core.task.events import TaskConfig
from treadle.errors import BudgetExceeded, UsageError


class Carpet(Struct):
    """What is asked for."""

    colour: str
    knots: int


SCHEMA: Final = {
    "type": "object",
    "properties": {"knots": {"type": "integer", "minimum": 10}},
    "required": ["knots"],
}
GOOD: Final = '{"colour":"red","knots":12}'


def requests(desk: Desk) -> list[Any]:
    model = desk.providers[-1]
    assert isinstance(model, Model)
    return model.requests


async def test_a_type_makes_the_output_a_value_of_it(desk: Desk) -> None:
    engine = agent(desk, GOOD, output=Carpet).build()
    assert await engine.run() == GOOD
    assert engine.output == Carpet("red", 12)
    assert "colour" in requests(desk)[0].system
    await close(desk, engine)


async def test_a_schema_makes_the_output_plain_data(desk: Desk) -> None:
    engine = agent(desk, f"```json\n{GOOD}\n```", output=SCHEMA).build()
    await engine.run()
    assert engine.output == {"colour": "red", "knots": 12}
    await close(desk, engine)


WRONG: Final[dict[str, tuple[Any, str, str]]] = {
    "no JSON": (Carpet, "It has twelve knots, I think.", "not a JSON document"),
    "a field of another type": (Carpet, '{"colour":"red","knots":"12"}', "`$.knots`"),
    "a field missing": (Carpet, '{"colour":"red"}', "missing required field `knots`"),
    "a number too small": (SCHEMA, '{"knots":3}', "less than the minimum of 10"),
    "nothing": (SCHEMA, " ", "the answer is empty"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_answer_goes_back_with_what_is_wrong(desk: Desk, name: str) -> None:
    form, wrong, words = WRONG[name]
    replies = ({"when": {"last": "does not have the form"}, "text": GOOD}, wrong)
    engine = agent(desk, *replies, output=form).build()
    assert await engine.run() == GOOD
    note = requests(desk)[1].messages[-1]
    assert (note.role, words in note.content) == ("user", True), note.content
    assert events(engine).count("ANSWER_INVALID") == 1
    assert engine.memory.step == 2
    await close(desk, engine)


async def test_an_answer_that_is_never_right_ends_with_the_steps(desk: Desk) -> None:
    engine = agent(desk, {"when": {"step": 0}, "text": "no"}, "never", output=Carpet).build()
    with pytest.raises(BudgetExceeded, match="Max steps 15"):
        await engine.run()
    assert engine.output is None
    assert events(engine).count("ANSWER_INVALID") == 15
    await close(desk, engine)


async def test_the_form_is_that_of_the_thread_whoever_resumes_it(desk: Desk) -> None:
    """Also an agent that was not told of it looks at the answer."""
    tools = Toolbox(look=read(for_ever))
    replies = (
        {"when": {"last": "does not have the form"}, "text": GOOD},
        {"when": {"tool": "look"}, "text": "It is red."},
        calls("look"),
    )
    engine = agent(desk, *replies, tools=tools, output=SCHEMA).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    engine = agent(desk, *replies, tools=Toolbox(look=read())).resume(engine.thread_id)
    assert await engine.run() == GOOD
    assert engine.output == {"colour": "red", "knots": 12}
    await close(desk, engine)


async def test_limits_that_are_set_all_at_once_leave_the_form(desk: Desk) -> None:
    builder = agent(desk, {"when": {"last": "form"}, "text": GOOD}, "It is red.", output=Carpet)
    engine = builder.config(TaskConfig(max_steps=5)).build()
    assert await engine.run() == GOOD
    assert "colour" in requests(desk)[0].system
    await close(desk, engine)


async def test_a_schema_among_the_limits_is_looked_at_too(desk: Desk) -> None:
    config = TaskConfig(output_schema=SCHEMA)
    engine = agent(desk, {"when": {"last": "form"}, "text": GOOD}, "red", config=config).build()
    assert await engine.run() == GOOD
    await close(desk, engine)


def test_what_can_be_no_form_is_refused_while_building(desk: Desk) -> None:
    for form in (object, {"type": "carpet"}):
        with pytest.raises(UsageError):
            agent(desk, GOOD, output=form)


async def test_an_answer_without_a_form_is_the_text(desk: Desk) -> None:
    engine = agent(desk, "  It is a red one, as I said. ").build()
    assert await engine.run() == engine.output == "  It is a red one, as I said. "
    await close(desk, engine)
