"""What a person says and runs while the agent works is heard at the next request, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Folder, Run, Toolbox, calls, mutate, read, texts
from runtime.desk import Model as ByTurn
from treadle import outputs
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits, Usage
from treadle.errors import StoreError, UsageError
from treadle.models.scripted.provider import ScriptedModel
from treadle.outputs import TurnOutcome
from treadle.runtime.calls import OUTPUT_LENGTH_MAX
from treadle.runtime.session import Session
from treadle.thread.typed_words import COMMANDS_HEAD


class Model(ByTurn):
    """Answers each request with the next reply, whoever has said what."""

    def __init__(self, *replies: Any) -> None:
        super().__init__("never")
        self._replies = [ScriptedModel.of(reply, "never") for reply in replies]

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        place = len(self.requests)
        # Of its own row, because a script begins anew with each message of a person.
        self._inner = self._replies[place]
        async for event in super().stream(request):
            yield event


class Says:
    """A tool that says things to its session, once."""

    def __init__(self, *said: tuple[str, bool]) -> None:
        self.session: Session | None = None
        self.said = list(said)

    async def __call__(self, _: Run) -> str:
        assert self.session is not None
        while self.said:
            text, steers = self.said.pop(0)
            self.session.queue(text, steers=steers)
        return "worked"


def heard(session: Session) -> list[str]:
    return [message.content for message in session.conversation]


@pytest.mark.parametrize("tool", [read, mutate], ids=["reads", "changes"])
async def test_what_steers_is_heard_after_the_round_and_what_does_not_after_the_turn(
    desk: Desk, tool: Any
) -> None:
    says = Says(("later", False), ("rather this", True))
    model = Model(calls("work"), "done", "answered")
    session = says.session = desk.new(model, Toolbox(work=tool(says)), workspace=Folder())
    finished = await session.turn("work")
    assert heard(session) == ["work", "", "worked", "rather this", "done", "later", "answered"]
    assert finished.answer == "answered"
    assert [len(request.messages) for request in model.requests] == [1, 4, 6]
    assert [told.text for told in desk.heard.of(outputs.InputDelivered)] == ["rather this"]
    assert [told.prompt for told in desk.heard.of(outputs.TurnStarted)] == ["work", "later"]
    assert session.queued_inputs == ()
    desk.check(session)


async def test_several_that_steer_are_heard_in_order_before_one_request(desk: Desk) -> None:
    says = Says(("one", True), ("two", True), ("one", True))
    model = Model(calls("work"), "done")
    session = says.session = desk.new(model, Toolbox(work=read(says)))
    await session.turn("work")
    assert heard(session) == ["work", "", "worked", "one", "two", "one", "done"]
    assert len(model.requests) == 2
    desk.check(session)


async def test_what_is_said_during_the_last_request_becomes_a_prompt_of_its_own(desk: Desk) -> None:
    def talk(output: outputs.Output) -> None:
        if isinstance(output, outputs.TextDelta) and not desk.heard.of(outputs.TurnStarted)[1:]:
            session.queue("rather this", steers=True)
            session.queue("and that", steers=True)

    desk.heard.on_output = talk
    session = desk.new(Model("done", "answered", "answered too"))
    await session.turn("go")
    assert heard(session) == ["go", "done", "rather this", "answered", "and that", "answered too"]
    assert desk.heard.of(outputs.InputDelivered) == []


async def test_a_retry_hears_it_too(desk: Desk) -> None:
    desk.heard.on_output = lambda output: (
        session.queue("rather this", steers=True) if isinstance(output, outputs.Retrying) else None
    )
    model = Model({"error": {"kind": "overloaded"}}, "done")
    session = desk.new(model)
    await session.turn("go")
    assert heard(session) == ["go", "rather this", "done"]


async def test_the_request_after_a_compaction_hears_it_and_its_words_are_not_summed_up(
    desk: Desk,
) -> None:
    says = Says(("rather this", True))
    first = {**calls("work"), "usage": {"input_tokens": 900, "output_tokens": 1}}
    model = Model("hi", first, "so it was", "done")
    config = replace(CONFIG, context_tokens_max=1000)
    session = says.session = desk.new(model, Toolbox(work=read(says)), config)
    await session.turn("hello")
    await session.turn("work")
    assert model.requests[-2].system != CONFIG.system_prompt, "that was the summary"
    assert heard(session)[-2:] == ["rather this", "done"]
    assert model.requests[-1].messages[-1].content == "rather this"
    assert not any("rather" in one.content for one in model.requests[-2].messages)


async def test_a_limit_of_steps_leaves_it_queued(desk: Desk) -> None:
    says = Says(("rather this", True))
    config = replace(CONFIG, max_steps=1)
    session = says.session = desk.new(
        Model(calls("work"), "done"), Toolbox(work=read(says)), config
    )
    finished = await session.turn("work")
    assert finished.outcome is TurnOutcome.DONE  # of the turn that what steered has begun
    assert heard(session)[-2:] == ["rather this", "done"]


async def test_a_cancel_leaves_it_queued_in_sight_and_the_next_turn_delivers_it(
    desk: Desk,
) -> None:
    says = Says(("one", True), ("two", False), ("three", True))

    async def work(run: Run) -> str:
        await says(run)
        session.cancel()
        return "worked"

    session = says.session = desk.new(
        Model(calls("work"), "a", "b", "c", "d"), Toolbox(work=mutate(work))
    )
    assert (await session.turn("work")).outcome is TurnOutcome.CANCELLED
    assert session.queued_inputs == (("one", True), ("two", False), ("three", True))
    await session.turn("four")
    asked = [message.content for message in session.conversation if message.role == "user"]
    assert asked == ["work", "one", "two", "three", "four"]
    desk.check(session)


@pytest.mark.parametrize("steers", [True, False])
async def test_what_is_queued_while_nothing_runs_waits_for_the_next_turn(
    desk: Desk, steers: bool
) -> None:
    session = desk.new(Model("a", "b", "c"))
    session.queue("one", steers=steers)
    assert "input_queued" in desk.kinds(session.thread_id)
    await session.turn("two")
    assert heard(session) == ["one", "a", "two", "b"]
    session.queue("three", steers=steers)
    assert (await session.resume()).answer == "c"
    assert heard(session)[-2:] == ["three", "c"]


async def test_the_newest_is_taken_back_to_be_edited_and_never_heard(desk: Desk) -> None:
    model = Model("a")
    session = desk.new(model)
    assert session.withdraw_input() is None
    session.queue("one")
    session.queue("twoo", steers=True)
    assert session.withdraw_input() == "twoo"
    assert session.queued_inputs == (("one", False),)
    await session.resume()
    assert heard(session) == ["one", "a"]
    desk.check(session)


async def test_it_survives_a_crash_and_a_takeover_by_the_next_process(desk: Desk) -> None:
    async def work(run: Run) -> str:
        session.queue("rather this", steers=True)
        session.queue("no", steers=True)
        session.withdraw_input()
        session.record_command_end("make", "built")
        desk.disk.kill()
        return "worked"

    session = desk.new(Model(calls("work")), Toolbox(work=read(work)))
    with pytest.raises(StoreError):
        await session.turn("work")
    desk.crash()
    model = Model("done")
    again = desk.reopen(session.thread_id, model, Toolbox(work=read("worked")))
    assert again.queued_inputs == (("rather this", True),)
    await again.resume()
    told = f"rather this{COMMANDS_HEAD}\n$ make\nbuilt"
    assert heard(again) == ["work", "", "worked", told, "done"]
    desk.check(again)


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_nothing_cannot_be_queued(desk: Desk, nothing: str) -> None:
    session = desk.new(Model())
    with pytest.raises(UsageError):
        session.queue(nothing)
    assert desk.kinds(session.thread_id) == ["thread_created"]


async def test_a_session_that_is_closed_records_nothing_more(desk: Desk) -> None:
    session = desk.new(Model())
    await session.close()
    for record in (
        lambda: session.queue("one"),
        lambda: session.record_command_end("make", ""),
        lambda: session.driver.configure(replace(CONFIG, max_steps=3)),
    ):
        with pytest.raises(StoreError):
            record()


async def test_a_command_is_told_with_the_next_prompt_and_nothing_is_said_before(
    desk: Desk,
) -> None:
    model = Model("a", "b")
    session = desk.new(model)
    session.record_command_end("make", "no rule\n", 2)
    assert desk.kinds(session.thread_id)[-1] == "command_shown"
    assert model.requests == []
    await session.turn("why?")
    told = f"why?{COMMANDS_HEAD}\n$ make\nno rule\n[exit code 2]"
    assert texts(model.requests[0].messages) == [told]
    (began,) = desk.heard.of(outputs.TurnStarted)
    assert began.prompt == "why?"
    await session.turn("and now?")
    assert heard(session)[-2] == "and now?"
    desk.check(session)


async def test_of_a_command_secrets_are_replaced_and_what_is_too_long_is_cut(desk: Desk) -> None:
    class Redactor:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    session = desk.new(Model("a"), redactor=Redactor())
    half = OUTPUT_LENGTH_MAX // 2
    output = "x" * (half - 3) + "hunter2" + "y" * OUTPUT_LENGTH_MAX
    session.record_command_end("echo hunter2", output)
    await session.turn("go")
    written = desk.journal(session.thread_id).read_text()
    assert "hunter" not in written
    assert "echo [REDACTED:password]" in written
    assert "characters left out" in session.conversation[0].content
    assert len(session.conversation[0].content) < OUTPUT_LENGTH_MAX + 500


async def test_that_a_command_began_is_on_disk_before_it_does_and_told_if_its_end_is_not(
    desk: Desk,
) -> None:
    class Redactor:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    session = desk.new(Model("a"), redactor=Redactor())
    first = session.record_command_start("make", "/w")
    assert desk.kinds(session.thread_id)[-1] == "command_begun"
    session.record_command_end("make", "built", 0, first)
    assert session.unfinished_commands == ()
    session.record_command_start("curl -u hunter2", "/w")
    desk.crash()
    model = Model("b", "c")
    again = desk.reopen(session.thread_id, model, redactor=Redactor())
    assert [one.command for one in again.unfinished_commands] == ["curl -u [REDACTED:password]"]
    await again.turn("well?")
    told = (
        f"well?{COMMANDS_HEAD}\n$ make\nbuilt\n$ curl -u [REDACTED:password]"
        "\n[it had begun; whether and how it ended is not known]"
    )
    assert texts(model.requests[0].messages) == [told]
    assert again.unfinished_commands == ()
    await again.turn("and now?")
    assert heard(again)[-2] == "and now?"
    assert "hunter2" not in desk.journal(session.thread_id).read_text()
    desk.check(again)


async def test_how_much_of_the_context_is_used_is_told_if_it_is_known(desk: Desk) -> None:
    class Known(Model):
        def traits(self, model: str) -> ModelTraits:
            return ModelTraits(context_tokens_max=1000)

    reply = {"text": "a", "usage": {"input_tokens": 240, "output_tokens": 10}}
    session = desk.new(Known(reply))
    assert session.context_tokens == (0, 0)
    finished = await session.turn("go")
    assert session.context_tokens == (250, 1000)
    assert session.usage == session.turn_usage == Usage(240, 10)
    assert session.version == finished.version
    assert desk.new(Model("a")).context_tokens == (0, 0)
