"""A task that is open for work: it runs by itself to Done or Error, on one thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import AgentAction, RunState
from treadle.core.budget import TokenBudget
from treadle.core.events import ApprovalDecided, LlmEvent
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.task.events import StateFailed, TaskGiven, TaskResumed, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import State
from treadle.core.task.trace import Trace
from treadle.errors import (
    AgentError,
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    InvalidTransition,
    NoHandlerForState,
    OwnershipViolation,
    UsageError,
)
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.driver import Driver
from treadle.runtime.handlers import Handler, HandlerLlm, HandlerTools, run_handler
from treadle.runtime.inbox import StopRequest
from treadle.runtime.turn_timer import shift_time
from treadle.thread.codec import Event
from treadle.thread.facts import TaskEnded
from treadle.thread.record import replace_surrogates


class AgentEngine(Driver):
    """A thread on which an agent works at a task.

    Args:
        *args: as `Driver`; the thread is one of the task machine.
        handlers: of the states of a custom graph, by name.
        form: what the final answer must look like.
        is_new: whether this process gave the task; otherwise it goes on with what another left.
        **rest: as `Driver`.

    `AgentBuilder` makes one.

    Raises:
        UsageError: the thread holds no task.
        NoHandlerForState: its graph has a state whose handler is not given.
    """

    def __init__(
        self,
        *args: Any,
        handlers: Mapping[str, Handler] | None = None,
        form: AnswerForm[Any] | None = None,
        is_new: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__(*args, fault_of=self._find_fault, **rest)
        if not isinstance(self._writer.fold.machine, TaskMachine):
            raise UsageError(f"thread {self.thread_id} is a conversation, not a task")
        if not self.memory.transcript:
            raise UsageError(
                f"thread {self.thread_id} holds no task: its process died while it was being made",
                hint="begin the task anew; nothing of it was done",
            )
        schema = self.memory.config.output_schema
        self._form = AnswerForm.of_schema(schema) if form is None and schema is not None else form
        self._handlers = dict(handlers or {})
        self._is_new = is_new
        self._failure: LlmErrorKind | None = None
        self._broken: AgentError | None = None
        for name in self._machine.custom_states:
            if name not in self._handlers:
                raise NoHandlerForState(
                    f"thread {self.thread_id} needs a handler for its state {name!r}",
                    hint="resume it with the program that began it",
                )

    @property
    def _machine(self) -> TaskMachine:
        machine = self._writer.fold.machine
        assert isinstance(machine, TaskMachine)
        return machine

    @property
    def memory(self) -> AgentMemory:
        """The task's memory as it stands."""
        return self._machine.memory

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: no work, no question, no request to be tried again."""
        return super().is_waiting and self._machine.suspension_error is None

    @property
    def total_usage(self) -> Usage:
        """What it has used of models, with that of sub-agents which are or were at work for it."""
        return sum(
            (child.total_usage for _, child in self._list_open_children()), self.memory.total_usage
        )

    @property
    def state(self) -> str:
        """The name of the state the task is in: a `State`, or a custom one's."""
        return self._machine.state_name

    @property
    def trace(self) -> Trace:
        """What every handler did so far."""
        return self.memory.trace

    @property
    def output(self) -> Any:
        """The final answer as a value of the form that was asked for; `None` before there is one.

        Without a form it is the text.
        """
        answer = self.memory.final_answer
        return answer if self._form is None or answer is None else self._form.decode(answer)

    def _find_fault(self, answer: str) -> str:
        return "" if self._form is None else self._form.find_fault(answer)

    async def run(self) -> str:
        """Work until the task is over, and give its final answer.

        A task that was left unfinished goes on where it stood; one that is over answers at once.

        Raises:
            BudgetExceeded: a limit of steps, tokens, cost or time is used up.
            AgentFailed: the task ended in `Error`.
            ApprovalNeeded: a call waits for a person, and nobody is there to be asked.
            AgentError: it was stopped before its end, or no model answers for now; run it again.
            InvalidTransition: a handler said an event that its state has no row for.
            OwnershipViolation: a handler wrote what its state does not own.
            StoreError: the disk refused; what was acknowledged is safe.
        """
        return self._get_answer(await self.resume())

    def _get_answer(self, finished: TurnFinished) -> str:
        if finished.outcome is TurnOutcome.DONE:
            return finished.answer
        if finished.outcome is TurnOutcome.LIMIT:
            hint = "the limits of a task stand: begin another one with higher ones"
            raise BudgetExceeded(finished.error, hint=hint)
        if finished.outcome is TurnOutcome.FAILED and self._machine.is_over:
            hint = f"`treadle trace {self.thread_id}` tells how it got there"
            raise AgentFailed(finished.error, hint=hint)
        if finished.outcome is TurnOutcome.APPROVAL:
            questions = self._machine.questions
            calls = [f"{one.call.tool_name} {one.call.arguments_json}" for one in questions]
            raise ApprovalNeeded(self.thread_id, calls)
        raise AgentError(
            f"the task was stopped before its end: {finished.error}",
            hint=f"treadle resume {self.thread_id} goes on with it",
        )

    async def resume(self) -> TurnFinished:
        """`run`, whose end is a value: how the task ended, or why it stopped."""
        if self._running is not None:
            return await self._wait_for_run()
        is_first = self._is_new and not self._is_prepared
        # Time counts from here on; of a task without a limit nobody asks how long it lay ready.
        is_at_rest = self._machine.is_at_rest and self._machine.suspension_error is None
        if is_at_rest or (is_first and self._time_left_s() is None):
            return await self._run()
        return await self._run(TaskResumed(self._writer.now()))

    def stream(self) -> AsyncGenerator[Output, None]:
        """`resume` as a stream of outputs, ending with `TurnFinished`."""
        return self._stream_outputs(self.resume)

    # ---- what the driver asks ------------------------------------------------------------------

    async def _recover(self) -> None:
        """A task that this process has just given was not left by another one."""
        if not self._is_new or self._is_prepared:
            await super()._recover()
            return
        await self._observer.observe()
        self._due = self._machine.obligations()
        for name in self._machine.path:
            self._later.append(outputs.StateStarted(str(name)))

    def _make_turn_result(self) -> TurnFinished:
        fold, memory = self._writer.fold, self.memory
        outcome, error = self._end.outcome, self._end.error
        if self._machine.is_over:
            error = memory.error or "Unknown error"
            failed = TurnOutcome.LIMIT if memory.exceeded else TurnOutcome.FAILED
            outcome = failed if self.state == State.ERROR else TurnOutcome.DONE
        elif (error_of := self._machine.suspension_error) is not None:
            outcome, error = TurnOutcome.FAILED, f"{error_of.text}; {error_of.advice}"
            self._failure = error_of.kind
        is_done = outcome is TurnOutcome.DONE
        return TurnFinished(
            self.thread_id,
            outcome,
            (memory.final_answer or "") if is_done else "",
            fold.version,
            fold.usage,
            fold.turn_usage,
            "" if is_done else error,
            self._failure if outcome is TurnOutcome.FAILED else None,
        )

    def _make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        """A task that a person stops stays where it is; one whose time is over ends."""
        if stop.outcome is TurnOutcome.LIMIT:
            return TimeRanOut(self._writer.now())
        return None

    def _time_left_s(self) -> float | None:
        budget = self.memory.budget
        if budget is None or budget.max_time_s is None:
            return None
        return max(0.0, budget.max_time_s - self.memory.elapsed_s)

    def _budget_left(self) -> TokenBudget | None:
        memory = self.memory
        if memory.budget is None:
            return None
        return memory.budget.get_remaining(memory.total_usage, memory.elapsed_s)

    def _record_idle_time(self, since: str, until: str) -> None:
        """Time counts from event to event: what was no work is left out by moving the clock on."""
        clock = self.memory.clock
        if clock and not self._machine.is_at_rest:
            self._writer.stage(TaskResumed(shift_time(clock, since, until)), self._redact)

    def _on_event(self, event: Event, action: AgentAction | None) -> None:
        if isinstance(event, StateFailed) and self._broken is not None:
            self._inbox.put(self._broken)
            self._broken = None
        if not isinstance(event, ApprovalDecided | TaskGiven):
            self._failure = event.error.kind if isinstance(event, LlmEvent.Error) else None
        for name in self._machine.path:
            self._later.append(outputs.StateStarted(str(name)))
        if isinstance(event, LlmEvent.Error) and self._machine.suspension_error is not None:
            self._later.append(outputs.ErrorShown(event.error.text))
        if self._machine.is_over and self._machine.path:
            memory = self.memory
            ended = TaskEnded(self.state, memory.error or "", memory.exceeded)
            self._writer.stage(ended, self._redact)
            self._later.append(
                outputs.ErrorShown(memory.error or "the task failed")
                if self.state == State.ERROR
                else outputs.FinalAnswer(memory.final_answer or "")
            )

    def _make_action_work(self, action: AgentAction) -> Coroutine[Any, Any, Event] | None:
        if not isinstance(action, RunState):
            return None
        return self._run_state(action.state)

    async def _run_state(self, name: str) -> Event:
        machine, memory = self._machine, self.memory
        key, redact = f"{self.thread_id}:{name}:{memory.moves}", self._redact or str
        settings = replace(machine.config, model_name=machine.model_name)
        llm = HandlerLlm(self._performer.provider, settings, memory, redact)
        try:
            completed = await run_handler(
                machine.custom_states[name],
                self._handlers[name],
                memory,
                tools=HandlerTools(self._performer.tools, key, settings, memory, redact),
                llm=llm,
                output=lambda text: self._emit(outputs.TextDelta(redact(replace_surrogates(text)))),
                at=self._writer.now,
            )
            machine.check_completed_state(completed)
        except (InvalidTransition, OwnershipViolation) as error:
            if llm.usage is None:
                raise
            self._broken = error  # raised when it is recorded what that has cost
            return StateFailed(name, llm.usage, self._writer.now())
        return completed
