"""What an agent can be told by keyword, and which limits cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypedDict

from treadle.core.approval import Policy
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig as RequestSettings
from treadle.core.task.events import AgentConfig
from treadle.runtime.outputs import Output
from treadle.runtime.ports import Provider, Redactor, Store, Workspace
from treadle.runtime.verdict import Decider

COUNT_LIMIT = 2**63
"""JSON has no larger integers that every reader agrees on, and no infinity."""


class AgentKeywords(TypedDict, total=False):
    """The methods of `AgentBuilder` that take one value, as keyword arguments."""

    task_type: str
    system_prompt: str
    model: str
    models: Mapping[str, str]
    llm: Provider
    tools: Iterable[Any]
    store: Store
    config: AgentConfig
    max_steps: int
    max_retries: int
    confidence_threshold: float
    reflect_every_n_steps: int
    min_answer_length: int
    parallel_tools: bool
    budget: TokenBudget
    max_tokens: int
    max_cost: Decimal | float | str
    time_limit: float
    approval: Policy
    on_approval: Decider
    blacklist: Iterable[str]
    output: type[Any] | Mapping[str, Any]
    on_output: Callable[[Output], None]
    settings: RequestSettings
    workspace: Workspace
    redactor: Redactor


def rules_of(config: AgentConfig, budget: TokenBudget | None) -> Iterable[tuple[bool, str]]:
    """Each limit that can be wrong, and the sentence that says so."""
    yield config.max_steps >= 1, "max_steps must be at least 1"
    yield config.max_retries >= 0, "max_retries must not be negative"
    yield 0 <= config.confidence_threshold <= 1, "confidence_threshold must be from 0 to 1"
    yield config.reflect_every_n_steps >= 0, "reflect_every_n_steps must not be negative"
    yield config.min_answer_length >= 0, "min_answer_length must not be negative"
    for name in TokenBudget.__struct_fields__:
        limit = getattr(budget, name, None)
        is_good = limit is None or (limit == limit and 0 <= limit < COUNT_LIMIT)
        yield is_good, f"the budget's {name} must not be negative, nor without end: {limit}"
