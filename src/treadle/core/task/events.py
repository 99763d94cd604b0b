"""The durable events that only the task machine has, and what they carry."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.core.messages import Attachment, SeenFile, ToolCall

DIGEST_TOKENS_MAX: Final = 4_000
"""Of the digest of a new task; at most an eighth of what its model reads."""


class TaskConfig(Struct, frozen=True, omit_defaults=True):
    """The limits of a task. Defaults are those of the source document.

    `max_steps` bounds the planning steps: each is one request to a model. `max_retries` is how many
    answers of low confidence are sent back, `confidence_threshold` (0.0 to 1.0) what counts as low.
    Every `reflect_every_n_steps` steps older history becomes a digest (0: never), written by a
    model if `model_written_reflection`. It has `digest_tokens_max` tokens at most; 0 is a line of
    200 characters for each result, as tasks of earlier versions have it. A final answer needs
    `min_answer_length` characters.
    Without `parallel_tools` the calls of one answer run one after another. `models` are names of
    models by kind of task. `output_schema` is a JSON schema that the answer must fit.
    With `self_reported_confidence` the model is asked how sure it is of each call.
    `history_style` is how history is put into a request: `native` as calls and results, `text` as
    the source document has it, in words with the task last.
    """

    max_steps: int = 15
    max_retries: int = 3
    confidence_threshold: float = 0.4
    reflect_every_n_steps: int = 5
    min_answer_length: int = 20
    parallel_tools: bool = True
    models: dict[str, str] = {}
    output_schema: dict[str, Any] | None = None
    self_reported_confidence: bool = False
    history_style: Literal["native", "text"] = "native"
    model_written_reflection: bool = False
    digest_tokens_max: int = 0

    def with_digest(self) -> TaskConfig:
        """The same for a new task, whose digest has its size if none is set."""
        return replace(self, digest_tokens_max=self.digest_tokens_max or DIGEST_TOKENS_MAX)


class CustomState(Struct, frozen=True, omit_defaults=True):
    """A state of a custom graph, run by a handler of its own; `owns` are the fields it writes."""

    name: str
    owns: tuple[str, ...] = ()


class Graph(Struct, frozen=True, omit_defaults=True):
    """What a custom graph adds to the default one.

    It is data, so that whoever reads the thread can fold it without the program that made it.
    `rows` are (state, event, next state), `transitions_max` bounds the moves of the whole run.
    """

    states: tuple[CustomState, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()
    terminal: tuple[str, ...] = ()
    transitions_max: int = 10_000


class _TaskEvent(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Tagged, so that a record says what it is."""


class TaskGiven(_TaskEvent, frozen=True, tag="task_given"):
    """A task begins: everything that it is and that bounds it. The first event of its thread."""

    task: str
    at: str = ""
    task_type: str = "default"
    system_prompt: str = ""
    config: TaskConfig = TaskConfig()
    budget: TokenBudget | None = None
    blacklisted_tools: tuple[str, ...] = ()
    graph: Graph | None = None
    attachments: tuple[Attachment, ...] = ()
    seen: tuple[SeenFile, ...] = ()


class MemoryChanges(Struct, frozen=True, omit_defaults=True):
    """What a custom handler wrote into memory; what is not here it left alone.

    `extra` is the whole of it, if it changed.
    """

    step: int | UnsetType = UNSET
    retry_count: int | UnsetType = UNSET
    confidence_score: float | UnsetType = UNSET
    current_tool_call: ToolCall | UnsetType | None = UNSET
    pending_tool_calls: tuple[ToolCall, ...] | UnsetType = UNSET
    last_observation: str | UnsetType | None = UNSET
    final_answer: str | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    extra: dict[str, Any] | UnsetType = UNSET


WRITABLE: Final = tuple(field.name for field in msgspec.structs.fields(MemoryChanges))
"""The fields of memory that the handler of a custom state may own."""


class TraceLine(Struct, frozen=True, omit_defaults=True):
    """A line that a custom handler put into the trace; without a `state`, it is of its own."""

    event: str
    data: str = ""
    state: str = ""


class StateCompleted(_TaskEvent, frozen=True, tag="state_completed"):
    """The handler of a custom state ended with `event`.

    `notes` are what it tells the model, `usage` is what it used of models.
    """

    state: str
    event: str
    changes: MemoryChanges = MemoryChanges()
    logged: tuple[TraceLine, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage | None = None
    at: str = ""


class StateFailed(_TaskEvent, frozen=True, tag="state_failed"):
    """The handler of a custom state failed, or its outcome could not be taken: `error` says why.

    The state stands as it stood: its handler is to be mended, then it runs again. What it used of
    models counts. Older programs recorded it for that alone, without an `error`.
    """

    state: str
    usage: Usage | None = None
    at: str = ""
    error: str = ""


class TimeRanOut(_TaskEvent, frozen=True, tag="time_ran_out"):
    """The time limit of the budget passed while work was in flight."""

    at: str = ""


class TaskResumed(_TaskEvent, frozen=True, tag="task_resumed"):
    """Work goes on in another process, or after a person was waited for: time counts again."""

    at: str = ""


class TaskInformed(_TaskEvent, frozen=True, tag="task_informed"):
    """Before a request leaves, its model is told what is another fact now than it was told."""

    text: str
    at: str = ""


TaskEvent: TypeAlias = (
    TaskGiven | StateCompleted | StateFailed | TimeRanOut | TaskResumed | TaskInformed
)
TASK_EVENTS: Final[tuple[type[TaskEvent], ...]] = TaskEvent.__args__
