"""Bugs in what people allow: which calls begin, on whose word, and what of that is on disk.

Part of `planted`, which has all bugs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Final
from unittest.mock import patch

from msgspec import UNSET
from msgspec.structs import replace

from treadle import outputs
from treadle.core import call_decision, config, executions
from treadle.core.approval import Approved, Decision, Grant, Question, Rejected, Scope
from treadle.core.call_decision import CallFacts, Ruling, Stage, find_ruling
from treadle.core.chat import machine
from treadle.core.config import AgentConfig
from treadle.core.events import ApprovalDecided
from treadle.core.messages import ToolCall
from treadle.core.task import waiting_for_human_state
from treadle.core.tools import Access, Status, ToolExecutionStatus
from treadle.runtime import recovery
from treadle.runtime.approvals import Approvals
from treadle.runtime.call_scheduler import CallScheduler
from treadle.runtime.thread_journal import ThreadJournal

Patch = AbstractContextManager[Any]
_record_start = CallScheduler._record_start


def _yes_for_another_ground() -> Patch:
    return patch.object(call_decision, "describe_change", lambda before, after: "")


def _no_second_look() -> Patch:
    def find(facts: CallFacts) -> Ruling:
        return Ruling.RUN if facts.stage is Stage.DUE else find_ruling(facts)

    return patch.object(call_decision, "find_ruling", find)


def _no_taken_for_yes() -> Patch:
    make = Approvals.make_decision

    def agree(
        self: Approvals, asked: Question, shown: Question, decision: Decision
    ) -> ApprovalDecided:
        meant = Approved() if isinstance(decision, Rejected) else decision
        return make(self, asked, shown, meant)

    return patch.object(Approvals, "make_decision", agree)


def _start_without_its_record(tool: str) -> Patch:
    def hasty(self: CallScheduler, call: ToolCall, status: Status, scope: Scope) -> None:
        if call.tool_name == tool:
            self._started.append((call, status, False))
        else:
            _record_start(self, call, status, scope)

    return patch.object(CallScheduler, "_record_start", hasty)


def _writing_recorded_as_reading() -> Patch:
    def mistake(self: CallScheduler, call: ToolCall, status: Status, scope: Scope) -> None:
        _record_start(self, call, status, replace(scope, access=Access.READ))

    return patch.object(CallScheduler, "_record_start", mistake)


def _access_not_looked_at() -> Patch:
    def find(status: Status, settings: AgentConfig) -> Any:
        return settings.effect_of(status.tool_name)

    return patch.object(recovery, "find_effect", find)


def _grant_on_another_ground() -> Patch:
    def matches(grant: Grant, question: Question) -> bool:
        is_same = grant.tool_name == question.call.tool_name
        return is_same and question.risk <= grant.risk

    return patch.object(config, "_matches_question", matches)


def _question_shown_before_it_is_durable() -> Patch:
    announce = ThreadJournal.announce

    def hasty(self: ThreadJournal, output: outputs.Output) -> None:
        if isinstance(output, outputs.ApprovalRequested):
            self.emit(output)
        else:
            announce(self, output)

    return patch.object(ThreadJournal, "announce", hasty)


def _yes_of_another_thread() -> Patch:
    return patch.object(machine, "drop_approvals", lambda statuses: statuses)


def _yes_of_a_task_for_anything() -> Patch:
    decide = executions.apply_decision

    def forget(statuses: executions.Executions, *others: Any) -> Any:
        if (decided := decide(statuses, *others)) is None:
            return None
        kept = (
            replace(one, bound=UNSET) if isinstance(one, ToolExecutionStatus.Pending) else one
            for one in decided[0]
        )
        return tuple(kept), decided[1]

    return patch.object(waiting_for_human_state, "apply_decision", forget)


def _grant_of_another_thread() -> Patch:
    return patch.object(AgentConfig, "without_grants", lambda self: self)


def _modification_forgotten() -> Patch:
    return patch.object(executions, "apply_modification", lambda call, status: call)


def _mode_not_looked_at() -> Patch:
    return patch.object(call_decision, "_is_forbidden", lambda settings, call, scope: False)


def _round_begun_call_by_call() -> Patch:
    """Each call is decided when it is its turn, and not all before the first one begins."""
    list_calls = CallScheduler._list_startable_calls

    def first(self: CallScheduler) -> Iterator[tuple[ToolCall, Status, Scope | None]]:
        return islice(list_calls(self), 1)

    return patch.object(CallScheduler, "_list_startable_calls", first)


APPROVAL_BUGS: Final[dict[str, tuple[Callable[[], Patch], str, str]]] = {
    "approved call without its intent": (
        lambda: _start_without_its_record("grave"),
        "kill, approval",
        "repeated",
    ),
    "call begins without its record": (
        lambda: _start_without_its_record("post"),
        "kill, round",
        "unrecorded",
    ),
    "no taken for a yes": (_no_taken_for_yes, "kill, round", "refused"),
    "modification forgotten": (_modification_forgotten, "kill, round", "altered"),
    "writing call recorded as reading": (_writing_recorded_as_reading, "kill, round", "repeated"),
    "reading call told as uncertain": (_access_not_looked_at, "kill, round", "doubted"),
    "yes kept for a changed ground": (_yes_for_another_ground, "kill, ground", "misplaced"),
    "second look left out": (_no_second_look, "kill, ground", "misplaced"),
    "round begun call by call": (_round_begun_call_by_call, "kill, ground", "early"),
    "question shown before it is durable": (
        _question_shown_before_it_is_durable,
        "kill, ground",
        "vanished",
    ),
    "plan mode not looked at": (_mode_not_looked_at, "kill, mode", "refused"),
    "grant counts on another ground": (_grant_on_another_ground, "kill, grant", "misplaced"),
    "grant of another thread counts": (_grant_of_another_thread, "kill, grant", "unapproved"),
    "yes of another thread counts": (_yes_of_another_thread, "kill, grant", "unapproved"),
    "yes of a task counts for anything": (
        _yes_of_a_task_for_anything,
        "kill, asking task",
        "misplaced",
    ),
}
"""What is planted, the layer that finds it, and as what it does."""
