"""Agents of programs tell their turns as they end: to the program's tracer, or to a collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from telemetry.judge import list_faults
from telemetry.receiver import run_receiver

BEGIN = """
import asyncio, json, logging, sys
from treadle import Agent, LocalStore, ScriptedModel, Threads, tool
"""

MEMORY = "\nstore = LocalStore.in_memory()\n"

DATABASE = """
sys.path.append("../../examples")
from sqlite_store import SqliteStore
store = Threads(SqliteStore(sys.argv[1]))
"""

AGENTS = """
asks = {"when": {"step": 0}, "calls": [{"tool": "clerk", "arguments": {"task": "tea?"}}]}
clerk = Agent("clerk", model=ScriptedModel.of({"text": "There are 12."}), store=store)
model = ScriptedModel.of(asks, {"when": {"last": "There are 12"}, "text": "Twelve."})
chief = Agent("chief", model=model, tools=[clerk.as_tool("Knows the stock.")], store=store)
"""

SETUP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

told = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(told))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")


async def serve():
    with tracer.start_as_current_span("order"):
        await chief.run("How much?")
    async with chief.thread("one") as thread:
        await thread.send("How much?")
        with tracer.start_as_current_span("again"):
            await thread.send("How much?")


asyncio.run(serve())
print(json.dumps([json.loads(span.to_json()) for span in told.get_finished_spans()]))
"""

BREAK = """
def fail(*_, **__):
    raise RuntimeError("no span today")


provider.get_tracer = lambda *_, **__: type("Tracer", (), {"start_span": fail})()
print(asyncio.run(chief.run("How much?")).output)
"""

PRIVATE = """
from treadle.thread.facts import PrivacySet


async def talk(prompt):
    async with chief.thread("one") as thread:
        await thread.send(prompt)
        return thread.id


thread_id = asyncio.run(talk("How much?"))
writer = store.open(thread_id)
writer.stage(PrivacySet(True))
writer.commit()
writer.close()
told.clear()
asyncio.run(talk("And now?"))
print(len(told.get_finished_spans()))
"""

LOSE = """
@tool
def lose(thread: str = "") -> str:
    \"\"\"Remove what the clerk has done.\"\"\"
    for name in store._disk.list(store.folders.threads, ".jsonl"):
        if store.load(name.removesuffix(".jsonl")).fold.header.parent:
            store._disk.unlink(f"{store.folders.threads}/{name}")
    return "lost"


loses = {"when": {"step": 1}, "calls": [{"tool": "lose", "arguments": {}}]}
model = ScriptedModel.of(asks, loses, {"when": {"last": "lost"}, "text": "Twelve."})
tools = [clerk.as_tool("Knows the stock."), lose]
chief = Agent("chief", model=model, tools=tools, store=store)
print(asyncio.run(chief.run("How much?")).output)
print(sorted(span.name for span in told.get_finished_spans()))
"""

SERVE = """
asyncio.run(chief.run("How much?"))
print("done")
"""

on_each_store = pytest.mark.parametrize("store", [MEMORY, DATABASE], ids=["memory", "database"])


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env={**clean, "TREADLE_HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )


@on_each_store
def test_spans_join_the_trace_of_the_program(store: str, tmp_path: Path) -> None:
    done = run(
        BEGIN + store + AGENTS + SETUP,
        str(tmp_path / "threads.db"),
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )
    assert (done.returncode, done.stderr) == (0, "")
    spans: list[dict[str, Any]] = json.loads(done.stdout)
    by_id = {one["context"]["span_id"]: one for one in spans}

    def path(span: dict[str, Any]) -> list[str]:
        parent = by_id.get(span["parent_id"] or "")
        return [*(path(parent) if parent else ()), span["name"]]

    order = next(one["context"]["trace_id"] for one in spans if one["name"] == "order")
    paths = [" > ".join(path(one)) for one in spans if one["context"]["trace_id"] == order]
    task = "order > invoke_agent"
    assert sorted(paths) == [
        "order",
        task,
        *[f"{task} > chat"] * 2,
        f"{task} > execute_tool clerk",
        f"{task} > execute_tool clerk > invoke_agent",
        f"{task} > execute_tool clerk > invoke_agent > chat",
    ]
    assert sorted(" > ".join(path(one)) for one in spans).count("again > invoke_agent") == 1
    names = [one["name"] for one in spans]
    assert names.count("invoke_agent") == 6
    chat = next(one for one in spans if one["name"] == "chat")
    assert chat["kind"] == "SpanKind.CLIENT"
    assert chat["attributes"]["gen_ai.provider.name"] == "scripted"
    assert "Twelve" not in done.stdout


@on_each_store
def test_without_a_tracer_the_collector_of_the_environment_is_told(
    store: str, tmp_path: Path
) -> None:
    with run_receiver() as receiver:
        done = run(
            BEGIN + store + AGENTS + SERVE,
            str(tmp_path / "threads.db"),
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
        assert list_faults(receiver.spans) == []
        assert sorted(receiver.names) == [
            *["chat"] * 3,
            "execute_tool clerk",
            *["invoke_agent"] * 2,
        ]


def test_a_collector_that_is_away_costs_a_line_of_the_log_and_a_wrong_address_too() -> None:
    for url, told in (("http://127.0.0.1:9", "cannot be reached"), ("nowhere", "no telemetry:")):
        done = run(BEGIN + MEMORY + AGENTS + SERVE, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_who_has_neither_imports_nothing_for_it() -> None:
    check = 'print([name for name in sys.modules if "telemetry.f" in name or "opentel" in name])'
    done = run(BEGIN + MEMORY + AGENTS + SERVE + check)
    assert (done.stdout, done.stderr) == ("done\n[]\n", "")


@on_each_store
def test_a_private_thread_is_not_told_to_the_programs_tracer(store: str, tmp_path: Path) -> None:
    begun = BEGIN + store + AGENTS + SETUP.partition("\n\nasync def serve")[0]
    done = run(begun + PRIVATE, str(tmp_path / "threads.db"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_no_turn_fails_for_a_tracer_that_does() -> None:
    begun = BEGIN + MEMORY + AGENTS + SETUP.partition("\n\nasync def serve")[0]
    done = run(begun + BREAK)
    assert (done.returncode, done.stdout) == (0, "Twelve.\n")
    assert "a turn was not told: no span today" in done.stderr


def test_a_sub_agent_whose_thread_is_gone_takes_nothing_else_along() -> None:
    begun = BEGIN + MEMORY + AGENTS + SETUP.partition("\n\nasync def serve")[0]
    done = run(begun + LOSE)
    names = ["chat"] * 3 + ["execute_tool clerk", "execute_tool lose", "invoke_agent"]
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Twelve.\n{names}\n", "")
