"""What a yes covers: the grants it gives, and whether it still holds when a call begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET

from treadle.core.approval import Approved, Question, Scope, covers
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, RiskLevel, Status
from treadle.errors import UsageError
from treadle.runtime.calls import changed_since, not_allowed
from treadle.runtime.verdict import Verdict
from treadle.thread.facts import Granted, KindGranted

_NOT_GRANTED: Final = "grant a tool together with a yes to one of its calls"


def granted_by(question: Question, verdict: Verdict) -> list[Granted | KindGranted]:
    """The grants that a person's word about one call gives; a changed call is another matter.

    Raises:
        UsageError: a kind is none of the call's.
    """
    if not verdict.always or not isinstance(verdict.decision, Approved):
        return []
    if not verdict.kinds:
        return [Granted(question.call.tool_name, question.risk)]
    return kinds_granted(question, verdict.kinds)


def kinds_granted(question: Question, kinds: Iterable[str]) -> list[Granted | KindGranted]:
    """The grants of kinds of this call, up to its risk and on its ground.

    Raises:
        UsageError: a kind is none of the call's.
    """
    name, scope = question.call.tool_name, question.scope
    granted: list[Granted | KindGranted] = []
    for kind in kinds:
        if not any(covers(kind, own) for own in scope.kinds):
            known = ", ".join(scope.kinds) or "none: it can only be allowed by itself"
            raise UsageError(f"{kind!r} is no kind of this call of {name}", hint=f"those: {known}")
        granted.append(KindGranted(name, question.risk, kind, scope.ground))
    return granted


def tool_granted(tool_name: str, allowed: Sequence[Question]) -> Granted:
    """The grant of a tool, for calls as risky as those of it that a person has allowed."""
    risks = [one.risk for one in allowed if one.call.tool_name == tool_name]
    if not risks:
        raise UsageError(
            f"no call of {tool_name} is allowed here, so the tool cannot be granted",
            hint=_NOT_GRANTED,
        )
    return Granted(tool_name, max(risks))


def why_not_now(
    call: ToolCall,
    status: Status,
    config: AgentConfig,
    risk: RiskLevel | None,
    scope: Scope | None,
) -> Outcome | None:
    """How a call ends that must not begin as things stand; `None` if it may.

    Args:
        call: as it would run.
        status: where it stands, with a person's yes if there was one.
        config: when to ask.
        risk: the risk seen in its arguments now.
        scope: what a yes to it would cover now.
    """
    if getattr(status, "approved", UNSET) is not True:
        question = config.question_about(call, risk, scope)
        return None if question is None else not_allowed(question)
    was, now = getattr(status, "bound", UNSET), (scope or Scope()).bound
    if was is UNSET or was == now:
        return None
    is_content = now is not UNSET and was.ground == now.ground
    what = "the file" if is_content else "the folder, the environment or the sandbox"
    return changed_since(call, what)
