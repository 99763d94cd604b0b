"""What becomes of a call that is about to begin, or whose question is open: a decision table.

The same for both machines. The world looks at the call (`CallAssessed`); what it finds and how the
call stands are reduced to seven facts. Exactly one row of `CALL_CASES` fits each combination of
them; the tests enumerate them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple, replace

from treadle.core.actions import AskPerson, RefuseCall, StartCall
from treadle.core.approval import NO_SCOPE, OnlyRead, Question, Scope
from treadle.core.config import AgentConfig
from treadle.core.events import CallAssessed
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
    ToolExecutionStatus,
)

Round: TypeAlias = Sequence[tuple[ToolCall, Status]]
"""The calls of a round as they are to be run, each with where it stands, in request order."""

_Completed = ToolExecutionStatus.Completed
_Running = ToolExecutionStatus.Running
_OpenStatus: TypeAlias = ToolExecutionStatus.Pending | ToolExecutionStatus.Running

FORBIDDEN_REASON: Final = (
    "not in plan mode. There files can be read and commands run that only read, but nothing "
    "changed, so nothing ran. Look on, then give the steps that you would take (with the tool "
    "`plan`, if you have it) and end your turn: the person decides about them, and chooses the mode"
)
"""What the model reads of a call that the mode does not allow."""


class Stage(Enum):
    """Where a call stands when it is looked at."""

    DUE = "about to begin"
    """Or to run once more after a crash, which is safe."""
    IN_DOUBT = "left uncertain by a crash"
    ASKED = "its question is open"


class Yes(Enum):
    """What a person has said for a call."""

    NONE = "nobody said yes"
    HOLDS = "a person said yes, and what that stands on is as it was"
    CHANGED = "a person said yes, but what that stands on is another now"
    FRESH = "a person has just said to run it again, and it is as they saw it"


class Need(Enum):
    """What the policy wants before a call may run."""

    NONE = "nothing"
    GRANTED = "a yes, which was given for good"
    YES = "a yes"


class Ruling(Enum):
    """What becomes of a call. All but the first two refuse it."""

    RUN = "run it"
    ASK = "ask a person"
    UNAVAILABLE = (
        "refuse it: its tool is not offered any more, refuses it, or would not run it again"
    )
    FORBIDDEN = "refuse it: the mode does not allow it"
    UNAPPROVED = "refuse it: it has no yes, and it is too late to ask"
    CHANGED = "refuse it: the yes is for something else, and it is too late to ask"
    UNCONFIRMED = "refuse it: nobody has said to run it again"


class CallFacts(Struct, frozen=True):
    """What is known of a call: a value for each column of the table.

    `is_too_late` to ask: a call of the round has begun, and none may before each has the yes it
    needs; or whoever looks at the call asks nobody. `is_reconfigured`: a person has changed mode,
    model or tools in this session; where they have not, an open question stays, even if none would
    be put now, and whatever hinders its call is told with it.
    """

    stage: Stage
    is_unavailable: bool
    is_forbidden: bool
    yes: Yes
    need: Need
    is_too_late: bool
    is_reconfigured: bool


class CallCase(Struct, frozen=True):
    """One row. A cell of `None` means "whatever it is", several values "any of these"."""

    stage: Stage | None
    is_unavailable: bool | None
    is_forbidden: bool | None
    yes: tuple[Yes, ...] | None
    need: tuple[Need, ...] | None
    is_too_late: bool | None
    is_reconfigured: bool | None
    ruling: Ruling

    def fits(self, facts: CallFacts) -> bool:
        """Whether this is the row of these facts."""
        cells = zip(astuple(self), astuple(facts), strict=False)  # the last one is the ruling
        return all(
            cell is None or (value in cell if isinstance(cell, tuple) else value is cell)
            for cell, value in cells
        )


_C, _R = CallCase, Ruling
_DUE, _IN_DOUBT, _ASKED = Stage.DUE, Stage.IN_DOUBT, Stage.ASKED
_HAS_YES, _NO_YES, _NO_WORD = (Yes.HOLDS, Yes.FRESH), (Yes.NONE, Yes.CHANGED), (Yes.NONE, Yes.HOLDS)
_NEVER, _CHANGED, _FRESH = (Yes.NONE,), (Yes.CHANGED,), (Yes.FRESH,)
_NEEDED, _GRANTED, _FREE = (Need.YES,), (Need.GRANTED,), (Need.NONE,)
_NOT_NEEDED = (*_FREE, *_GRANTED)

# fmt: off
CALL_CASES: Final[tuple[CallCase, ...]] = (
    # stage       unavail. forbid. yes       need         late   reconf.
    _C(None,      True,    None,   None,     None,        None,  None,  _R.UNAVAILABLE),
    _C(None,      False,   True,   None,     None,        None,  None,  _R.FORBIDDEN),
    _C(_DUE,      False,   False,  _HAS_YES, None,        None,  None,  _R.RUN),
    _C(_DUE,      False,   False,  _NEVER,   _NOT_NEEDED, None,  None,  _R.RUN),
    _C(_DUE,      False,   False,  _CHANGED, _NOT_NEEDED, None,  None,  _R.CHANGED),
    _C(_DUE,      False,   False,  _NO_YES,  _NEEDED,     False, None,  _R.ASK),
    _C(_DUE,      False,   False,  _NEVER,   _NEEDED,     True,  None,  _R.UNAPPROVED),
    _C(_DUE,      False,   False,  _CHANGED, _NEEDED,     True,  None,  _R.CHANGED),
    _C(_IN_DOUBT, False,   False,  _FRESH,   None,        None,  None,  _R.RUN),
    _C(_IN_DOUBT, False,   False,  _CHANGED, None,        None,  None,  _R.CHANGED),
    _C(_IN_DOUBT, False,   False,  _NO_WORD, None,        None,  None,  _R.UNCONFIRMED),
    _C(_ASKED,    False,   False,  None,     _GRANTED,    None,  None,  _R.RUN),
    _C(_ASKED,    False,   False,  None,     _FREE,       None,  True,  _R.RUN),
    _C(_ASKED,    False,   False,  None,     _FREE,       False, False, _R.ASK),
    _C(_ASKED,    False,   False,  None,     _FREE,       True,  False, _R.UNAPPROVED),
    _C(_ASKED,    False,   False,  None,     _NEEDED,     False, None,  _R.ASK),
    _C(_ASKED,    False,   False,  None,     _NEEDED,     True,  None,  _R.UNAPPROVED),
)
# fmt: on


@cache  # as many entries as there are combinations: some hundreds
def find_ruling(facts: CallFacts) -> Ruling:
    """The ruling of the one row that fits."""
    [ruling] = (case.ruling for case in CALL_CASES if case.fits(facts))
    return ruling


class CallDecision(Struct, frozen=True):
    """A ruling, with what a person is asked, or what the model reads of a call that is refused."""

    ruling: Ruling
    question: Question | None = None
    refusal: ToolError | None = None

    def make_action(self, call_id: str) -> StartCall | AskPerson | RefuseCall:
        """What the world is to do about this call."""
        if self.refusal is not None:
            return RefuseCall(call_id, ToolExecutionOutcome.Error(call_id, self.refusal))
        return StartCall(call_id) if self.question is None else AskPerson(self.question)


def decide_call(
    config: AgentConfig, round_: Round, questions: Sequence[Question], event: CallAssessed
) -> CallDecision | None:
    """What becomes of the call that the world has looked at.

    Args:
        config: what holds now.
        round_: the calls of its round.
        questions: those that are open; while there are any, no other call can begin.
        event: what the world found.

    Returns:
        `None` if there is no such call to decide about.
    """
    found = next((pair for pair in round_ if pair[0].id == event.call_id), None)
    asked = next((one for one in questions if one.call.id == event.call_id), None)
    if found is None or (questions and asked is None):
        return None
    call, status = found
    if isinstance(status, _Completed):
        return None
    scope = NO_SCOPE if event.scope is None else event.scope
    needed = config.weigh_call(call, event.risk, scope)
    question = needed if asked is None else _refresh_question(config, asked, event.risk, scope)
    fault = _find_fault(config, call, scope, event)
    yes, changed = _judge_yes(round_, status, scope, event)
    # A question outlives its process: who opens the thread in plan mode must not lose it.
    stands = asked is not None and not event.is_reconfigured
    is_forbidden = _is_forbidden(config, call, scope)
    is_stuck = stands and (is_forbidden or bool(fault))
    # One that its tool would refuse, whoever says yes: a state of a task may have asked about it.
    is_failing = asked is not None and bool(event.failure)
    facts = CallFacts(
        _find_stage(status, is_asked=asked is not None),
        is_failing or (bool(fault) and not stands),
        is_forbidden and not stands,
        yes,
        Need.NONE if is_stuck else _judge_need(config, needed, question),
        not event.may_ask or any(has_begun(one) for _, one in round_),
        event.is_reconfigured,
    )
    ruling = find_ruling(facts)
    if ruling is Ruling.RUN:
        return CallDecision(ruling)
    if ruling is Ruling.ASK and question is not None:
        return CallDecision(ruling, _add_news(question, changed))
    words = {
        Ruling.UNAVAILABLE: event.failure if is_failing else fault,
        Ruling.UNAPPROVED: "" if question is None else question.reason,
        Ruling.CHANGED: changed,
    }
    why = words.get(ruling, "")
    if facts.stage is Stage.IN_DOUBT:
        return CallDecision(ruling, refusal=_explain_doubt(ruling, why, ToolErrorKind.UNCERTAIN))
    if isinstance(status, _Running) and not _only_read(config, status):
        return CallDecision(ruling, refusal=_explain_doubt(ruling, why, ToolErrorKind.CANCELLED))
    return CallDecision(ruling, refusal=_explain_refusal(ruling, why))


def _only_read(config: AgentConfig, status: ToolExecutionStatus.Running) -> bool:
    """Whether a call that began could change nothing: then none of it has happened."""
    reads = config.effect_of(status.tool_name) is EffectClass.READ
    return reads or status.access is Access.READ


def _find_stage(status: Status, *, is_asked: bool) -> Stage:
    if isinstance(status, _Running) and status.uncertain:
        return Stage.IN_DOUBT
    return Stage.ASKED if is_asked else Stage.DUE


def _find_fault(config: AgentConfig, call: ToolCall, scope: Scope, event: CallAssessed) -> str:
    """Why the tool is not there for the call; empty if it is.

    A call that has not run yet fails by itself, with what its tool says of it, if that refuses it
    or if nobody ever offered it. One that is to run again must not fail for a reason that says
    nothing of its first run.
    """
    is_missing = event.is_rerun and config.definition_of(call.tool_name) is None
    if event.is_withdrawn or is_missing:
        return (
            f"a person has changed what may be used meanwhile, and {call.tool_name} is not offered "
            "any more"
        )
    return scope.refused if event.is_rerun else ""


def _is_forbidden(config: AgentConfig, call: ToolCall, scope: Scope) -> bool:
    """Whether the policy lets a call not run, whoever says yes to it. An unknown one just fails."""
    is_known = config.definition_of(call.tool_name) is not None
    only_reads = isinstance(config.approval, OnlyRead)
    return is_known and only_reads and config.access_of(call, scope) is Access.WRITE


def _judge_yes(
    round_: Round, status: _OpenStatus, scope: Scope, event: CallAssessed
) -> tuple[Yes, str]:
    """What a person has said for a call, and what has changed since, in words."""
    if event.is_rerun:
        changed = describe_change(event.rerun_bound, scope.binding)
        return Yes.CHANGED if changed else Yes.FRESH, changed
    if status.approved is not True:
        return Yes.NONE, ""
    if status.bound is UNSET:
        return Yes.HOLDS, ""
    bound = apply_round_writes(status.bound, scope.written, (one for _, one in round_))
    changed = describe_change(bound, scope.binding)
    return Yes.CHANGED if changed else Yes.HOLDS, changed


def _judge_need(config: AgentConfig, needed: Question | None, shown: Question | None) -> Need:
    """What the policy wants: of a call as it stands, or of an open question as it is shown."""
    if any(one is not None and config.is_granted(one) for one in (needed, shown)):
        return Need.GRANTED
    return Need.NONE if needed is None else Need.YES


def _refresh_question(
    config: AgentConfig, question: Question, risk: RiskLevel | None, scope: Scope
) -> Question:
    """An open question, with what a yes would cover now.

    It may have been recorded under another sandbox, or about another file: what has changed since
    stands first among its reasons. One without a scope, as a fork has it, has nothing that could
    have changed.
    """
    if question.scope == scope:
        return question
    is_known = question.scope != NO_SCOPE
    changed = describe_change(question.scope.binding, scope.binding) if is_known else ""
    words = [f"{changed} has changed since the agent asked for this"] if changed else []
    words += list_obstacles(question.call, config, scope)
    scope = replace(scope, reasons=(*words, *scope.reasons))
    return replace(question, risk=max(question.risk, risk or question.risk), scope=scope)


def _add_news(question: Question, changed: str) -> Question:
    """The question, with why a yes that was given is none any more."""
    if not changed:
        return question
    news = f"{changed} has changed since a person allowed this"
    return replace(question, reason=f"{news}; {question.reason}")


def _explain_refusal(ruling: Ruling, words: str) -> ToolError:
    """What the model reads of a call that has not run."""
    why = {
        Ruling.FORBIDDEN: FORBIDDEN_REASON,
        Ruling.UNAVAILABLE: f"{words}; it was not run",
        Ruling.UNAPPROVED: f"this call needs a person's yes and has none: {words}{_TAIL}",
        Ruling.CHANGED: f"a person allowed this call, but {words} has changed since{_TAIL}",
    }
    return ToolError(ToolErrorKind.REJECTED, why[ruling])


_TAIL: Final = "; nothing ran; ask for it again"


def _explain_doubt(ruling: Ruling, words: str, kind: ToolErrorKind) -> ToolError:
    """What the model reads of a call that may have run before: not that nothing did."""
    why = {
        Ruling.FORBIDDEN: "the thread is in plan mode",
        Ruling.UNAVAILABLE: words,
        Ruling.CHANGED: f"{words} has changed since a person allowed this",
        Ruling.UNAPPROVED: f"it needs a person's yes and has none: {words}",
        Ruling.UNCONFIRMED: "nobody has said that it should be",
    }
    text = f"it may or may not have happened; it was not run again: {why[ruling]}"
    return ToolError(kind, text)


# ---- what the world needs of it too ------------------------------------------------------------


def has_begun(status: Status) -> bool:
    """Whether a call runs, or has run; one that was rejected has not."""
    if isinstance(status, ToolExecutionStatus.Pending):
        return False
    error = getattr(status.outcome, "error", None) if isinstance(status, _Completed) else None
    return not (isinstance(error, ToolError) and error.kind is ToolErrorKind.REJECTED)


def are_unstarted(statuses: Sequence[Status], questions: Sequence[Question]) -> bool:
    """Whether these calls can be asked about: they are open, and no call of the round has begun."""
    is_pending = ToolExecutionStatus.Pending
    open_ids = {one.call_id for one in statuses if isinstance(one, is_pending)}
    asked_ids = {one.call.id for one in questions}
    is_one_each = 0 < len(asked_ids) == len(questions)
    return is_one_each and asked_ids <= open_ids and not any(map(has_begun, statuses))


def reject_call(call_id: str, why: str) -> Outcome:
    """How a call ends that does not run; `why` is what the model reads."""
    return ToolExecutionOutcome.Error(call_id, ToolError(ToolErrorKind.REJECTED, why))


def describe_change(before: ApprovalBinding | UnsetType, after: ApprovalBinding | UnsetType) -> str:
    """What is not any more as it was when somebody looked at a call; empty if all is."""
    if before == after:
        return ""
    is_content = before is not UNSET and after is not UNSET and before.ground == after.ground
    return "the file" if is_content else "the folder, the environment or the sandbox"


def apply_round_writes(
    binding: ApprovalBinding, files: Sequence[str], round_statuses: Iterable[Status]
) -> ApprovalBinding:
    """What a yes stands on, after what the calls of its round have made of the files it is for.

    A person has said yes to all of them before the first one began. What they wrote must follow
    from what the yes was given to, without a gap: where somebody else wrote in between, it stands
    on what it was given to.
    """
    contents = binding.content.split(" ") if len(files) > 1 else [binding.content]
    if len(contents) != len(files):
        return binding
    content_of = dict(zip(files, contents, strict=True))
    for status in round_statuses:
        outcome = getattr(status, "outcome", None)
        for one in getattr(outcome, "rewritten", ()):
            if one.name in content_of:
                if one.before != content_of[one.name]:
                    return binding
                content_of[one.name] = one.after
    return ApprovalBinding(binding.ground, " ".join(content_of.values()))


def list_obstacles(call: ToolCall, config: AgentConfig, scope: Scope) -> Iterator[str]:
    """Why the call would not run even with a yes, for the person who is asked for one."""
    if config.definition_of(call.tool_name) is None:
        yield f"it would not run: {call.tool_name} is not offered now"
    elif _is_forbidden(config, call, scope):
        yield "it would not run: the thread is in plan mode"
    elif scope.refused:
        yield f"it would not run: {scope.refused}"
