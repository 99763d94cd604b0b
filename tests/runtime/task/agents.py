"""Agents for the tests: at a desk, with a model that is watched, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from runtime.desk import Desk, Model, Toolbox
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message, ToolCall
from treadle.outputs import Output
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.runtime.ports import Provider
from treadle.store.local_store import LocalStore
from treadle.store.replay import verify_thread

TASK: Final = "Weave a carpet"
DONE: Final = "The carpet is woven, as you asked."
USAGE: Final = Usage(100, 10)


def agent(
    desk: Desk, *replies: Any, tools: Toolbox | None = None, task: str = TASK, **options: Any
) -> AgentBuilder:
    """An agent whose model plays these replies, or is the one provider given."""
    is_provider = len(replies) == 1 and not isinstance(replies[0], str | dict)
    model: Provider = replies[0] if is_provider else Model(*replies)
    desk.providers.append(model)
    builder = AgentBuilder(task, llm=model, store=desk.store, on_output=desk.heard)
    for name, value in options.items():
        getattr(builder, name)(value)
    return builder.tools(tools or Toolbox())


class Says(Provider):
    """A provider that gives these answers, one a request; each says what it used and how sure.

    An answer is a text, or the names of tools; what comes after the last is the last again.
    """

    name = "says"

    def __init__(
        self,
        *answers: str | tuple[str, ...],
        usage: Usage | None = USAGE,
        confidence: float | None = None,
        delay_s: float = 0.0,
        arguments: str = "{}",
    ) -> None:
        self._answers = answers
        self._usage = usage
        self._confidence = confidence
        self._delay_s = delay_s
        self._arguments = arguments
        self.requests: list[LlmRequest] = []

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def count_tokens(self, request: LlmRequest) -> int | None:
        return None

    async def aclose(self) -> None:
        return

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        place = sum(message.role == "assistant" for message in request.messages)
        self.requests.append(request)
        answer = self._answers[min(place, len(self._answers) - 1)]
        if self._delay_s:
            await lasting(self._delay_s)
        if isinstance(answer, str):
            message = Message.assistant(answer)
        else:
            calls = (
                ToolCall(f"c{place}-{i}", name, self._arguments) for i, name in enumerate(answer)
            )
            message = Message.assistant("", tuple(calls))
        yield LlmEvent.Completed(
            LlmResponse(message, self._usage, "stop", confidence=self._confidence)
        )


async def lasting(seconds: float) -> None:
    """Work that takes so long."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_later(seconds, done.set_result, None)
    await done


def priced(cost: str) -> Usage:
    return Usage(100, 10, cost_usd=Decimal(cost))


def on_one_clock(desk: Desk, began_s: float = 0.0) -> LocalStore:
    """A store whose records have the time of the loop, which jumps; `began_s` later if asked."""
    begin = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=began_s)

    def now() -> str:
        at = begin + timedelta(seconds=asyncio.get_running_loop().time())
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    desk.store = LocalStore(desk.store.places, disk=desk.disk, now=now)
    return desk.store


def collecting(into: list[Output]) -> Callable[[Output], None]:
    """A listener that keeps what it hears."""
    return into.append


async def close(desk: Desk, engine: AgentEngine) -> None:
    """Close it; the thread folds from its journal to what the snapshot says."""
    await engine.close()
    report = verify_thread(desk.store, engine.thread_id)
    assert report.is_good, report.text


def last_line(engine: AgentEngine) -> tuple[str, str, str]:
    """The last entry of the trace."""
    entry = engine.trace[-1]
    return entry.state, entry.event, entry.data


def events(engine: AgentEngine) -> list[str]:
    """The names of the entries of the trace."""
    return [entry.event for entry in engine.trace]
