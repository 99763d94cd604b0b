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
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.core.actions import RefuseCall
from treadle.core.approval import NO_SCOPE, NeverAsk, OnlyRead
from treadle.core.budget import estimate_request_usage
from treadle.core.call_decision import decide_call, reject_call
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import CallAssessed, LlmEvent
from treadle.core.llm import LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import WRITABLE, CustomState, MemoryChanges, StateCompleted, TraceLine
from treadle.core.task.memory import FIELDS, AgentMemory, check_ownership
from treadle.core.task.table import Event
from treadle.core.tools import (
    Access,
    Outcome,
    ToolExecutionStatus,
)
from treadle.errors import (
    AgentError,
    BudgetExceeded,
    BuildError,
    HandlerFailed,
    OwnershipViolation,
)
from treadle.runtime.calls import (
    CallLimit,
    call_model,
    find_redaction_refusal,
    is_bug,
    prepare_outcome,
    reject_blacklisted,
    run_call,
)
from treadle.runtime.ports import Provider, Tools
from treadle.thread.codec import encode_entry
from treadle.thread.record import replace_surrogates

_log = logging.getLogger("treadle.runtime")

PLACES_MAX: Final = 20
FAULT_LENGTH_MAX: Final = 2_000
"""What is recorded of an exception: so many places, innermost, and so many characters of it."""

_INTEGER_LIMIT: Final = 2**63
"""Integers of records have 64 bits."""

HandlerResult: TypeAlias = str | tuple[AgentMemory, str]
Handler: TypeAlias = Callable[..., HandlerResult | Awaitable[HandlerResult]]


class HandlerTools:
    """The tools, for an asynchronous handler."""

    def __init__(
        self,
        tools: Tools,
        key: str,
        settings: AgentConfig,
        memory: AgentMemory,
        redact: Callable[[str], str],
    ) -> None:
        self._tools = tools
        self._key = key
        # What a program calls in a state of its own is asked about only where its tool says so.
        is_bound = isinstance(settings.approval, OnlyRead)
        self._settings = settings if is_bound else replace(settings, approval=NeverAsk())
        self._blacklist = memory.blacklisted_tools
        self._redact = redact
        self._count = 0

    async def call(self, tool_name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool to its outcome; never raises for anything the call does."""
        self._count += 1
        key = f"{self._key}:{self._count}"
        call = ToolCall(key, tool_name, msgspec.json.encode(dict(arguments)).decode())
        outcome = self._find_refusal(call)
        if outcome is None:
            limit = CallLimit(self._settings.tool_timeout_s)
            outcome = await run_call(self._tools, call, key, limit, lambda _: None)
        return await prepare_outcome(outcome, key, self._redact)

    def _find_refusal(self, call: ToolCall) -> Outcome | None:
        if call.tool_name in self._blacklist:
            return reject_blacklisted(call)
        scope = self._tools.scope_of(call)
        if scope is not None and scope.refused:
            return reject_call(call.id, scope.refused)
        event = CallAssessed(call.id, self._tools.risk_of(call), scope, may_ask=False)
        round_ = [(call, ToolExecutionStatus.Pending(call.id, call.tool_name))]
        decision = decide_call(self._settings, round_, (), event)
        action = None if decision is None else decision.make_action(call.id)
        if isinstance(action, RefuseCall):
            return action.outcome
        access = self._settings.access_of(call, scope or NO_SCOPE)
        redact = self._redact if access is Access.NETWORK else str
        return None if access is Access.READ else find_redaction_refusal(call, redact)


class HandlerLlm:
    """The model, for an asynchronous handler; what it uses counts against the budget."""

    def __init__(
        self,
        provider: Provider,
        settings: AgentConfig,
        memory: AgentMemory,
        redact: Callable[[str], str],
    ) -> None:
        self._provider = provider
        self._settings = settings
        self._memory = memory
        self._redact = redact
        self.usage: Usage | None = None

    async def ask(
        self, messages: Iterable[Message], *, system: str = "", model: str = ""
    ) -> LlmResponse:
        """One answer, without tools.

        Raises:
            BudgetExceeded: it was not asked; left alone, this ends the task.
            AgentError: the model did not answer; left alone, it stops the task, to be resumed.
        """
        self._check_budget()
        settings, sent = self._settings, [*map(self._redact_message, messages)]
        request = LlmRequest(
            model or settings.model_name,
            Conversation(sent),
            system=self._redact(replace_surrogates(system)),
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            reasoning=settings.reasoning,
        )
        silence_s_max = settings.llm_timeout_s
        event = await call_model(self._provider, request, silence_s_max, lambda _: None)
        if isinstance(event, LlmEvent.Error):
            self._count_usage(event.error.usage)
            raise AgentError(event.error.text, hint=event.error.advice)
        response = event.response
        self._count_usage(response.usage or estimate_request_usage(request, response.message))
        return response

    def _check_budget(self) -> None:
        """What this handler has used counts already, though it is recorded only at its end."""
        memory = self._memory
        if memory.budget is not None:
            used = memory.total_usage + (self.usage or Usage())
            _, why = memory.budget.find_exceeded_limit(used, memory.elapsed_s)
            if why:
                raise BudgetExceeded(why)

    def _redact_message(self, message: Message) -> Message:
        calls = tuple(
            replace(call, arguments_json=self._redact(replace_surrogates(call.arguments_json)))
            for call in message.tool_calls
        )
        content = self._redact(replace_surrogates(message.content))
        return replace(message, content=content, tool_calls=calls)

    def _count_usage(self, used: Usage | None) -> None:
        if used is not None:
            self.usage = used if self.usage is None else self.usage + used


def get_handler_function(name: str, handler: Any) -> Handler:
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
    redact: Callable[[str], str],
) -> StateCompleted:
    """Run it to its event, which does not say yet when it was.

    An exception in it is the event `FatalError`, with `memory.error`, where the graph says what
    comes of that, and for a budget that is used up.

    Raises:
        OwnershipViolation: it wrote what its state does not own; nothing was recorded.
        HandlerFailed: it raised, or said no event; nothing was recorded.
    """
    try:
        given = replace(memory, extra=_copy_extra(memory.extra))
        result: Any = (
            await handler(given, tools, llm, output)
            if inspect.iscoroutinefunction(handler)
            else handler(given)
        )
        after, event = result if isinstance(result, tuple) else (given, result)
        if not isinstance(after, AgentMemory) or not isinstance(event, str):
            raise TypeError(f"it returned {result!r}, no event")
        completed = _make_completed_event(state, memory, after, event)
    except OwnershipViolation:
        raise
    except BaseException as error:
        if not is_bug(error):
            raise
        _log.exception("the handler of %s raised", state.name)
        # Redacted whole: half a secret would be none to whoever looks for it.
        told = replace_surrogates(f"{type(error).__name__}{_describe_exception(error)}")
        fault = " ".join(redact(told).splitlines())[:FAULT_LENGTH_MAX]
        failed = HandlerFailed(state.name, fault, _describe_place(error, fault))
        if not isinstance(error, BudgetExceeded) and not _expects_failure(memory, state.name):
            raise failed from error
        changes = MemoryChanges(error=failed.message)
        completed = StateCompleted(state.name, Event.FATAL_ERROR, changes)
    return replace(completed, usage=llm.usage)


def _expects_failure(memory: AgentMemory, state: str) -> bool:
    """Whether the graph says where a failure of this state leads."""
    rows = () if memory.graph is None else memory.graph.rows
    return any((state, Event.FATAL_ERROR) == (row[0], row[1]) for row in rows)


def _make_completed_event(
    state: CustomState, before: AgentMemory, after: AgentMemory, event: str
) -> StateCompleted:
    notes = _list_notes(before, after)
    if notes:
        after = replace(after, transcript=before.transcript)
    check_ownership(state.name, before, after, frozenset(state.owns))
    _refuse_unrecordable(state, before, after)
    changed = {
        name: getattr(after, name)
        for name in WRITABLE
        if getattr(after, name) != getattr(before, name)
    }
    if "extra" in changed:
        changed["extra"] = dict(changed["extra"])
        _check_json_value(changed["extra"], "extra")
    new = after.trace[len(before.trace) :]
    logged = tuple(
        TraceLine(entry.event, entry.data, "" if entry.state == state.name else entry.state)
        for entry in new
    )
    completed = StateCompleted(state.name, str(event), MemoryChanges(**changed), logged, notes)
    encode_entry(completed)  # what cannot be stored is the handler's fault, said as such
    return completed


def _copy_extra(extra: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, all the way down, that a handler may write into: what it holds came from JSON.

    What it changes in place is compared with the original like everything else it changes.
    """
    return msgspec.json.decode(msgspec.json.encode(dict(extra)), type=dict[str, Any])


def _refuse_unrecordable(state: CustomState, before: AgentMemory, after: AgentMemory) -> None:
    """Raise for a change that no event can say, also where a built-in state may make it."""
    for name in FIELDS:
        if name in WRITABLE or name == "trace":
            continue
        if getattr(after, name) != getattr(before, name):
            raise OwnershipViolation(state.name, name, ["built-in states only"])


def _list_notes(before: AgentMemory, after: AgentMemory) -> tuple[str, ...]:
    """What it tells the model by `memory.tell`; nothing if it wrote the transcript otherwise."""
    if not after.transcript.starts_with(before.transcript):
        return ()
    new = after.transcript[len(before.transcript) :]
    is_told = all(message == Message.note(message.content) for message in new)
    return tuple(message.content for message in new) if is_told else ()


def _check_json_value(value: object, place: str) -> None:
    """Raise for what would come back from the journal as something else than what went in."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"memory.{place} has the key {key!r}, and JSON has only texts")
            _check_json_value(item, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_json_value(item, f"{place}[{index}]")
    elif not _is_json_scalar(value):
        raise TypeError(f"memory.{place} is {value!r}, which JSON cannot say")


def _is_json_scalar(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
    return value is None or isinstance(value, str)


def _describe_place(error: BaseException, fault: str) -> str:
    """Where it was raised, the innermost place last, and what; no values of variables."""
    frames = traceback.extract_tb(error.__traceback__)[1:][-PLACES_MAX:]
    places = [f"{one.filename}:{one.lineno} in {one.name}" for one in frames]
    return "\n".join([*places, fault])


def _describe_exception(error: BaseException) -> str:
    """What an exception says of itself, which may raise as well."""
    try:
        return f": {error}"
    except (Exception, SystemExit):  # noqa: BLE001  its kind has to do
        return ""
