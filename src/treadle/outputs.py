"""What a session tells people and programs while it works. The command line renders these."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.messages import Attachment, ToolCall
from treadle.core.tools import Outcome, ToolProgress


class _Output(Struct, frozen=True, tag_field="type"):
    """Tagged, so that a stream of them as JSON lines says what each is."""


class TurnStarted(_Output, frozen=True, tag="turn_started", omit_defaults=True):
    """The person's prompt is durable, with what it shows; the agent works on it."""

    thread: str
    prompt: str
    attachments: tuple[Attachment, ...] = ()


class InputDelivered(_Output, frozen=True, tag="input_delivered", omit_defaults=True):
    """What the person said meanwhile is heard in the middle of the turn; it is durable."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class TextDelta(_Output, frozen=True, tag="text_delta"):
    """A piece of the model's text, as it arrives."""

    text: str


class ThinkingDelta(_Output, frozen=True, tag="thinking_delta"):
    """A piece of the model's reasoning, as it arrives."""

    text: str


class ToolStarted(_Output, frozen=True, tag="tool_started"):
    """A call begins; its intent is on disk. `confined` says in words what holds it, if anything."""

    call: ToolCall
    confined: str = ""


class ToolProgressed(_Output, frozen=True, tag="tool_progress"):
    """A running call reports."""

    call_id: str
    progress: ToolProgress


class ToolFinished(_Output, frozen=True, tag="tool_finished", omit_defaults=True):
    """A call ended; its result is on disk. `call` is there if nobody was told that it had begun."""

    call_id: str
    tool_name: str
    outcome: Outcome
    call: ToolCall | None = None


class ApprovalRequested(_Output, frozen=True, tag="approval_requested"):
    """Calls wait for a person's yes; the question is on disk and can be answered at any time."""

    thread: str
    questions: tuple[Question, ...]


class StateStarted(_Output, frozen=True, tag="state_started"):
    """The task machine has entered a state."""

    state: str


class FinalAnswer(_Output, frozen=True, tag="final_answer"):
    """The task is done; the answer is on disk."""

    text: str


class HookFinished(_Output, frozen=True, tag="hook_finished"):
    """The post-tools hook ended; `note` is for people and may be empty."""

    action_taken: bool
    note: str


class Retrying(_Output, frozen=True, tag="retrying"):
    """A model request failed in a way that can pass; it is sent again after `delay_s`."""

    error: LlmError
    delay_s: float


class Notice(_Output, frozen=True, tag="notice"):
    """Something people should know; nothing failed."""

    text: str


class ErrorShown(_Output, frozen=True, tag="error"):
    """The turn failed; the thread is intact and can be continued."""

    text: str


class TurnOutcome(Enum):
    """How a turn ended."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    """Stopped by a limit: steps, tokens, cost or time."""
    APPROVAL = "approval_needed"
    """A call waits for a person's yes; saying it goes on."""
    INTERRUPTED = "interrupted"
    """The session was closed meanwhile; resuming the thread goes on with the turn."""


class Ending(Struct, frozen=True):
    """How a turn ended; `error` and `error_kind` say why if it is not done.

    `error_kind` is the kind of the model's failure, if that is what ended it.
    """

    outcome: TurnOutcome = TurnOutcome.DONE
    error: str = ""
    error_kind: LlmErrorKind | None = None


class TurnFinished(_Output, frozen=True, tag="turn_finished"):
    """The agent waits for input again, or the session is closed.

    `answer` is the model's final text; `turn_usage` is what this turn used, `usage` and `version`
    are those of the whole thread; the errors are those of its `Ending`. `output_mode` says of an
    answer that a command has asked for in a form whether its provider held the model to it
    (`native`) or only words did (`prompted`).
    """

    thread: str
    outcome: TurnOutcome
    answer: str
    version: int
    usage: Usage
    turn_usage: Usage
    error: str = ""
    error_kind: LlmErrorKind | None = None
    output_mode: Literal["", "prompted", "native"] = ""


class SubAgentOutput(_Output, frozen=True, tag="sub_agent_output"):
    """What a sub-agent tells while it works on a call of this thread.

    `path` names the agents down to the one that tells, the outermost first.
    """

    call_id: str
    path: tuple[str, ...]
    output: Output


Output: TypeAlias = (
    TurnStarted
    | InputDelivered
    | TextDelta
    | ThinkingDelta
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | ApprovalRequested
    | StateStarted
    | FinalAnswer
    | HookFinished
    | Retrying
    | Notice
    | ErrorShown
    | SubAgentOutput
    | TurnFinished
)
