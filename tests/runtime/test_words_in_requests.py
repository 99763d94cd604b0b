"""Whatever shortens a conversation, the next request holds the person's words and a summary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from case_tables import for_every_row
from runtime.desk import CONFIG, Desk, Run, Toolbox, imbalance, read
from treadle.core.compaction import SUMMARY_INSTRUCTION, SUMMARY_SYSTEM_PROMPT
from treadle.core.conversation import SUMMARY_AFTER_WORDS, Conversation, View
from treadle.core.events import LlmEvent, ModelEvent, Rewound
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message, ToolCall
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session

CALL, CALL_FULL, SAY, SAY_FULL, TOO_LONG = "call", "call, full", "say", "say, full", "too long"
FULL: Final = 80_000
LIMITED: Final = replace(CONFIG, context_tokens_max=100_000)
SUMMARY: Final = "They want a scarf."
FIRST: Final = "knit a scarf, 180 cm, never in wool"
SECOND: Final = "and it is for my sister"
THIRD: Final = "rather in blue"


class Knitter:
    """A model that does as planned, and writes a summary whenever it is asked for one."""

    name = "knitter"

    def __init__(self, *plan: str) -> None:
        self.plan = list(plan)
        self.requests: list[LlmRequest] = []
        self.summaries = 0
        self.is_asked_for_summary = asyncio.Event()
        self.hangs = False

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        assert imbalance(request.messages) == ""
        last = request.messages[-1].content
        if request.system == SUMMARY_SYSTEM_PROMPT or last.startswith(SUMMARY_INSTRUCTION):
            self.summaries += 1
            self.is_asked_for_summary.set()
            if self.hangs:
                await asyncio.Event().wait()
            yield completed(SUMMARY, tokens=10)
            return
        self.requests.append(request)
        step = self.plan.pop(0)
        tokens = FULL if "full" in step else 10
        if step == TOO_LONG:
            yield LlmEvent.Error(LlmError(LlmErrorKind.CONTEXT_TOO_LONG, "too much"))
        elif step.startswith("call"):
            call = ToolCall(f"c{len(self.requests)}", "look")
            yield completed("I look.", call, tokens=tokens)
        else:
            yield completed("There it is.", tokens=tokens)


def completed(text: str, *calls: ToolCall, tokens: int) -> LlmEvent.Completed:
    return LlmEvent.Completed(LlmResponse(Message.assistant(text, calls), Usage(tokens, 1)))


class Work:
    """A thread that is worked on; sessions follow one another."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.tools = Toolbox(look=read("wool\n" * 20))
        self.model = Knitter()
        self.session: Session = desk.new(self.model, self.tools, LIMITED)

    async def say(self, text: str, *plan: str) -> None:
        """A turn, in which the model does as planned."""
        self.model.plan = list(plan)
        finished = await self.session.turn(text)
        assert (finished.outcome, self.model.plan) == (TurnOutcome.DONE, []), finished.error

    async def compact(self) -> None:
        assert (await self.session.compact()).outcome is TurnOutcome.DONE

    async def reopen(self) -> None:
        await self.session.close()
        self.model = Knitter()
        self.session = self.desk.reopen(self.session.thread_id, self.model, self.tools)

    async def fork(self) -> None:
        """Go on in a fork of the thread."""
        thread = self.session.thread_id
        await self.session.close()
        self.model = Knitter()
        writer = self.desk.store.fork(thread, creator="test")
        self.session = self.desk.sit(writer, self.model, self.tools, LIMITED)

    @property
    def view(self) -> View:
        """What a model is shown now."""
        conversation = self.session.conversation
        assert isinstance(conversation, Conversation)
        return conversation.view

    def rewind(self, view: View) -> None:
        """Go back to what a model was shown then."""
        self.session.driver.record(Rewound(1, view))

    @property
    def seen(self) -> list[str]:
        """What the last request held, in words."""
        return [message.content for message in self.model.requests[-1].messages]


async def by_size_when_a_turn_begins(work: Work) -> None:
    await work.say(FIRST, SAY_FULL)
    await work.say(SECOND, SAY)


async def by_size_after_a_round(work: Work) -> None:
    await work.say(FIRST, SAY)
    await work.say(SECOND, CALL, CALL_FULL, SAY)


async def by_size_after_the_first_round_of_all(work: Work) -> None:
    await work.say(FIRST, CALL_FULL, CALL_FULL, SAY)
    await work.say(SECOND, SAY)


async def by_a_refusal_when_a_turn_begins(work: Work) -> None:
    await work.say(FIRST, CALL, SAY)
    await work.say(SECOND, TOO_LONG, SAY)


async def by_a_refusal_after_a_round(work: Work) -> None:
    await work.say(FIRST, SAY)
    await work.say(SECOND, CALL, CALL, TOO_LONG, SAY)


async def by_a_person(work: Work) -> None:
    await work.say(FIRST, CALL, SAY)
    await work.compact()
    await work.say(SECOND, SAY)


async def twice_by_size_in_one_turn(work: Work) -> None:
    await work.say(FIRST, SAY)
    await work.say(SECOND, CALL, CALL_FULL, CALL_FULL, SAY)


async def by_a_person_and_then_by_size(work: Work) -> None:
    await work.say(FIRST, CALL, SAY)
    await work.compact()
    await work.say(SECOND, CALL, CALL_FULL, SAY)


async def by_size_and_then_by_a_refusal(work: Work) -> None:
    await work.say(FIRST, SAY)
    await work.say(SECOND, CALL, CALL_FULL, CALL, TOO_LONG, SAY)


async def before_a_resume(work: Work) -> None:
    await work.say(FIRST, CALL, CALL_FULL, SAY)
    await work.reopen()
    await work.say(SECOND, CALL, SAY)


async def before_a_death_in_the_middle_of_the_turn(work: Work) -> None:
    """The second request of the turn is out when the process dies."""
    await work.say(FIRST, SAY)
    started = asyncio.Event()

    async def hang(_: Run) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    work.model.plan = [CALL, CALL_FULL, CALL, SAY]
    calls = iter([None, None, hang])

    async def look(run: Run) -> str:
        does = next(calls, None)
        return "wool" if does is None else await does(run)

    work.tools.tools["look"] = read(look)
    await die(work, work.session.turn(SECOND), started)
    work.model.plan = [SAY]
    assert (await work.session.resume()).outcome is TurnOutcome.DONE


async def in_a_process_that_dies_before_the_summary(work: Work) -> None:
    await work.say(FIRST, SAY)
    work.model.plan, work.model.hangs = [CALL, CALL_FULL], True
    await die(work, work.session.turn(SECOND), work.model.is_asked_for_summary)
    work.model.plan = [SAY]
    assert (await work.session.resume()).outcome is TurnOutcome.DONE
    assert work.model.summaries == 1


async def die(work: Work, turn: Awaitable[object], when: asyncio.Event) -> None:
    """The process dies in a turn, and another one opens the thread."""
    running = asyncio.ensure_future(turn)
    await when.wait()
    work.desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    work.model = Knitter()
    work.session = work.desk.reopen(work.session.thread_id, work.model, work.tools)


async def before_a_fork(work: Work) -> None:
    await work.say(FIRST, CALL, CALL_FULL, SAY)
    await work.fork()
    await work.say(SECOND, CALL, SAY)


async def before_a_rewind_to_behind_it(work: Work) -> None:
    await work.say(FIRST, CALL, CALL_FULL, SAY)
    view = work.view
    await work.say(THIRD, SAY)
    work.rewind(view)
    await work.say(SECOND, SAY)


async def after_a_rewind(work: Work) -> None:
    await work.say(FIRST, SAY)
    view = work.view
    await work.say(THIRD, SAY)
    work.rewind(view)
    await work.say(SECOND, CALL, CALL_FULL, SAY)


async def after_results_were_left_out(work: Work) -> None:
    """There is no second way then: the words stand there anyway, until a summary is written."""
    work.tools.tools["look"] = read("wool\n" * 400)
    await work.say(FIRST, CALL, CALL, CALL_FULL, SAY)
    assert work.view.compaction is None
    assert work.view.masking is not None
    assert FIRST in work.seen
    await work.compact()
    await work.say(SECOND, CALL, SAY)


async def after_a_word_that_steered(work: Work) -> None:
    async def look(_: Run) -> str:
        if len(work.tools.runs) == 1:
            work.session.queue(SECOND, steers=True)
        return "wool"

    work.tools.tools["look"] = read(look)
    await work.say(FIRST, CALL, CALL_FULL, CALL_FULL, SAY)


WAYS: Final[Mapping[str, Callable[[Work], Awaitable[None]]]] = MappingProxyType(
    {
        way.__name__: way
        for way in (
            by_size_when_a_turn_begins,
            by_size_after_a_round,
            by_size_after_the_first_round_of_all,
            by_a_refusal_when_a_turn_begins,
            by_a_refusal_after_a_round,
            by_a_person,
            twice_by_size_in_one_turn,
            by_a_person_and_then_by_size,
            by_size_and_then_by_a_refusal,
            before_a_resume,
            before_a_death_in_the_middle_of_the_turn,
            in_a_process_that_dies_before_the_summary,
            before_a_fork,
            before_a_rewind_to_behind_it,
            after_a_rewind,
            after_results_were_left_out,
            after_a_word_that_steered,
        )
    }
)


@for_every_row("way", list(WAYS))
async def test_the_words_of_the_person_and_what_the_summary_is_stand_in_the_next_request(
    way: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path / way)
    work = Work(desk)
    await WAYS[way](work)
    summary = f"{SUMMARY_AFTER_WORDS}{SUMMARY}"
    assert work.seen.count(summary) == 1
    said = [text for text in work.seen if text in (FIRST, SECOND, THIRD)]
    assert said == [FIRST, SECOND]
    assert work.seen.index(FIRST) < work.seen.index(summary)
    desk.check(work.session)
