"""Runs of every kind arrive at a collector, and what arrives says what happened."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.samples import CONFIG, answer, broken, call, ended, failure, said, success
from exchange.recorded import CLAUDE, NAME
from store_conformance.example import SqliteStore
from telemetry.judge import list_faults, parse_spans
from telemetry.receiver import Receiver, run_receiver
from thread.journals import HEADER, ID, OTHER_ID, at, write
from treadle import Agent, LocalStore, ScriptedModel, Threads, tool
from treadle.app import export_trace, import_sessions
from treadle.app.telemetry.thread_spans import (
    BODY_SIZE_MAX,
    encode_in_bodies,
    read_thread_spans,
)
from treadle.core.config import AgentConfig
from treadle.core.events import RetryTimeoutFired, ToolStarted, ToolUncertain
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.tools import ToolErrorKind
from treadle.errors import (
    ConfigError,
    PrivateThreadError,
    RemoteRefusedError,
    RemoteUnavailableError,
    StoreError,
)
from treadle.store.threads import AnyThreads
from treadle.telemetry.spans import FinishedSpan, SpanContext
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import (
    Base,
    ChildStarted,
    Configured,
    PrivacySet,
    Recovered,
    ThreadCreated,
)
from treadle.thread.record import Head, encode_batch


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    return LocalStore(tmp_path / "store")


@pytest.fixture(params=["folder", "database"])
def threads(store: LocalStore, tmp_path: Path, request: pytest.FixtureRequest) -> AnyThreads:
    """The threads of each kind of store that an agent works on."""
    if request.param == "folder":
        return store
    return Threads(SqliteStore(str(tmp_path / "threads.db")))


@tool
def stock(item: str) -> int:
    """How many there are of an item.

    Args:
        item: its name.
    """
    if item == "none":
        raise KeyError(item)
    return 12


def put(store: LocalStore, thread_id: str, batches: Sequence[Sequence[Entry]]) -> str:
    """A journal of a process that has died."""
    path = Path(store.folders.path(thread_id, ".jsonl"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write(batches)[0])
    return thread_id


def call_stock(*items: str) -> dict[str, object]:
    calls = [{"tool": "stock", "arguments": {"item": item}} for item in items]
    return {"when": {"step": 0}, "calls": calls, "usage": {"input_tokens": 100, "output_tokens": 7}}


async def test_a_conversation_with_tools(threads: AnyThreads, receiver: Receiver) -> None:
    done = {"when": {"step": 1}, "text": "Twelve.", "usage": {"input_tokens": 150}}
    model = ScriptedModel.of(call_stock("tea", "none"), done)
    agent = Agent("shop", model=model, tools=[stock], store=threads)
    async with agent.thread("one") as thread:
        await thread.send("How much tea is there? sesame")
        thread_id = thread.id
    exported = export_trace(threads, thread_id, receiver.url)
    assert exported.span_count == len(receiver.spans)
    assert list_faults(receiver.spans) == []
    assert receiver.names[0] == "invoke_agent"
    below = ["chat", "chat", *["execute_tool stock"] * 2]
    assert sorted(receiver.names[1:]) == below
    ((root, of_root),) = receiver.find("invoke_agent")
    assert of_root["gen_ai.conversation.id"] == thread_id
    assert of_root["treadle.outcome"] == "done"
    assert of_root["treadle.key"] == "one"
    first, second = receiver.find("chat")
    assert first[1]["gen_ai.usage.input_tokens"] == 100
    assert first[1]["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert first[0].kind == first[0].SPAN_KIND_CLIENT
    assert second[0].start_time_unix_nano >= first[0].end_time_unix_nano
    failed = [found for _, found in receiver.find("execute_tool stock") if "error.type" in found]
    assert [one["error.type"] for one in failed] == ["internal"]
    assert "sesame" not in str(receiver.spans)
    assert "Twelve" not in str(receiver.spans)
    assert receiver.sum_tokens("input") == 250
    assert receiver.sum_tokens("output") >= 7
    assert receiver.resources[0]["service.name"] == "treadle"

    once = {(one.trace_id, one.span_id) for one in receiver.spans}
    export_trace(threads, thread_id, receiver.url)
    assert {(one.trace_id, one.span_id) for one in receiver.spans} == once
    lines = export_trace(threads, thread_id).lines
    assert lines == export_trace(threads, thread_id).lines
    assert root.trace_id.hex() in lines[0].decode()


async def test_what_was_said_goes_along_for_who_asks_without_known_secrets(
    threads: AnyThreads, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "open-sesame-4711-please")
    model = ScriptedModel.of(call_stock("tea"), {"when": {"last": "12"}, "text": "Twelve."})
    agent = Agent("shop", model=model, tools=[stock], store=threads, instructions="Be brief.")
    prompt = "How much tea? open-sesame-4711-please"
    async with agent.thread("one") as thread:
        await thread.send(prompt)
        export_trace(threads, thread.id, receiver.url, with_content=True)
    ((_, of_root),) = receiver.find("invoke_agent")
    assert json.loads(of_root["gen_ai.system_instructions"])[0]["content"] == "Be brief."
    (asked,) = json.loads(of_root["gen_ai.input.messages"])
    assert asked["role"] == "user"
    assert asked["parts"][0]["content"].startswith("How much tea? [REDACTED:")
    first, second = (found for _, found in receiver.find("chat"))
    (part,) = json.loads(first["gen_ai.output.messages"])[0]["parts"]
    assert (part["type"], part["arguments"]) == ("tool_call", {"item": "tea"})
    told = json.loads(second["gen_ai.input.messages"])
    assert [one["role"] for one in told] == ["assistant", "tool"]
    assert told[1]["parts"][0]["response"] == "12"
    assert json.loads(second["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Twelve."
    ((_, of_call),) = receiver.find("execute_tool stock")
    assert json.loads(of_call["gen_ai.tool.call.arguments"]) == {"item": "tea"}
    assert of_call["gen_ai.tool.call.result"] == "12"
    assert "open-sesame" not in str(receiver.spans)


async def test_a_task_with_a_sub_agent_whose_spans_name_the_call(
    threads: AnyThreads, receiver: Receiver
) -> None:
    clerk = Agent("clerk", model=ScriptedModel.of({"text": "There are 12."}), store=threads)
    asks = {"when": {"step": 0}, "calls": [{"tool": "clerk", "arguments": {"task": "tea?"}}]}
    chief = Agent(
        "chief",
        model=ScriptedModel.of(asks, {"when": {"last": "There are 12"}, "text": "Twelve."}),
        tools=[clerk.as_tool("Knows the stock.")],
        store=threads,
    )
    result = await chief.run("How much?")
    exported = export_trace(threads, result.thread_id, receiver.url)
    assert len(exported.threads) == 2
    assert list_faults(receiver.spans) == []
    (calling, of_call), *_ = receiver.find("execute_tool clerk")
    assert of_call["treadle.sub_agent.thread"] == exported.threads[1]
    by_thread = {
        found["gen_ai.conversation.id"]: one for one, found in receiver.find("invoke_agent")
    }
    child = by_thread[exported.threads[1]]
    (link,) = child.links
    assert (link.trace_id, link.span_id) == (calling.trace_id, calling.span_id)
    assert child.trace_id != calling.trace_id
    alone = export_trace(threads, exported.threads[1])
    assert alone.threads == exported.threads[1:]
    assert json.loads(alone.lines[0])["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["links"]


async def test_a_fork_names_the_turn_that_it_goes_on_from(
    threads: AnyThreads, receiver: Receiver
) -> None:
    agent = Agent("echo", model=ScriptedModel.of({"text": "Said."}), store=threads)
    async with agent.thread("one") as thread:
        await thread.send("first")
        fork = await thread.fork()
        await fork.send("second")
        await fork.close()
    export_trace(threads, thread.id, receiver.url)
    export_trace(threads, fork.id, receiver.url)
    (of_base, _), (of_fork, found) = receiver.find("invoke_agent")
    assert found["treadle.base.thread"] == thread.id
    assert [(one.trace_id, one.span_id) for one in of_fork.links] == [
        (of_base.trace_id, of_base.span_id)
    ]


BEGUN: Sequence[Sequence[Entry]] = (
    (HEADER,),
    (Configured(CONFIG, "anthropic"), said("go")),
    (answer("", call("a"), call("b", "edit")), ToolStarted("a"), ToolStarted("b")),
    (ended("a", success("a", "fine")),),
)


def test_a_crashed_run_says_what_has_no_end(store: LocalStore, receiver: Receiver) -> None:
    export_trace(store, put(store, ID, BEGUN), receiver.url)
    assert list_faults(receiver.spans) == []
    ((root, of_root),) = receiver.find("invoke_agent")
    assert (of_root["treadle.outcome"], of_root["error.type"]) == ("unfinished", "unfinished")
    assert root.status.code == root.status.STATUS_CODE_ERROR
    ((_, of_call),) = receiver.find("execute_tool edit")
    assert of_call["error.type"] == "unfinished"
    ((_, of_done),) = receiver.find("execute_tool look")
    assert "error.type" not in of_done
    assert of_root["gen_ai.provider.name"] == "anthropic"
    assert receiver.find("chat model-1")


def test_an_uncertain_call_is_one_span_that_says_so(store: LocalStore, receiver: Receiver) -> None:
    begun = export_trace(store, put(store, ID, BEGUN), receiver.url)
    kept = {one.span_id for one in receiver.spans}
    receiver.spans.clear()
    after: Sequence[Sequence[Entry]] = (
        (Recovered("its process had died"), ToolUncertain("b")),
        (ended("b", failure("b", ToolErrorKind.UNCERTAIN)),),
        (answer("It may have run."),),
    )
    export_trace(store, put(store, ID, (*BEGUN, *after)), receiver.url)
    assert list_faults(receiver.spans) == []
    ((span, found),) = receiver.find("execute_tool edit")
    assert found["error.type"] == "uncertain"
    assert [one.name for one in span.events] == ["treadle.uncertain"]
    ((root, of_root),) = receiver.find("invoke_agent")
    assert of_root["treadle.outcome"] == "done"
    assert "treadle.recovered" in [one.name for one in root.events]
    assert kept < {one.span_id for one in receiver.spans}, "what was exported before is the same"
    assert begun.span_count == len(kept)


def test_each_retry_is_a_span(store: LocalStore, receiver: Receiver) -> None:
    config = AgentConfig("anthropic:claude-x", max_retries=2)
    response = LlmResponse(Message.assistant("there"), Usage(9, 1, cache_read_tokens=5))
    batches: Sequence[Sequence[Entry]] = (
        (HEADER,),
        (Configured(config, "anthropic"), said("go")),
        (broken(LlmErrorKind.OVERLOADED),),
        (RetryTimeoutFired(),),
        (broken(LlmErrorKind.RATE_LIMITED),),
        (RetryTimeoutFired(),),
        (type(answer())(response),),
        (said("more"),),
        (broken(LlmErrorKind.AUTHENTICATION),),
    )
    export_trace(store, put(store, ID, batches), receiver.url)
    assert list_faults(receiver.spans) == []
    requests = [found for _, found in receiver.find("chat claude-x")]
    kinds = ["overloaded", "rate_limited", None, "authentication"]
    assert [found.get("error.type") for found in requests] == kinds
    assert requests[2]["gen_ai.usage.cache_read.input_tokens"] == 5
    turns = [found for _, found in receiver.find("invoke_agent")]
    assert [found.get("error.type") for found in turns] == [None, "authentication"]
    assert len({span.trace_id for span in receiver.spans}) == 2, "each turn is a trace"


def test_an_imported_session(store: LocalStore, receiver: Receiver, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in CLAUDE))
    (done,) = import_sessions(store, [str(path)], "auto")
    export_trace(store, done.thread, receiver.url)
    assert list_faults(receiver.spans) == []
    assert {found["treadle.imported_from"] for _, found in receiver.find("invoke_agent")} == {
        "claude-code"
    }
    assert any(name.startswith("execute_tool") for name in receiver.names)
    chats = [name for name in receiver.names if name.startswith("chat")]
    assert chats == ["chat claude-x", "chat claude-x", "chat claude-y"]
    ((_, of_root),) = receiver.find("invoke_agent")
    assert of_root["gen_ai.request.model"] == "claude-x"
    assert "unknown" not in str(receiver.spans)


def test_nothing_private_leaves_this_machine(store: LocalStore, receiver: Receiver) -> None:
    put(store, ID, (*BEGUN, (PrivacySet(True),)))
    with pytest.raises(PrivateThreadError):
        export_trace(store, ID, receiver.url)
    assert export_trace(store, ID).lines, "its owner may look at it"
    child = ThreadCreated(1, OTHER_ID, "chat", "t", parent=ID, parent_call="a", depth=1)
    put(store, OTHER_ID, ((child,), (Configured(CONFIG), said("go"))))
    with pytest.raises(PrivateThreadError):
        export_trace(store, OTHER_ID, receiver.url)
    put(store, ID, (*BEGUN[:3], (ChildStarted("a", OTHER_ID),)))
    put(store, OTHER_ID, ((child,), (Configured(CONFIG), said("go"), PrivacySet(True))))
    assert "is private" in export_trace(store, ID, receiver.url).problem
    assert len(receiver.find("invoke_agent")) == 1


def test_a_collector_that_fails_is_told_of_and_no_key_is(
    store: LocalStore, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, ID, BEGUN)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=sesame%204711,x-b=2")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,deployment=test")

    def leave_out(what: str, count: object, why: str) -> bytes:
        return json.dumps({"partialSuccess": {what: count, "errorMessage": why}}).encode()

    spans, points = "rejectedSpans", "rejectedDataPoints"
    cases = [
        (200, leave_out(spans, "2", "too \x1b[31mold"), RemoteRefusedError, "2 of it: too \ufffd"),
        (200, leave_out(points, 3, "x" * 9_000), RemoteRefusedError, "3 of it: xxx"),
        (200, leave_out(spans, "0", "a warning only"), None, ""),
        (429, b"", RemoteUnavailableError, "answers 429"),
        (400, b"no", RemoteRefusedError, "answers 400"),
        (503, b"", RemoteUnavailableError, "answers 503"),
        (307, b"", RemoteRefusedError, "answers 307"),
        (500, b"x" * 1_000_000, RemoteRefusedError, "answers 500"),
        (200, b"[[[", None, ""),
        (200, b"x" * 1_000_000, None, ""),
    ]
    misses = []
    for status, body, kind, words in cases:
        receiver.answer = status, body
        try:
            export_trace(store, ID, receiver.url)
            raised: Exception | None = None
        except Exception as error:  # noqa: BLE001  compared
            raised = error
        text = str(raised or "")
        is_wanted = type(raised) is (kind or type(None)) and words in text and len(text) < 300
        if not is_wanted or "sesame" in text:
            misses.append((status, body[:20], raised))
    assert misses == []
    assert receiver.headers[0]["x-team"] == "sesame 4711"
    assert receiver.headers[0]["x-b"] == "2"
    assert receiver.resources[0] == {"service.name": "shop", "deployment": "test"}


def test_what_is_for_this_machine_goes_through_no_proxy(
    store: LocalStore, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, ID, BEGUN)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, nobody)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    export_trace(store, ID, receiver.url)
    assert receiver.find("invoke_agent")


def test_what_cannot_be_read_is_told_and_the_rest_is_sent(store: LocalStore) -> None:
    """What is gone (a base, a sub-agent), damaged, or of a newer Treadle."""
    base = Base(OTHER_ID, 4, "0" * 32)
    child = (ChildStarted("a", OTHER_ID),)
    whole = export_trace(store, put(store, ID, (*BEGUN, child)))
    assert (whole.threads, whole.problem) == ((ID,), "")
    path = Path(store.folders.path(ID, ".jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"{damage}\n", *lines[4:]]))
    told = export_trace(store, ID)
    assert told.problem
    assert 0 < told.span_count < whole.span_count
    newer = encode_batch(Head(), at(0), [encode_entry(HEADER)[1], b'{"type":"dreamt"}'])[0]
    path.write_bytes(newer)
    assert "was written by a newer Treadle" in export_trace(store, ID).problem
    put(store, OTHER_ID, (*BEGUN, (answer("", call("c")),), (said("unheard"),)))
    put(store, ID, ((replace(HEADER, base=base),), (said("go"),)))
    Path(store.folders.path(OTHER_ID, ".jsonl")).unlink()
    with pytest.raises(StoreError):
        export_trace(store, ID)  # without its base nobody knows what it goes on from
    asked = ThreadCreated(1, ID, "chat", "t", parent=OTHER_ID, parent_call="a", depth=1)
    put(store, ID, ((asked,), (Configured(CONFIG), said("go"))))
    assert export_trace(store, ID).span_count == 2


def test_a_fork_names_the_turn_in_which_it_was_made_and_no_later_one(store: LocalStore) -> None:
    agent = Agent("echo", model=ScriptedModel.of({"text": "Said."}), store=store)

    def list_turns(thread_id: str) -> list[FinishedSpan]:
        spans = read_thread_spans(store, thread_id).spans
        return [one for one in spans if not one.parent_id]

    async def talk() -> tuple[str, str]:
        async with agent.thread("one") as thread:
            await thread.send("first")
            async with await thread.fork() as fork:
                await thread.send("second")
                await fork.send("other")
                return thread.id, fork.id

    base_id, fork_id = asyncio.run(talk())
    first, second = list_turns(base_id)
    (other,) = list_turns(fork_id)
    assert [link.context for link in other.links] == [first.context] != [second.context]


def test_many_spans_go_in_requests_of_a_size_that_collectors_take() -> None:
    def span(number: int) -> FinishedSpan:
        said = {"gen_ai.tool.call.result": "x" * 300_000}
        context = SpanContext("1" * 32, f"{number + 1:016x}")
        return FinishedSpan(f"n{number}", context, "", "internal", 1_000, 2_000, said)

    bodies = encode_in_bodies([span(number) for number in range(20)], {})
    assert max(map(len, bodies)) < 1.2 * BODY_SIZE_MAX
    assert [one.name for body in bodies for one in parse_spans(body)] == [
        f"n{number}" for number in range(20)
    ]
    (alone,) = encode_in_bodies([span(1)], {})
    assert len(parse_spans(alone)) == 1


def test_a_collector_that_is_not_there_or_says_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, ID, BEGUN)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RemoteUnavailableError, match="does not answer in time"):
            export_trace(store, ID, url)
    with pytest.raises(RemoteUnavailableError, match="cannot be reached"):
        export_trace(store, ID, url)


DRIPPED = {
    "headers": (b"HTTP/1.1 200 OK\r\nx-slow: ", b"x"),
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n", b" "),
}


@pytest.mark.parametrize("what", DRIPPED)
def test_a_collector_that_drips_is_not_waited_for(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    put(store, ID, BEGUN)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
    over, (beginning, drop) = threading.Event(), DRIPPED[what]

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(beginning)
            while not over.wait(0.02):
                connection.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        with pytest.raises(RemoteUnavailableError, match="does not answer in time"):
            export_trace(store, ID, f"http://127.0.0.1:{listening.getsockname()[1]}")
        over.set()
        dripping.join()


def test_what_cannot_be_used_is_refused_and_not_shown(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, ID, BEGUN)
    good = "http://localhost:1"
    cases = [
        *((url, "", "") for url in ("localhost:4318", "ftp://x", "http://", "http://[")),
        *((url, "", "") for url in ("http://a b", "http://x:0", "http://x:99999")),
        (good, "OTEL_EXPORTER_OTLP_HEADERS", "sesame"),
        (good, "OTEL_EXPORTER_OTLP_HEADERS", "a=sesame%0a"),
        (good, "OTEL_EXPORTER_OTLP_HEADERS", "a=sesam\u00e9"),
        (good, "OTEL_EXPORTER_OTLP_TIMEOUT", "-sesame"),
        (good, "OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        (good, "OTEL_RESOURCE_ATTRIBUTES", "=sesame"),
    ]
    misses = []
    for url, name, value in cases:
        told = ""
        with monkeypatch.context() as changed, suppress(RemoteUnavailableError):
            if name:
                changed.setenv(name, value)
            try:
                export_trace(store, ID, url)
            except ConfigError as error:
                told = str(error)
        if not told or "sesam" in told or (url != good and url in told):
            misses.append((url, name, value, told))
    assert misses == []
