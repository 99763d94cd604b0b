"""What a tool is to the machines: its definition, its effect class, how one call of it stands.

Variants with generic names (`Pending`, `Success`, ...) live inside the name of the choice they
belong to, as in the source document: `ToolExecutionStatus.Pending`, `ToolExecutionOutcome.Error`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, Final, Self, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from treadle.core.messages import Attachment, BlobRef, SeenFile


class EffectClass(Enum):
    """What repeating a call would do; decides what recovery may do after a crash."""

    READ = "read"
    """Changes nothing: safe to run again."""
    IDEMPOTENT = "idempotent"
    """Safe to run again with the same idempotency key."""
    MUTATE = "mutate"
    """Never run again silently: after a crash it is *uncertain* whether it happened."""


class Access(Enum):
    """What one call may change, where its tool says so of each; decides what modes make of it."""

    READ = "read"
    """Nothing that it does can last: safe to run again, whatever the effect class of its tool."""
    NETWORK = "network"
    """It changes nothing here, and may change things elsewhere."""
    WRITE = "write"
    """It may change what lasts."""


class RiskLevel(IntEnum):
    """How much harm a call can do; ordered."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class ToolDefinition(Struct, frozen=True):
    """A tool as the model is told of it.

    `input_schema` is a JSON schema of type `object`. Definitions are part of the recorded
    configuration of a thread, so that a resumed thread sends the same bytes.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    effect: EffectClass = EffectClass.MUTATE
    risk: RiskLevel = RiskLevel.MEDIUM

    def without_argument(self, name: str) -> Self:
        """The same tool without an argument that is not required."""
        properties = self.input_schema["properties"]
        kept = {other: schema for other, schema in properties.items() if other != name}
        return replace(self, input_schema={**self.input_schema, "properties": kept})


class ToolErrorKind(Enum):
    """Why a call failed; each has the words that the model reads."""

    NOT_FOUND = "Tool not found"
    INVALID_ARGUMENTS = "Invalid arguments"
    IO = "IO error"
    TIMEOUT = "Tool execution timed out"
    INTERNAL = "Internal error"
    TARGET_NOT_FOUND = "Target not found"
    PATH_OUTSIDE_WORKSPACE = "Path outside workspace"
    FILE_NOT_FOUND = "File not found"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    UNCERTAIN = "Uncertain"
    REJECTED = "Rejected"


class ToolError(Struct, frozen=True):
    """A failed call, as data: the model reads `text`.

    `output` is what the tool had produced before it failed, if anything.
    """

    kind: ToolErrorKind
    message: str = ""
    output: str = ""

    @property
    def text(self) -> str:
        """One string: the kind's words, the message, then the partial output."""
        head = f"{self.kind.value}: {self.message}" if self.message else self.kind.value
        return f"{head}\n{self.output}" if self.output else head


class ToolProgress(Struct, frozen=True):
    """How far a running call is.

    `fraction` is 0.0 to 1.0, `units_processed` counts whatever the tool counts.
    """

    fraction: float | None = None
    message: str | None = None
    units_processed: int | None = None


class RewrittenFile(Struct, frozen=True):
    """A file that a call wrote, under the name that its `Scope` has for it.

    `before` and `after` are digests of its content, like `Scope.content`, taken by the call itself:
    who looks at the file later may see what somebody else has made of it.
    """

    name: str
    before: str
    after: str


class ToolExecutionOutcome:
    """How a call ended. The call id stands in both variants, as in the source document.

    `blob` is the whole of an output of which the message keeps beginning and end; `None` if the
    message has all of it, or if it could not be kept. `attachments` are what the model is shown
    besides the text; `contents` has their bytes until these are kept, and is never recorded. `seen`
    are the files of which the model has heard by this call how they are now.
    """

    class Success(Struct, frozen=True, tag="success", tag_field="type", omit_defaults=True):
        """`output` is what the model reads; `changed` names workspace files the tool wrote.

        `rewritten` says more of those of them that a later call of the round may be bound to.
        `background` is a command that the call has begun and that goes on; empty if there is none.
        """

        call_id: str
        output: str
        changed: tuple[str, ...] = ()
        blob: BlobRef | None = None
        rewritten: tuple[RewrittenFile, ...] = ()
        seen: tuple[SeenFile, ...] = ()
        background: str = ""
        attachments: tuple[Attachment, ...] = ()
        contents: dict[str, bytes] = {}

    class Error(Struct, frozen=True, tag="error", tag_field="type", omit_defaults=True):
        """A failure; never an exception."""

        call_id: str
        error: ToolError
        blob: BlobRef | None = None
        seen: tuple[SeenFile, ...] = ()


Outcome: TypeAlias = ToolExecutionOutcome.Success | ToolExecutionOutcome.Error

FAILURE_HEAD: Final = "ERROR:"
"""How the result of a call begins that failed."""


def format_outcome(outcome: Outcome) -> str:
    """The result of a call, as the model reads it."""
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return f"{FAILURE_HEAD} {outcome.error.text}"


class ApprovalBinding(Struct, frozen=True, omit_defaults=True):
    """What was true when a person said yes to a call: the digests of its `Scope`."""

    ground: str = ""
    content: str = ""


class ToolExecutionStatus:
    """Where one call stands. Times are UTC strings that came in with events; may be empty.

    `modified` holds the arguments a person put in place of the model's, as JSON text; `approved` is
    set if a person said yes, and `bound` if that yes holds only as long as something stays as it
    was; `access` is what the call may change while it runs, where its tool said so.
    """

    class Pending(Struct, frozen=True, tag="pending", tag_field="status"):
        """Asked for, not started."""

        call_id: str
        tool_name: str
        requested_at: str = ""
        modified: str | UnsetType = UNSET
        approved: bool | UnsetType = UNSET
        bound: ApprovalBinding | UnsetType = UNSET

    class Running(Struct, frozen=True, tag="running", tag_field="status", omit_defaults=True):
        """Started. `uncertain`: the process that ran it died; nobody knows whether it happened."""

        call_id: str
        tool_name: str
        started_at: str = ""
        last_update_at: str = ""
        progress: ToolProgress | None = None
        uncertain: bool = False
        modified: str | UnsetType = UNSET
        approved: bool | UnsetType = UNSET
        bound: ApprovalBinding | UnsetType = UNSET
        access: Access | UnsetType = UNSET

    class Completed(Struct, frozen=True, tag="completed", tag_field="status"):
        """Ended, well or badly."""

        call_id: str
        tool_name: str
        started_at: str
        completed_at: str
        outcome: Outcome
        modified: str | UnsetType = UNSET


Status: TypeAlias = (
    ToolExecutionStatus.Pending | ToolExecutionStatus.Running | ToolExecutionStatus.Completed
)


class CompletedToolInfo(Struct, frozen=True, omit_defaults=True):
    """What the post-tools hook is told of one call of the round.

    `changed` names the workspace files the tool says it wrote, relative to the workspace.
    """

    tool_name: str
    succeeded: bool
    changed: tuple[str, ...] = ()
