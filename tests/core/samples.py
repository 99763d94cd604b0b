"""States and events that between them reach every guard of the table, on both sides."""

from __future__ import annotations

from typing import Final

from treadle.core.approval import (
    Approved,
    AskAbove,
    Decision,
    Modified,
    Question,
    Rejected,
    Scope,
)
from treadle.core.chat.handlers import build_request
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    CompactionCause,
    Error,
    ErrorOrigin,
    ExecutingTools,
    PostToolsHook,
    ProcessingLlmResponse,
    ShuttingDown,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, Conversation, Masking, View
from treadle.core.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
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
from treadle.core.messages import Message, ToolCall
from treadle.core.retry import RETRYABLE
from treadle.core.tools import (
    Access,
    ApprovalBinding,
    CompletedToolInfo,
    EffectClass,
    Outcome,
    RiskLevel,
    Status,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
    ToolProgress,
)

Pending = ToolExecutionStatus.Pending
Running = ToolExecutionStatus.Running
Completed = ToolExecutionStatus.Completed
Success = ToolExecutionOutcome.Success
Failure = ToolExecutionOutcome.Error


def definition(
    name: str, effect: EffectClass, risk: RiskLevel = RiskLevel.MEDIUM
) -> ToolDefinition:
    return ToolDefinition(name, f"does {name}", {"type": "object"}, effect, risk)


CONFIG: Final = AgentConfig(
    model_name="model-1",
    system_prompt="be brief",
    tools=(
        definition("look", EffectClass.READ),
        definition("put", EffectClass.IDEMPOTENT),
        definition("edit", EffectClass.MUTATE),
        definition("drop", EffectClass.MUTATE, RiskLevel.HIGH),
    ),
    max_retries=2,
    approval=AskAbove(RiskLevel.HIGH),
    context_tokens_max=1000,
)


def machine(state: AgentState | None = None, config: AgentConfig = CONFIG) -> ConversationMachine:
    fresh = ConversationMachine(config, thread_id="T-1")
    return fresh if state is None else fresh.with_state(state)


def call(call_id: str, tool_name: str = "look", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, tool_name, arguments)


def success(call_id: str, output: str = "fine", *changed: str) -> Success:
    return Success(call_id, output, changed)


def failure(call_id: str, kind: ToolErrorKind = ToolErrorKind.FAILED) -> Failure:
    return Failure(call_id, ToolError(kind, "no such luck"))


def ended(call_id: str, outcome: Outcome | None = None) -> ToolCompleted:
    return ToolCompleted(call_id, outcome or success(call_id), "12:05")


def answer(
    content: str = "",
    *calls: ToolCall,
    usage: Usage | None = None,
    risks: tuple[RiskLevel | None, ...] = (),
) -> LlmEvent.Completed:
    response = LlmResponse(Message.assistant(content, calls), usage)
    return LlmEvent.Completed(response, "12:01", risks)


def broken(kind: LlmErrorKind = LlmErrorKind.NETWORK, **rest: float) -> LlmEvent.Error:
    jitter = rest.pop("jitter", 1.0)
    return LlmEvent.Error(LlmError(kind, "so it goes", **rest), jitter)


def decided(call_id: str, decision: Decision | None = None) -> ApprovalDecided:
    return ApprovalDecided(call_id, decision or Approved(), "12:04")


def required(*call_ids: str) -> ApprovalRequired:
    questions = (Question(call(one, "drop"), RiskLevel.HIGH, "so it is now") for one in call_ids)
    return ApprovalRequired(tuple(questions), "12:04")


def unsummed(kind: LlmErrorKind = LlmErrorKind.SERVER) -> CompactionFailed:
    return CompactionFailed(LlmError(kind, "so it goes"), "12:06")


def said(text: str = "hello") -> UserInput:
    return UserInput(Message.user(text))


EMPTY: Final = Conversation()
TALK: Final = Conversation([Message.user("hello"), Message.assistant("hi"), Message.user("go")])
FULL: Final = TALK.with_tokens(800)
"""Just at the limit."""
SUMMED_UP: Final = TALK.compact(Compaction(2, "they said hello"))
"""With nothing left to compact before the next request."""
READ_ON: Final = TALK.extend(
    message
    for name, count in (("a", 1_000), ("b", 1))
    for message in (Message.assistant("", (call(name),)), Message.tool(call(name), "wool " * count))
)
"""Of which most is the result of an old call."""


def executing(*statuses: Status) -> ExecutingTools:
    """A round whose assistant message asks for exactly these calls."""
    calls = tuple(ToolCall(status.call_id, status.tool_name) for status in statuses)
    return ExecutingTools(TALK.append(Message.assistant("on it", calls)), statuses)


def processing(*calls: ToolCall) -> ProcessingLlmResponse:
    message = Message.assistant("hm", calls)
    return ProcessingLlmResponse(TALK.append(message), LlmResponse(message))


def asking(*statuses: Status, about: str, risk: RiskLevel = RiskLevel.HIGH) -> WaitingForApproval:
    """A round of which a person is asked about these calls, one letter each."""
    round_ = executing(*statuses)
    calls = {one.id: one for one in round_.conversation[-1].tool_calls}
    questions = tuple(Question(calls[call_id], risk, "why") for call_id in about)
    return WaitingForApproval(round_.conversation, statuses, questions)


def done(call_id: str, tool_name: str, outcome: Outcome | None = None) -> Status:
    return Completed(call_id, tool_name, "12:02", "12:03", outcome or success(call_id))


_HOOK_TALK: Final = TALK.extend(
    [Message.assistant("", (call("a", "edit"),)), Message.tool(call("a", "edit"), "fine")]
)

REJECTED: Final = done("a", "drop", failure("a", ToolErrorKind.REJECTED))

SEEN: Final = ApprovalBinding("here", "so it was")
"""What a yes of the samples is bound to."""

STATES_TRIED: Final[tuple[AgentState, ...]] = (
    WaitingForUserInput(EMPTY),
    WaitingForUserInput(TALK.append(Message.assistant("there"))),
    WaitingForUserInput(FULL),
    WaitingForUserInput(TALK.compact(Compaction(3, "they said hello"))),
    WaitingForUserInput(FULL.rewind(View(2)).append(Message.user("again"))),
    CallingLlm(TALK),
    CallingLlm(TALK, 1),
    CallingLlm(TALK, 2),
    CallingLlm(TALK, 7),
    CallingLlm(FULL),
    CallingLlm(READ_ON),
    CallingLlm(READ_ON.with_tokens(800)),
    CallingLlm(READ_ON.mask(Masking(4, 1_000)).with_tokens(800)),
    CallingLlm(SUMMED_UP, 1),
    CallingLlm(SUMMED_UP.with_tokens(5000)),
    CallingLlm(Conversation([Message.user("go")]), 2),
    processing(),
    processing(call("a"), call("b", "edit")),
    processing(call("a"), call("b", "drop")),
    executing(Pending("a", "look")),
    executing(Pending("a", "edit")),
    executing(Pending("a", "put")),
    executing(Pending("a", "nobody knows it")),
    executing(Running("a", "look", "12:02"), Pending("b", "edit")),
    executing(Running("a", "look", "12:02"), Running("b", "edit", "12:02")),
    executing(Running("a", "look", "12:02"), done("b", "edit")),
    executing(Running("a", "look", "12:02"), done("b", "edit", failure("b"))),
    executing(Running("a", "look", "12:02"), done("b", "look")),
    executing(done("a", "edit"), Running("b", "look", "12:02", uncertain=True)),
    executing(Running("a", "edit", "12:02", uncertain=True)),
    executing(done("a", "look"), done("b", "put"), Pending("c", "look")),
    executing(done("a", "look"), Running("b", "look"), Pending("c", "look")),
    executing(Pending("a", "edit", modified='{"x":1}'), Running("b", "edit", modified="{}")),
    executing(Pending("a", "drop"), Pending("b", "look")),
    executing(Pending("a", "drop", approved=True), Pending("b", "drop", approved=True, bound=SEEN)),
    executing(Pending("a", "drop", approved=True, bound=SEEN), Running("b", "look", "12:02")),
    executing(REJECTED, Pending("b", "drop"), Pending("c", "edit")),
    asking(Pending("a", "drop"), about="a"),
    asking(Pending("a", "drop"), Pending("b", "look"), about="a"),
    asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"),
    asking(REJECTED, Pending("b", "drop"), about="b"),
    asking(REJECTED, Pending("b", "drop", modified="{}"), Pending("c", "look"), about="b"),
    Compacting(TALK, 3, CompactionCause.REQUESTED, "the names"),
    Compacting(FULL, 2, CompactionCause.NEAR_LIMIT),
    Compacting(TALK, 2, CompactionCause.TOO_LONG),
    Compacting(READ_ON, 4, CompactionCause.NEAR_LIMIT),
    PostToolsHook(
        _HOOK_TALK, build_request(CONFIG, _HOOK_TALK), (CompletedToolInfo("edit", True),)
    ),
    Error(TALK, LlmError(LlmErrorKind.NETWORK), 1, ErrorOrigin.LLM, 0.5),
    Error(TALK, LlmError(LlmErrorKind.INTERNAL), 1, ErrorOrigin.TOOL),
    Error(TALK, LlmError(LlmErrorKind.INTERNAL), 1, ErrorOrigin.IO),
    ShuttingDown(),
)
"""Values of every state."""

_IDS: Final = ("a", "b", "c", "unheard of", "")

EVENTS_TRIED: Final[tuple[AgentEvent, ...]] = (
    said(),
    said(""),
    UserInput(Message.assistant("I am the model")),
    UserInput(Message("system", "I am the system")),
    UserInput(Message.tool(call("a"), "I am a result")),
    UserInput(Message("user", "", (call("a"),))),
    UserInput(Message("user", "", (), "a")),
    Steered(Message.user("rather this")),
    Steered(Message.assistant("I am the model")),
    Steered(Message.tool(call("a"), "I am a result")),
    Steered(Message("user", "", (call("a"),))),
    LlmEvent.TextDelta("he"),
    LlmEvent.ThinkingDelta("hm"),
    LlmEvent.ToolCallDelta("a", "look", "{"),
    answer("done"),
    answer("", call("n1"), call("n2", "edit")),
    *(broken(kind) for kind in LlmErrorKind),
    broken(LlmErrorKind.RATE_LIMITED, retry_after_s=600.0),
    broken(LlmErrorKind.RATE_LIMITED, retry_after_s=601.0),
    *(ToolStarted(call_id, "12:02") for call_id in _IDS),
    ToolStarted("a", "12:02", "a box", Access.READ),
    *(CallAssessed(call_id) for call_id in _IDS),
    *(CallAssessed(call_id, is_withdrawn=True) for call_id in _IDS),
    *(CallAssessed(call_id, is_reconfigured=True) for call_id in _IDS),
    *(CallAssessed(call_id, is_rerun=True) for call_id in _IDS),
    CallAssessed("a", RiskLevel.CRITICAL, Scope(ground="here", content="so it was")),
    CallAssessed("b", None, Scope(ground="here", content="another", must_ask=True)),
    CallAssessed("a", may_ask=False),
    CallAssessed("b", None, Scope(ground="there", refused="no box"), is_rerun=True),
    required("a"),
    required("b"),
    required("a", "b"),
    required("a", "a"),
    required("unheard of"),
    required(),
    *(ToolProgressEvent(call_id, ToolProgress(0.5, "half", 3), "12:03") for call_id in _IDS),
    *(ToolUncertain(call_id) for call_id in _IDS),
    *(ended(call_id) for call_id in _IDS),
    *(ended(call_id, failure(call_id)) for call_id in _IDS),
    PostToolsHookCompleted(True, "committed"),
    PostToolsHookCompleted(False),
    *(decided(call_id) for call_id in _IDS),
    *(decided(call_id, Rejected("not today")) for call_id in _IDS),
    *(decided(call_id, Modified('{"y":2}')) for call_id in _IDS),
    *(decided(call_id, Modified('{"y":2}', RiskLevel.CRITICAL)) for call_id in _IDS),
    CompactionRequested(),
    CompactionRequested("the names"),
    Rewound(9, View(0)),
    Rewound(9, View(2, Compaction(1, "they said hello"))),
    Rewound(9, View(3, hidden=((1, 2),))),
    Rewound(9, View(1_000)),
    Rewound(9, View(2, hidden=((1, 3),))),
    Rewound(9, View(2, Compaction(3, "they said hello"))),
    Rewound(9, View(-1)),
    Compacted(2, "they said hello"),
    Compacted(3, "they said hello", usage=Usage(900, 50), model="model-1"),
    ResultsMasked(Masking(2, 1_000, "read_file")),
    ResultsMasked(Masking(3, 1_000)),
    ResultsMasked(Masking(0, 1_000)),
    ResultsMasked(Masking(1_000, 1)),
    Rewound(9, View(3, masking=Masking(2, 1))),
    Rewound(9, View(3, masking=Masking(4, 1))),
    *(unsummed(kind) for kind in LlmErrorKind),
    RetryTimeoutFired(),
    CancelRequested(),
    CancelRequested("I was about to", "the person stopped"),
    ShutdownRequested(),
)
"""Values of every event."""

RETRYABLE_IN_WORDS: Final = frozenset(
    {"rate_limited", "overloaded", "server", "timeout", "network", "cut_stream"}
)
assert {kind.value for kind in RETRYABLE} == RETRYABLE_IN_WORDS
