"""The budget bounds custom states as it bounds planning."""

from __future__ import annotations

from decimal import Decimal

from case_tables import for_every_row
from core.task.tasks import (
    ANSWER,
    Rows,
    agent,
    at,
    does,
    ended,
    graph,
    logged,
    says,
)
from treadle.core.actions import WAIT, RunState
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.core.task.events import CustomState


@for_every_row(
    "budget, used, limit",
    [
        (TokenBudget(max_total=10), Usage(9, 1), "tokens"),
        (TokenBudget(max_cost_usd=Decimal(1)), Usage(cost_usd=Decimal(1)), "cost"),
        (TokenBudget(max_time_s=9), Usage(), "time"),
    ],
)
def test_no_custom_state_begins_with_the_budget_used_up(
    budget: TokenBudget, used: Usage, limit: str
) -> None:
    rows: Rows = (
        ("Planning", "LlmFinalAnswer", "Review"),
        ("Review", "More", "Review"),
        ("Review", "Accepted", "Done"),
        ("Review", "FatalError", "Review"),
    )
    machine = agent(graph=graph(CustomState("Review"), rows=rows), budget=budget)
    assert does(machine, says(ANSWER, usage=Usage())) == RunState("Review")
    assert does(machine, ended("More", usage=used, at=at(9))) == WAIT
    assert (machine.state_name, machine.memory.exceeded) == ("Error", limit)
    assert "exceeded" in (machine.memory.error or "")
    assert logged(machine)[-2:] == ["BUDGET_EXCEEDED", "AGENT_FAILED"]


def test_a_terminal_state_of_its_own_is_reached_whatever_was_used() -> None:
    rows: Rows = (("Planning", "LlmFinalAnswer", "Parked"),)
    budget = TokenBudget(max_total=10)
    machine = agent(graph=graph(rows=rows, terminal=("Parked",)), budget=budget)
    does(machine, says(ANSWER, usage=Usage(20, 20)))
    assert machine.state_name == "Parked"
