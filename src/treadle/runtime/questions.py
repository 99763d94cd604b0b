"""What a person is asked, as things stand when they are asked: the call may be older than that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from treadle.core.approval import NO_SCOPE, Approved, Decision, Modified, Question, Scope
from treadle.core.config import AgentConfig
from treadle.core.events import ApprovalDecided
from treadle.core.messages import ToolCall
from treadle.core.tools import ApprovalBinding, RiskLevel, Status
from treadle.runtime.approvals import apply_round_writes, describe_change
from treadle.runtime.ports import Tools

UNCERTAIN_REASON: Final = (
    "the process died, or was stopped, while this was running: it may or may not have happened"
)


def refresh_question(question: Question, config: AgentConfig, tools: Tools) -> Question:
    """A question that may have been recorded under another sandbox, or about another file.

    It has what a yes would cover now; what has changed since stands first among its reasons. One
    that was recorded without a scope is as it was: its tool says nothing, or is asked when a yes
    is recorded.
    """
    if question.scope == NO_SCOPE:
        return question
    scope = tools.scope_of(question.call) or NO_SCOPE
    if scope == question.scope:
        return question
    changed = describe_change(question.scope.binding, scope.binding)
    words = [f"{changed} has changed since the agent asked for this"] if changed else []
    words += _list_obstacles(question.call, config, scope)
    risk = max(question.risk, tools.risk_of(question.call) or question.risk)
    return replace(question, risk=risk, scope=_add_reasons(scope, words))


def make_uncertain_question(
    call: ToolCall,
    binding: ApprovalBinding | UnsetType,
    round_statuses: Iterable[Status],
    config: AgentConfig,
    tools: Tools,
) -> Question:
    """What is asked about a call that a crash left uncertain: running it again as things stand.

    Args:
        call: as it ran.
        binding: what the yes to its first run was bound to, if there was one.
        round_statuses: how the calls of its round stand, in request order.
        config: which tools there are.
        tools: who would run it.
    """
    scope = tools.scope_of(call) or NO_SCOPE
    left = UNSET if binding is UNSET else apply_round_writes(binding, scope.file, round_statuses)
    changed = "" if left is UNSET else describe_change(left, scope.binding)
    words = [f"{changed} has changed since a person allowed this"] if changed else []
    words += _list_obstacles(call, config, scope)
    tool = config.definition_of(call.tool_name)
    declared = RiskLevel.CRITICAL if tool is None else tool.risk
    risk = max(declared, tools.risk_of(call) or declared)
    return Question(call, risk, UNCERTAIN_REASON, _add_reasons(scope, words))


def _list_obstacles(call: ToolCall, config: AgentConfig, scope: Scope) -> Iterator[str]:
    """Why the call would not run even with a yes."""
    if config.definition_of(call.tool_name) is None:
        yield f"it would not run: {call.tool_name} is not offered now"
    elif scope.refused:
        yield f"it would not run: {scope.refused}"


def _add_reasons(scope: Scope, words: list[str]) -> Scope:
    return replace(scope, reasons=(*words, *scope.reasons))


def make_decision_event(
    question: Question, refreshed: Question, decision: Decision, tools: Tools, at: str
) -> ApprovalDecided:
    """A person's word, as it is recorded.

    A modified call is looked at again: what it risks now is recorded with it. So is what a yes
    covers, if that is not what was recorded with the question.

    Args:
        question: the question as it was recorded.
        refreshed: the question as the person has seen it.
        decision: what they said.
        tools: who would run the call.
        at: when.
    """
    scope = None
    if isinstance(decision, Modified):
        call = replace(question.call, arguments_json=decision.arguments_json)
        decision = replace(decision, risk=tools.risk_of(call))
        scope = tools.scope_of(call)
    elif isinstance(decision, Approved) and refreshed.scope != question.scope:
        scope = refreshed.scope
    elif isinstance(decision, Approved) and question.scope == NO_SCOPE:
        scope = tools.scope_of(question.call)
    return ApprovalDecided(question.call.id, decision, at, scope)
