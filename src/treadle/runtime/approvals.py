"""What a yes covers: the grants it gives, and whether it still holds when a call begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from treadle.answers import Verdict
from treadle.core.approval import NO_SCOPE, Approved, OnlyRead, Question, Scope, is_kind_covered
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import ApprovalBinding, EffectClass, Outcome, RiskLevel, Status
from treadle.errors import UsageError
from treadle.runtime.calls import reject_by_policy, reject_changed, reject_rerun, reject_unapproved
from treadle.runtime.reconfiguration import reject_withdrawn
from treadle.thread.facts import Granted, KindGranted

_GRANT_HINT: Final = "grant a tool together with a yes to one of its calls"


def make_grants(question: Question, verdict: Verdict) -> list[Granted | KindGranted]:
    """The grants that a person's word about one call gives; a changed call is another matter.

    Raises:
        UsageError: a kind is none of the call's, or a whole tool is to be granted by a call that
            can only be allowed by itself.
    """
    if not verdict.always or not isinstance(verdict.decision, Approved):
        return []
    if not verdict.kinds:
        _check_grantable(question)
        return [Granted(question.call.tool_name, question.risk)]
    return make_kind_grants(question, verdict.kinds)


def make_kind_grants(question: Question, kinds: Iterable[str]) -> list[Granted | KindGranted]:
    """The grants of kinds of this call, up to its risk and on its ground.

    Raises:
        UsageError: a kind is none of the call's.
    """
    name, scope = question.call.tool_name, question.scope
    granted: list[Granted | KindGranted] = []
    for kind in kinds:
        if not any(is_kind_covered(kind, own) for own in scope.kinds):
            known = ", ".join(scope.kinds) or "none: it can only be allowed by itself"
            raise UsageError(f"{kind!r} is no kind of this call of {name}", hint=f"those: {known}")
        granted.append(KindGranted(name, question.risk, kind, scope.ground))
    return granted


def _check_grantable(question: Question) -> None:
    """Raise for a call of which its tool says that it has no kinds: it is like no other."""
    if question.scope != NO_SCOPE and not question.scope.kinds:
        raise UsageError(
            f"this call of {question.call.tool_name} can only be allowed by itself,"
            " so the tool cannot be granted with it",
            hint="say yes to it once",
        )


def make_tool_grant(tool_name: str, allowed: Sequence[Question]) -> Granted:
    """The grant of a tool, for calls as risky as those of it that a person has allowed.

    Raises:
        UsageError: none of them is allowed, or one can only be allowed by itself.
    """
    own = [one for one in allowed if one.call.tool_name == tool_name]
    for question in own:
        _check_grantable(question)
    risks = [one.risk for one in own]
    if not risks:
        raise UsageError(
            f"no call of {tool_name} is allowed here, so the tool cannot be granted",
            hint=_GRANT_HINT,
        )
    return Granted(tool_name, max(risks))


def is_refused_by_policy(call: ToolCall, config: AgentConfig) -> bool:
    """Whether the policy lets a call not run, whoever says yes to it."""
    is_known = config.definition_of(call.tool_name) is not None
    only_reads = isinstance(config.approval, OnlyRead)
    return is_known and only_reads and config.effect_of(call.tool_name) is not EffectClass.READ


def find_start_refusal(
    call: ToolCall,
    status: Status,
    config: AgentConfig,
    risk: RiskLevel | None,
    scope: Scope | None,
    round_statuses: Iterable[Status],
) -> Outcome | None:
    """How a call ends that must not begin as things stand; `None` if it may.

    Args:
        call: as it would run.
        status: where it stands, with a person's yes if there was one.
        config: when to ask.
        risk: the risk seen in its arguments now.
        scope: what a yes to it would cover now.
        round_statuses: how the calls of its round stand, in request order.
    """
    if is_refused_by_policy(call, config):
        return reject_by_policy(call)
    if getattr(status, "approved", UNSET) is not True:
        question = config.make_question(call, risk, scope)
        return None if question is None else reject_unapproved(question)
    was = getattr(status, "bound", UNSET)
    if was is UNSET:
        return None
    now = NO_SCOPE if scope is None else scope
    what = describe_change(apply_round_writes(was, now.file, round_statuses), now.binding)
    return reject_changed(call, what) if what else None


def apply_round_writes(
    binding: ApprovalBinding, file: str, round_statuses: Iterable[Status]
) -> ApprovalBinding:
    """What a yes stands on, after what the calls of its round have made of the file it is for.

    A person has said yes to all of them before the first one began. What they wrote must follow
    from what the yes was given to, without a gap: where somebody else wrote in between, it stands
    on what it was given to.
    """
    content = binding.content
    for status in round_statuses:
        outcome = getattr(status, "outcome", None)
        for one in getattr(outcome, "rewritten", ()):
            if file and one.name == file:
                if one.before != content:
                    return binding
                content = one.after
    return ApprovalBinding(binding.ground, content)


def find_rerun_refusal(
    call: ToolCall, binding: ApprovalBinding | UnsetType, config: AgentConfig, scope: Scope | None
) -> Outcome | None:
    """How a call ends that a person wants to run again, and that must not; `None` if it may.

    Args:
        call: as it would run.
        binding: what it was bound to when they said so.
        config: which tools there are.
        scope: what it would be bound to now.
    """
    now = NO_SCOPE if scope is None else scope
    if is_refused_by_policy(call, config):
        return reject_by_policy(call)
    if config.definition_of(call.tool_name) is None:
        return reject_withdrawn(call)
    if now.refused:
        return reject_rerun(call, now.refused)
    what = describe_change(binding, now.binding)
    return reject_changed(call, what) if what else None


def describe_change(before: ApprovalBinding | UnsetType, after: ApprovalBinding | UnsetType) -> str:
    """What is not any more as it was when somebody looked at a call; empty if all is."""
    if before == after:
        return ""
    is_content = before is not UNSET and after is not UNSET and before.ground == after.ground
    return "the file" if is_content else "the folder, the environment or the sandbox"
