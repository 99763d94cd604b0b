"""What a yes for the rest of the thread covers: a tool, or kinds of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from treadle.answers import Verdict
from treadle.core.approval import NO_SCOPE, Approved, Question, is_kind_covered
from treadle.errors import UsageError
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
