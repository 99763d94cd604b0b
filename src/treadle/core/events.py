"""What can happen to a machine. Time, ids and chance come in with events only.

Durable events are journaled before the action that follows from them is performed. Transient ones
(the deltas of `LlmEvent`, `ToolProgressEvent`, `CallAssessed`) are shown or answered, and
forgotten: a replay without them reaches the same state. `ShutdownRequested` is about the process,
not the thread, and is never stored either.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from treadle.core.approval import Decision, Question, Scope
from treadle.core.conversation import Masking, View
from treadle.core.llm import LlmError, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.tools import Access, ApprovalBinding, Outcome, RiskLevel, ToolProgress


class _Event(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Tagged, so that a record says what it is."""


class UserInput(_Event, frozen=True, tag="user_input"):
    """The person said something; `was_queued` if it is the oldest prompt that was queued."""

    message: Message
    was_queued: bool = False


class Steered(_Event, frozen=True, tag="steered"):
    """What the person said meanwhile is heard in the middle of a turn, before the next request.

    It is the oldest of the queued messages that steer, and begins no turn.
    """

    message: Message


class LlmEvent:
    """What a model's stream brings."""

    class TextDelta(_Event, frozen=True, tag="text_delta"):
        """A piece of text, as it arrives. Transient."""

        content: str

    class ThinkingDelta(_Event, frozen=True, tag="thinking_delta"):
        """A piece of reasoning, as it arrives; empty for a mere sign of life. Transient."""

        content: str = ""

    class ToolCallDelta(_Event, frozen=True, tag="tool_call_delta"):
        """A piece of a tool call's arguments, as it arrives. Transient."""

        call_id: str
        tool_name: str
        arguments_fragment: str

    class Completed(_Event, frozen=True, tag="llm_completed"):
        """The whole response; `at` is when it ended (UTC).

        What the world has judged comes with it, so that a replay need not judge again: `risks` of
        the calls, in their order, where arguments are riskier than their tool; `scopes`, what a
        yes to them would cover, where their tools say so; `fault`, why the answer does not have
        the form that was asked for.
        """

        response: LlmResponse
        at: str = ""
        risks: tuple[RiskLevel | None, ...] = ()
        fault: str = ""
        scopes: tuple[Scope | None, ...] = ()

        def risk_at(self, place: int) -> RiskLevel | None:
            """The risk of the call in this place. Not by id: a model may give one to two calls."""
            return self.risks[place] if place < len(self.risks) else None

        def scope_at(self, place: int) -> Scope | None:
            """What a yes to the call in this place would cover; `None` if its tool does not say."""
            return self.scopes[place] if place < len(self.scopes) else None

    class Error(_Event, frozen=True, tag="llm_error"):
        """No complete response came; `jitter` (0..1) spreads the retries of many clients."""

        error: LlmError
        jitter: float = 1.0
        at: str = ""


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """A call begins. On disk before the tool runs: this is the intent.

    `confined` says in words what holds it while it runs; empty if its tool does not say. So does
    `access` what it may change: a call that can only read is safe to run again after a crash.
    """

    call_id: str
    at: str = ""
    confined: str = ""
    access: Access | None = None


class CallAssessed(_Event, frozen=True, tag="call_assessed"):
    """The world has looked at a call: one that is about to begin, or whose question is open.

    The machine answers with `StartCall`, `AskPerson` or `RefuseCall` and stays where it is: what
    follows is an event of its own, so this one is transient.

    `risk` is the risk seen in the arguments, `scope` what a yes covers, both as things stand.
    `is_withdrawn`: the tool was offered in this session and is not any more. `is_reconfigured`: a
    person has changed mode, model or tools in this session. `is_rerun`: a person has just said to
    run a call again that a crash left uncertain, bound to `rerun_bound`. Without `may_ask` nobody
    is asked about the call: what needs a yes is refused. `failure` is why its tool would refuse it.
    """

    call_id: str
    risk: RiskLevel | None = None
    scope: Scope | None = None
    is_withdrawn: bool = False
    is_reconfigured: bool = False
    is_rerun: bool = False
    rerun_bound: ApprovalBinding | UnsetType = UNSET
    may_ask: bool = True
    failure: str = ""


class ApprovalRequired(_Event, frozen=True, tag="approval_required"):
    """Calls that were about to begin need a yes after all; none of their round has begun."""

    questions: tuple[Question, ...]
    at: str = ""


class ToolProgressEvent(_Event, frozen=True, tag="tool_progress"):
    """A running call reports. Transient."""

    call_id: str
    progress: ToolProgress
    at: str = ""


class ToolUncertain(_Event, frozen=True, tag="tool_uncertain"):
    """The process died while this mutating call ran: it may or may not have happened."""

    call_id: str


class ToolCompleted(_Event, frozen=True, tag="tool_completed"):
    """A call ended, well or badly; `usage` is what a sub-agent used of models for it.

    `ends` are the calls of commands in the background whose end its result tells of besides.
    """

    call_id: str
    outcome: Outcome
    at: str = ""
    usage: Usage | None = None
    ends: tuple[str, ...] = ()


class PostToolsHookCompleted(_Event, frozen=True, tag="hook_completed"):
    """The hook after a round of tools ended; `note` tells people what it did or why not.

    `usage` is what it used of `model`, for a commit message; `commit` the full hash of the commit
    that it made, if it made one.
    """

    action_taken: bool
    note: str = ""
    usage: Usage | None = None
    model: str = ""
    at: str = ""
    commit: str = ""


class ApprovalDecided(_Event, frozen=True, tag="approval_decided"):
    """A person said what is to become of a call that needed a yes.

    `scope` is what a yes covers, where the question does not say it: of a modified call, and of one
    that was asked about without it.
    """

    call_id: str
    decision: Decision
    at: str = ""
    scope: Scope | None = None


class CompactionRequested(_Event, frozen=True, tag="compaction_requested"):
    """A person wants the conversation compacted; `focus` says what must not be forgotten."""

    focus: str = ""
    at: str = ""


class Compacted(_Event, frozen=True, tag="compacted"):
    """A summary was written: from here on it stands for the first `through` messages.

    `words` is how much of the person's words in them stays in view (`Compaction`), `usage` what
    writing it used of `model`.
    """

    through: int
    summary: str
    at: str = ""
    usage: Usage | None = None
    model: str = ""
    words: int = 0


class ResultsMasked(_Event, frozen=True, tag="results_masked"):
    """Room was made without a summary: from here on a line stands for each long old result."""

    masking: Masking
    at: str = ""


class CompactionFailed(_Event, frozen=True, tag="compaction_failed"):
    """No summary could be written; everything stays in view."""

    error: LlmError
    at: str = ""


class Rewound(_Event, frozen=True, tag="rewound"):
    """A person went back to version `to`: the model is shown what it was shown then.

    No message is lost. `view` is how the conversation stood at that version.
    """

    to: int
    view: View
    at: str = ""


class RetryTimeoutFired(_Event, frozen=True, tag="retry_timeout_fired"):
    """The delay that a failed request asked for is over."""

    at: str = ""


class CancelRequested(_Event, frozen=True, tag="cancel_requested"):
    """The turn is to end now; `partial_text` is what the model had said, `reason` who stopped."""

    partial_text: str = ""
    reason: str = ""
    at: str = ""


class ShutdownRequested(_Event, frozen=True, tag="shutdown_requested"):
    """The process is ending. Not stored."""


ModelEvent: TypeAlias = (
    LlmEvent.TextDelta
    | LlmEvent.ThinkingDelta
    | LlmEvent.ToolCallDelta
    | LlmEvent.Completed
    | LlmEvent.Error
)
"""What a provider streams."""

DurableEvent: TypeAlias = (
    UserInput
    | LlmEvent.Completed
    | LlmEvent.Error
    | ToolStarted
    | ToolUncertain
    | ToolCompleted
    | PostToolsHookCompleted
    | ApprovalRequired
    | ApprovalDecided
    | CompactionRequested
    | Compacted
    | CompactionFailed
    | ResultsMasked
    | Rewound
    | RetryTimeoutFired
    | CancelRequested
    | Steered
)
TransientEvent: TypeAlias = (
    LlmEvent.TextDelta
    | LlmEvent.ThinkingDelta
    | LlmEvent.ToolCallDelta
    | CallAssessed
    | ToolProgressEvent
    | ShutdownRequested
)
AgentEvent: TypeAlias = DurableEvent | TransientEvent

DURABLE: Final[tuple[type[DurableEvent], ...]] = DurableEvent.__args__
EVENTS: Final[tuple[type[AgentEvent], ...]] = AgentEvent.__args__


def name_of(kind: type) -> str:
    """The name a reader knows: `LlmEvent.Completed`, `UserInput`."""
    return kind.__qualname__
