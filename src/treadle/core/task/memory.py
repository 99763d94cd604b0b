"""The memory of a task: its whole world, immutable, and who may write what of it.

Every field of the source document is here under its name. Handlers return a changed copy; after
each the machine compares the fields and refuses what the state does not own (`OWNERS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.append_list import AppendList
from treadle.core.approval import Question
from treadle.core.budget import Limit, TokenBudget, TokenUsage
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.core.task.events import Graph, TaskConfig
from treadle.core.task.table import State
from treadle.core.task.trace import Trace, TraceEntry
from treadle.core.tools import Outcome, Status
from treadle.errors import OwnershipViolation


class HistoryEntry(Struct, frozen=True, gc=False):
    """One finished call: in which planning step, what was called, what came of it.

    `observation` begins with `SUCCESS: `, `ERROR: ` or `REJECTED: `. A digest of older entries is
    an entry of the tool `SUMMARY`.
    """

    step: int
    tool: ToolCall
    observation: str
    success: bool


SUMMARY: Final = "[SUMMARY]"
"""The name of the tool of an entry that stands for older ones."""


class History(AppendList[HistoryEntry]):
    """Finished calls, oldest first; append-only but for reflection."""

    __slots__ = ()


class ToolResult(Struct, frozen=True, gc=False):
    """What came of one call of a batch."""

    call: ToolCall
    outcome: Outcome


class HumanApprovalRequest(Struct, frozen=True):
    """The calls of this step that wait for a person's yes."""

    open: tuple[Question, ...]

    @property
    def tool_name(self) -> str:
        """The tool of the first open question."""
        return self.open[0].call.tool_name

    @property
    def tool_args(self) -> str:
        """Its arguments, as JSON text."""
        return self.open[0].call.arguments_json


class FailedRequest(Struct, frozen=True):
    """A request that failed: why, which retry comes next, after how long.

    `is_waiting` until the delay is over and the request is out again. `is_given_up` if retries are
    used up for now: what can pass does not end a task, which waits to be resumed.
    """

    error: LlmError
    retries: int
    delay_s: float
    is_waiting: bool = True
    is_given_up: bool = False


class AgentMemory(Struct, frozen=True):
    """The agent's entire world-state.

    The first five groups are the source document's. The last one is added: `transcript` is every
    message so far, in the form that models read; `executions` is how the calls of this step stand,
    in request order; `failed_request` waits to be sent again; `exceeded` is the limit that stopped
    the run; `elapsed_s` is seconds of work so far and `clock` the time up to which they count;
    `moves` counts transitions; `extra` is a custom graph's own. So is `graph`, what it adds, and
    `faults`, how often in a row the handler of its present state has failed.
    """

    task: str = ""
    task_type: str = "default"
    system_prompt: str = ""

    step: int = 0
    retry_count: int = 0
    confidence_score: float = 1.0
    total_usage: TokenUsage = TokenUsage()
    budget: TokenBudget | None = None

    current_tool_call: ToolCall | None = None
    pending_tool_calls: tuple[ToolCall, ...] = ()
    parallel_results: tuple[ToolResult, ...] = ()
    last_observation: str | None = None
    pending_approval: HumanApprovalRequest | None = None

    history: History = History()
    final_answer: str | None = None
    error: str | None = None

    config: TaskConfig = TaskConfig()
    blacklisted_tools: tuple[str, ...] = ()
    graph: Graph | None = None
    trace: Trace = Trace()

    transcript: Conversation = Conversation()
    executions: tuple[Status, ...] = ()
    failed_request: FailedRequest | None = None
    exceeded: Limit = ""
    elapsed_s: float = 0.0
    clock: str = ""
    moves: int = 0
    extra: dict[str, Any] = {}
    faults: int = 0

    def log(self, state: str, event: str, data: str = "") -> AgentMemory:
        """A memory whose trace has one more entry, at the time of the event that is handled."""
        entry = TraceEntry(self.step, str(state), event, data, self.clock)
        return replace(self, trace=self.trace.append(entry))

    def tell(self, text: str) -> AgentMemory:
        """A memory whose next request tells the model this, after everything else."""
        return replace(self, transcript=self.transcript.append(Message.note(text)))

    def build_messages(self) -> list[Message]:
        """The messages of the next request, by `config.history_style`.

        `native`: the system message (if there is a system prompt), the task, then history as
        calls and results, as providers want it. `text`: the source document's order: the system
        message, history as alternating assistant and user messages, and the task last. It stands
        before history too, because providers refuse a request that begins with the assistant.
        """
        system = [Message("system", self.system_prompt)] if self.system_prompt else []
        return [*system, *self.messages_in_view()]

    def messages_in_view(self) -> Conversation:
        """`build_messages` without the system message, which requests carry by themselves."""
        if self.config.history_style == "native":
            return self.transcript.in_view
        return _format_as_text(self.transcript, self.task)


def _format_as_text(transcript: Conversation, task: str) -> Conversation:
    """History in words, the task last. Costs time in proportion to what is in view."""
    said: list[Message] = []
    shown: tuple[Attachment, ...] = ()
    for message in transcript.in_view:
        if message.role == "tool":
            said.append(Message.user(f"Tool result: {message.content}", message.attachments))
        elif message.role == "assistant":
            calls = [
                f"Called tool {c.tool_name} with args {c.arguments_json}"
                for c in message.tool_calls
            ]
            said.append(Message.assistant("\n".join(filter(None, [message.content, *calls]))))
        elif message.content != task:
            said.append(message)
        else:
            shown = message.attachments
    if said and said[0].role == "assistant":
        said.insert(0, Message.user(f"Task: {task}"))  # providers want a user to begin
    return Conversation([*said, Message.user(task, shown)])


_ACTING: Final = (State.ACTING, State.PARALLEL_ACTING)
_CALL_STATES: Final = (State.PLANNING, *_ACTING, State.WAITING_FOR_HUMAN)

OWNERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "task": frozenset(),
        "task_type": frozenset(),
        "system_prompt": frozenset(),
        "budget": frozenset(),
        "config": frozenset(),
        "blacklisted_tools": frozenset(),
        "graph": frozenset(),
        "extra": frozenset(),
        "faults": frozenset(),
        "step": frozenset({State.PLANNING}),
        "retry_count": frozenset({State.PLANNING}),
        "confidence_score": frozenset({State.PLANNING}),
        "final_answer": frozenset({State.PLANNING}),
        "exceeded": frozenset({State.PLANNING, *_ACTING}),
        "error": frozenset(_CALL_STATES),
        "current_tool_call": frozenset({*_CALL_STATES, State.OBSERVING} - {State.PARALLEL_ACTING}),
        "pending_tool_calls": frozenset({*_CALL_STATES, State.OBSERVING} - {State.ACTING}),
        "pending_approval": frozenset(_CALL_STATES),
        "executions": frozenset({*_CALL_STATES, State.OBSERVING}),
        "last_observation": frozenset({State.ACTING, State.WAITING_FOR_HUMAN, State.OBSERVING}),
        "parallel_results": frozenset(
            {State.PARALLEL_ACTING, State.WAITING_FOR_HUMAN, State.OBSERVING}
        ),
        "total_usage": frozenset({State.PLANNING, *_ACTING, State.OBSERVING, State.REFLECTING}),
        "failed_request": frozenset({State.PLANNING}),
        "history": frozenset({State.OBSERVING, State.REFLECTING}),
        "transcript": frozenset(
            {
                State.PLANNING,
                *_ACTING,
                State.OBSERVING,
                State.REFLECTING,
                State.DONE,
                State.ERROR,
            }
        ),
    }
)
"""Who writes each field; the source document's rules, plus `WaitingForHuman` where its own program
needs it, plus the owners of the fields that are added. A custom state owns what it declares.

`trace` may be extended by every state and rewritten by none; `history` is pushed to by `Observing`
and rewritten by `Reflecting` alone. `elapsed_s`, `clock` and `moves` are the machine's own.
"""

FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(AgentMemory))


def check_ownership(
    state: str, before: AgentMemory, after: AgentMemory, owns: frozenset[str] = frozenset()
) -> None:
    """Compare what a handler returned with what it was given. O(number of fields).

    Args:
        state: whose handler it was.
        before: what it was given.
        after: what it returned.
        owns: the fields that a custom state owns beside its built-in ones.

    Raises:
        OwnershipViolation: it wrote what it does not own.
    """
    for name in FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old is new:
            continue
        if name == "trace" and new.starts_with(old):
            continue
        owners = OWNERS.get(name, frozenset())
        if (state in owners or name in owns) and _is_allowed_change(state, name, old, new):
            continue
        if old != new:
            raise OwnershipViolation(state, name, sorted(owners))


def _is_allowed_change(state: str, name: str, old: Any, new: Any) -> bool:
    """Whether an append-only field was only appended to, where that is all the state may do."""
    if name == "history" and state != State.REFLECTING:
        return bool(new.starts_with(old))
    if name == "transcript":
        return bool(new.starts_with(old))
    return True
