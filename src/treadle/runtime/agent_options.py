"""What an agent can be told by keyword, and what is refused of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypedDict

import msgspec

from treadle.core.approval import Policy
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.task.events import Graph, TaskConfig
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import ToolDefinition
from treadle.errors import BuildError
from treadle.outputs import Output
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.approval_callback import ApprovalCallback
from treadle.runtime.output_modes import OutputChoice
from treadle.runtime.ports import Provider, TextRedactor, ThreadStore, Tools, Workspace
from treadle.server_questions import AskPersonForServer
from treadle.store.port import Store

COUNT_LIMIT: Final = 2**63
"""JSON has no larger integers that every reader agrees on, and no infinity."""

_LIMIT_TYPES: Final = tuple[TaskConfig, TokenBudget | None]


_OTHER_AGENT_HINT: Final = "resume it with the program that began it"


class AgentKeywords(TypedDict, total=False):
    """The methods of `AgentBuilder` that take one value, as keyword arguments."""

    task_type: str
    system_prompt: str
    model: str
    models: Mapping[str, str]
    llm: Provider
    tools: Iterable[Any]
    store: Store | ThreadStore
    config: TaskConfig
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
    on_approval: ApprovalCallback
    on_server_question: AskPersonForServer
    blacklist: Iterable[str]
    output: type[Any] | Mapping[str, Any] | AnswerForm[Any]
    output_mode: OutputChoice
    on_output: Callable[[Output], None]
    settings: AgentConfig
    workspace: Workspace
    redactor: TextRedactor


def _list_rules(config: TaskConfig, budget: TokenBudget | None) -> Iterable[tuple[bool, str]]:
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


def check_limits(config: TaskConfig, budget: TokenBudget | None, policy: Policy) -> None:
    """Raise `BuildError` for the first limit that cannot be, or is not of its kind."""
    try:
        msgspec.convert(msgspec.to_builtins([config, budget]), _LIMIT_TYPES)
        faults = [words for is_good, words in _list_rules(config, budget) if not is_good]
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BuildError(f"a limit is not of its kind: {error}") from None
    if faults:
        raise BuildError(faults[0])
    if not isinstance(policy, Policy):
        raise BuildError(f"{policy!r} is no policy", hint="AskAbove(RiskLevel.HIGH), say")


def check_text(name: str, value: object) -> str:
    """The value of an option that takes a text; `BuildError` if it is none."""
    if not isinstance(value, str):
        raise BuildError(f"{name} takes a text, not {value!r}")
    return value


def check_unique_tools(definitions: Iterable[ToolDefinition]) -> None:
    """Raise `BuildError` if two tools have one name."""
    seen: set[str] = set()
    for one in definitions:
        if one.name in seen:
            raise BuildError(f"two tools are called {one.name!r}")
        seen.add(one.name)


def check_same_agent(
    thread_id: str,
    machine: TaskMachine,
    graph: Graph,
    blacklist: frozenset[str],
    offered: Collection[str],
) -> None:
    """Raise `BuildError` if an agent is not like the one that began this thread."""
    if (machine.memory.graph or Graph()) != graph:
        raise BuildError(
            f"thread {thread_id} runs another graph than this agent", hint=_OTHER_AGENT_HINT
        )
    if machine.is_over:
        return
    if more := blacklist - set(machine.memory.blacklisted_tools):
        raise BuildError(
            f"thread {thread_id} was begun without {', '.join(sorted(more))} on its blacklist, "
            "which stays as it is",
            hint="leave the tool out, or begin a task anew",
        )
    if lost := {one.name for one in machine.config.tools}.difference(offered):
        names = ", ".join(sorted(lost))
        raise BuildError(
            f"thread {thread_id} works with tools that this agent lacks: {names}",
            hint=_OTHER_AGENT_HINT,
        )


def make_registry(tools: Sequence[Any]) -> Tools:
    """These tools as a set; `BuildError` for what is none."""
    from treadle.tools.function_tool import Tool
    from treadle.tools.registry import Registry

    for one in tools:
        if not isinstance(one, Tool):
            raise BuildError(f"{one!r} is no tool", hint="declare the function with @tool")
    return Registry(tools)
