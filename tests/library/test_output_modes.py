"""How agents ask for answers of a type: in words, or so that the provider holds its model to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pydantic
import pytest
from msgspec.structs import replace

from models.hostile.formats import FORMATS, KEY
from models.loopback import Loopback, refusal, stream
from treadle import (
    Agent,
    AgentBuilder,
    AgentConfig,
    AgentFailed,
    AnthropicProvider,
    BuildError,
    OpenAiChatProvider,
    ScriptedModel,
    TestModel,
    tool,
)
from treadle.core.chat.handlers import build_request
from treadle.core.compaction import build_summary_request
from treadle.core.conversation import Conversation
from treadle.core.llm import ModelTraits
from treadle.core.messages import Message
from treadle.store.threads import AnyThreads

GOOD = '{"text": "a", "count": 2}'
SPEAK = FORMATS["anthropic-messages"].speak


class Answer(pydantic.BaseModel):
    text: str
    count: int


@asynccontextmanager
async def asking(
    *answers: Any, knows: bool | None = True
) -> AsyncIterator[tuple[Loopback, AnthropicProvider]]:
    """A server, and who asks it."""
    async with Loopback(*answers) as server:
        traits = ModelTraits(native_output=knows)
        provider = AnthropicProvider(KEY, base_url=server.url, traits=lambda _: traits)
        yield server, provider
        await provider.aclose()


def make_agent(store: AnyThreads, provider: Any, **how: Any) -> Agent[None, Answer]:
    return Agent("asked", model=provider, output=Answer, store=store, **how)


def is_held(seen: Any) -> bool:
    return "format" in seen.json.get("output_config", {})


def read_system(seen: Any) -> str:
    text: str = seen.json["system"][0]["text"]
    return text


@pytest.mark.parametrize(
    ("mode", "knows", "used"),
    [
        ("auto", True, "native"),
        ("auto", None, "prompted"),
        ("auto", False, "prompted"),
        ("native", None, "native"),
        ("native", False, "prompted"),
        ("prompted", True, "prompted"),
    ],
)
async def test_the_mode_says_whether_the_provider_is_to_hold_its_model_to_the_type(
    store: AnyThreads, mode: Any, knows: bool | None, used: str
) -> None:
    async with asking(stream(SPEAK(GOOD)), knows=knows) as (server, provider):
        agent = make_agent(store, provider, output_mode=mode)
        done = await agent.run("What?")
        async with agent.thread("key") as thread:
            said = await thread.send("What?")
    assert done.output == said.output == Answer(text="a", count=2)
    assert (done.output_mode, said.output_mode) == (used, used)
    assert [is_held(seen) for seen in server.requests] == [used == "native"] * 2
    # The form stands in words in each way, so that the answer can be had without the other.
    assert all('"count"' in read_system(seen) for seen in server.requests)
    for thread_id in (done.thread_id, said.thread_id):
        messages = store.load(thread_id).fold.conversation
        assert [one.native_output for one in messages] == [False, used == "native"]


@pytest.mark.parametrize(
    ("mode", "knows", "used"),
    [
        (None, True, "native"),
        (None, None, "prompted"),
        ("native", None, "native"),
        ("prompted", True, "prompted"),
    ],
)
@pytest.mark.parametrize("form", [Answer, Answer.model_json_schema()], ids=["type", "schema"])
async def test_an_agent_that_is_built_step_by_step_asks_the_same_way(
    store: AnyThreads, form: Any, mode: Any, knows: bool | None, used: str
) -> None:
    async with asking(stream(SPEAK(GOOD)), knows=knows) as (server, provider):
        how = {} if mode is None else {"output_mode": mode}
        builder = AgentBuilder("What?", llm=provider, output=form, store=store, **how)
        async with builder.build() as engine:
            await engine.run()
        async with builder.resume(engine.thread_id) as again:
            assert again.output == engine.output
    assert (engine.output_mode, again.output_mode) == (used, used)
    assert [is_held(seen) for seen in server.requests] == [used == "native"]
    config = store.load(engine.thread_id).fold.machine.config
    assert (config.native_schema is not None) == (used == "native")


def test_no_other_output_mode_is_taken() -> None:
    with pytest.raises(BuildError, match="'strict' is no output mode"):
        AgentBuilder("What?", output_mode="strict")  # type: ignore[arg-type]


async def test_a_task_that_is_over_still_says_how_it_was_asked(store: AnyThreads) -> None:
    async with asking(stream(SPEAK(GOOD))) as (server, provider):
        agent = make_agent(store, provider)
        done = await agent.run("What?")
        async with agent.resume_task(done.thread_id) as task:
            again = await task.run()
    assert (again.output_mode, len(server.requests)) == ("native", 1)


async def test_text_is_asked_for_as_text(store: AnyThreads) -> None:
    agent = Agent("plain", model=ScriptedModel.of("a", "b"), store=store, output_mode="native")
    assert (await agent.run("What?")).output_mode == "text"
    async with agent.thread("key") as thread:
        assert (await thread.send("What?")).output_mode == "text"


async def test_an_answer_that_was_held_and_does_not_fit_is_sent_back_all_the_same(
    store: AnyThreads,
) -> None:
    bad, good = stream(SPEAK('{"text": "a"}')), stream(SPEAK(GOOD))
    async with asking(bad, good, bad, good) as (server, provider):
        agent = make_agent(store, provider)
        assert (await agent.run("What?")).output.count == 2
        async with agent.thread("key") as thread:
            assert (await thread.send("What?")).output_mode == "native"
    assert all(map(is_held, server.requests))
    for seen in (server.requests[1], server.requests[3]):
        assert "count" in json.dumps(seen.json["messages"][-1])


async def test_a_schema_that_is_refused_costs_no_turn(store: AnyThreads) -> None:
    refused = refusal(400, {"error": {"type": "invalid_request_error", "message": "too complex"}})
    async with asking(refused, stream(SPEAK(GOOD))) as (server, provider):
        agent = make_agent(store, provider)
        async with agent.thread("key") as thread:
            first = await thread.send("What?")
            second = await thread.send("And?")
    assert (first.output_mode, second.output_mode) == ("prompted", "prompted")
    assert [is_held(seen) for seen in server.requests] == [True, False, False]
    # What comes before stays as it was, for the provider's cache.
    assert len({*map(read_system, server.requests)}) == 1


async def test_who_is_no_model_of_a_type_at_all_raises_in_each_mode(store: AnyThreads) -> None:
    async with asking(stream(SPEAK("no"))) as (_, provider):
        agent = make_agent(store, provider)
        async with agent.thread("key") as thread:
            with pytest.raises(AgentFailed):
                await thread.send("What?")


async def test_values_come_while_they_arrive(store: AnyThreads) -> None:
    async with asking(stream(SPEAK(GOOD), size=7)) as (_, provider):
        agent = make_agent(store, provider)
        async with agent.thread("key") as thread:
            values = [value async for value in thread.stream_output("What?")]
            assert thread.result.output_mode == "native"
        async with agent.task("What?") as task:
            assert [value async for value in task.stream_output()] == values
    assert values[-1] == {"text": "a", "count": 2}
    assert len(values) > 1


async def test_tools_go_on_being_called(store: AnyThreads) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "2"

    calls, good = stream(SPEAK("", (("c1", "look", {}),))), stream(SPEAK(GOOD))
    async with asking(calls, good) as (server, provider):
        done = await make_agent(store, provider, tools=[look]).run("What?")
    assert (done.output_mode, [*map(is_held, server.requests)]) == ("native", [True, True])


async def test_another_process_asks_by_what_is_recorded(store: AnyThreads) -> None:
    """The request that follows from the journal alone is the one that was sent."""
    async with asking(stream(SPEAK(GOOD))) as (server, provider):
        agent = make_agent(store, provider)
        async with agent.thread("key") as thread:
            await thread.send("What?")
            thread_id = thread.id
    config = store.load(thread_id).fold.machine.config
    assert config.native_schema is not None
    assert [*config.native_schema["properties"]] == ["text", "count"]
    async with asking(stream(SPEAK(GOOD))) as (server, provider):
        agent = make_agent(store, provider)
        async with agent.thread("key") as thread:
            await thread.send("And?")
    said = store.load(thread_id).fold
    first = replace(
        build_request(said.machine.config, said.conversation),
        messages=Conversation(said.conversation[:3]),
    )
    asker = AnthropicProvider(KEY)
    body = asker._make_parameters(asker._fit_native_schema(first))
    assert {**body, "stream": True} == server.requests[0].json


async def test_an_agent_that_takes_over_asks_as_it_does_itself(store: AnyThreads) -> None:
    handed = stream(SPEAK("", (("c1", "hand_to_other", {"reason": "x"}),)))
    async with asking(handed, stream(SPEAK(GOOD))) as (server, provider):
        first = make_agent(store, provider)
        how: dict[str, Any] = {"model": provider, "output": Answer, "store": store}
        other = Agent("other", output_mode="prompted", **how)
        first.add_handoff(other, "Knows more.")
        async with first.thread("key") as thread:
            said = await thread.send("What?")
    assert said.output_mode == "prompted"
    assert [*map(is_held, server.requests)] == [True, False]


def test_a_summary_is_not_held_to_the_form_of_answers() -> None:
    config = AgentConfig(native_schema={"type": "object"}, context_tokens_max=10**6)
    said = Conversation([Message.user("a"), Message.assistant("b")])
    due = build_request(config, said)
    assert due.native_schema == {"type": "object"}
    for one in (due, None):
        assert build_summary_request(config, said, 1, "", one).native_schema is None


async def test_models_for_tests_and_scripts_answer_in_words(store: AnyThreads) -> None:
    for model in (TestModel(), ScriptedModel.of(GOOD)):
        agent = Agent("t", model=model, output=Answer, store=store, output_mode="native")
        assert (await agent.run("What?")).output_mode == "prompted"


async def test_an_endpoint_of_open_models_is_held_only_without_tools(store: AnyThreads) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "2"

    async with Loopback(stream(FORMATS["openai-chat"].speak(GOOD))) as server:
        provider = OpenAiChatProvider(KEY, base_url=server.url)
        how: dict[str, Any] = {"model": provider, "output": Answer, "store": store}
        alone = await Agent("a", output_mode="native", **how).run("What?")
        beside = await Agent("a", output_mode="native", tools=[look], **how).run("What?")
        await provider.aclose()
    assert (alone.output_mode, beside.output_mode) == ("native", "prompted")


def test_a_mode_that_there_is_not_is_refused_where_it_is_said(store: AnyThreads) -> None:
    wrong: Any = "tool"
    with pytest.raises(BuildError, match="no output mode"):
        Agent("x", model=ScriptedModel.of("x"), output=Answer, store=store, output_mode=wrong)


async def test_a_schema_in_the_settings_is_left_to_who_put_it_there(store: AnyThreads) -> None:
    settings = AgentConfig(max_tokens=0, native_schema={"type": "object", "properties": {}})
    async with asking(stream(SPEAK("{}"))) as (server, provider):
        await Agent("x", model=provider, settings=settings, store=store).run("What?")
    assert is_held(server.requests[0])
