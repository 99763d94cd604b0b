"""The conversation machine: asks a handler, then does as the row of `TRANSITIONS` says.

What is decided here and not in the source document, with the reason:

- Results enter the conversation when all calls of a round are done, in request order, so that every
  request has each call followed by exactly one result (otherwise providers refuse the session).
- A call id that is empty or was used before gets a fresh one, for the same reason.
- A cancel answers the calls that are open, and keeps the text streamed so far.
- No call of a round runs before a person has decided about all that need a yes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

from msgspec.structs import replace

from treadle.core.actions import (
    WAIT,
    AgentAction,
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    MaskResults,
    RequestApproval,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    Summarize,
    WaitForInput,
)
from treadle.core.approval import Question
from treadle.core.branch_join import join_messages
from treadle.core.chat.handlers import CHAT_HANDLERS, ChatHandler, Move, build_request
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    CompactionCause,
    Error,
    ExecutingTools,
    PostToolsHook,
    ShuttingDown,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.chat.table import TRANSITIONS, Guard, Row
from treadle.core.compaction import (
    RESULT_SIZE_MAX,
    build_summary_request,
    compute_user_text_size,
    find_mask_end,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import AgentEvent, ApprovalDecided, CompactionRequested, name_of
from treadle.core.executions import drop_approvals, drop_question_scopes, pair_calls
from treadle.core.machine import Retry
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import Status, ToolExecutionStatus

_log = logging.getLogger("treadle.chat")

_ActionFunction: TypeAlias = Callable[[AgentConfig, Any, Any], AgentAction]
"""(configuration, state entered, event) -> action."""


class ConversationMachine:
    """A person talks with the agent; the source document's `Agent`. A `core.machine.Machine`.

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

    @property
    def state_name(self) -> str:
        """The current state, as people read it."""
        return type(self._state).__name__

    @property
    def conversation(self) -> Conversation:
        """All messages so far; none when the machine shuts down."""
        state = self._state
        return Conversation() if isinstance(state, ShuttingDown) else state.conversation

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be done until a person says something."""
        return isinstance(self._state, WaitingForUserInput | WaitingForApproval)

    @property
    def round(self) -> tuple[tuple[ToolCall, Status], ...]:
        """The calls that run or ran in this round, as they are to be run, in request order."""
        state = self._state
        if not isinstance(state, ExecutingTools):
            return ()
        return pair_calls(state.conversation, state.executions)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word."""
        return self._state.questions if isinstance(self._state, WaitingForApproval) else ()

    @property
    def retry(self) -> Retry | None:
        """What the retry timer is to wait for, if it is to run."""
        state = self._state
        return Retry(state.error, state.delay_s) if isinstance(state, Error) else None

    @property
    def parallel_max(self) -> int:
        """How many calls of a round may run at a time; 0 is no bound."""
        return self._config.parallel_max

    def with_state(self, state: AgentState) -> Self:
        """A machine of the same configuration in another state; this one stays as it is."""
        other = type(self)(self._config, thread_id=self._thread_id)
        other._state = state
        return other

    def fork(self, thread_id: str) -> Self:
        """The machine of a fork, where nobody has allowed anything; this one stays as it is."""
        other = type(self)(self._config.without_grants(), thread_id=thread_id)
        state = self._state
        if isinstance(state, ExecutingTools | WaitingForApproval):
            state = replace(state, executions=drop_approvals(state.executions))
        if isinstance(state, WaitingForApproval):
            state = replace(state, questions=drop_question_scopes(state.questions))
        other._state = state
        return other

    def join_messages(self, messages: Sequence[Message]) -> Self | None:
        """The machine after messages of another branch have joined; this one stays as it is.

        `None` while something is open: nothing may come between a call and its result.
        """
        state = self._state
        if not isinstance(state, WaitingForUserInput):
            return None
        return self.with_state(WaitingForUserInput(join_messages(state.conversation, messages)))

    def with_config(self, config: AgentConfig) -> Self:
        """A machine in the same state with another configuration; this one stays as it is.

        A request that waits for the hook is built anew, so that it is the one that will be sent.
        """
        other = type(self)(config, thread_id=self._thread_id)
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
        found = self._find_move(type(event), state, event)
        if found is None:
            _log.warning(
                "%s: %s refuses %s; nothing changed",
                self._thread_id,
                type(state).__name__,
                name_of(type(event)),
            )
            return WAIT
        move, act, row = found
        if row.to is not row.state and row.to in _PASSED_STATES:
            inner = self._find_move(None, move.state, event)
            if inner is not None:
                move, act, _ = inner
        action = move.action
        if action is None:
            assert act is not None, f"_ACTION_FUNCTIONS lacks the action of {row}"
            action = act(self._config, move.state, event)
        after = self._state = move.state
        if _log.isEnabledFor(logging.INFO):
            level = logging.DEBUG if row.state is row.to else logging.INFO
            _log.log(level, "%s", _TransitionLogLine(self._thread_id, state, event, after, action))
        return action

    def _find_move(
        self, kind: type[AgentEvent] | None, state: AgentState, event: AgentEvent
    ) -> tuple[Move, _ActionFunction | None, Row] | None:
        """What comes of an event, by an internal row if no `kind` is given; `None` if nothing."""
        found = _INDEX.get((type(state), kind))
        if found is None:
            return None
        handler, rows = found
        move = handler(self._config, state, event)
        if move is None:
            return None
        assert move.guard in rows, f"table.py lacks a row of {kind} in {state} for {move.guard}"
        act, row = rows[move.guard]
        assert type(move.state) is row.to, row
        return move, act, row

    def obligations(self) -> AgentAction:
        """The action that must be in flight in this state; recovery performs it.

        In `Error` it is `WaitForInput`, with the retry timer of `delay_s` armed again.
        """
        act = _OBLIGATION_FUNCTIONS.get(type(self._state), _make_wait_action)
        return act(self._config, self._state, None)


class _TransitionLogLine:
    """One log line, put together only when somebody reads it."""

    __slots__ = ("_values",)

    def __init__(self, thread_id: str, *parts: Any) -> None:
        self._values = (thread_id, *parts)

    def __str__(self) -> str:
        thread_id, state, event, after, action = self._values
        names = [name_of(type(part)) for part in (state, event, after, action)]
        return "{}: {} --{}--> {} / {}".format(thread_id or "-", *names)


# ---- actions, from the state just entered ------------------------------------------------------


def _make_wait_action(_: AgentConfig, __: AgentState, ___: object) -> WaitForInput:
    return WAIT


def _make_send_action(config: AgentConfig, state: CallingLlm, _: object) -> SendLlmRequest:
    return SendLlmRequest(build_request(config, state.conversation))


def _make_execute_action(_: AgentConfig, state: ExecutingTools, __: object) -> ExecuteTools:
    done = ToolExecutionStatus.Completed
    round_ = pair_calls(state.conversation, state.executions)
    return ExecuteTools(tuple(call for call, status in round_ if not isinstance(status, done)))


def _make_approval_action(
    _: AgentConfig, state: WaitingForApproval, event: AgentEvent | None
) -> RequestApproval:
    """All that is open; after a change that raised the risk of a call, what is asked anew."""
    if not isinstance(event, ApprovalDecided):
        return RequestApproval(state.questions)
    return RequestApproval(tuple(q for q in state.questions if q.call.id == event.call_id))


def _make_summarize_action(config: AgentConfig, state: Compacting, _: object) -> Summarize:
    conversation, did_not_fit = state.conversation, state.cause is CompactionCause.TOO_LONG
    due = None if did_not_fit else build_request(config, conversation)
    request = build_summary_request(config, conversation, state.through, state.focus, due)
    words = compute_user_text_size(config, conversation, is_too_long=did_not_fit)
    return Summarize(request, state.through, words)


def _make_mask_action(_: AgentConfig, state: Compacting, __: object) -> MaskResults:
    return MaskResults(find_mask_end(state.conversation), RESULT_SIZE_MAX)


def _make_compaction_action(
    config: AgentConfig, state: Compacting, event: object
) -> MaskResults | Summarize:
    """What makes room: as the row says that led here."""
    is_asked = state.cause is CompactionCause.REQUESTED
    if not is_asked and find_mask_end(state.conversation):
        return _make_mask_action(config, state, event)
    return _make_summarize_action(config, state, event)


def _make_error_action(_: AgentConfig, __: AgentState, event: Any) -> DisplayError:
    if isinstance(event, CompactionRequested):
        return DisplayError("there is nothing to compact")
    return DisplayError(f"{event.error.text}; {event.error.advice}")


def _make_hook_action(_: AgentConfig, state: PostToolsHook, __: object) -> RunPostToolsHook:
    return RunPostToolsHook(state.completed_tools)


def _make_shutdown_action(_: AgentConfig, __: AgentState, ___: object) -> Shutdown:
    return Shutdown()


_ACTION_FUNCTIONS: Final[Mapping[type, _ActionFunction]] = {
    SendLlmRequest: _make_send_action,
    ExecuteTools: _make_execute_action,
    RunPostToolsHook: _make_hook_action,
    WaitForInput: _make_wait_action,
    DisplayMessage: lambda _, __, event: DisplayMessage(event.content),
    DisplayError: _make_error_action,
    Shutdown: _make_shutdown_action,
    RequestApproval: _make_approval_action,
    Summarize: _make_summarize_action,
    MaskResults: _make_mask_action,
}

_OBLIGATION_FUNCTIONS: Final[Mapping[type, _ActionFunction]] = {
    CallingLlm: _make_send_action,
    ExecutingTools: _make_execute_action,
    PostToolsHook: _make_hook_action,
    ShuttingDown: _make_shutdown_action,
    WaitingForApproval: _make_approval_action,
    Compacting: _make_compaction_action,
}


# ---- the table, compiled for look-up -----------------------------------------------------------

_CompiledRows: TypeAlias = dict[Guard | None, tuple[_ActionFunction | None, Row]]
"""The rows of a pair by their guards, each with what makes its action of the state entered."""


def _compile_table() -> dict[tuple[type, type | None], tuple[ChatHandler, _CompiledRows]]:
    index = {pair: (handler, _CompiledRows()) for pair, handler in CHAT_HANDLERS.items()}
    for row in TRANSITIONS:
        act = None if row.action is None else _ACTION_FUNCTIONS.get(row.action)
        assert (row.state, row.event) in index, f"CHAT_HANDLERS of handlers.py lacks that of {row}"
        index[row.state, row.event][1][row.guard] = act, row
    return index


_INDEX: Final = _compile_table()
_PASSED_STATES: Final = frozenset(row.state for row in TRANSITIONS if row.event is None)
"""Those that may be left in the very step in which they are entered."""
