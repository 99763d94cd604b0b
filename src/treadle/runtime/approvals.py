"""Who asks a person about calls, and what they say. The machine decides what needs to be asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import Final, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from treadle.answers import Verdict
from treadle.core.actions import AgentAction, AskPerson, RefuseCall, StartCall
from treadle.core.approval import (
    NO_SCOPE,
    Approved,
    Decision,
    Modified,
    Question,
    Rejected,
    Scope,
)
from treadle.core.events import ApprovalDecided, CallAssessed
from treadle.core.messages import ToolCall
from treadle.core.tools import Access, ApprovalBinding, ToolExecutionOutcome
from treadle.errors import UsageError
from treadle.runtime.given_answers import GivenAnswer, GivenAnswers
from treadle.runtime.grants import make_grants, make_kind_grants, make_tool_grant
from treadle.runtime.inbox import Inbox
from treadle.runtime.ports import Tools
from treadle.runtime.refused_calls import look_at
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_progress import TurnProgress
from treadle.thread.facts import Configured
from treadle.thread.grants import GrantFact

REPEAT_COUNT_MAX: Final = 3
"""A program that says yes to all would else be asked for ever about what changes at each look."""

_SaidT = TypeVar("_SaidT")

AskForVerdict: TypeAlias = Callable[[Question], Awaitable[Verdict]]


class Approvals:
    """Looks at calls as things stand, puts the questions of the machine, and takes the answers.

    Args:
        journal: the thread.
        turn: who folds the answers.
        inbox: what ends a question before a person answers it.
        tools: who runs calls, and sees what is in them.
        approve: asked about a call that needs a yes; without it the call waits, on disk.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        turn: TurnProgress,
        inbox: Inbox,
        tools: Tools,
        approve: AskForVerdict | None,
    ) -> None:
        self._journal = journal
        self._turn = turn
        self._inbox = inbox
        self.tools = tools
        self._approve = approve
        self._person = asyncio.Lock()
        self._withdrawn: set[str] = set()
        """Tools that were offered in this session and are not any more."""
        self._is_reconfigured = False
        self._open: Question | None = None
        self._settled = asyncio.Event()
        self._reruns: dict[str, ApprovalBinding | UnsetType] = {}
        self._given = GivenAnswers()
        self._repeats: Counter[str] = Counter()
        self._failures: dict[str, str] = {}
        """Why calls would fail, as they were looked at last."""

    @property
    def has_person(self) -> bool:
        """Whether somebody can be asked."""
        return self._approve is not None

    # ---- how a call stands ---------------------------------------------------------------------

    def scope_of(self, call: ToolCall) -> Scope | None:
        """What a yes to the call covers, and whether its tool refuses it, as things stand."""
        scope, self._failures[call.id] = look_at(self._journal, self.tools, call)
        return scope

    def assess(self, call: ToolCall, scope: Scope | None) -> CallAssessed:
        """The call as things stand, for the machine to decide about."""
        return CallAssessed(
            call.id,
            self.tools.risk_of(call),
            scope,
            is_withdrawn=call.tool_name in self._withdrawn,
            is_reconfigured=self._is_reconfigured,
            is_rerun=call.id in self._reruns,
            rerun_bound=self._reruns.get(call.id, UNSET),
            may_ask=self._repeats[call.id] < REPEAT_COUNT_MAX,
            failure=self._failures.get(call.id, ""),
        )

    def count_repeats(self, questions: Sequence[Question]) -> None:
        """These calls are asked about once more, as things have changed since the last time."""
        self._repeats.update(question.call.id for question in questions)

    def allow_rerun(self, call_id: str, binding: ApprovalBinding | UnsetType) -> None:
        """A person has said to run a call again of which nobody knows whether it happened."""
        self._reruns[call_id] = binding

    def forget_reruns(self) -> None:
        """What was said of calls in doubt was for the round that was just taken up."""
        self._reruns.clear()

    def apply_configuration(self, configuration: Configured, tools: Tools) -> None:
        """Stage another configuration; a person who is asked what it settles is asked no more."""
        fold, self.tools = self._journal.fold, tools
        old = fold.machine.config
        if configuration != Configured(old, fold.provider):
            self._journal.stage(configuration)
        new = fold.machine.config
        offered = {tool.name for tool in new.tools}
        self._withdrawn = {*self._withdrawn, *(tool.name for tool in old.tools)} - offered
        self._is_reconfigured = True
        if self._open is not None and not isinstance(self._judge(self._open)[0], AskPerson):
            self._settled.set()

    def _judge(self, question: Question) -> tuple[AgentAction, Question]:
        """What becomes of an open question as things stand, and what a yes would cover then."""
        said = self._journal.machine.conversation
        asked = said[-1].tool_calls if said else ()
        # Those before it run first, and may make of the files what it needs.
        before = takewhile(lambda call: call.id != question.call.id, asked)
        may_change = any(map(self._may_change, before))
        look = look_at(self._journal, self.tools, question.call, may_change=may_change)
        scope, failure = look
        if scope is not None and question.scope == NO_SCOPE:  # a state of a task has asked
            failure = failure or scope.refused
        self._failures[question.call.id] = failure
        answer = self._journal.machine.handle_event(self.assess(question.call, scope))
        return answer, replace(question, scope=scope or NO_SCOPE)

    def _may_change(self, call: ToolCall) -> bool:
        """Whether a call may change a file, for all that is known before it is looked at."""
        is_failing = bool(self._failures.get(call.id))
        config = self._journal.machine.config
        return not is_failing and config.access_of(call, NO_SCOPE) is Access.WRITE

    # ---- questions -----------------------------------------------------------------------------

    async def answer_questions(self) -> bool:
        """Have the open questions answered; returns whether one was, or a change settled it.

        Raises:
            BaseException: what the inbox holds ends the turn; who was asked is asked no more.
        """
        has_decided = False
        for question in self._journal.machine.questions:
            answer, current = self._judge(question)
            given = self._given.pop(question, self.fill_scope)
            if isinstance(answer, StartCall):
                self._turn.fold(self.make_decision(question, current, Approved()))
            elif isinstance(answer, RefuseCall):
                assert isinstance(answer.outcome, ToolExecutionOutcome.Error)
                why = Rejected(answer.outcome.error.message)
                self._turn.fold(self.make_decision(question, current, why))
            elif isinstance(answer, AskPerson) and given is not None:
                self._journal.stage(given.taken)
                await self._record_verdict(question, given.question, given.verdict)
                given.on_recorded()
            elif isinstance(answer, AskPerson) and self._approve is not None:
                asked = self._wait_for_verdict(answer.question)
                if (verdict := await self._inbox.run_unless_stopped(asked)) is None:
                    return True  # by what was changed, or said elsewhere, meanwhile
                await self._record_verdict(question, answer.question, verdict)
            else:
                continue
            has_decided = True
        return has_decided

    def give_answer(self, given: GivenAnswer) -> None:
        """Take it when its question comes up; one that is being asked is asked no more."""
        self._given.put(given)
        if self._open is not None and self._open.call.id == given.question.call.id:
            self._settled.set()

    async def _record_verdict(self, question: Question, shown: Question, verdict: Verdict) -> None:
        """What a person said is durable when this returns: it is not asked again."""
        for granted in make_grants(shown, verdict):
            self._journal.stage(granted)
        self._turn.fold(self.make_decision(question, shown, verdict.decision))
        await self._journal.commit_beside()

    async def _wait_for_verdict(self, question: Question) -> Verdict | None:
        """What a person says; `None` if a change settles the question before they say it."""
        open_ = self._journal.machine.questions
        self._open = next(one for one in open_ if one.call.id == question.call.id)
        self._settled.clear()
        asking = asyncio.ensure_future(self.ask_for_verdict(question))
        settled = asyncio.ensure_future(self._settled.wait())
        try:
            await asyncio.wait((asking, settled), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            self._open = None
            asking.cancel()
            settled.cancel()

    async def ask_for_verdict(self, question: Question) -> Verdict:
        """What a person says of a call that needs a yes."""
        assert self._approve is not None
        approve = self._approve
        return await self.ask_person(lambda: approve(question))

    async def ask_person(self, ask: Callable[[], Awaitable[_SaidT]]) -> _SaidT:
        """What a person says, who is asked one thing at a time and may take their time."""
        assert self._turn.alarm is not None
        with self._turn.wait.measure(self._turn.alarm):
            async with self._person:
                return await ask()

    def make_decision(
        self, asked: Question, shown: Question, decision: Decision
    ) -> ApprovalDecided:
        """A person's word, as it is recorded.

        A modified call is looked at again: what it risks now is recorded with it. So is what a yes
        covers, if that is not what was recorded with the question.

        Args:
            asked: the question as it was recorded.
            shown: the question as the person has seen it.
            decision: what they said.
        """
        scope = None
        if isinstance(decision, Modified):
            call = replace(asked.call, arguments_json=decision.arguments_json)
            decision = replace(decision, risk=self.tools.risk_of(call))
            scope = self.tools.scope_of(call)
        elif isinstance(decision, Approved) and shown.scope != asked.scope:
            scope = shown.scope
        return ApprovalDecided(asked.call.id, decision, self._journal.now(), scope)

    def make_entries(
        self,
        decisions: Mapping[str, Decision],
        grant: Sequence[str],
        kinds: Mapping[str, Sequence[str]],
    ) -> list[GrantFact | ApprovalDecided]:
        """What is recorded where a program says what becomes of calls; see `Driver.decide`.

        Raises:
            UsageError: a call does not wait, or what is to be granted was not approved.
        """
        asked = {question.call.id: question for question in self._journal.machine.questions}
        shown = {call_id: self.fill_scope(question) for call_id, question in asked.items()}
        for call_id in decisions:
            if call_id not in asked:
                calls = ", ".join(sorted(asked)) or "none"
                raise UsageError(
                    f"no call {call_id!r} waits for approval", hint=f"those that wait: {calls}"
                )
        approved = {
            call_id: shown[call_id]
            for call_id, decision in decisions.items()
            if isinstance(decision, Approved)
        }
        entries: list[GrantFact | ApprovalDecided] = [
            make_tool_grant(name, [*approved.values()]) for name in grant
        ]
        for call_id, named in kinds.items():
            if call_id not in approved:
                raise UsageError(
                    f"call {call_id!r} is not allowed here, so its kinds cannot be granted",
                    hint="grant kinds of a call together with a yes to it",
                )
            entries += make_kind_grants(approved[call_id], named)
        for call_id, decision in decisions.items():
            entries.append(self.make_decision(asked[call_id], shown[call_id], decision))
        return entries

    def fill_scope(self, question: Question) -> Question:
        """A question that a fork has without its scope, with the one it has here.

        Others are as they were shown: a yes to them is for that.
        """
        if question.scope != NO_SCOPE:
            return question
        return replace(question, scope=self.scope_of(question.call) or NO_SCOPE)
