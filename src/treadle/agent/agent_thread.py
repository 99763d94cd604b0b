"""A conversation with an agent, under a name that the program has for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Self

from msgspec.structs import replace

from treadle.agent.builders import SessionOpener
from treadle.agent.decisions import make_approvals, make_rejections
from treadle.agent.handoffs import check_extra
from treadle.agent.partial_values import follow_answer
from treadle.agent.result import Result, has_answer, make_result, raise_failure
from treadle.agent.thread_history import fork_at_rest, rewind_to_turn
from treadle.agent.thread_prompts import ThreadPrompts
from treadle.agent.type_variables import OutputT
from treadle.core.approval import Decision, Question
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.planning_state import describe_form_fault
from treadle.errors import UsageError
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.session import Session
from treadle.runtime.store_calls import end_anyway
from treadle.store.threads import AnyThreads
from treadle.thread.facts import Renamed, Tagged

FORM_RETRIES_MAX = 3
"""So often an answer that does not have its form is sent back."""


class AgentThread(Generic[OutputT]):
    """A thread on which a program talks with an agent. `Agent.thread` opens one.

    An asynchronous context manager: leaving it frees the thread for other processes.

    Args:
        key: the program's name for it; empty if it has none.
        store: where it is kept.
        opener: makes sessions of threads, by their ids.
        session: works on it.
        form: what answers must look like; without one they are text.
    """

    def __init__(
        self,
        key: str,
        store: AnyThreads,
        opener: SessionOpener,
        session: Session,
        form: AnswerForm[Any] | None,
    ) -> None:
        self.key = key
        self._store, self._opener = store, opener
        opener.enter(self)
        self._session = session
        self._form = form
        self._last: TurnFinished | None = None
        self._is_closed = False
        self.prompts = ThreadPrompts(lambda: opener.family.find(self.agent).tools)

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The thread's id, which the command line takes too: `treadle show ID`."""
        return self._session.thread_id

    @property
    def agent(self) -> str:
        """The name of the agent that has it now (see `Agent.add_handoff`)."""
        return self._opener.family.get_present(self.id)

    @property
    def messages(self) -> Sequence[Message]:
        """All messages so far."""
        return self._session.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `approve` and `reject` answer them."""
        return self._session.questions

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._session.is_waiting

    @property
    def usage(self) -> Usage:
        """What the whole thread has used of models."""
        return self._session.usage

    @property
    def title(self) -> str | None:
        """What it is called; `None` if nobody has said."""
        return self._session.metadata.title

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._session.metadata.tags

    @property
    def extra(self) -> Mapping[str, Any]:
        """What programs keep with it."""
        return self._session.metadata.extra

    # ---- talking -------------------------------------------------------------------------------

    async def send(self, prompt: str) -> Result[OutputT]:
        """Say something, and give what the agent answers.

        What an earlier process left unfinished comes first. A turn that runs already delivers the
        prompt, and this waits for it; while a call waits for a yes, it is kept for a turn behind.

        Raises:
            UsageError: the prompt is empty.
            ApprovalNeeded: a call waits for a person's yes; it is durable.
            BudgetExceeded: a limit of the turn is used up.
            AgentFailed: no model answered, or none in the form asked for.
            AgentError: the turn was stopped.
            StoreError: the disk refused; what was acknowledged is safe.
        """
        await self._work(lambda: self._open_session().turn(prompt))
        return self.result

    async def resume(self) -> Result[OutputT]:
        """Finish what was left unfinished, and give the answer. Raises as `send`, or if none is."""
        await self._work(lambda: self._open_session().resume())
        return self.result

    def stream(self, prompt: str | None = None) -> AsyncGenerator[Output, None]:
        """`send`, or `resume` without a prompt, that tells everything that happens.

        The last output is `TurnFinished`; `result` gives the answer then. Whoever breaks out stops
        the turn where it is; `resume` goes on with it.
        """
        turn = self._session.resume if prompt is None else lambda: self._session.turn(prompt)
        return self._open_session().driver.stream(lambda: self._work(turn))

    def stream_output(self, prompt: str | None = None) -> AsyncGenerator[Any, None]:
        """`stream` as what is there of the answer while it arrives: plain data, the whole last.

        For agents whose answers are of a type; `result` has the value then.
        """
        return follow_answer(self.stream(prompt))

    @property
    def result(self) -> Result[OutputT]:
        """The answer of the last turn. Raises as `send`."""
        if self._last is None:
            raise UsageError("no turn has ended yet", hint="send(PROMPT), or resume()")
        raise_failure(self._last, self.questions, self.messages)
        return make_result(self._last, self._form, self.messages)

    async def approve(self, *questions: Question) -> Result[OutputT]:
        """Say yes to these calls, or to all that wait, and go on. Raises as `send`."""
        return await self._decide(make_approvals(questions or self.questions))

    async def reject(self, *questions: Question, reason: str = "") -> Result[OutputT]:
        """Say no to these calls, or to all that wait, and go on. Raises as `send`.

        Args:
            questions: the calls.
            reason: what the model is told.
        """
        return await self._decide(make_rejections(questions or self.questions, reason))

    async def _decide(self, decisions: Mapping[str, Decision]) -> Result[OutputT]:
        await self._work(lambda: self._open_session().decide(decisions))
        return self.result

    async def _work(self, turn: Callable[[], Any]) -> TurnFinished:
        """Work, and send back an answer that does not have its form."""
        self._last = None  # a turn that is broken off has not the answer of an earlier one
        finished: TurnFinished = await turn()
        used = finished.turn_usage
        for _ in range(FORM_RETRIES_MAX):
            if not (fault := self._find_fault(finished)):
                break
            finished = await self._session.correct(describe_form_fault(fault))
            used += finished.turn_usage
        if fault := self._find_fault(finished):
            error = f"the answer does not have the form asked for: {fault}"
            finished = replace(finished, outcome=TurnOutcome.FAILED, error=error)
        self._last = replace(finished, turn_usage=used)
        return self._last

    def _find_fault(self, finished: TurnFinished) -> str:
        is_answer = finished.outcome is TurnOutcome.DONE and has_answer(self.messages)
        return self._form.find_fault(finished.answer) if self._form and is_answer else ""

    def steer(self, text: str) -> None:
        """Have the turn that runs hear something before its next request; durable at once."""
        self._open_session().queue(text, steers=True)

    def queue(self, text: str) -> None:
        """Have something heard in a turn of its own behind what runs; durable at once."""
        self._open_session().queue(text)

    def cancel(self, reason: str = "cancelled by the program") -> None:
        """End the turn that runs; what is known is kept."""
        self._session.cancel(reason)

    def hand_to(self, agent: str) -> None:
        """Hand the thread to another agent, as its model may do; durable when this returns.

        Args:
            agent: its name.

        Raises:
            UsageError: there is no such agent.
        """
        self._opener.family.hand_over(self.id, agent)

    # ---- the thread itself -----------------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Call it this; durable when this returns."""
        self._open_session().driver.record(Renamed(title))

    def tag(self, *added: str, remove: Sequence[str] = ()) -> None:
        """Add and remove tags; durable when this returns."""
        self._open_session().driver.record(Tagged(added, tuple(remove)))

    def set_extra(self, **values: Any) -> None:
        """Keep values with it, which JSON can say, but for `agent`; `None` removes one."""
        self._open_session().driver.record(check_extra(values))

    async def fork(self) -> AgentThread[OutputT]:
        """A thread of its own that goes on from here; both go their own ways then.

        What is under way here stays here. The caller closes it.

        Raises:
            UsageError: this one is closed.
            StoreError: it is damaged, or the disk refused.
        """
        self._open_session()
        thread_id = await self._opener.ask_store(partial(fork_at_rest, self._store, self.id))
        session, family = await self._opener.open(thread_id), self._opener.family
        if family.get_present(thread_id) != self.agent:  # a fork has none of a thread's values
            family.hand_over(thread_id, self.agent)
        return AgentThread("", self._store, self._opener, session, self._form)

    async def rewind(self, turn: int) -> None:
        """Go back to the end of a turn, 0 before the first; nothing is lost of what came after.

        Raises:
            UsageError: there is no such turn, it stands there already, or it is closed.
            StoreError: another process has taken the thread meanwhile, or the disk refused.
        """
        await end_anyway(self._go_back(self._open_session(), turn))

    async def _go_back(self, old: Session, turn: int) -> None:
        try:
            await old.close()
            await self._opener.ask_store(partial(rewind_to_turn, self._store, old.thread_id, turn))
        finally:
            self._session, self._last = await self._opener.open(old.thread_id), None

    def _open_session(self) -> Session:
        """The session; raises if nobody would free the thread again that is taken here."""
        if self._is_closed:
            raise UsageError("this thread is closed", hint="Agent.thread(KEY) opens it again")
        return self._session

    async def close(self) -> None:
        """Stop work, record what is known, free the thread. What was running stays unfinished."""
        self._is_closed = True
        try:
            await self._session.close()
        finally:
            await self._opener.leave(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
