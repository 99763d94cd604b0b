"""Handlers of custom states: what they are given, and how what they did becomes an event.

A handler is pure, `handle(memory)`, or asynchronous, `handle(memory, tools, llm, output)`. Either
returns the event that happened, or a changed memory and the event. An object with a method
`handle` will do.

What an asynchronous handler does is not journaled piece by piece: its outcome is one event. If the
process dies inside it, it runs again from its beginning, whatever it had done before.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import WRITABLE, Changes, CustomState, Logged, StateCompleted
from treadle.core.task.memory import AgentMemory, check_ownership
from treadle.core.task.table import Event
from treadle.core.tools import Outcome
from treadle.errors import AgentError, BuildError, OwnershipViolation
from treadle.runtime.calls import call_model, run_call
from treadle.runtime.ports import Provider, Tools

_log = logging.getLogger("treadle.runtime")

Result: TypeAlias = str | tuple[AgentMemory, str]
Handler: TypeAlias = Callable[..., Result | Awaitable[Result]]


class HandlerTools:
    """The tools, for an asynchronous handler."""

    def __init__(self, tools: Tools, key: str, limit_s: float) -> None:
        self._tools = tools
        self._key = key
        self._limit_s = limit_s
        self._count = 0

    async def call(self, tool_name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool to its outcome; never raises for anything the call does."""
        self._count += 1
        key = f"{self._key}:{self._count}"
        call = ToolCall(key, tool_name, msgspec.json.encode(dict(arguments)).decode())
        return await run_call(self._tools, call, key, self._limit_s, lambda _: None)


class HandlerLlm:
    """The model, for an asynchronous handler; what it uses counts against the budget."""

    def __init__(self, provider: Provider, model: str, silence_s_max: float) -> None:
        self._provider = provider
        self._model = model
        self._silence_s_max = silence_s_max
        self.usage: Usage | None = None

    async def ask(
        self, messages: Iterable[Message], *, system: str = "", model: str = ""
    ) -> LlmResponse:
        """One answer, without tools.

        Raises:
            AgentError: the model did not answer; left alone, it ends the task.
        """
        request = LlmRequest(model or self._model, Conversation(messages), system=system)
        event = await call_model(self._provider, request, self._silence_s_max, lambda _: None)
        used = event.error.usage if isinstance(event, LlmEvent.Error) else event.response.usage
        if used is not None:
            self.usage = used if self.usage is None else self.usage + used
        if isinstance(event, LlmEvent.Error):
            raise AgentError(event.error.text, hint=event.error.advice)
        return event.response


def function_of(name: str, handler: Any) -> Handler:
    """The function of a handler.

    Raises:
        BuildError: it is no handler; the message says what one looks like.
    """
    function = getattr(handler, "handle", handler)
    count = 4 if inspect.iscoroutinefunction(function) else 1
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        raise BuildError(
            f"the handler of state {name!r} cannot be called",
            hint="handle(memory), or async handle(memory, tools, llm, output)",
        ) from None
    return function  # type: ignore[no-any-return]


async def run_handler(
    state: CustomState,
    handler: Handler,
    memory: AgentMemory,
    *,
    tools: HandlerTools,
    llm: HandlerLlm,
    output: Callable[[str], None],
    at: Callable[[], str],
) -> StateCompleted:
    """Run it to its event. An exception in it is data: `memory.error` and `FatalError`.

    Raises:
        OwnershipViolation: it wrote what its state does not own; nothing was recorded.
    """
    try:
        result: Any = (
            await handler(memory, tools, llm, output)
            if inspect.iscoroutinefunction(handler)
            else handler(memory)
        )
        after, event = result if isinstance(result, tuple) else (memory, result)
        if not isinstance(after, AgentMemory) or not isinstance(event, str):
            raise TypeError(f"it returned {result!r}, no event")
        completed = _completed(state, memory, after, event)
    except OwnershipViolation:
        raise
    except Exception as error:  # noqa: BLE001  a handler's bug is data
        _log.exception("the handler of %s raised", state.name)
        why = f"the handler of {state.name} failed: {type(error).__name__}: {error}"
        completed = StateCompleted(state.name, Event.FATAL_ERROR, Changes(error=why))
    return msgspec.structs.replace(completed, usage=llm.usage, at=at())


def _completed(
    state: CustomState, before: AgentMemory, after: AgentMemory, event: str
) -> StateCompleted:
    check_ownership(state.name, before, after, frozenset(state.owns))
    changed = {
        name: getattr(after, name)
        for name in WRITABLE
        if getattr(after, name) != getattr(before, name)
    }
    if "extra" in changed:
        changed["extra"] = dict(changed["extra"])
    changes = Changes(**changed)
    msgspec.json.encode(changes)
    new = after.trace[len(before.trace) :]
    logged = tuple(Logged(entry.event, entry.data) for entry in new)
    return StateCompleted(state.name, str(event), changes, logged)
