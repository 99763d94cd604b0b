"""What a yes for the rest of a thread grants, and what it cannot."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from treadle.answers import Verdict
from treadle.core.approval import NO_SCOPE, Approved, Question, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.errors import UsageError
from treadle.runtime.grants import make_grants, make_tool_grant
from treadle.thread.facts import Granted

ALWAYS = Verdict(Approved(), always=True)


def question(scope: Scope, risk: RiskLevel = RiskLevel.HIGH) -> Question:
    return Question(ToolCall("1", "bash", "{}"), risk, "why", scope)


@pytest.mark.parametrize("scope", [NO_SCOPE, Scope(kinds=("ls",))], ids=["unknown", "with a kind"])
def test_a_tool_is_granted_with_a_call_like_others(scope: Scope) -> None:
    granted = Granted("bash", RiskLevel.HIGH)
    assert make_grants(question(scope), ALWAYS) == [granted]
    assert make_tool_grant("bash", [question(scope)]) == granted


@for_every_row(
    "scope",
    [Scope(reasons=("it deletes a root",)), Scope(ground="here"), Scope(must_ask=True)],
)
def test_a_tool_is_not_granted_with_a_call_that_is_like_no_other(scope: Scope) -> None:
    with pytest.raises(UsageError, match="can only be allowed by itself"):
        make_grants(question(scope, RiskLevel.CRITICAL), ALWAYS)
    with pytest.raises(UsageError, match="can only be allowed by itself"):
        make_tool_grant("bash", [question(NO_SCOPE), question(scope, RiskLevel.CRITICAL)])


def test_a_yes_to_a_call_like_no_other_is_one_for_once() -> None:
    assert make_grants(question(Scope(ground="here")), Verdict(Approved())) == []
