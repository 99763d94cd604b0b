"""Takes up what an earlier process left unfinished, as the decision table says for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from treadle.answers import Answer, Resolution
from treadle.core.actions import ExecuteTools
from treadle.core.approval import NO_SCOPE, Question
from treadle.core.call_decision import apply_round_writes, describe_change, list_obstacles
from treadle.core.config import AgentConfig
from treadle.core.events import ToolCompleted, ToolUncertain
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    Access,
    ApprovalBinding,
    EffectClass,
    Outcome,
    RiskLevel,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.runtime.approvals import Approvals
from treadle.runtime.calls import cut_middle
from treadle.runtime.inbox import Inbox
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_progress import TurnProgress, is_work
from treadle.thread.recovery import (
    CallProgress,
    RecoveryAction,
    decide_recovery,
    get_call_progress,
)

UNCERTAIN_REASON: Final = (
    "the process died, or was stopped, while this was running: it may or may not have happened"
)
UNCERTAIN_TEXT: Final = (
    "the process that ran this died while it was running: it may have happened, in part or in "
    "full, or not at all. It was not run again. Look before you repeat it."
)
STOPPED_TEXT: Final = (
    "its program stopped this while it was running ({}): it may have happened, in part or in full, "
    "or not at all. It was not run again. Look before you repeat it."
)


class OpenCall(Struct, frozen=True):
    """A call of an interrupted round, and what to do with it.

    `bound` is what a person's yes to it was bound to, if there was one.
    """

    call: ToolCall
    standing: CallProgress
    decision: RecoveryAction
    bound: ApprovalBinding | UnsetType = UNSET

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody knows if it happened."""
        return self.decision in (RecoveryAction.ASK, RecoveryAction.REPORT)


class CallRecovery:
    """Decides about the calls that were open when the last process died or stopped.

    Args:
        journal: the thread.
        turn: who folds what is decided.
        inbox: what ends a question before a person answers it.
        approvals: who sees what running a call again would mean.
        ask: asked about a call of which nobody knows whether it happened.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        turn: TurnProgress,
        inbox: Inbox,
        approvals: Approvals,
        ask: Callable[[Question], Awaitable[Answer]] | None,
    ) -> None:
        self._journal = journal
        self._turn = turn
        self._inbox = inbox
        self._approvals = approvals
        self._ask = ask

    async def recover(self, *, is_own: bool) -> None:
        """Say what was left and what becomes of it; what is to be done is due then.

        Args:
            is_own: whether this process has left it.
        """
        machine, writer = self._journal.machine, self._journal.writer
        stopped, writer.stopped = writer.stopped, ""
        what = "work had stopped" if is_own else "the process had died"
        if stopped:
            what = f"its program had stopped the work ({stopped})"
        if not machine.round:
            due = machine.obligations()
            self._turn.due = due if is_work(due) else None
            self._turn.note(f"{what} in {machine.state_name}; going on from there")
            return
        found = list_open_calls(machine.round, machine.config, has_person=self._ask is not None)
        self._turn.note(describe_recovery(what, found))
        doubtful = [one for one in found if one.is_in_doubt]
        for one in doubtful:
            if one.standing is CallProgress.STARTED:
                self._turn.fold(ToolUncertain(one.call.id))
        if self._ask is not None and doubtful:
            await self._journal.commit_beside()  # the question is on disk before it is asked
        again = {one.call.id for one in found if not one.is_in_doubt}
        for one in doubtful:
            if await self._runs_again(one, stopped):
                again.add(one.call.id)
        if again:  # in request order: a call may stand on those before it
            self._turn.due = ExecuteTools(tuple(o.call for o in found if o.call.id in again))

    async def _runs_again(self, one: OpenCall, stopped: str) -> bool:
        """Whether a person says to run the call again; else it ends here."""
        answer = None
        if self._ask is not None:
            question = self._make_question(one)
            answer = await self._inbox.run_unless_stopped(self._ask(question))
            if answer.resolution is Resolution.RUN_AGAIN:
                self._approvals.allow_rerun(one.call.id, question.scope.binding)
                return True
        at = self._journal.now()
        self._turn.fold(complete_uncertain_call(answer, one.call, at, stopped))
        if answer is not None:
            await (
                self._journal.commit_beside()
            )  # what a person said is not asked again, whatever happens
        return False

    def _make_question(self, one: OpenCall) -> Question:
        """What is asked about a call in doubt: running it again as things stand."""
        machine, tools, call = self._journal.machine, self._approvals.tools, one.call
        scope = tools.scope_of(call) or NO_SCOPE
        executions = [status for _, status in machine.round]
        changed = _find_change(one.bound, scope.binding, scope.written, executions)
        words = [f"{changed} has changed since a person allowed this"] if changed else []
        words += list_obstacles(call, machine.config, scope)
        tool = machine.config.definition_of(call.tool_name)
        declared = RiskLevel.CRITICAL if tool is None else tool.risk
        risk = max(declared, tools.risk_of(call) or declared)
        scope = replace(scope, reasons=(*words, *scope.reasons))
        return Question(call, risk, UNCERTAIN_REASON, scope)


def _find_change(
    bound: ApprovalBinding | UnsetType,
    now: ApprovalBinding | UnsetType,
    files: Sequence[str],
    executions: Iterable[Status],
) -> str:
    """What has changed since the yes to the first run, if there was one and it was bound."""
    if bound is UNSET:
        return ""
    return describe_change(apply_round_writes(bound, files, executions), now)


def find_effect(status: Status, config: AgentConfig) -> EffectClass:
    """What running this call again would do: nothing, where it could only read."""
    if getattr(status, "access", UNSET) is Access.READ:
        return EffectClass.READ
    return config.effect_of(status.tool_name)


def list_open_calls(
    round_: Sequence[tuple[ToolCall, Status]], config: AgentConfig, *, has_person: bool
) -> list[OpenCall]:
    """The calls that are not completed, in request order, each with the table's decision."""
    found = []
    for call, status in round_:
        standing = get_call_progress(status)
        effect = find_effect(status, config)
        decision = decide_recovery(standing, effect, has_person=has_person)
        if decision is not RecoveryAction.KEEP:
            found.append(OpenCall(call, standing, decision, getattr(status, "bound", UNSET)))
    return found


def complete_uncertain_call(
    answer: Answer | None, call: ToolCall, at: str, stopped: str = ""
) -> ToolCompleted:
    """How an uncertain call ends without running: by a person's word, or as a report.

    Args:
        answer: what a person said, if one was asked.
        call: the call.
        at: the time.
        stopped: why its program stopped it; empty if its process died.
    """
    outcome: Outcome
    if answer is not None and answer.resolution is Resolution.RESULT:
        outcome = ToolExecutionOutcome.Success(call.id, cut_middle(answer.text))
    elif answer is not None:
        error = ToolError(ToolErrorKind.FAILED, "the person says that it did not succeed")
        outcome = ToolExecutionOutcome.Error(call.id, error)
    else:
        words = STOPPED_TEXT.format(stopped) if stopped else UNCERTAIN_TEXT
        outcome = ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.UNCERTAIN, words))
    return ToolCompleted(call.id, outcome, at)


def describe_recovery(what: str, calls: list[OpenCall]) -> str:
    """One line for people: what had happened, what it left and what happens to that."""
    parts = [f"{one.call.tool_name} ({one.standing.value}): {one.decision.value}" for one in calls]
    return f"{what} during tool calls: " + "; ".join(parts)
