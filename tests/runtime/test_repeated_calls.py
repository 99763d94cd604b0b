"""A model that makes the same call again and again hears so, in the thread and after a resume."""

from __future__ import annotations

from runtime.desk import Desk, Model, Toolbox, calls, read


async def test_the_third_same_call_in_a_row_is_told_so_and_the_thread_keeps_it(desk: Desk) -> None:
    model = Model(calls("look"), calls("look"), calls("look"), calls("look"), "done")
    session = desk.new(model, Toolbox(look=read("nothing new")))
    await session.turn("go")
    told = [one.content for one in session.conversation if one.role == "tool"]
    desk.check(session)
    assert told[:2] == ["nothing new", "nothing new"]
    for number, text in enumerate(told[2:], 3):
        assert text.startswith(f"nothing new\n[this is time {number} in a row that this very call")
    assert model.requests[3].messages[-1].content == told[2]
    await session.close()
    again = desk.reopen(
        session.thread_id, Model(calls("look"), "done"), Toolbox(look=read("nothing new"))
    )
    assert [one.content for one in again.conversation if one.role == "tool"] == told
    await again.turn("look once more")
    assert [one.content for one in again.conversation if one.role == "tool"][-1] == "nothing new"


async def test_two_calls_that_take_turns_are_no_row(desk: Desk) -> None:
    model = Model(*[calls("look"), calls("peek")] * 4, "done")
    session = desk.new(model, Toolbox(look=read("same"), peek=read("same")))
    await session.turn("go")
    assert {one.content for one in session.conversation if one.role == "tool"} == {"same"}
