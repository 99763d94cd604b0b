"""Random events: mostly what a runtime would feed, in part what none ever should.

The same `Random` gives the same session, so that it serves property tests and whole processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from core.samples import CONFIG, EVENTS_TRIED
from treadle.core.approval import Approved, Decision, Modified, Question, Rejected, Scope
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    Error,
    ExecutingTools,
    PostToolsHook,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.conversation import Compaction, Conversation, Masking, View
from treadle.core.events import (
    DURABLE,
    AgentEvent,
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    DurableEvent,
    LlmEvent,
    PostToolsHookCompleted,
    ResultsMasked,
    RetryTimeoutFired,
    Rewound,
    ShutdownRequested,
    Steered,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message, SeenFile, ToolCall
from treadle.core.retry import RETRYABLE
from treadle.core.tools import (
    Access,
    Outcome,
    RiskLevel,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)

_TEXTS: Final = ("", "go on", "zwei\nZeilen", "line\u2028sep", "nul\0nul", "\U0001f9f5", '"},{"')
_SEEN: Final = (SeenFile("file", "a digest", 1, 3, "0.AABB"),)
_IDS: Final = ("a", "b", "c", "", "call-3-0", "a-1-1", "a-3-0")
_NAMES: Final = (*(tool.name for tool in CONFIG.tools), "unheard of")
_RETRYABLE: Final = sorted(RETRYABLE, key=lambda kind: kind.value)


def check_pairs(messages: Sequence[Message]) -> None:
    """Each call is followed by exactly one result, in request order; no result stands alone."""
    open_ids: list[str] = []
    used: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "tool":
            assert open_ids, f"message {index} answers no call"
            assert message.tool_call_id == open_ids.pop(0), f"message {index} is out of place"
            continue
        assert not open_ids, f"message {index} comes before the results of {open_ids}"
        assert message.role == "assistant" or not message.tool_calls
        open_ids = [call.id for call in message.tool_calls]
        assert all(open_ids), f"message {index} has a call without an id"
        assert len(set(open_ids)) == len(open_ids)
        assert not used & set(open_ids), f"message {index} uses an id a second time"
        used.update(open_ids)
    assert not open_ids, f"the calls {open_ids} have no result"


def random_event(random: Random, state: AgentState, clock: int = 0) -> AgentEvent:
    """One event; three of four are such as this state takes."""
    at = f"12:{clock:04}"
    if random.random() < 0.25:
        choice = random.choice(EVENTS_TRIED)
        while isinstance(choice, ShutdownRequested):
            choice = random.choice(EVENTS_TRIED)
        return choice
    if isinstance(state, WaitingForUserInput):
        if random.random() < 0.1:
            return CompactionRequested(random.choice(_TEXTS), at)
        if random.random() < 0.2:
            return Rewound(1, _random_view(random, state.conversation), at)
        text = random.choice(_TEXTS)
        return UserInput(Message.user(text, seen=_SEEN if text else ()))
    if isinstance(state, CallingLlm):
        return _model_event(random, at)
    if isinstance(state, ExecutingTools):
        return _tool_event(random, state, at)
    if isinstance(state, WaitingForApproval):
        return _word_of_a_person(random, state, at)
    if isinstance(state, Compacting):
        return _summary_event(random, state, at)
    if isinstance(state, PostToolsHook):
        return PostToolsHookCompleted(random.random() < 0.5, random.choice(_TEXTS))
    if isinstance(state, Error):
        return RetryTimeoutFired()
    return random.choice(EVENTS_TRIED)


def _random_view(random: Random, conversation: Conversation) -> View:
    """Any: some fit, some tear calls from their results, some are of other conversations."""
    length = random.randrange(len(conversation) + 2)
    start, end = sorted(random.randrange(length + 1) for _ in range(2))
    summary = Compaction(random.randrange(length + 1), "so it was")
    return View(
        length,
        random.choice((None, conversation.compaction, summary)),
        random.choice(((), conversation.hidden, ((start, end),))),
        random.choice((None, conversation.masking, Masking(random.randrange(length + 2), 3))),
    )


def random_durable_event(random: Random, state: AgentState, clock: int = 0) -> DurableEvent:
    """One event that a journal may hold."""
    while not isinstance(event := random_event(random, state, clock), DURABLE):
        pass
    return event


def _model_event(random: Random, at: str) -> AgentEvent:
    dice = random.random()
    if dice < 0.1:
        return LlmEvent.TextDelta(random.choice(_TEXTS))
    if dice < 0.2:
        return CancelRequested(random.choice(_TEXTS), random.choice(_TEXTS))
    if dice < 0.25:
        return Steered(Message.user(random.choice(_TEXTS), seen=_SEEN))
    if dice < 0.38:
        kind = random.choice(_RETRYABLE if random.random() < 0.7 else list(LlmErrorKind))
        return LlmEvent.Error(LlmError(kind, "so it goes"), random.random())
    calls = tuple(
        ToolCall(random.choice(_IDS), random.choice(_NAMES), random.choice(("{}", '{"cut')))
        for _ in range(random.choice((0, 0, 1, 2, 3)))
    )
    message = Message.assistant(random.choice(_TEXTS), calls)
    usage = Usage(random.randrange(1000), 7) if random.random() < 0.5 else None
    risks = tuple(random.choice((None, *RiskLevel)) for _ in message.tool_calls)
    return LlmEvent.Completed(LlmResponse(message, usage, "stop"), at, risks)


def _word_of_a_person(random: Random, state: WaitingForApproval, at: str) -> AgentEvent:
    if random.random() < 0.1:
        return CancelRequested(reason=random.choice(_TEXTS))
    asked = random.choice(state.questions).call.id
    if random.random() < 0.2:
        return random_assessment(random, asked)
    risk = random.choice((None, *RiskLevel))
    decisions: tuple[Decision, ...] = (
        Approved(),
        Rejected(random.choice(_TEXTS)),
        Modified(random.choice(('{"x":1}', '{"cut')), risk),
    )
    return ApprovalDecided(asked, random.choice(decisions), at, _scope(random))


def _summary_event(random: Random, state: Compacting, at: str) -> AgentEvent:
    dice = random.random()
    if dice < 0.2:
        return CancelRequested(reason=random.choice(_TEXTS))
    if dice < 0.4:
        return CompactionFailed(LlmError(random.choice(list(LlmErrorKind)), "so it goes"), at)
    if dice < 0.5:
        masking = Masking(random.randrange(state.through + 2), random.choice((0, 3)), "read_file")
        return ResultsMasked(masking, at)
    words = random.choice((0, 1, 9, 1000))
    return Compacted(state.through, random.choice(_TEXTS), at, Usage(9, 1), "model-1", words)


def _tool_event(random: Random, state: ExecutingTools, at: str) -> AgentEvent:
    call_id = random.choice(state.executions).call_id
    dice = random.random()
    if dice < 0.1:
        return random_assessment(random, call_id)
    if dice < 0.18:
        return random_requirement(random, state.conversation[-1].tool_calls, at)
    if dice < 0.3:
        return ToolStarted(call_id, at, access=random.choice((None, *Access)))
    if dice < 0.37:
        return ToolProgressEvent(call_id, ToolProgress(random.random(), "on it", 1), at)
    if dice < 0.45:
        return ToolUncertain(call_id)
    if dice < 0.55:
        return CancelRequested(reason=random.choice(_TEXTS))
    return ToolCompleted(call_id, _outcome(random, call_id), at)


def random_assessment(random: Random, call_id: str) -> CallAssessed:
    """What the world may find when it looks at a call."""
    return CallAssessed(
        call_id,
        random.choice((None, *RiskLevel)),
        _scope(random),
        is_withdrawn=random.random() < 0.1,
        is_reconfigured=random.random() < 0.5,
        is_rerun=random.random() < 0.3,
    )


def random_requirement(random: Random, calls: Sequence[ToolCall], at: str) -> ApprovalRequired:
    """Questions about some of the calls."""
    some = random.sample(calls, random.randrange(len(calls) + 1))
    return ApprovalRequired(
        tuple(Question(call, RiskLevel.HIGH, "why", _scope(random) or Scope()) for call in some), at
    )


def _scope(random: Random) -> Scope | None:
    ground, content = random.choice(("", "here", "there")), random.choice(("", "old", "new"))
    access = random.choice((None, *Access))
    scope = Scope((), ("kind",), ground, content, must_ask=random.random() < 0.3, access=access)
    return random.choice((None, scope))


def _outcome(random: Random, call_id: str) -> Outcome:
    if random.random() < 0.6:
        changed = ("file",) if random.random() < 0.5 else ()
        seen = _SEEN if changed else ()
        return ToolExecutionOutcome.Success(call_id, random.choice(_TEXTS), changed, seen=seen)
    kind = random.choice(list(ToolErrorKind))
    return ToolExecutionOutcome.Error(call_id, ToolError(kind, random.choice(_TEXTS), "part"))
