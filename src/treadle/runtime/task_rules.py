"""What is special to tasks in the way a driver works on them."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import AgentAction, RunState, SendLlmRequest, Summarize
from treadle.core.budget import TokenBudget
from treadle.core.events import ApprovalDecided, LlmEvent
from treadle.core.llm import LlmErrorKind
from treadle.core.task.events import StateFailed, TaskGiven, TaskInformed, TaskResumed, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import State
from treadle.errors import AgentError, HandlerFailed, InvalidTransition, OwnershipViolation
from treadle.outputs import Ending, TurnFinished, TurnOutcome
from treadle.runtime.conversation_rules import ObserveSituation
from treadle.runtime.handlers import (
    FAULT_LENGTH_MAX,
    Handler,
    HandlerLlm,
    HandlerTools,
    run_handler,
)
from treadle.runtime.inbox import Inbox, StopRequest
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_timer import shift_time
from treadle.thread.codec import Event
from treadle.thread.facts import TaskEnded
from treadle.thread.record import replace_surrogates
from treadle.thread.situation import describe_news


class TaskRules:
    """A task works by itself until it is over, or nobody answers for now: `TurnRules`.

    Args:
        journal: the thread.
        inbox: where it arrives what is wrong with a handler.
        handlers: of the states of a custom graph, by name.
        is_new: whether this process gave the task.
        situation: what is another fact in this than the model was told, it is told before a
            request; without it nothing is.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        inbox: Inbox,
        handlers: Mapping[str, Handler],
        situation: ObserveSituation | None = None,
        *,
        is_new: bool,
    ) -> None:
        self._journal = journal
        self._inbox = inbox
        self._handlers = handlers
        self._situation = situation
        self._informed_step = 0
        self.note = ""
        """What the model is told before its next request, unless it was and can still read it."""
        self.is_new = is_new
        self._failure: LlmErrorKind | None = None
        self._broken: AgentError | None = None

    @property
    def _machine(self) -> TaskMachine:
        machine = self._journal.machine
        assert isinstance(machine, TaskMachine)
        return machine

    @property
    def _memory(self) -> AgentMemory:
        return self._machine.memory

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: no work, no question, no request to be tried again."""
        return self._journal.fold.is_idle and self._machine.suspension_error is None

    def announce_start(self) -> None:
        """Announce the states that the task has entered by now."""
        for name in self._machine.path:
            self._journal.announce(outputs.StateStarted(str(name)))

    def make_result(self, end: Ending) -> TurnFinished:
        """How the task ended, or why it stopped."""
        fold, memory = self._journal.fold, self._memory
        outcome, error = end.outcome, end.error
        if self._machine.is_over:
            error = memory.error or "Unknown error"
            failed = TurnOutcome.LIMIT if memory.exceeded else TurnOutcome.FAILED
            outcome = failed if self._machine.state_name == State.ERROR else TurnOutcome.DONE
        elif (error_of := self._machine.suspension_error) is not None:
            outcome, error = TurnOutcome.FAILED, f"{error_of.text}; {error_of.advice}"
            self._failure = error_of.kind
        is_done = outcome is TurnOutcome.DONE
        return TurnFinished(
            fold.header.thread,
            outcome,
            (memory.final_answer or "") if is_done else "",
            fold.version,
            fold.usage,
            fold.turn_usage,
            "" if is_done else error,
            self._failure if outcome is TurnOutcome.FAILED else None,
        )

    def refuse_request(self, due: SendLlmRequest | Summarize) -> tuple[str, Event] | None:
        """The machine itself looks at the limits of a task."""
        return None

    def next_input(self, *, steering: bool = False) -> Event | None:
        """A task is given once; nobody says more, but before a request it is told what is news.

        Once a step, whatever becomes of the words when they are recorded: the request that is due
        then is asked for anew, and this is asked again.
        """
        memory = self._memory
        if not steering or self._informed_step == memory.step:
            return None
        self._informed_step = memory.step
        seen, redact = memory.messages_in_view(), self._journal.redact or str
        note, self.note = redact(self.note), ""
        if any(note in message.content for message in seen):
            note = ""
        news = ""
        if self._situation is not None:
            now = map(redact, self._situation(self._machine.config).changing_lines)
            news = describe_news(now, memory.system_prompt, seen)
        text = "\n\n".join(filter(None, (note, news)))
        return TaskInformed(text, self._journal.now()) if text else None

    def make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        """A task that a person stops stays where it is; one whose time is over ends."""
        if stop.outcome is TurnOutcome.LIMIT:
            return TimeRanOut(self._journal.now())
        return None

    def time_left_s(self) -> float | None:
        """Seconds until the task has had its time."""
        budget = self._memory.budget
        if budget is None or budget.max_time_s is None:
            return None
        return max(0.0, budget.max_time_s - self._memory.elapsed_s)

    def budget_left(self) -> TokenBudget | None:
        """What a sub-agent that begins now may use at most."""
        memory = self._memory
        if memory.budget is None:
            return None
        return memory.budget.get_remaining(memory.total_usage, memory.elapsed_s)

    def record_idle_time(self, since: str, until: str) -> None:
        """Time counts from event to event: what was no work is left out by moving the clock on."""
        clock = self._memory.clock
        if clock and not self._machine.is_at_rest:
            self._journal.stage(TaskResumed(shift_time(clock, since, until)))

    def follow_event(self, event: Event, action: AgentAction | None) -> Ending | None:
        """Announce the states entered, and the end of the task."""
        if isinstance(event, StateFailed) and self._broken is not None:
            self._inbox.put(self._broken)
            self._broken = None
        if not isinstance(event, ApprovalDecided | TaskGiven):
            self._failure = event.error.kind if isinstance(event, LlmEvent.Error) else None
        for name in self._machine.path:
            self._journal.announce(outputs.StateStarted(str(name)))
        if isinstance(event, LlmEvent.Error) and self._machine.suspension_error is not None:
            self._journal.announce(outputs.ErrorShown(event.error.text))
        if self._machine.is_over and self._machine.path:
            memory = self._memory
            ended = TaskEnded(self._machine.state_name, memory.error or "", memory.exceeded)
            self._journal.stage(ended)
            self._journal.announce(
                outputs.ErrorShown(memory.error or "the task failed")
                if self._machine.state_name == State.ERROR
                else outputs.FinalAnswer(memory.final_answer or "")
            )
        return None

    def make_action_work(
        self, action: AgentAction, provider: Provider, tools: Tools
    ) -> Coroutine[Any, Any, Event] | None:
        """Run the handler of a custom state."""
        if not isinstance(action, RunState):
            return None
        return self._run_state(action.state, provider, tools)

    async def _run_state(self, name: str, provider: Provider, tools: Tools) -> Event:
        machine, memory = self._machine, self._memory
        key, redact = (
            f"{self._journal.writer.thread_id}:{name}:{memory.moves}",
            self._journal.redact or str,
        )
        settings = replace(machine.config, model_name=machine.model_name)
        llm = HandlerLlm(provider, settings, memory, redact)
        try:
            completed = await run_handler(
                machine.custom_states[name],
                self._handlers[name],
                memory,
                tools=HandlerTools(tools, key, settings, memory, redact),
                llm=llm,
                output=lambda text: self._journal.emit(
                    outputs.TextDelta(redact(replace_surrogates(text)))
                ),
                redact=redact,
            )
            machine.check_completed_state(completed)
        except (InvalidTransition, OwnershipViolation, HandlerFailed) as error:
            self._broken = error  # raised when it is recorded: the program is to be mended
            if isinstance(error, HandlerFailed):
                why = error.details
            else:  # it has what the handler said, of whatever length
                why = redact(replace_surrogates(error.message))[:FAULT_LENGTH_MAX]
            return StateFailed(name, llm.usage, self._journal.now(), why)
        return replace(completed, at=self._journal.now())
