"""A person changes mode, model or tools while the session is open: it holds from then on."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Model, Run, Toolbox, calls, calls_of, mutate, read
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, NeverAsk, Question
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome

ASKING: Final = replace(CONFIG, approval=AlwaysAsk())
FREE: Final = replace(CONFIG, approval=NeverAsk())


class Person:
    """Is asked, and answers only what is put into `verdicts`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go: list[str] = []
        self.verdicts: asyncio.Queue[Verdict] = asyncio.Queue()
        self._is_asked = asyncio.Event()

    async def __call__(self, question: Question) -> Verdict:
        name = question.call.tool_name
        self.asked.append(name)
        self._is_asked.set()
        try:
            return await self.verdicts.get()
        except asyncio.CancelledError:
            self.let_go.append(name)
            raise

    async def until_asked(self) -> None:
        await self._is_asked.wait()
        self._is_asked.clear()


def box(**more: Any) -> Toolbox:
    return Toolbox(burn=mutate("burnt"), look=read("seen"), **more)


READING: Final = ("look",)


def only(tools: Toolbox, *names: str) -> Toolbox:
    return Toolbox(**{name: tools.tools[name] for name in names})


async def test_a_mode_widened_while_a_question_is_open_lets_the_call_go_on(desk: Desk) -> None:
    person, tools = Person(), box()
    session = desk.new(Model(calls("burn"), "done"), tools, ASKING, approve=person)
    turn = asyncio.ensure_future(session.turn("go"))
    await person.until_asked()
    session.driver.configure(FREE)
    assert (await turn).answer == "done"
    assert (tools.ran, person.asked, person.let_go) == (["burn"], ["burn"], ["burn"])
    desk.check(session)


async def test_a_change_that_settles_nothing_leaves_the_question_where_it_is(desk: Desk) -> None:
    person, tools = Person(), box()
    session = desk.new(Model(calls("burn"), "done"), tools, ASKING, approve=person)
    turn = asyncio.ensure_future(session.turn("go"))
    await person.until_asked()
    session.driver.configure(replace(ASKING, model_name="model-2"))
    await tick(5)
    assert person.let_go == []
    person.verdicts.put_nowait(Verdict(Approved()))
    await turn
    assert (tools.ran, person.asked) == (["burn"], ["burn"])
    assert session.driver.model_name == "model-2"


async def test_tools_taken_away_while_a_question_is_open_refuse_the_call_with_words(
    desk: Desk,
) -> None:
    person, tools = Person(), box()
    model = Model(calls("burn", "look"), "done")
    session = desk.new(model, tools, ASKING, approve=person)
    turn = asyncio.ensure_future(session.turn("go"))
    await person.until_asked()
    reading = only(tools, *READING)
    session.driver.configure(FREE, tools=reading)
    assert (await turn).outcome is TurnOutcome.DONE
    told = calls_of(session.conversation)
    assert "burn is not offered any more" in told["burn"]
    assert (tools.ran, reading.ran, told["look"]) == ([], ["look"], "seen")
    assert [tool.name for tool in model.requests[-1].tools] == ["look"]
    desk.check(session)


async def test_no_changing_call_begins_after_the_tools_were_narrowed_in_a_turn(desk: Desk) -> None:
    """Of a round that runs one call at a time, what has not begun does not run."""
    began = asyncio.Event()
    may_end = asyncio.Event()

    async def slow(_: Run) -> str:
        began.set()
        await may_end.wait()
        return "slowly"

    tools = Toolbox(slow=mutate(slow), burn=mutate(), look=read())
    model = Model(calls("slow", "burn", "look"), "done")
    session = desk.new(model, tools, replace(CONFIG, parallel_max=1))
    turn = asyncio.ensure_future(session.turn("go"))
    await began.wait()
    reading = only(tools, "look")
    session.driver.configure(tools=reading)
    may_end.set()
    assert (await turn).answer == "done"
    told = calls_of(session.conversation)
    assert told["slow"] == "slowly", "what was in flight has gone on"
    assert "not offered any more" in told["burn"]
    assert (tools.ran, reading.ran) == (["slow"], ["look"])
    started = [e["call_id"] for e in desk.events(session.thread_id) if e["type"] == "tool_started"]
    assert len(started) == 2, "the intent of the refused call was never on disk"
    desk.check(session)


async def test_a_policy_narrowed_in_a_turn_stops_what_lacks_a_yes_now(desk: Desk) -> None:
    async def slow(_: Run) -> str:
        session.driver.configure(ASKING)
        return "slowly"

    tools = Toolbox(slow=mutate(slow), burn=mutate())
    model = Model(calls("slow", "burn"), "done")
    session = desk.new(model, tools, replace(CONFIG, parallel_max=1))
    await session.turn("go")
    assert tools.ran == ["slow"]
    assert "needs a person's yes" in calls_of(session.conversation)["burn"]


async def test_an_answer_in_flight_is_judged_by_what_holds_when_it_arrives(desk: Desk) -> None:
    tools = box()
    model = Model(
        calls("burn"), "done", on_request=lambda _: session.driver.configure(tools=reading)
    )
    reading = only(tools, *READING)
    session = desk.new(model, tools)
    await session.turn("go")
    assert (tools.ran, reading.ran) == ([], [])
    assert "not offered any more" in calls_of(session.conversation)["burn"]


async def test_the_next_request_goes_to_the_new_model_of_the_new_provider(desk: Desk) -> None:
    other = Model("from the other")

    async def swap(_: Run) -> str:
        session.driver.configure(replace(CONFIG, model_name="model-2"), provider=other)
        return "swapped"

    first = Model(calls("swap"), "from the first")
    session = desk.new(first, Toolbox(swap=read(swap)))
    assert (await session.turn("go")).answer == "from the other"
    assert (len(first.requests), [one.model for one in other.requests]) == (1, ["model-2"])
    desk.check(session)


async def test_it_is_on_disk_when_it_returns_and_the_next_process_keeps_it(desk: Desk) -> None:
    tools, person = box(), Person()
    session = desk.new(Model(calls("burn"), "done"), tools, ASKING, approve=person)
    turn = asyncio.ensure_future(session.turn("go"))
    await person.until_asked()
    desk.heard.on_output = lambda _: desk.disk.kill()
    session.driver.configure(FREE, tools=only(tools, *READING))
    desk.disk.kill()
    with pytest.raises(StoreError):
        await turn
    desk.crash()
    reading = only(tools, *READING)
    again = desk.reopen(session.thread_id, Model("done"), reading)
    (question,) = again.questions
    assert [tool.name for tool in again.driver.journal.writer.fold.machine.config.tools] == ["look"]
    await again.decide({question.call.id: Approved()})
    assert tools.ran == reading.ran == [], "a tool that is not there runs nothing"
    desk.check(again)


async def test_a_disk_that_refuses_it_ends_the_turn_and_changes_nothing(desk: Desk) -> None:
    async def swap(_: Run) -> str:
        def refuse(operation: str, *_: Any) -> None:
            if operation == "write":
                raise OSError(28, "No space left on device")

        desk.disk.before = refuse
        with pytest.raises(StoreError):
            session.driver.configure(replace(CONFIG, model_name="model-2"), provider=other)
        return "swapped"

    first, other = Model(calls("swap"), "first"), Model("other")
    session = desk.new(first, Toolbox(swap=read(swap)))
    with pytest.raises(StoreError):
        await session.turn("go")
    assert session.driver.performer.provider is first


async def test_between_turns_it_is_recorded_at_once_and_resume_settles_open_questions(
    desk: Desk,
) -> None:
    tools = box()
    session = desk.new(Model(calls("burn"), "done"), tools, ASKING)
    assert (await session.turn("go")).outcome is TurnOutcome.APPROVAL
    session.driver.configure(FREE)
    assert desk.kinds(session.thread_id)[-1] == "configured"
    assert (await session.resume()).answer == "done"
    assert tools.ran == ["burn"]


async def test_the_same_configuration_is_not_recorded_again(desk: Desk) -> None:
    session = desk.new(Model("a", "b"), box())
    await session.turn("go")
    version = session.version
    session.driver.configure(CONFIG)
    session.driver.configure()
    assert session.version == version


async def test_what_was_allowed_for_good_stays_allowed(desk: Desk) -> None:
    async def always(_: Question) -> Verdict:
        return Verdict(Approved(), always=True)

    tools = box()
    model = Model(calls("burn"), "done", calls("burn"), "done")
    session = desk.new(model, tools, ASKING, approve=always)
    await session.turn("go")
    session.driver.configure(replace(ASKING, model_name="model-2"))
    await session.turn("go on")
    assert tools.ran == ["burn", "burn"]
    assert len(desk.heard.of(outputs.ApprovalRequested)) == 1


async def test_a_tool_that_is_given_back_runs_again(desk: Desk) -> None:
    tools = box()
    session = desk.new(Model(calls("burn"), "a", calls("burn"), "b"), tools)
    session.driver.configure(tools=only(tools, *READING))
    session.driver.configure(tools=tools)
    await session.turn("go")
    assert tools.ran == ["burn"]
