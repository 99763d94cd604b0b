"""The conversation machine: looks a row up in `TRANSITIONS`, then computes its content.

What is decided here and not in the source document, with the reason:

- Results enter the conversation when all calls of a round are done, in request order, so that every
  request has each call followed by exactly one result (otherwise providers refuse the session).
- A call id that is empty or was used before gets a fresh one, for the same reason.
- A cancel answers the calls that are open, and keeps the text streamed so far.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle.core.actions import (
    WAIT,
    AgentAction,
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    WaitForInput,
)
from treadle.core.chat.guards import TESTS, Test
from treadle.core.chat.moves import ENTER, Enter, build_request
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    ExecutingTools,
    PostToolsHook,
    ShuttingDown,
    WaitingForUserInput,
)
from treadle.core.chat.table import TRANSITIONS, Row
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import AgentEvent, name_of
from treadle.core.tools import ToolExecutionStatus

_log = logging.getLogger("treadle.chat")

_Act: TypeAlias = Callable[[AgentConfig, Any, Any], AgentAction]
"""(configuration, state entered, event) -> action."""


class ConversationMachine:
    """A person talks with the agent; the source document's `Agent`.

    Args:
        config: limits, model, tools; what requests are made of.
        thread_id: named in log lines only.
    """

    __slots__ = ("_config", "_state", "_thread_id")

    def __init__(self, config: AgentConfig, *, thread_id: str = "") -> None:
        self._config = config
        self._thread_id = thread_id
        self._state: AgentState = WaitingForUserInput(Conversation())

    @property
    def state(self) -> AgentState:
        """The current state; immutable."""
        return self._state

    @property
    def config(self) -> AgentConfig:
        """What this machine was made with."""
        return self._config

    def with_state(self, state: AgentState) -> ConversationMachine:
        """A machine of the same configuration in another state; this one stays as it is."""
        other = ConversationMachine(self._config, thread_id=self._thread_id)
        other._state = state
        return other

    def with_config(self, config: AgentConfig) -> ConversationMachine:
        """A machine in the same state with another configuration; this one stays as it is.

        A request that waits for the hook is built anew, so that it is the one that will be sent.
        """
        other = ConversationMachine(config, thread_id=self._thread_id)
        state = self._state
        if isinstance(state, PostToolsHook):
            request = build_request(config, state.conversation)
            state = replace(state, pending_llm_request=request)
        other._state = state
        return other

    def handle_event(self, event: AgentEvent) -> AgentAction:
        """Move as the table says; refuse, with a warning and `WaitForInput`, what it lacks.

        Never raises on a legal or an illegal event, performs nothing, takes no time from a clock.
        """
        state = self._state
        for guard, enter, act, row in _INDEX.get((type(state), type(event)), ()):
            if guard is None or guard(self._config, state, event):
                after = enter(self._config, state, event)
                if act is None:
                    after, act = self._examine(after, event)
                action = act(self._config, after, event)
                self._state = after
                if _log.isEnabledFor(logging.INFO):
                    level = logging.DEBUG if row.state is row.to else logging.INFO
                    _log.log(level, "%s", _Move(self._thread_id, state, event, after, action))
                return action
        _log.warning(
            "%s: %s refuses %s; nothing changed",
            self._thread_id,
            type(state).__name__,
            name_of(type(event)),
        )
        return WAIT

    def _examine(self, state: AgentState, event: AgentEvent) -> tuple[AgentState, _Act]:
        """Take the internal row of a state that is never seen from outside."""
        for guard, enter, act, _ in _INDEX[type(state), None]:
            if act is not None and (guard is None or guard(self._config, state, event)):
                return enter(self._config, state, event), act
        raise AssertionError(f"no internal row for {type(state).__name__}")

    def obligations(self) -> AgentAction:
        """The action that must be in flight in this state; recovery performs it.

        In `Error` it is `WaitForInput`, with the retry timer of `delay_s` armed again.
        """
        act = _OBLIGATION.get(type(self._state), _wait)
        return act(self._config, self._state, None)


class _Move:
    """One log line, put together only when somebody reads it."""

    __slots__ = ("_parts",)

    def __init__(self, thread_id: str, *parts: Any) -> None:
        self._parts = (thread_id, *parts)

    def __str__(self) -> str:
        thread_id, state, event, after, action = self._parts
        names = [name_of(type(part)) for part in (state, event, after, action)]
        return "{}: {} --{}--> {} / {}".format(thread_id or "-", *names)


# ---- actions, from the state just entered ------------------------------------------------------


def _wait(_: AgentConfig, __: AgentState, ___: AgentEvent | None) -> WaitForInput:
    return WAIT


def _send(config: AgentConfig, state: CallingLlm, _: AgentEvent | None) -> SendLlmRequest:
    return SendLlmRequest(build_request(config, state.conversation))


def _execute(_: AgentConfig, state: ExecutingTools, __: AgentEvent | None) -> ExecuteTools:
    calls = state.conversation[-1].tool_calls
    return ExecuteTools(
        tuple(
            call
            for call, status in zip(calls, state.executions, strict=True)
            if not isinstance(status, ToolExecutionStatus.Completed)
        )
    )


def _run_hook(_: AgentConfig, state: PostToolsHook, __: AgentEvent | None) -> RunPostToolsHook:
    return RunPostToolsHook(state.completed_tools)


def _shutdown(_: AgentConfig, __: AgentState, ___: AgentEvent | None) -> Shutdown:
    return Shutdown()


_ACT: Final[Mapping[type, _Act]] = {
    SendLlmRequest: _send,
    ExecuteTools: _execute,
    RunPostToolsHook: _run_hook,
    WaitForInput: _wait,
    DisplayMessage: lambda _, __, event: DisplayMessage(event.content),
    DisplayError: lambda _, __, event: DisplayError(f"{event.error.text}; {event.error.advice}"),
    Shutdown: _shutdown,
}

_OBLIGATION: Final[Mapping[type, _Act]] = {
    CallingLlm: _send,
    ExecutingTools: _execute,
    PostToolsHook: _run_hook,
    ShuttingDown: _shutdown,
}


# ---- the table, compiled for look-up -----------------------------------------------------------

_Compiled = tuple[Test | None, Enter, _Act | None, Row]


def _compile() -> dict[tuple[type, type | None], tuple[_Compiled, ...]]:
    index: dict[tuple[type, type | None], tuple[_Compiled, ...]] = {}
    for row in TRANSITIONS:
        enter = ENTER[row.state, row.event, row.to]
        test = None if row.guard is None else TESTS[row.guard]
        act = None if row.action is None else _ACT[row.action]
        key = (row.state, row.event)
        index[key] = (*index.get(key, ()), (test, enter, act, row))
    return index


_INDEX: Final = _compile()
