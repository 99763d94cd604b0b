"""What a yes covers: under which policies, risks, scopes and grants a call is asked about."""

from __future__ import annotations

from itertools import product

from msgspec import UNSET
from msgspec.structs import replace

from case_tables import for_every_row
from core.samples import CONFIG, TALK, Pending, answer, call, machine
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Grant,
    Modified,
    NeverAsk,
    Policy,
    Scope,
    ToolBased,
    is_kind_covered,
)
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import CallingLlm
from treadle.core.config import AgentConfig
from treadle.core.events import ApprovalDecided
from treadle.core.tools import ApprovalBinding, EffectClass, RiskLevel, ToolDefinition

POLICIES: tuple[Policy, ...] = (
    AlwaysAsk(),
    NeverAsk(),
    *map(AskAbove, RiskLevel),
    *(ToolBased({"run": risk}) for risk in RiskLevel),
)
CALL = call("a", "run")
SCOPE = Scope(("it deletes",), ("git status", "src/"), "here", "as it is", "read-only")


def config(policy: Policy, *grants: Grant, up_to: RiskLevel | None = None) -> AgentConfig:
    tool = ToolDefinition("run", "Run it.", {}, EffectClass.MUTATE, RiskLevel.LOW)
    granted = {} if up_to is None else {"run": up_to}
    return replace(CONFIG, tools=(tool,), approval=policy, grants=grants, granted=granted)


def wants_a_yes(policy: Policy, risk: RiskLevel) -> bool:
    """What the documentation says of policies, in other words than the code."""
    if isinstance(policy, ToolBased):
        named = policy.risks["run"]
        return named >= RiskLevel.HIGH or (risk > RiskLevel.LOW and risk >= RiskLevel.HIGH)
    asked_from = {AlwaysAsk: RiskLevel.LOW}.get(type(policy))
    if isinstance(policy, AskAbove):
        asked_from = policy.risk
    return asked_from is not None and risk >= asked_from


@for_every_row("policy", POLICIES)
def test_a_call_is_asked_about_if_its_policy_or_its_scope_wants_that_and_nothing_covers_it(
    policy: Policy,
) -> None:
    kinds: list[tuple[str, ...]] = [(), ("git status",), ("src/",), ("git status", "src/")]
    grounds, levels = ("here", "elsewhere"), (None, *RiskLevel)
    for risk, must_ask, up_to, granted, to, ground in product(
        RiskLevel, (False, True), levels, kinds, RiskLevel, grounds
    ):
        scope = replace(SCOPE, must_ask=must_ask)
        given = (Grant("run", to, kind, ground) for kind in granted)
        question = config(policy, *given, up_to=up_to).make_question(CALL, risk, scope)
        asked_risk = risk
        if isinstance(policy, ToolBased):
            named = policy.risks["run"]
            asked_risk = max(named, risk) if risk > RiskLevel.LOW else named
        is_wanted = must_ask or wants_a_yes(policy, risk)
        by_tool = up_to is not None and asked_risk <= up_to and not must_ask
        by_kinds = len(granted) == 2 and asked_risk <= to and ground == "here"
        assert (question is not None) == (is_wanted and not by_tool and not by_kinds)
        if question is not None:
            assert (question.risk, question.scope) == (asked_risk, scope)
            assert question.reasons == ("it deletes", question.reason)
            assert question.reason


def test_no_grant_covers_a_call_that_has_no_kind_but_one_of_its_whole_tool() -> None:
    scope = Scope(ground="here")
    everything = [Grant("run", RiskLevel.CRITICAL, kind, "here") for kind in ("", "x", "/")]
    assert config(AlwaysAsk(), *everything).make_question(CALL, None, scope) is not None
    assert config(AlwaysAsk(), up_to=RiskLevel.LOW).make_question(CALL, None, scope) is None


def test_a_grant_is_for_its_own_tool() -> None:
    scope = Scope(kinds=("src/",))
    other = Grant("edit", RiskLevel.CRITICAL, "src/")
    assert config(AlwaysAsk(), other).make_question(CALL, None, scope) is not None


@for_every_row(
    "granted, kind, is_covered",
    [
        ("git status", "git status", True),
        ("git status", "git status --short", False),
        ("git", "git status", False),
        ("src/", "src/", True),
        ("src/", "src/deep/", True),
        ("src/", "srcs/", False),
        ("src/deep/", "src/", False),
        ("src/", "src/a.py", False),
        ("src", "src/", False),
        ("", "src/", False),
        ("/", "/etc/", True),
    ],
)
def test_a_kind_covers_itself_and_a_folder_those_below_it(
    granted: str, kind: str, is_covered: bool
) -> None:
    assert is_kind_covered(granted, kind) == is_covered


# ---- what a yes is bound to --------------------------------------------------------------------


def asked(scope: Scope | None) -> ConversationMachine:
    agent = machine(CallingLlm(TALK), config(AlwaysAsk()))
    agent.handle_event(replace(answer("", CALL), scopes=(scope,)))
    return agent


def bound(agent: ConversationMachine) -> object:
    ((_, status),) = agent.round
    assert isinstance(status, Pending)
    assert status.approved is True
    return status.bound


def test_a_yes_is_bound_to_ground_and_content_of_the_question() -> None:
    agent = asked(SCOPE)
    agent.handle_event(ApprovalDecided("a", Approved()))
    assert bound(agent) == ApprovalBinding("here", "as it is")


def test_a_yes_to_a_call_of_a_tool_that_says_nothing_is_bound_to_its_arguments_alone() -> None:
    agent = asked(None)
    agent.handle_event(ApprovalDecided("a", Approved()))
    assert bound(agent) is UNSET


def test_a_changed_call_is_bound_to_what_it_covers_as_changed() -> None:
    agent = asked(SCOPE)
    other = Scope(ground="there", content="as it is there")
    agent.handle_event(ApprovalDecided("a", Modified("{}", RiskLevel.LOW), scope=other))
    assert bound(agent) == ApprovalBinding("there", "as it is there")


def test_a_change_to_what_must_be_asked_about_is_asked_about_again() -> None:
    agent = asked(SCOPE)
    other = replace(SCOPE, must_ask=True, kinds=())
    agent.handle_event(ApprovalDecided("a", Modified("{}", RiskLevel.LOW), scope=other))
    (question,) = agent.questions
    assert question.scope == other
    agent.handle_event(ApprovalDecided("a", Approved()))
    assert bound(agent) == other.binding


def test_an_old_yes_that_is_played_again_allows_no_other_call() -> None:
    agent = asked(SCOPE)
    agent.handle_event(ApprovalDecided("another", Approved()))
    assert [one.call.id for one in agent.questions] == ["a"]


def test_a_fork_takes_no_yes_and_no_grant_along() -> None:
    grant = Grant("run", RiskLevel.HIGH, "src/", "here")
    agent = machine(CallingLlm(TALK), config(AlwaysAsk(), grant, up_to=RiskLevel.HIGH))
    other = agent.fork("other")
    assert (other.config.grants, other.config.granted) == ((), {})
    agent = asked(SCOPE)
    agent.handle_event(ApprovalDecided("a", Approved()))
    ((_, status),) = agent.fork("other").round
    assert isinstance(status, Pending)
    assert (status.approved, status.bound) == (UNSET, UNSET)
