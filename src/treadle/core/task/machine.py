"""The task machine: calls the handler of its state, looks the event up in the table, goes on.

One event in, one action out. After each handler the machine compares memory field by field with
what the handler was given (`check_ownership`). What the machine itself writes: the clock, the
number of moves, and the error of a run that it has to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from treadle.core.actions import WAIT, AgentAction, RunState
from treadle.core.approval import Question
from treadle.core.budget import seconds_between
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import AgentEvent, LlmEvent, ShutdownRequested, ToolProgressEvent, name_of
from treadle.core.executions import drop_approvals, drop_question_scopes
from treadle.core.llm import LlmError
from treadle.core.machine import Retry
from treadle.core.messages import Message, ToolCall
from treadle.core.task.calls import append_missing_results, list_step_calls, reconcile_approvals
from treadle.core.task.events import (
    WRITABLE,
    CustomState,
    StateCompleted,
    StateFailed,
    TaskEvent,
    TaskGiven,
    TaskResumed,
    TimeRanOut,
)
from treadle.core.task.graph import build_graph_table
from treadle.core.task.handler import (
    Handler,
    HandlerContext,
    StateResult,
    add_usage,
    stop_out_of_time,
    stop_over_budget,
)
from treadle.core.task.handlers import HANDLERS
from treadle.core.task.memory import AgentMemory, History, check_ownership
from treadle.core.task.request import choose_task_model
from treadle.core.task.table import Event, State, TransitionTable, build_transition_table
from treadle.core.task.trace import Trace
from treadle.core.tools import Status

_log = logging.getLogger("treadle.task")

_IGNORED_EVENTS: Final = (
    LlmEvent.TextDelta,
    LlmEvent.ThinkingDelta,
    LlmEvent.ToolCallDelta,
    ToolProgressEvent,
    ShutdownRequested,
)
"""Shown and forgotten; shutting down is about the process."""

_IDLE: Final = str(State.IDLE)
_ERROR: Final = str(State.ERROR)
_ROUND_STATES: Final = (State.ACTING, State.PARALLEL_ACTING)


class TaskState(Struct, frozen=True):
    """Where the machine stands, and what it knows: all of its state."""

    name: str = _IDLE
    memory: AgentMemory = AgentMemory()


class TaskMachine:
    """A task runs by itself from `Idle` to `Done` or `Error`.

    Args:
        config: what requests are made of, and which calls need a person's yes.
        thread_id: named in log lines only.
        handlers: those of the built-in states.
    """

    __slots__ = ("_config", "_custom", "_handlers", "_path", "_state", "_table", "_thread_id")

    def __init__(
        self,
        config: AgentConfig,
        *,
        thread_id: str = "",
        handlers: Mapping[str, Handler] = HANDLERS,
    ) -> None:
        self._config = config
        self._thread_id = thread_id
        self._handlers = handlers
        self._path: tuple[str, ...] = ()
        self._state = TaskState()
        self._read_graph()

    def _read_graph(self) -> None:
        graph = self._state.memory.graph
        self._custom: dict[str, CustomState] = {}
        self._table = build_transition_table()
        if graph is not None:
            self._table = build_graph_table(graph)
            self._custom = {state.name: state for state in graph.states}

    def _copy_with(self, config: AgentConfig, state: TaskState) -> TaskMachine:
        other = TaskMachine(config, thread_id=self._thread_id, handlers=self._handlers)
        other._state = state
        other._read_graph()
        return other

    def with_state(self, state: TaskState) -> TaskMachine:
        """A machine of the same configuration in another state; this one stays as it is."""
        return self._copy_with(self._config, state)

    def fork(self, thread_id: str) -> TaskMachine:
        """The machine of a fork, where nobody has allowed anything; this one stays as it is."""
        memory = self._state.memory
        memory = replace(memory, executions=drop_approvals(memory.executions))
        if (pending := memory.pending_approval) is not None:
            pending = replace(pending, open=drop_question_scopes(pending.open))
            memory = replace(memory, pending_approval=pending)
        config = self._config.without_grants()
        other = self._copy_with(config, replace(self._state, memory=memory))
        other._thread_id = thread_id
        return other

    def with_config(self, config: AgentConfig) -> TaskMachine:
        """A machine in the same state with another configuration; this one stays as it is."""
        return self._copy_with(config, self._state)

    # ---- what it is ----------------------------------------------------------------------------

    @property
    def config(self) -> AgentConfig:
        """What requests are made of."""
        return self._config

    @property
    def state(self) -> TaskState:
        """The current state; immutable."""
        return self._state

    @property
    def state_name(self) -> str:
        """The current state, as people read it."""
        return self._state.name

    @property
    def memory(self) -> AgentMemory:
        """All that the agent knows."""
        return self._state.memory

    @property
    def table(self) -> TransitionTable:
        """The transitions, those of a custom graph included."""
        return self._table

    @property
    def custom_states(self) -> Mapping[str, CustomState]:
        """The states that a program has to run, by name."""
        return self._custom

    @property
    def model_name(self) -> str:
        """The model that this kind of task asks for; empty for the provider's default."""
        return choose_task_model(self._state.memory, self._config)

    @property
    def is_over(self) -> bool:
        """Whether the task has ended, for ever."""
        return self._table.is_terminal(self._state.name)

    @property
    def path(self) -> tuple[str, ...]:
        """The states that the last event led into, in order."""
        return self._path

    @property
    def conversation(self) -> Conversation:
        """All messages so far."""
        return self._state.memory.transcript

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be done until a task comes, a person decides, or for ever."""
        is_blank = not self._state.memory.transcript
        return is_blank or self.is_over or bool(self.questions) or self.suspension_error is not None

    @property
    def suspension_error(self) -> LlmError | None:
        """Why no model answers for now, if the task waits to be resumed for that."""
        failure = self._state.memory.failed_request
        if failure is None or not failure.is_given_up or not self._is_built_in(State.PLANNING):
            return None
        return failure.error

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word."""
        pending = self._state.memory.pending_approval
        is_here = self._is_built_in(State.WAITING_FOR_HUMAN) and pending is not None
        return pending.open if is_here and pending is not None else ()

    @property
    def round(self) -> tuple[tuple[ToolCall, Status], ...]:
        """The calls that run or ran in this round, as they are to be run, in request order."""
        if not any(map(self._is_built_in, _ROUND_STATES)):
            return ()
        memory = self._state.memory
        return tuple(zip(list_step_calls(memory, self._state.name), memory.executions, strict=True))

    @property
    def retry(self) -> Retry | None:
        """What the retry timer is to wait for, if it is to run."""
        failure = self._state.memory.failed_request
        if failure is None or not failure.is_waiting or not self._is_built_in(State.PLANNING):
            return None
        if failure.is_given_up:
            return None
        return Retry(failure.error, failure.delay_s)

    @property
    def parallel_max(self) -> int:
        """How many calls of a round may run at a time; 0 is no bound."""
        return self._config.parallel_max if self._state.memory.config.parallel_tools else 1

    def obligations(self) -> AgentAction:
        """The action that must be in flight in this state; recovery performs it.

        While a failed request waits it is `WaitForInput`, with the timer of `retry` armed again.
        """
        name, memory = self._state.name, self._state.memory
        if not memory.transcript or self.is_over:
            return WAIT
        handler = self._find_handler(name)
        return RunState(name) if handler is None else handler.owed(memory, self._context)

    def _is_built_in(self, state: State) -> bool:
        return self._state.name == state and state not in self._custom

    def _find_handler(self, name: str) -> Handler | None:
        """The built-in handler of a state; `None` if a custom one has to run."""
        return None if name in self._custom else self._handlers.get(name)

    @property
    def _context(self) -> HandlerContext:
        return HandlerContext(self._config)

    # ---- what happens --------------------------------------------------------------------------

    def handle_event(self, event: AgentEvent | TaskEvent) -> AgentAction:
        """Let the handlers move, until an action or a terminal state comes out.

        An event that does not fit changes nothing: a warning is logged, the action is
        `WaitForInput`.

        Raises:
            InvalidTransition: the handler of a custom state says an event that the table lacks.
            OwnershipViolation: a handler wrote what its state does not own.
                Nothing has moved after either; `check` tells before.
        """
        self._path = ()
        if isinstance(event, _IGNORED_EVENTS):
            return WAIT
        before = self._state
        moved = (
            self._begin_task(event) if isinstance(event, TaskGiven) else self._apply_event(event)
        )
        if moved is None:
            _log.warning(
                "%s: %s refuses %s; nothing changed",
                self._thread_id,
                before.name,
                name_of(type(event)),
            )
            return WAIT
        self._state, self._path, action = moved
        if isinstance(event, TaskGiven):
            self._read_graph()
        if self._path and _log.isEnabledFor(logging.INFO):
            way = ", ".join(self._path)
            names = (before.name, name_of(type(event)), way, name_of(type(action)))
            _log.info("%s: %s --%s--> %s / %s", self._thread_id or "-", *names)
        return action

    def check_completed_state(self, event: StateCompleted) -> None:
        """Whether what a custom handler returned can be; to be asked before it is recorded.

        Raises:
            InvalidTransition: the table has no row for its event in this state.
            OwnershipViolation: it wrote what its state does not own.
        """
        name, memory = self._state.name, self._state.memory
        owns = {*self._custom[name].owns} if name in self._custom else set[str]()
        if event.event == Event.FATAL_ERROR:
            owns.add("error")  # a state that fails may say why
        after = replace(memory, **_collect_changes(event))
        check_ownership(name, memory, after, frozenset(owns))
        self._table.target(name, event.event)

    def _begin_task(self, event: TaskGiven) -> _MachineStep | None:
        if self._state.memory.transcript:
            return None
        memory = AgentMemory(
            task=event.task,
            task_type=event.task_type,
            system_prompt=event.system_prompt,
            budget=event.budget,
            config=event.config,
            blacklisted_tools=tuple(sorted(set(event.blacklisted_tools))),
            graph=event.graph,
            history=History(),
            trace=Trace(),
            transcript=Conversation([Message.user(event.task, event.attachments, event.seen)]),
            clock=event.at,
        )
        fresh = self.with_state(TaskState(memory=memory))
        return fresh._follow_transitions(_IDLE, *fresh._enter_state(_IDLE, memory), [_IDLE])

    def _apply_event(self, event: AgentEvent | TaskEvent) -> _MachineStep | None:
        name, memory = self._state.name, self._state.memory
        if not memory.transcript:
            return None
        if isinstance(event, TaskResumed):
            memory = replace(memory, clock=event.at or memory.clock)
            if self.suspension_error is None:
                return TaskState(name, memory), (), WAIT
            planning = self._handlers[State.PLANNING]
            return self._follow_transitions(name, *planning.on(memory, event, self._context), [])
        if self.is_over:
            return None
        now = self._advance_clock(event)
        handler = self._find_handler(name)
        if handler is not None:
            after, result = handler.on(now, event, self._context)
            if result is None and after is now:
                return None
            check_ownership(name, now, after)
            return self._follow_transitions(name, after, result, [])
        if isinstance(event, StateCompleted) and event.state == name:
            self.check_completed_state(event)
            return self._follow_transitions(
                name, _apply_completed_state(now, event), event.event, []
            )
        if isinstance(event, StateFailed) and event.state == name:
            return TaskState(name, _count_fault(add_usage(now, event.usage), event)), (), WAIT
        if isinstance(event, TimeRanOut):
            return self._follow_transitions(
                _ERROR, *self._enter_state(_ERROR, stop_out_of_time(now, name)), [_ERROR]
            )
        return None

    def _advance_clock(self, event: Any) -> AgentMemory:
        """The memory at the time of an event; time at rest does not count as work."""
        memory, at = self._state.memory, getattr(event, "at", "")
        if not at:
            return memory
        passed_s = 0.0 if self.is_at_rest else seconds_between(memory.clock, at)
        elapsed_s = memory.elapsed_s + passed_s
        if isinstance(event, TimeRanOut) and memory.budget is not None:
            # Another clock said so, which may be ahead of that of the records.
            elapsed_s = max(elapsed_s, memory.budget.max_time_s or 0.0)
        # A clock that runs backwards is held at its last value, so that no time counts twice.
        return replace(memory, elapsed_s=elapsed_s, clock=max(memory.clock, at))

    def _enter_state(self, name: str, memory: AgentMemory) -> StateResult:
        handler = self._find_handler(name)
        if handler is None:
            return memory, WAIT if self._table.is_terminal(name) else RunState(name)
        after, result = handler.enter(memory, self._context)
        check_ownership(name, memory, after)
        return after, result

    def _follow_transitions(
        self, name: str, memory: AgentMemory, result: str | AgentAction | None, path: list[str]
    ) -> _MachineStep:
        """From event to event through the table, until a state waits."""
        graph = memory.graph
        while isinstance(result, str):
            name = str(self._table.target(name, result))
            memory = replace(memory, moves=memory.moves + 1)
            if graph is not None and memory.moves > graph.transitions_max:
                text = f"More than {graph.transitions_max} transitions: the graph runs in circles"
                name, memory = _ERROR, replace(memory, error=text)
            elif name in self._custom and (stopped := stop_over_budget(memory, name)) is not None:
                name, memory = _ERROR, stopped
            path.append(name)
            memory, result = self._enter_state(name, memory)
        return TaskState(name, memory), tuple(path), WAIT if result is None else result


_MachineStep = tuple[TaskState, tuple[str, ...], AgentAction]
"""The state reached, the states entered on the way, what the world is to do."""


def _collect_changes(event: StateCompleted) -> dict[str, Any]:
    values = {name: getattr(event.changes, name) for name in WRITABLE}
    return {name: value for name, value in values.items() if value is not UNSET}


def _count_fault(memory: AgentMemory, event: StateFailed) -> AgentMemory:
    """The memory with one more fault of the handler; earlier programs did not say what it was."""
    if not event.error:
        return memory
    memory = memory.log(event.state, "HANDLER_FAILED", event.error.rpartition("\n")[2])
    return replace(memory, faults=memory.faults + 1)


def _apply_completed_state(memory: AgentMemory, event: StateCompleted) -> AgentMemory:
    """The memory with what a custom handler wrote, logged and used."""
    memory = reconcile_approvals(memory, replace(memory, **_collect_changes(event)), event)
    memory = replace(add_usage(memory, event.usage), faults=0)
    for line in event.logged:
        memory = memory.log(line.state or event.state, line.event, line.data)
    if event.notes:
        memory = append_missing_results(memory)  # nothing may stand between calls and their results
    for text in event.notes:
        memory = memory.tell(text)
    return memory
