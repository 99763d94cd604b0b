"""What has changed where and how the agent works is told with the person's next message."""

from __future__ import annotations

from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Run, Toolbox, calls, mutate, texts
from runtime.desk import Model as ScriptedTask
from runtime.task.agents import DONE
from runtime.test_steering import Model
from treadle.core.approval import Approved, AskAbove, NeverAsk, OnlyRead
from treadle.core.config import AgentConfig
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.core.tools import RiskLevel
from treadle.outputs import InputDelivered, TurnOutcome, TurnStarted
from treadle.runtime.engine import AgentEngine, TaskOptions
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Provider
from treadle.thread.facts import Configured
from treadle.thread.fold import TASK
from treadle.thread.situation import AgentSituation
from treadle.thread.typed_words import COMMANDS_HEAD, SITUATION_HEAD

MODES = {NeverAsk: "auto", OnlyRead: "plan", AskAbove: "ask"}
ASK = AskAbove(RiskLevel.MEDIUM)
BEGUN = AgentSituation("2026-01-31", "auto", "there", "off", "free", True, "main", True)
PROMPT = replace(CONFIG, system_prompt=f"be brief\n\n{BEGUN.text}")


class Place:
    """Where the agent works; a test may change it."""

    def __init__(self) -> None:
        self.found = BEGUN

    def observe(self, config: AgentConfig) -> AgentSituation:
        return replace(self.found, mode=MODES[type(config.approval)])


def news(situation: AgentSituation, *labels: str) -> str:
    lines = [f"- {label}:" for label in labels]
    found = [one for one in situation.changing_lines if one.startswith(tuple(lines))]
    assert len(found) == len(labels)
    return "\n".join((SITUATION_HEAD, *found))


async def test_a_mode_that_another_process_chooses_is_told_with_its_prompt_behind_the_same_prefix(
    desk: Desk,
) -> None:
    place, first = Place(), Model("one", "two")
    session = desk.new(first, None, PROMPT, situation=place.observe)
    await session.turn("begin")
    await session.close()
    second = Model("three", "four")
    config = replace(PROMPT, approval=OnlyRead())
    again = desk.reopen(session.thread_id, second, None, config, situation=place.observe)
    again.record_command_end("make", "built")
    await again.turn("go on")
    place.found = replace(BEGUN, date="2026-02-01", branch="other")
    await again.turn("and on")
    told = texts(second.requests[-1].messages)
    assert told == [
        "begin",
        "one",
        f"go on{COMMANDS_HEAD}\n$ make\nbuilt{news(replace(BEGUN, mode='plan'), 'Mode')}",
        "three",
        f"and on{news(place.found, 'Date', 'Branch')}",
    ]
    prefixes = {(one.system, one.tools) for one in (*first.requests, *second.requests)}
    assert len(prefixes) == 1
    assert [one.prompt for one in desk.heard.of(TurnStarted)] == ["begin", "go on", "and on"]
    desk.check(again)


async def test_what_changes_while_the_agent_works_is_told_with_what_is_heard_next(
    desk: Desk,
) -> None:
    place = Place()

    async def work(run: Run) -> str:
        session.driver.configure(replace(PROMPT, approval=ASK))
        session.queue("later")
        session.queue("rather this", steers=True)
        place.found = replace(BEGUN, branch="")
        return "worked"

    model = Model(calls("work"), "done", "done too")
    session = desk.new(model, Toolbox(work=mutate(work)), PROMPT, situation=place.observe)
    await session.turn("work")
    told = texts(model.requests[-1].messages)
    steered = f"rather this{news(replace(place.found, mode='ask'), 'Mode', 'Branch')}"
    assert told == ["work", "", "worked", steered, "done", "later"]
    assert [one.text for one in desk.heard.of(InputDelivered)] == ["rather this"]
    desk.check(session)


async def test_what_is_told_goes_through_redaction_and_is_not_told_again_for_it(desk: Desk) -> None:
    class Redactor:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    place, model = Place(), Model("one", "two")
    session = desk.new(model, None, PROMPT, situation=place.observe, redactor=Redactor())
    place.found = replace(BEGUN, branch="hunter2")
    await session.turn("go")
    await session.turn("on")
    assert texts(model.requests[-1].messages) == [
        f"go{SITUATION_HEAD}\n- Branch: [REDACTED:password]",
        "one",
        "on",
    ]


def new_task(desk: Desk, config: AgentConfig) -> str:
    """The thread of a task that was told the situation as it began."""
    given = TaskGiven("weave", desk.store.now(), system_prompt=PROMPT.system_prompt)
    config = replace(config, system_prompt="")
    writer = desk.store.create("test", machine=TASK, first=[Configured(config, "scripted"), given])
    writer.close()
    return writer.thread_id


def open_task(
    desk: Desk, thread_id: str, model: Provider, config: AgentConfig, place: Place
) -> AgentEngine:
    options = DriverOptions(on_output=desk.heard)
    task = TaskOptions(situation=place.observe)
    tools = Toolbox(work=mutate("worked"))
    config = replace(config, system_prompt="")
    return AgentEngine(desk.store.open(thread_id), model, tools, config, options, task)


async def test_a_task_that_is_resumed_in_another_mode_is_told_before_its_next_request(
    desk: Desk,
) -> None:
    place, model = Place(), ScriptedTask(calls("work"))
    asks = replace(PROMPT, approval=ASK)
    place.found = replace(BEGUN, mode="ask")
    thread = new_task(desk, asks)
    engine = open_task(desk, thread, model, asks, place)
    assert (await engine.resume()).outcome is TurnOutcome.APPROVAL
    first = news(replace(BEGUN, mode="ask"), "Mode").strip()
    assert texts(model.requests[-1].messages) == ["weave", first], "another mode than it was told"
    await engine.close()
    later = ScriptedTask(calls("work"), calls("work"), DONE)
    place.found = replace(BEGUN, branch="other")
    engine = open_task(desk, thread, later, PROMPT, place)
    [asked] = engine.questions
    assert (await engine.decide({asked.call.id: Approved()})).outcome is TurnOutcome.DONE
    second = news(place.found, "Mode", "Branch").strip()
    told = ["weave", first, "", "worked", second, "", "worked"]
    assert texts(later.requests[-1].messages) == told, "once, and beside no open call"
    assert later.requests[0].system == model.requests[0].system == PROMPT.system_prompt
    await engine.close()
    desk.journal(thread).with_suffix(".json").unlink()
    fold = desk.store.load(thread).fold
    assert [one.content for one in fold.conversation] == [*told, DONE]


async def test_a_task_is_told_again_what_has_gone_out_of_its_view_and_else_nothing(
    desk: Desk,
) -> None:
    place, model = Place(), ScriptedTask(*[calls("work")] * 20)
    given = TaskGiven(
        "weave",
        desk.store.now(),
        system_prompt=PROMPT.system_prompt,
        config=TaskConfig(reflect_every_n_steps=2),
    )
    plain = replace(PROMPT, system_prompt="")
    writer = desk.store.create("test", machine=TASK, first=[Configured(plain, "scripted"), given])
    writer.close()
    place.found = replace(BEGUN, branch="other")
    engine = open_task(desk, writer.thread_id, model, PROMPT, place)
    assert (await engine.resume()).outcome is TurnOutcome.LIMIT
    note = news(place.found, "Branch").strip()
    for request in model.requests:
        assert texts(request.messages).count(note) == 1, texts(request.messages)
    assert texts(engine.conversation).count(note) > 1
    await engine.close()


async def test_words_that_redaction_changes_each_time_are_told_once_a_step(desk: Desk) -> None:
    class Redactor:
        def __init__(self) -> None:
            self.count = 0

        def redact(self, text: str) -> str:
            self.count += "other" in text
            return text.replace("other", f"[{self.count}]")

    place, model = Place(), ScriptedTask(calls("work"), DONE)
    thread = new_task(desk, PROMPT)
    place.found = replace(BEGUN, branch="other")
    options = DriverOptions(on_output=desk.heard, redactor=Redactor())
    engine = AgentEngine(
        desk.store.open(thread),
        model,
        Toolbox(work=mutate("worked")),
        replace(PROMPT, system_prompt=""),
        options,
        TaskOptions(situation=place.observe),
    )
    assert (await engine.resume()).outcome is TurnOutcome.DONE
    assert [len(texts(one.messages)) for one in model.requests] == [2, 5]
    await engine.close()
