"""What holds a command, and what is asked about it: the same for the question and for the run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import Access, RiskLevel, ToolErrorKind, ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Network, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

WORKING: Final = tuple(name for name in BACKENDS if find_backend((name,)).name)
READ, NETWORK, WRITE = Access.READ, Access.NETWORK, Access.WRITE
LOW, HIGH, CRITICAL = RiskLevel.LOW, RiskLevel.HIGH, RiskLevel.CRITICAL
ASKS, RUNS = True, False


class Case(Struct, frozen=True):
    """What a command says, what the person has chosen, and what there is."""

    access: str
    network: bool
    outside: bool
    level: Level
    policy_network: Network
    works: bool
    may_ask: bool
    asks_to_read: bool


class Answer(Struct, frozen=True):
    """What is to come of it; `refused` is a part of the words."""

    access: Access
    risk: RiskLevel
    must_ask: bool = RUNS
    refused: str = ""
    is_held: bool = True


CASES: Final = tuple(
    itertools.starmap(
        Case,
        itertools.product(
            ("read", "write"), (False, True), (False, True), Level, Network, *((True, False),) * 3
        ),
    )
)


def answer_of(case: Case) -> Answer:
    """The rules of docs/sandbox.md, written again in their order."""
    if case.level is Level.OFF:
        return Answer(WRITE, HIGH, is_held=False)
    reads = case.access == "read" and not case.outside
    asks_network = case.network and case.policy_network is Network.ASK
    is_cut_off = case.network and case.policy_network is Network.OFF
    if case.level is Level.READ_ONLY and not reads:
        must_ask = asks_network and case.works
        return Answer(WRITE, HIGH, must_ask, 'the sandbox is "read-only"')
    if case.outside:
        refused = "" if case.may_ask else "nobody is there to be asked"
        return Answer(WRITE, CRITICAL, ASKS, refused, is_held=False)
    if not case.works:
        refused = "" if case.may_ask else "nothing can hold commands here"
        refused = "commands have no network here" if is_cut_off else refused
        return Answer(WRITE, HIGH, ASKS, refused, is_held=False)
    refused = "commands have no network here" if is_cut_off else ""
    if not reads:
        return Answer(WRITE, HIGH, asks_network, refused)
    needs_no_yes = not case.network or case.policy_network is Network.ON
    risk = LOW if needs_no_yes and not case.asks_to_read else HIGH
    return Answer(NETWORK if case.network else READ, risk, asks_network, refused)


def registry_of(case: Case, folder: Path) -> Registry:
    policy = Policy(
        case.level,
        case.policy_network,
        may_ask=case.may_ask,
        asks_to_read=case.asks_to_read,
    )
    sandbox = Sandbox(policy, folder, backends=WORKING if case.works else ())
    return Registry(builtin_tools(), workspace=folder, sandbox=sandbox)


def call_of(case: Case, command: str) -> ToolCall:
    arguments = {
        "command": command,
        "access": case.access,
        "network": case.network,
        "outside": case.outside,
    }
    return ToolCall("c", "bash", json.dumps(arguments))


def scope_of(registry: Registry, call: ToolCall) -> Scope:
    found = registry.scope_of(call)
    assert found is not None
    return found


def find_fault(case: Case, scope: Scope, risk: RiskLevel) -> str:
    """What is wrong with a scope; empty if nothing is."""
    expected = answer_of(case)
    found = (scope.access, risk, scope.must_ask, bool(scope.refused))
    if found != (expected.access, expected.risk, expected.must_ask, bool(expected.refused)):
        return f"{found} and not {expected}"
    if expected.refused not in scope.refused:
        return f"the words {scope.refused!r} do not say {expected.refused!r}"
    if scope.confined.startswith("no sandbox") == expected.is_held and not expected.refused:
        return f"confined as {scope.confined!r}"
    if expected.risk is LOW and (scope.kinds or scope.reasons):
        return f"nobody is asked, and it gives {scope.kinds} and {scope.reasons}"
    if case.outside and expected.risk is CRITICAL:
        is_told = scope.reasons[0] == "it leaves the sandbox: it can do whatever you can"
        return "" if is_told and not scope.kinds else f"outside: {scope.reasons}, {scope.kinds}"
    if expected.risk is not LOW and scope.kinds != ("git status",):
        return f"kinds {scope.kinds}"
    return ""


def test_each_combination_is_decided_as_the_page_says(tmp_path: Path) -> None:
    wrong = {}
    for case in CASES:
        registry = registry_of(case, tmp_path)
        call = call_of(case, "git status")
        risk = registry.risk_of(call) or LOW
        if fault := find_fault(case, scope_of(registry, call), risk):
            wrong[case] = fault
    assert wrong == {}
    assert len(CASES) == 2 * 2 * 2 * 3 * 3 * 2 * 2 * 2


@pytest.mark.skipif(not WORKING, reason="nothing holds commands here")
async def test_the_run_agrees_with_the_question_in_each_combination(tmp_path: Path) -> None:
    """What is refused does not run, what is held does not reach outside, whoever has asked or not.

    `asks_to_read` changes a question only.
    """
    wrong = {}
    folder, outside = tmp_path / "ws", tmp_path / "outside"
    folder.mkdir()
    for case in (case for case in CASES if not case.asks_to_read):
        registry = registry_of(case, folder)
        call = call_of(case, f"echo x > '{outside}'; echo x > inside; echo ran")
        expected, scope = answer_of(case), scope_of(registry, call)
        outcome = await registry.execute(call, key="c", progress=lambda report: None)
        ran = isinstance(outcome, ToolExecutionOutcome.Success) and "ran" in outcome.output
        reached = (ran, outside.exists(), (folder / "inside").exists())
        is_free = not expected.is_held
        may = (not scope.refused, is_free, is_free or expected.access is WRITE)
        if reached != (tuple(may) if may[0] else (False,) * 3):
            wrong[case] = f"{reached}: {outcome}"
        if isinstance(outcome, ToolExecutionOutcome.Error):
            assert outcome.error.kind is ToolErrorKind.REJECTED, outcome
            assert outcome.error.message == scope.refused
        for made in (outside, folder / "inside"):
            made.unlink(missing_ok=True)
    assert wrong == {}


def test_a_registry_without_a_sandbox_takes_every_command_for_one_that_writes(
    tmp_path: Path,
) -> None:
    registry = Registry(builtin_tools(), workspace=tmp_path)
    for outside, command, risk in itertools.product((False, True), ("git status",), (HIGH,)):
        call = ToolCall("c", "bash", json.dumps({"command": command, "outside": outside}))
        scope = scope_of(registry, call)
        assert (scope.access, registry.risk_of(call)) == (WRITE, risk)
        assert (scope.must_ask, scope.refused, scope.confined) == (RUNS, "", "no sandbox")


def test_words_make_a_command_critical_only_where_a_person_may_be_asked(tmp_path: Path) -> None:
    registry = Registry(builtin_tools(), workspace=tmp_path, sandbox=Sandbox(Policy(), tmp_path))
    found = {}
    for access in ("read", "write"):
        call = ToolCall("c", "bash", json.dumps({"command": "rm -rf /", "access": access}))
        scope = scope_of(registry, call)
        found[access] = (registry.risk_of(call), bool(scope.reasons))
    assert found == {"read": (None, False), "write": (CRITICAL, True)}


@pytest.mark.skipif(not WORKING, reason="nothing holds commands here")
def test_where_the_workspace_holds_a_home_only_writing_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    registry = Registry(builtin_tools(), workspace=tmp_path, sandbox=Sandbox(Policy(), tmp_path))
    asked = {
        access: scope_of(
            registry, ToolCall("c", "bash", json.dumps({"command": "ls", "access": access}))
        ).must_ask
        for access in ("read", "write")
    }
    assert asked == {"read": False, "write": True}
