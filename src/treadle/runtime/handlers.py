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
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.core.budget import estimate
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import WRITABLE, Changes, CustomState, Logged, StateCompleted
from treadle.core.task.memory import AgentMemory, check_ownership
from treadle.core.task.table import Event
from treadle.core.tools import Outcome
from treadle.errors import AgentError, BuildError, OwnershipViolation
from treadle.runtime.calls import call_model, is_bug, presentable, run_call
from treadle.runtime.ports import Provider, Tools
from treadle.thread.codec import encode_entry
from treadle.thread.record import clean

_log = logging.getLogger("treadle.runtime")

_INTEGER_LIMIT: Final = 2**63
"""Integers of records have 64 bits."""

Result: TypeAlias = str | tuple[AgentMemory, str]
Handler: TypeAlias = Callable[..., Result | Awaitable[Result]]


class HandlerTools:
    """The tools, for an asynchronous handler."""

    def __init__(
        self, tools: Tools, key: str, limit_s: float, redact: Callable[[str], str]
    ) -> None:
        self._tools = tools
        self._key = key
        self._limit_s = limit_s
        self._redact = redact
        self._count = 0

    async def call(self, tool_name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool to its outcome; never raises for anything the call does."""
        self._count += 1
        key = f"{self._key}:{self._count}"
        call = ToolCall(key, tool_name, msgspec.json.encode(dict(arguments)).decode())
        outcome = await run_call(self._tools, call, key, self._limit_s, lambda _: None)
        return presentable(outcome, key, self._redact)


class HandlerLlm:
    """The model, for an asynchronous handler; what it uses counts against the budget."""

    def __init__(
        self, provider: Provider, model: str, silence_s_max: float, redact: Callable[[str], str]
    ) -> None:
        self._provider = provider
        self._redact = redact
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
        sent = [replace(one, content=self._redact(clean(one.content))) for one in messages]
        system = self._redact(clean(system))
        request = LlmRequest(model or self._model, Conversation(sent), system=system)
        event = await call_model(self._provider, request, self._silence_s_max, lambda _: None)
        if isinstance(event, LlmEvent.Error):
            self._count(event.error.usage)
            raise AgentError(event.error.text, hint=event.error.advice)
        response = event.response
        self._count(response.usage or estimate(sent, response.message))
        return response

    def _count(self, used: Usage | None) -> None:
        if used is not None:
            self.usage = used if self.usage is None else self.usage + used


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
    except BaseException as error:
        if not is_bug(error):
            raise
        _log.exception("the handler of %s raised", state.name)
        why = f"the handler of {state.name} failed: {type(error).__name__}: {error}"
        completed = StateCompleted(state.name, Event.FATAL_ERROR, Changes(error=why))
    return replace(completed, usage=llm.usage, at=at())


def _completed(
    state: CustomState, before: AgentMemory, after: AgentMemory, event: str
) -> StateCompleted:
    notes = _notes(before, after)
    if notes:
        after = replace(after, transcript=before.transcript)
    check_ownership(state.name, before, after, frozenset(state.owns))
    changed = {
        name: getattr(after, name)
        for name in WRITABLE
        if getattr(after, name) != getattr(before, name)
    }
    if "extra" in changed:
        changed["extra"] = dict(changed["extra"])
        _refuse_foreign(changed["extra"], "extra")
    new = after.trace[len(before.trace) :]
    logged = tuple(Logged(entry.event, entry.data) for entry in new)
    completed = StateCompleted(state.name, str(event), Changes(**changed), logged, notes)
    encode_entry(completed)  # what cannot be stored is the handler's fault, said as such
    return completed


def _notes(before: AgentMemory, after: AgentMemory) -> tuple[str, ...]:
    """What it tells the model by `memory.tell`; nothing if it wrote the transcript otherwise."""
    if not after.transcript.begins_with(before.transcript):
        return ()
    new = after.transcript[len(before.transcript) :]
    is_told = all(message == Message.note(message.content) for message in new)
    return tuple(message.content for message in new) if is_told else ()


def _refuse_foreign(value: object, place: str) -> None:
    """Raise for what would come back from the journal as something else than what went in."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"memory.{place} has the key {key!r}, and JSON has only texts")
            _refuse_foreign(item, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_foreign(item, f"{place}[{index}]")
    elif not _is_sayable(value):
        raise TypeError(f"memory.{place} is {value!r}, which JSON cannot say")


def _is_sayable(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
    return value is None or isinstance(value, str)
