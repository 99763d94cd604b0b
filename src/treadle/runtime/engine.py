"""A task that is open for work: it runs by itself to Done or Error, on one thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Self

from msgspec import Struct

from treadle.core.approval import Decision, Question
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.events import TaskResumed
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import AgentMemory
from treadle.core.task.trace import Trace
from treadle.errors import (
    AgentError,
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    HandlerFailed,
    NoHandlerForState,
    UsageError,
)
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.conversation_rules import ObserveSituation
from treadle.runtime.driver import Driver
from treadle.runtime.handlers import Handler
from treadle.runtime.inbox import Inbox
from treadle.runtime.options import DriverOptions, check_parts
from treadle.runtime.output_modes import OutputMode, find_output_mode
from treadle.runtime.parts import make_journal, make_parts
from treadle.runtime.ports import Provider, Tools, Writer
from treadle.runtime.task_rules import TaskRules

FAULTS_MAX: Final = 3
"""So often in a row the handler of a state may fail; then it runs only when somebody says so."""


class TaskOptions(Struct, frozen=True):
    """What only the program knows that runs a task.

    `handlers` are those of the states of a custom graph, by name. `form` is what the final answer
    must look like; without it, what the thread says. `is_new`: this process gave the task;
    otherwise it goes on with what another left. `situation` says where and how the agent works:
    what is another fact than it was told, it is told before its next request.
    """

    handlers: Mapping[str, Handler] = {}
    form: AnswerForm[Any] | None = None
    is_new: bool = False
    situation: ObserveSituation | None = None


class AgentEngine:
    """A thread on which an agent works at a task. `AgentBuilder` makes one.

    Args:
        writer: the thread, as `LocalStore.create` or `LocalStore.open` gives it; one of the task
            machine.
        provider: who answers.
        tools: who runs calls.
        config: model, limits; `None` keeps what the thread has recorded.
        options: who is asked and told, what is known of the folder, and all else that can be left
            out.
        task: handlers, and the form of the answer.

    Raises:
        UsageError: the thread holds no task, or what is given is no thread, no provider or no set
            of tools.
        NoHandlerForState: its graph has a state whose handler is not given.
    """

    def __init__(
        self,
        writer: Writer,
        provider: Provider,
        tools: Tools,
        config: AgentConfig | None = None,
        options: DriverOptions = DriverOptions(),  # noqa: B008  it is frozen
        task: TaskOptions = TaskOptions(),  # noqa: B008  it is frozen
    ) -> None:
        check_parts(writer, provider, tools)
        inbox = Inbox()
        self._journal = make_journal(writer, options, inbox)
        self._check_thread(task.handlers)
        schema = self.memory.config.output_schema
        form = task.form
        self._form = AnswerForm.of_schema(schema) if form is None and schema is not None else form
        find_fault = None if self._form is None else self._form.find_fault
        self._rules = TaskRules(
            self._journal, inbox, task.handlers, task.situation, is_new=task.is_new
        )
        parts = make_parts(self._journal, self._rules, inbox, provider, tools, options, find_fault)
        self._sub_agents = parts.sub_agents
        self._may_retry = False
        self.driver = Driver(parts, config, options.live)

    def _check_thread(self, handlers: Mapping[str, Handler]) -> None:
        thread_id = self._journal.writer.thread_id
        if not isinstance(self._journal.machine, TaskMachine):
            raise UsageError(f"thread {thread_id} is a conversation, not a task")
        if not self.memory.transcript:
            raise UsageError(
                f"thread {thread_id} holds no task: its process died while it was being made",
                hint="begin the task anew; nothing of it was done",
            )
        for name in self._machine.custom_states:
            if name not in handlers:
                raise NoHandlerForState(
                    f"thread {thread_id} needs a handler for its state {name!r}",
                    hint="resume it with the program that began it",
                )

    @property
    def _machine(self) -> TaskMachine:
        machine = self._journal.machine
        assert isinstance(machine, TaskMachine)
        return machine

    @property
    def memory(self) -> AgentMemory:
        """The task's memory as it stands."""
        return self._machine.memory

    def inform(self, text: str) -> None:
        """Have the model told something before its next request, unless it can read it already."""
        self._rules.note = text

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: no work, no question, no request to be tried again."""
        return self._rules.is_waiting

    @property
    def total_usage(self) -> Usage:
        """What it has used of models, with that of sub-agents which are or were at work for it."""
        return self.memory.total_usage + self._sub_agents.usage

    @property
    def version(self) -> int:
        """The number of the last record."""
        return self._journal.fold.version

    @property
    def state(self) -> str:
        """The name of the state the task is in: a `State`, or a custom one's."""
        return self._machine.state_name

    @property
    def trace(self) -> Trace:
        """What every handler did so far."""
        return self.memory.trace

    @property
    def output_mode(self) -> OutputMode:
        """How the last answer was asked for; `text` if in no form."""
        return "text" if self._form is None else find_output_mode(self.conversation)

    @property
    def output(self) -> Any:
        """The final answer as a value of the form that was asked for; `None` before there is one.

        Without a form it is the text.
        """
        answer = self.memory.final_answer
        return answer if self._form is None or answer is None else self._form.decode(answer)

    async def run(self) -> str:
        """Work until the task is over, and give its final answer.

        A task that was left unfinished goes on where it stood; one that is over answers at once.

        Raises:
            BudgetExceeded: a limit of steps, tokens, cost or time is used up.
            AgentFailed: the task ended in `Error`.
            ApprovalNeeded: a call waits for a person, and nobody is there to be asked.
            AgentError: it was stopped before its end, or no model answers for now; run it again.
            HandlerFailed: the handler of a state failed; the state stands, and runs again when the
                task is resumed. Not by itself once it has failed `FAULTS_MAX` times in a row:
                `retry` says that it may.
            InvalidTransition: a handler said an event that its state has no row for.
            OwnershipViolation: a handler wrote what its state does not own.
            StoreError: the disk refused; what was acknowledged is safe.
        """
        return self._get_answer(await self.resume())

    async def retry(self) -> str:
        """`run`, where the handler of a state has failed too often: a person has looked at it."""
        self._may_retry = True
        return await self.run()

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
        if self.driver.is_running:
            return await self.driver.wait()
        if self.memory.faults >= FAULTS_MAX and not self._may_retry:
            raise self._make_poison_error()
        self._may_retry = False
        is_first = self._rules.is_new and not self.driver.is_prepared
        # Time counts from here on; of a task without a limit nobody asks how long it lay ready.
        is_at_rest = self._machine.is_at_rest and self._machine.suspension_error is None
        if is_at_rest or (is_first and self._rules.time_left_s() is None):
            return await self.driver.run()
        return await self.driver.run(TaskResumed(self._journal.now()))

    def _make_poison_error(self) -> HandlerFailed:
        last = next((one for one in reversed(self.trace) if one.event == "HANDLER_FAILED"), None)
        fault = "" if last is None else last.data
        return HandlerFailed(self.state, fault, count=self.memory.faults)

    def stream(self) -> AsyncGenerator[Output, None]:
        """`resume` as a stream of outputs, ending with `TurnFinished`."""
        return self.driver.stream(self.resume)

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread."""
        await self.driver.close()

    def abandon(self) -> None:
        """Give the thread free again, of which nothing was done here."""
        self._journal.close()

    # ---- what every driver does ----------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.driver.thread_id

    @property
    def conversation(self) -> Sequence[Message]:
        """All messages so far."""
        return self.driver.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `decide` answers them."""
        return self.driver.questions

    async def decide(
        self,
        decisions: Mapping[str, Decision],
        *,
        grant: Sequence[str] = (),
        kinds: Mapping[str, Sequence[str]] | None = None,
    ) -> TurnFinished:
        """See `Driver.decide`."""
        return await self.driver.decide(decisions, grant=grant, kinds=kinds)

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End what is running; what is known is kept."""
        self.driver.cancel(reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
