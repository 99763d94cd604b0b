"""Whether a call may begin: the table against rules in other words, and both machines with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from core.call_cases import BESIDE, BOOLS, CASES, NAMES, Case, make_conversation, make_task
from core.random_events import check_pairs
from core.samples import CONFIG, Failure, Pending, Success, call
from treadle.core.actions import (
    AgentAction,
    AskPerson,
    ExecuteTools,
    RefuseCall,
    RequestApproval,
    SendLlmRequest,
    StartCall,
    WaitForInput,
)
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Modified,
    NeverAsk,
    OnlyRead,
    Question,
    Rejected,
    Scope,
)
from treadle.core.call_decision import (
    CALL_CASES,
    FORBIDDEN_REASON,
    CallFacts,
    Need,
    Ruling,
    Stage,
    Yes,
    are_unstarted,
    find_ruling,
    has_begun,
    list_obstacles,
    reject_call,
)
from treadle.core.chat.machine import ConversationMachine
from treadle.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
    CancelRequested,
    ToolCompleted,
)
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import (
    ApprovalBinding,
    RiskLevel,
    Status,
    ToolErrorKind,
)

COMBINATIONS: Final = [
    CallFacts(*values) for values in product(Stage, BOOLS, BOOLS, Yes, Need, BOOLS, BOOLS)
]


def _has_valid_yes(facts: CallFacts) -> bool:
    """A word that counts where the call stands; a question that is open has no answer yet."""
    return facts.stage is not Stage.ASKED and facts.yes in (Yes.HOLDS, Yes.FRESH)


def _is_hindered(facts: CallFacts) -> bool:
    return facts.is_unavailable or facts.is_forbidden


def _is_asked_in_vain(facts: CallFacts) -> bool:
    return facts.stage is Stage.ASKED and facts.need is Need.NONE and not facts.is_reconfigured


RULES: Final[dict[str, Callable[[CallFacts, Ruling], bool]]] = {
    "nothing without a yes runs where the policy needs one": lambda facts, ruling: (
        ruling is not Ruling.RUN or facts.need is not Need.YES or _has_valid_yes(facts)
    ),
    "what is forbidden, or has no tool, never runs, and nobody is asked about it": (
        lambda facts, ruling: not _is_hindered(facts) or ruling not in (Ruling.RUN, Ruling.ASK)
    ),
    "a changed yes is no yes: what waits for nothing else does not run by it": (
        lambda facts, ruling: (
            ruling is not Ruling.RUN or facts.yes is not Yes.CHANGED or facts.stage is Stage.ASKED
        )
    ),
    "no question is put once a call of the round has begun, or to nobody": lambda facts, ruling: (
        ruling is not Ruling.ASK or not facts.is_too_late
    ),
    "an uncertain call never runs without a fresh word": lambda facts, ruling: (
        ruling is not Ruling.RUN or facts.stage is not Stage.IN_DOUBT or facts.yes is Yes.FRESH
    ),
    "an uncertain call is never asked about like one that has not run": lambda facts, ruling: (
        ruling is not Ruling.ASK or facts.stage is not Stage.IN_DOUBT
    ),
    "an open question goes away only by a grant, or after a change by a person": (
        lambda facts, ruling: (
            ruling is not Ruling.RUN
            or facts.stage is not Stage.ASKED
            or facts.need is Need.GRANTED
            or (facts.need is Need.NONE and facts.is_reconfigured)
        )
    ),
    "what needs nothing, and was promised nothing, runs": lambda facts, ruling: (
        ruling is Ruling.RUN
        or _is_hindered(facts)
        or facts.stage is not Stage.DUE
        or facts.need is Need.YES
        or facts.yes is Yes.CHANGED
    ),
    "a yes is enough, however strict the policy has become": lambda facts, ruling: (
        ruling is Ruling.RUN
        or _is_hindered(facts)
        or facts.stage is not Stage.DUE
        or not _has_valid_yes(facts)
    ),
    "nobody is refused for a missing yes while a person can still be asked": (
        lambda facts, ruling: ruling is not Ruling.UNAPPROVED or facts.is_too_late
    ),
    "nobody is asked in vain, but for a question that stands": lambda facts, ruling: (
        ruling is not Ruling.ASK or facts.need is Need.YES or _is_asked_in_vain(facts)
    ),
    "a refusal names a fact that is so": lambda facts, ruling: {
        Ruling.UNAVAILABLE: facts.is_unavailable,
        Ruling.FORBIDDEN: facts.is_forbidden and not facts.is_unavailable,
        Ruling.CHANGED: facts.yes is Yes.CHANGED,
        Ruling.UNAPPROVED: facts.stage is Stage.ASKED or facts.yes is Yes.NONE,
        Ruling.UNCONFIRMED: (facts.stage is Stage.IN_DOUBT and facts.yes in (Yes.NONE, Yes.HOLDS)),
    }.get(ruling, True),
}


def test_one_row_fits_each_combination_of_facts_and_its_ruling_keeps_every_rule() -> None:
    assert len(COMBINATIONS) == 3 * 2 * 2 * 4 * 3 * 2 * 2
    missed = []
    for facts in COMBINATIONS:
        fitting = [case for case in CALL_CASES if case.fits(facts)]
        if len(fitting) != 1:
            missed.append(f"{len(fitting)} rows fit {facts}")
            continue
        ruling = find_ruling(facts)
        broken = [rule for rule, holds in RULES.items() if not holds(facts, ruling)]
        missed += [f"{rule}: {ruling} of {facts}" for rule in broken]
    assert missed == []


def test_every_row_and_every_ruling_is_of_use() -> None:
    fitting = {case for facts in COMBINATIONS for case in CALL_CASES if case.fits(facts)}
    assert fitting == {*CALL_CASES}
    assert {find_ruling(facts) for facts in COMBINATIONS} == {*Ruling}


# ---- real calls, scopes and configurations -----------------------------------------------------


def check_answer(case: Case, action: AgentAction) -> None:
    """The answer to an assessment, by what is so."""
    assert isinstance(action, StartCall | AskPerson | RefuseCall), action
    is_pending = isinstance(case.status, Pending)
    has_good_yes = case.has_yes and case.is_as_bound and not case.is_asked
    if isinstance(action, StartCall):
        assert not case.is_withdrawn
        assert not case.is_forbidden
        assert is_pending or case.is_rerun
        if is_pending and not case.is_rerun:
            question = case.config.make_question(case.calls[0], None, case.scope)
            is_granted = case.is_asked and case.config.is_granted(case.questions[0])
            assert has_good_yes or question is None or is_granted
            assert case.is_asked or not case.has_yes or case.is_as_bound
    elif isinstance(action, AskPerson):
        assert action.question.call == case.calls[0]
        assert action.question.reason
        assert case.may_ask
        assert not case.has_begun
        stands = case.is_asked and not case.is_reconfigured
        assert stands or not (case.is_forbidden or case.is_withdrawn)
        assert case.is_asked or case.config.make_question(case.calls[0], None, case.scope)
    else:
        assert isinstance(action.outcome, Failure)
        assert action.outcome.call_id == action.call_id == "a"
        kind = ToolErrorKind.REJECTED if is_pending else ToolErrorKind.UNCERTAIN
        assert action.outcome.error.kind is kind
        assert ("nothing ran" in action.outcome.error.message) <= is_pending


@settings(max_examples=400, deadline=None)
@given(CASES)
def test_both_machines_answer_alike_and_stay_where_they_are(case: Case) -> None:
    conversation, task = make_conversation(case), make_task(case)
    before, memory = conversation.state, task.state
    action = conversation.handle_event(case.event)
    assert conversation.state is before
    check_answer(case, action)
    assert task.handle_event(case.event) == action
    assert task.state == memory


@settings(max_examples=200, deadline=None)
@given(CASES, st.randoms(use_true_random=True))
def test_after_a_late_question_every_call_is_open_and_no_pair_is_torn(
    case: Case, random: Random
) -> None:
    case = case._replace(is_asked=False)
    open_calls = [
        one for one, s in zip(case.calls, case.statuses, strict=True) if isinstance(s, Pending)
    ]
    if not open_calls:
        return
    some = random.sample(open_calls, random.randrange(1, len(open_calls) + 1))
    event = ApprovalRequired(tuple(Question(one, RiskLevel.HIGH, "why") for one in some), "12:04")
    agents: list[Any] = [make_conversation(case), make_task(case)]
    for agent in agents:
        before = agent.state
        action = agent.handle_event(event)
        if case.has_begun:
            assert (agent.state, action) == (before, WaitForInput())
            continue
        assert action == RequestApproval(event.questions)
        assert agent.questions == event.questions
        state = agent.state
        executions = state.executions if agent is agents[0] else state.memory.executions
        assert not any(map(has_begun, executions))
        asked = {one.id for one in some}
        for status in executions:
            if isinstance(status, Pending) and status.call_id in asked:
                assert (status.approved, status.bound) == (UNSET, UNSET)
        settle(agent, random)


def settle(agent: ConversationMachine | TaskMachine, random: Random) -> None:
    """A person decides about every question, and what may run then ends; all requests are whole."""
    words = (Approved(), Rejected("not today"), Modified('{"x":2}', RiskLevel.LOW))
    for _ in range(9):
        if isinstance(agent, ConversationMachine) and random.random() < 0.1:
            agent.handle_event(CancelRequested())
            check_pairs(tuple(agent.conversation))
            return
        if agent.questions:
            one = random.choice(agent.questions).call.id
            action = agent.handle_event(ApprovalDecided(one, random.choice(words), "12:05"))
        elif agent.round:
            action = agent.obligations()
            assert isinstance(action, ExecuteTools)
            one = random.choice(action.calls).id
            action = agent.handle_event(ToolCompleted(one, Success(one, "fine"), "12:06"))
        else:
            break
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)
    assert not agent.questions
    assert not agent.round


@pytest.mark.parametrize("beside", [None, BESIDE[1]])
def test_in_plan_mode_a_call_without_an_access_of_its_own_is_judged_as_before(
    beside: Status | None,
) -> None:
    for name, has_yes, must_ask in product(NAMES, BOOLS, BOOLS):
        case = Case(name, OnlyRead(), must_ask=must_ask, has_yes=has_yes, beside=beside)
        agent = make_conversation(case)
        action = agent.handle_event(case.event)
        asked = case.config.weigh_call(case.calls[0], RiskLevel.CRITICAL, case.scope)
        assert (asked is not None) == (must_ask and name != "unheard of")
        if name in ("put", "edit", "drop"):
            assert action == RefuseCall("a", reject_call("a", FORBIDDEN_REASON))
        elif must_ask and not has_yes and name == "look":
            assert isinstance(action, AskPerson)
        else:
            assert action == StartCall("a")


def test_what_is_asked_says_what_has_changed_since_a_person_said_yes() -> None:
    case = Case("drop", AlwaysAsk(), content="c2", has_yes=True, bound="c0")
    action = make_conversation(case).handle_event(case.event)
    assert isinstance(action, AskPerson)
    assert action.question.reason == (
        "the file has changed since a person allowed this; every call needs approval"
    )
    late = make_conversation(case)
    late.handle_event(ApprovalRequired((action.question,)))
    again = late.handle_event(case.event)
    assert again == action, "it says so as long as it is open"


def test_of_an_uncertain_call_nobody_says_that_nothing_ran() -> None:
    for policy, event in (
        (OnlyRead(), CallAssessed("a", is_rerun=True)),
        (NeverAsk(), CallAssessed("a")),
        (NeverAsk(), CallAssessed("a", is_rerun=True, rerun_bound=ApprovalBinding("here"))),
        (NeverAsk(), CallAssessed("a", scope=Scope(refused="no room"), is_rerun=True)),
        (NeverAsk(), CallAssessed("a", is_withdrawn=True, is_rerun=True)),
    ):
        case = Case("edit", policy, has_yes=True, is_uncertain=True)
        action = make_conversation(case).handle_event(event)
        assert isinstance(action, RefuseCall)
        assert isinstance(action.outcome, Failure)
        error = action.outcome.error
        assert error.kind is ToolErrorKind.UNCERTAIN
        assert error.message.startswith("it may or may not have happened; it was not run again: ")
        assert "nothing ran" not in error.message


def test_while_questions_are_open_no_other_call_is_decided_about() -> None:
    case = Case("drop", AskAbove(RiskLevel.HIGH), beside=BESIDE[1], is_asked=True)
    agents: list[ConversationMachine | TaskMachine] = [make_conversation(case), make_task(case)]
    for agent in agents:
        assert isinstance(agent.handle_event(case.event), AskPerson)
        assert agent.handle_event(replace(case.event, call_id="b")) == WaitForInput()


def test_only_open_calls_of_a_round_that_has_not_begun_can_be_asked_about() -> None:
    one, other = Question(call("a"), RiskLevel.LOW, ""), Question(call("b"), RiskLevel.LOW, "")
    two = (Pending("a", "look"), Pending("b", "look"))
    assert are_unstarted(two, (one,))
    assert are_unstarted(two, (other, one))
    assert are_unstarted((two[0], BESIDE[4]), (one,))  # type: ignore[arg-type]
    assert not are_unstarted(two, ())
    assert not are_unstarted(two, (one, one))
    assert not are_unstarted(two[1:], (one,))
    assert not are_unstarted((two[0], BESIDE[4]), (one, other))  # type: ignore[arg-type]
    assert not are_unstarted((two[0], BESIDE[2]), (one,))  # type: ignore[arg-type]
    assert not are_unstarted((two[0], BESIDE[3]), (one,))  # type: ignore[arg-type]


def test_who_is_asked_is_told_why_a_yes_would_be_in_vain() -> None:
    scope, reading = Scope(refused="no room"), replace(CONFIG, approval=OnlyRead())
    told = [
        list(list_obstacles(call("a", name), config, scope))
        for name, config in (("edit", CONFIG), ("gone", CONFIG), ("edit", reading))
    ]
    assert told == [
        ["it would not run: no room"],
        ["it would not run: gone is not offered now"],
        ["it would not run: the thread is in plan mode"],
    ]
    assert list(list_obstacles(call("a", "edit"), CONFIG, Scope())) == []
