"""What servers ask back in calls: put to a person, recorded, counted, bounded; and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CreateMessageRequestParams, ElicitRequestFormParams, ElicitRequestURLParams

from mcp_servers.test_reference_servers import start
from runtime.clock import tick
from treadle import (
    Agent,
    AgentError,
    BudgetExceeded,
    LocalStore,
    MCPServer,
    ScriptedModel,
    ServerAnswer,
    ServerQuestion,
    TokenBudget,
    outputs,
)
from treadle.mcp.asked_back import make_question, make_wish
from treadle.runtime.server_answers import ASKED_COUNT_MAX
from treadle.server_questions import FormField

Told = list[ServerQuestion]


def calls(tool: str, **arguments: Any) -> ScriptedModel:
    """A model that calls a tool once, says what it got, and answers what servers ask."""
    return ScriptedModel.of(
        {
            "when": {"user": "context: Say tea"},
            "text": "tea",
            "usage": {"input_tokens": 70, "output_tokens": 7},
        },
        {"when": {"user": "wish"}, "text": "granted"},
        {"when": {"step": 0}, "calls": [{"tool": tool, "arguments": arguments}]},
        {"text": "Over."},
    )


def accept(told: Told, **values: Any) -> Callable[[ServerQuestion], Any]:
    async def answer(question: ServerQuestion) -> ServerAnswer:
        told.append(question)
        wanted = {one.name for one in question.fields}
        given = {name: value for name, value in values.items() if name in wanted}
        return ServerAnswer("accept", {**question.defaults, **given})

    return answer


def read_journal(store: LocalStore, thread_id: str) -> str:
    return Path(store.folders.path(thread_id, ".jsonl")).read_text()


def read_events(store: LocalStore, thread_id: str) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in read_journal(store, thread_id).splitlines()]


def read_asked(store: LocalStore, thread_id: str) -> list[tuple[str, ...]]:
    return [
        (one["type"], one.get("wants") or one["action"])
        for one in read_events(store, thread_id)
        if one["type"] in ("server_asked", "server_answered")
    ]


def read_results(store: LocalStore, thread_id: str) -> str:
    (said,) = (one.content for one in store.load(thread_id).fold.conversation if one.role == "tool")
    return said


async def test_a_form_of_the_reference_server_is_filled_out_and_recorded(
    store: LocalStore,
) -> None:
    told: Told = []
    model = calls("everything__trigger-elicitation-request")
    agent = Agent(
        "a",
        model=model,
        tools=[start("everything", "stdio")],
        store=store,
        on_server_question=accept(told, name="Ann", check=True),
    )
    result = await agent.run("go")
    said = read_results(store, result.thread_id)
    assert "User provided the requested information" in said
    assert "Ann" in said
    (asked,) = told
    kinds = {one.name: one.kind for one in asked.fields}
    assert (kinds["name"], kinds["check"], kinds["integer"]) == ("text", "boolean", "integer")
    assert (kinds["titledSingleSelectEnum"], kinds["titledMultipleSelectEnum"]) == (
        "choice",
        "choices",
    )
    assert asked.defaults["firstLine"] == "It was a dark and stormy night."
    assert read_asked(store, result.thread_id) == [
        ("server_asked", "form"),
        ("server_answered", "accept"),
    ]
    events = read_events(store, result.thread_id)
    kinds_of = [one["type"] for one in events]
    order = [kinds_of.index(one) for one in ("tool_started", "server_asked", "server_answered")]
    assert order == sorted(order), "intent first"


async def test_an_address_of_the_reference_server_is_shown_and_a_no_is_told(
    store: LocalStore,
) -> None:
    told: Told = []

    async def refuse(question: ServerQuestion) -> ServerAnswer:
        told.append(question)
        return ServerAnswer("decline")

    model = calls("everything__trigger-url-elicitation", url="https://example.com/pay")
    agent = Agent(
        "a",
        model=model,
        tools=[start("everything", "stdio")],
        store=store,
        on_server_question=refuse,
    )
    result = await agent.run("go")
    assert [(one.wants, one.url) for one in told] == [("visit", "https://example.com/pay")]
    assert "decline" in read_results(store, result.thread_id)


async def test_a_models_answer_for_a_server_is_asked_about_counted_and_bounded(
    store: LocalStore,
) -> None:
    told: Told = []
    model = calls("everything__trigger-sampling-request", prompt="Say tea", maxTokens=50)
    agent = Agent(
        "a",
        model=model,
        tools=[start("everything", "stdio")],
        store=store,
        on_server_question=accept(told),
    )
    async with agent.thread("one") as thread:
        result = await thread.send("go")
    (asked,) = told
    assert asked.wish is not None
    assert asked.wish.system == "You are a helpful test server."
    assert asked.wish.tokens_max == 50
    assert '"text": "tea"' in read_results(store, result.thread_id)
    used = [one["usage"] for one in read_events(store, result.thread_id) if "usage" in one]
    assert sum(one["input_tokens"] for one in used) == 70
    assert result.usage.input_tokens >= 70

    small = Agent(
        "b",
        model=model,
        tools=[start("everything", "stdio")],
        store=store,
        on_server_question=accept(told),
        budget=TokenBudget(max_total=60),
    )
    with pytest.raises(BudgetExceeded):
        await small.run("go")


async def test_where_nobody_can_answer_the_server_is_told_so_and_the_run_goes_on(
    store: LocalStore,
) -> None:
    notices: list[str] = []

    def listen(output: outputs.Output) -> None:
        if isinstance(output, outputs.Notice):
            notices.append(output.text)

    for tool, arguments, words in (
        ("trigger-elicitation-request", {}, "cancel"),
        ("trigger-sampling-request", {"prompt": "x"}, "the person said no"),
    ):
        model = calls(f"everything__{tool}", **arguments)
        agent = Agent(
            "a", model=model, tools=[start("everything", "stdio")], store=store, on_output=listen
        )
        result = await agent.run("go")
        assert result.output == "Over."
        assert words in read_results(store, result.thread_id)
        assert read_asked(store, result.thread_id)[-1] == ("server_answered", "nobody")
        assert "nobody is there to answer" in notices[-1]


async def test_a_server_that_asks_without_end_is_refused_after_some_questions(
    store: LocalStore, plain: Callable[..., MCPServer], tmp_path: Path
) -> None:
    for how, action in (("asks for forms", "accept"), ("asks for answers", "accept")):
        told: Told = []
        agent = Agent(
            "a",
            model=calls("plain__note"),
            tools=[plain(how)],
            store=store,
            on_server_question=accept(told),
        )
        result = await agent.run("go")
        assert len(told) == ASKED_COUNT_MAX
        answered = [one for one in read_asked(store, result.thread_id) if one[1] == action]
        assert len(answered) == ASKED_COUNT_MAX
        notes = (tmp_path / "plain" / "notes.txt").read_text().splitlines()
        assert notes[-1] == "20 answers", "each has been answered, most of them with a no"
        (tmp_path / "plain" / "notes.txt").unlink()


async def test_what_is_asked_outside_of_calls_is_refused_at_once(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    told: Told = []
    agent = Agent(
        "a",
        model=calls("plain__note"),
        tools=[plain("asks at once")],
        store=store,
        on_server_question=accept(told),
    )
    result = await agent.run("go")
    assert told == []
    assert "no call runs" in read_results(store, result.thread_id)


async def test_a_question_ends_with_its_call_and_time_stands_still_while_it_is_asked(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    from treadle import AgentConfig

    asking, withdrawn = asyncio.Event(), asyncio.Event()
    release = asyncio.Event()

    async def hesitate(question: ServerQuestion) -> ServerAnswer:
        asking.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return ServerAnswer("cancel")

    agent = Agent(
        "a",
        model=calls("plain__note"),
        tools=[plain("asks for forms")],
        store=store,
        on_server_question=hesitate,
        settings=AgentConfig(max_tokens=0, tool_timeout_s=0.2),
    )
    async with agent.thread("one") as thread:
        turn = asyncio.ensure_future(thread.send("go"))
        await asking.wait()
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.4
        while loop.time() < until:  # longer than the call may take
            await tick()
        assert not turn.done()
        thread.cancel("enough")
        with pytest.raises(AgentError):
            await turn
        await withdrawn.wait()
        assert read_asked(store, thread.id)[-1] == ("server_asked", "form")
        release.set()
        assert (await thread.send("and now")).output == "Over."


async def test_secrets_of_a_form_are_not_recorded(
    tmp_path: Path, plain: Callable[..., MCPServer]
) -> None:
    from treadle.secrets.redaction import Redactor

    store, told = LocalStore(tmp_path / "store"), Told()
    agent = Agent(
        "a",
        model=calls("plain__note"),
        tools=[plain("asks for forms")],
        store=store,
        on_server_question=accept(told, name="hunter2-hunter2"),
        redactor=Redactor({"PASS": "hunter2-hunter2"}),
    )
    result = await agent.run("go")
    text = read_journal(store, result.thread_id)
    assert "hunter2" not in text
    assert "[REDACTED:" in text
    given = (tmp_path / "plain" / "answers.jsonl").read_text()
    assert "hunter2-hunter2" in given, "the server gets what the person has written"


async def test_the_official_server_of_2026_asks_and_is_called_again_with_the_answers(
    store: LocalStore,
) -> None:
    program = str(Path(__file__).with_name("asking_server.py"))
    server = MCPServer("judge", command=sys.executable, args=(program,))
    for tool, words in (
        ("greet", "asked: Ann, granted"),
        ("nag", "the person said no"),
    ):
        told: Told = []
        agent = Agent(
            "a",
            model=calls(f"judge__{tool}"),
            tools=[server],
            store=store,
            on_server_question=accept(told, name="Ann"),
        )
        result = await agent.run("go")
        assert words in read_results(store, result.thread_id)
        assert len(told) == (2 if tool == "greet" else ASKED_COUNT_MAX)


async def test_a_program_that_fails_when_it_is_asked_ends_neither_call_nor_server(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    async def fail(question: ServerQuestion) -> ServerAnswer:
        raise KeyError(question.server)

    async def say_anything(_: ServerQuestion) -> ServerAnswer:
        return ServerAnswer("accept", {"age": "x" * 10})

    for ask, words in ((fail, "note"), (say_anything, "note")):
        agent = Agent(
            "a",
            model=calls("plain__note"),
            tools=[plain("asks for one form")],
            store=store,
            on_server_question=ask,
        )
        result = await agent.run("go")
        assert (result.output, words in read_results(store, result.thread_id)) == ("Over.", True)


# ---- what hostile servers ask --------------------------------------------------------------


def form(**properties: Any) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(
        message="m\x1b[2J" * 1000,
        requested_schema={"type": "object", "properties": properties},
    )


def test_a_form_is_made_such_that_a_person_can_be_shown_it() -> None:
    made = make_question("s", form(a={"type": "string", "title": "t\x1b]0;x\x07\n" * 999}))
    assert "\x1b" not in made.text
    assert len(made.text) <= 2_000
    assert "\x1b" not in made.fields[0].title
    assert "\n" not in made.fields[0].title
    assert len(made.fields[0].title) <= 200
    deep: Any = {"type": "string"}
    for _ in range(500):
        deep = {"type": "object", "properties": {"a": deep}}
    misses = []
    for name, given in (
        ("many", {f"a{n}": {"type": "string"} for n in range(21)}),
        ("escape", {"a\x1b[2J": {"type": "string"}}),
        ("two lines", {"a\nb": {"type": "string"}}),
        ("deep", {"a": deep}),
        ("reference", {"a": {"$ref": "#"}}),
        ("null", {"a": {"type": "null"}}),
        ("no schema", {"a": 7}),
        ("list", {"a": {"type": "array", "items": {"type": "string"}}}),
        ("choices", {"a": {"type": "string", "enum": [str(n) for n in range(101)]}}),
        ("numbers", {"a": {"type": "string", "enum": [1, 2]}}),
        ("odd", {"a": {"type": "string", "oneOf": [7]}}),
        ("escape in a value", {"a": {"type": "string", "enum": ["x\x1b[2J"]}}),
        ("long value", {"a": {"type": "string", "enum": ["x" * 201]}}),
        ("label", {"a": {"type": "string", "title": 7}}),
    ):
        try:
            field = make_question("s", form(**given)).fields[0]
        except ValueError:
            continue
        misses.append((name, field))
    assert [name for name, _ in misses] == ["reference"]
    assert misses[0][1] == FormField("a", "text"), "nothing is looked up"
    for default in ("d" * 2_001, "\x1b[2J", 7, ["x"]):
        (field,) = make_question("s", form(a={"type": "string", "default": default})).fields
        assert field.default is None, default
    for url in ("file:///etc/passwd", "javascript:x", "https://a/\x1b[2J", "https://" + "a" * 9999):
        with pytest.raises(ValueError, match="address"):
            make_question("s", ElicitRequestURLParams(message="m", url=url))


def test_a_wish_is_texts_alone_and_has_an_end() -> None:
    def wish(text: Any, **more: Any) -> CreateMessageRequestParams:
        content = text if isinstance(text, dict) else {"type": "text", "text": text}
        messages = [{"role": "user", "content": content}]
        return CreateMessageRequestParams.model_validate(
            {"messages": messages, "maxTokens": 9, **more}
        )

    made = make_wish("s", wish("a\x1b[2J", systemPrompt="b\x1b[2J"))
    assert made.wish is not None
    assert "\x1b" not in str(made.wish)
    picture = {"type": "image", "data": "", "mimeType": "image/png"}
    tool = {"name": "t", "inputSchema": {"type": "object"}}
    for wrong in (
        wish("x" * 100_001),
        wish(picture),
        wish("x", maxTokens=0),
        wish("x", maxTokens=-5),
        wish("x", tools=[tool]),
        wish(""),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make_wish("s", wrong)


def test_values_that_do_not_fill_out_a_form_are_known() -> None:
    asked = ServerQuestion(
        "s",
        "form",
        "",
        (
            FormField("a", "text", is_required=True, least=2, most=3),
            FormField("b", "integer", least=1, most=9),
            FormField("c", "number"),
            FormField("d", "boolean"),
            FormField("e", "choice", choices=(("x", "X"),)),
            FormField("f", "choices", choices=(("x", "X"), ("y", "Y")), least=1, most=1),
        ),
    )
    good = {"a": "ab", "b": 1, "c": 0.5, "d": True, "e": "x", "f": ["y"]}
    assert asked.find_fault(good) == ""
    assert asked.find_fault({"a": "abc"}) == ""
    wrong = (
        {},
        {"a": "a"},
        {"a": "abcd"},
        {"a": 7},
        *({**good, **one} for one in ({"b": 0}, {"b": 10}, {"b": 1.5}, {"b": True}, {"c": "1"})),
        *({**good, **one} for one in ({"c": True}, {"d": 1}, {"e": "y"}, {"e": ["x"]})),
        *({**good, **one} for one in ({"f": []}, {"f": ["x", "y"]}, {"f": ["z"]}, {"g": 1})),
        {**good, "c": float("nan"), "b": 99},
    )
    assert [one for one in wrong if not asked.find_fault(one)] == []


# ---- processes ---------------------------------------------------------------------------------


PROGRAM = """
import asyncio, sys
from treadle import Agent, LocalStore, MCPServer, ScriptedModel

folder, plain, how = sys.argv[1:]
calls = {"when": {"step": 0}, "calls": [{"tool": "plain__note", "arguments": {}}]}
model = ScriptedModel.of(calls, {"text": "over"})
server = MCPServer("plain", command=sys.executable, args=(plain, how, folder))

async def ask(question):
    open(folder + "/asked.fifo", "w").write(question.wants)
    await asyncio.Event().wait()

options = {"on_server_question": ask} if how else {}
agent = Agent("a", model=model, tools=[server], store=LocalStore(folder + "/store"), **options)

async def main():
    async with agent.thread("one") as thread:
        print((await (thread.send("go") if how else thread.resume())).text)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["asks for forms", "asks for answers"])
def test_a_call_that_was_killed_while_it_asked_is_in_doubt_and_not_asked_again(
    tmp_path: Path, how: str
) -> None:
    def begin(how: str) -> subprocess.Popen[str]:
        plain = str(Path(__file__).with_name("plain_server.py"))
        argv = [sys.executable, "-c", PROGRAM, str(tmp_path), plain, how]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    os.mkfifo(tmp_path / "asked.fifo")
    process = begin(how)
    assert (tmp_path / "asked.fifo").read_text() in ("form", "answer")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert begin("").communicate()[0] == "over\n"
    store = LocalStore(tmp_path / "store")
    (thread,) = store.ids()
    assert [one[0] for one in read_asked(store, thread)] == ["server_asked"]
    assert "Uncertain" in read_results(store, thread)
