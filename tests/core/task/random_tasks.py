"""Random tasks: configurations, graphs, and events of which most fit the state they come in."""

from __future__ import annotations

from random import Random
from typing import Any

from core.random_events import random_assessment, random_requirement
from core.task.tasks import ANSWER, at, broken, call, fails, fine, given, says, settings
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Decision,
    Modified,
    NeverAsk,
    Rejected,
    ToolBased,
)
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    Compacted,
    CompactionFailed,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.messages import Message
from treadle.core.retry import RETRYABLE
from treadle.core.task.events import (
    CustomState,
    Graph,
    MemoryChanges,
    StateCompleted,
    StateFailed,
    TaskGiven,
    TaskInformed,
    TaskResumed,
    TimeRanOut,
)
from treadle.core.task.machine import TaskMachine
from treadle.core.task.table import Event, State
from treadle.core.tools import Access, RiskLevel, ToolProgress

_NAMES = ("look", "edit", "burn", "unheard_of")
_IDS = ("a", "b", "a", "", "c")
_TEXTS = ("", "short", ANSWER, " \n ", "ERROR: no")
_ARGUMENTS = ("{}", '{"x":"1"}', '{"x', '{"confidence":0.2}', '{"confidence":1}', "[1]")
_FAILURES = sorted(RETRYABLE, key=lambda kind: kind.value)

GRAPHS = (
    None,
    Graph(
        (CustomState("Gate", ("extra", "current_tool_call", "pending_tool_calls")),),
        (
            ("Planning", "LlmToolCall", "Gate"),
            ("Planning", "LlmParallelToolCalls", "Gate"),
            ("Gate", "One", "Acting"),
            ("Gate", "Many", "ParallelActing"),
            ("Gate", "Denied", "Planning"),
            ("Gate", "Kept", "Observing"),
            ("Gate", "Asked", "WaitingForHuman"),
            ("Gate", "Old", "Reflecting"),
            ("Gate", "Anew", "Idle"),
            ("Gate", "Stay", "Gate"),
            ("Acting", "ToolFailure", "Gate"),
            ("ParallelActing", "ToolSuccess", "Gate"),
            ("WaitingForHuman", "HumanApproved", "Gate"),
            ("WaitingForHuman", "HumanApprovedParallel", "Gate"),
        ),
    ),
    Graph((CustomState("Planning"),)),
    Graph((CustomState("Acting"), CustomState("ParallelActing"))),
    Graph((CustomState("Observing"),), transitions_max=40),
    Graph((CustomState("WaitingForHuman"),)),
    Graph((), (("Planning", "MaxSteps", "Parked"),), ("Parked",)),
)


def random_settings(random: Random) -> AgentConfig:
    policies = (
        NeverAsk(),
        AlwaysAsk(),
        AskAbove(random.choice(list(RiskLevel))),
        ToolBased({"look": RiskLevel.HIGH}),
    )
    return settings(
        approval=random.choice(policies),
        max_retries=random.randrange(3),
        granted=random.choice(({}, {"edit": RiskLevel.MEDIUM})),
        context_tokens_max=random.choice((0, 50)),
    )


def random_task(random: Random) -> TaskGiven:
    return given(
        random.choice(("count", "", "x" * 100)),
        graph=random.choice(GRAPHS) if random.random() < 0.5 else None,
        system_prompt=random.choice(("", "be exact")),
        blacklisted_tools=random.choice(((), ("burn",), ("look", "edit"))),
        budget=random.choice((None, None, TokenBudget(max_total=900, max_time_s=200))),
        max_steps=random.choice((3, 15, 60)),
        max_retries=random.randrange(4),
        reflect_every_n_steps=random.choice((0, 1, 2, 5)),
        min_answer_length=random.choice((0, 20)),
        self_reported_confidence=random.random() < 0.5,
        history_style=random.choice(("native", "native", "text")),
        model_written_reflection=random.random() < 0.4,
        output_schema=random.choice((None, {"type": "object"})),
    )


def random_event(random: Random, machine: TaskMachine, clock: int) -> Any:
    """One event; three of four are such as this state takes."""
    when = at(clock)
    if random.random() < 0.25:
        return random.choice(_anything(random, when))
    state = machine.state_name
    if state in machine.custom_states:
        return _completed(random, machine, when)
    if state == State.PLANNING:
        if machine.retry is not None:
            return RetryTimeoutFired(when)
        return _answer(random, when)
    if machine.round:
        return _tool_event(random, machine, when)
    if machine.questions:
        asked = random.choice(machine.questions).call.id
        if random.random() < 0.2:
            return random_assessment(random, asked)
        return decision(random, asked, when)
    if state == State.REFLECTING:
        return random.choice((_anything(random, when)[0], Compacted(3, "what was found", when)))
    return PostToolsHookCompleted(random.random() < 0.5, at=when)


def decision(random: Random, call_id: str, when: str) -> Any:
    kinds: tuple[Decision, ...] = (
        Approved(),
        Rejected(random.choice(_TEXTS)),
        Modified(random.choice(_ARGUMENTS), random.choice((None, *RiskLevel))),
    )
    return ApprovalDecided(call_id, random.choice(kinds), when)


def _anything(random: Random, when: str) -> list[Any]:
    call_id = random.choice(_IDS)
    return [
        CompactionFailed(LlmError(LlmErrorKind.SERVER, usage=Usage(1, 1)), when),
        Compacted(random.randrange(9), random.choice(_TEXTS), when),
        LlmEvent.TextDelta("x"),
        ToolProgressEvent(call_id, ToolProgress(0.5), when),
        ToolStarted(call_id, when),
        ToolUncertain(call_id),
        random_assessment(random, call_id),
        random_requirement(random, [call(call_id), call("a")], when),
        fine(call_id, at=when),
        decision(random, call_id, when),
        PostToolsHookCompleted(True, at=when),
        RetryTimeoutFired(when),
        TaskResumed(when),
        TaskInformed("it is told", when),
        TimeRanOut(when) if random.random() < 0.1 else TaskResumed(""),
        CancelRequested(at=when),
        UserInput(Message.user("hello")),
        random_task(random),
        _answer(random, when),
        StateCompleted(random.choice(list(State)), random.choice(list(Event)), at=when),
        StateFailed(random.choice(("Gate", *State)), Usage(1, 1), when),
    ]


def _answer(random: Random, when: str) -> Any:
    dice = random.random()
    if dice < 0.15:
        kind = random.choice(_FAILURES if dice < 0.14 else list(LlmErrorKind))
        return broken(kind, at=when, usage=random.choice((None, Usage(3, 0))))
    calls = [
        call(random.choice(_IDS), random.choice(_NAMES), random.choice(_ARGUMENTS))
        for _ in range(random.choice((0, 1, 1, 2, 3)) if dice < 0.9 else 0)
    ]
    return says(
        random.choice(_TEXTS[:2] if dice < 0.93 else _TEXTS),
        *calls,
        confidence=random.choice((None, None, 0.1, 0.9)),
        usage=random.choice((None, Usage(random.randrange(60), 5))),
        finish_reason=random.choice((None, "stop", "length")),
        at=when,
        risks=tuple(random.choice((None, *RiskLevel)) for _ in calls),
        fault=random.choice(("", "", "no form")),
    )


def _tool_event(random: Random, machine: TaskMachine, when: str) -> Any:
    calls = [one for one, _ in machine.round]
    call_id = random.choice(calls).id
    dice = random.random()
    if dice < 0.1:
        return random_assessment(random, call_id)
    if dice < 0.18:
        return random_requirement(random, calls, when)
    if dice < 0.28:
        return ToolStarted(call_id, when, access=random.choice((None, *Access)))
    if dice < 0.35:
        return ToolUncertain(call_id)
    if dice < 0.8:
        return fine(call_id, random.choice(_TEXTS), at=when)
    return fails(call_id, random.choice(_TEXTS), at=when, usage=Usage(1, 1))


def _completed(random: Random, machine: TaskMachine, when: str) -> StateCompleted:
    """What a custom handler may return: an event of the table, fields that its state owns."""
    name = machine.state_name
    events = sorted(event for state, event in machine.table if state == name)
    changes = MemoryChanges()
    if name == State.PLANNING:
        calls = tuple(call(random.choice("ab"), random.choice(_NAMES)) for _ in range(2))
        one = random.choice((None, calls[0]))
        changes = MemoryChanges(step=machine.memory.step + 1, current_tool_call=one)
        if one is None:
            changes = MemoryChanges(pending_tool_calls=calls, current_tool_call=None)
    elif name == State.ACTING:
        changes = MemoryChanges(last_observation=random.choice((None, "SUCCESS: x", "ERROR: y")))
    elif name == State.OBSERVING:
        changes = MemoryChanges(current_tool_call=None, last_observation=None)
    elif name == "Gate":
        changes = random.choice(
            (MemoryChanges(extra={"seen": machine.memory.moves}), _other_calls(random))
        )
    return StateCompleted(name, random.choice(events), changes, at=when)


def _other_calls(random: Random) -> MemoryChanges:
    """Calls of a state's own, some under ids that were seen before."""
    calls = tuple(
        call(random.choice("abc"), random.choice(_NAMES), random.choice(_ARGUMENTS))
        for _ in range(random.randrange(1, 3))
    )
    if random.random() < 0.5:
        return MemoryChanges(current_tool_call=calls[0])
    return MemoryChanges(current_tool_call=None, pending_tool_calls=calls)
