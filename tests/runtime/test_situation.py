"""What has changed where and how the agent works is told with the person's next message."""

from __future__ import annotations

from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Run, Toolbox, calls, mutate, texts
from runtime.test_steering import Model
from treadle.core.approval import AskAbove, NeverAsk, OnlyRead
from treadle.core.config import AgentConfig
from treadle.core.tools import RiskLevel
from treadle.outputs import InputDelivered, TurnStarted
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
