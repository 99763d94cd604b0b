"""What an editor is told of a session, one value for each thing that it shows."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from treadle.thread.plan import AgentPlan

Author: TypeAlias = Literal["person", "agent", "thought"]
CallKind: TypeAlias = Literal[
    "read", "edit", "search", "execute", "think", "fetch", "switch_mode", "other"
]
"""What a call does, in the words of the Agent Client Protocol."""
CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class MessageText(Struct, frozen=True):
    """A piece of what somebody says; a `thought` is the model's. Markdown."""

    author: Author
    text: str


class MessagePicture(Struct, frozen=True):
    """A picture in a message."""

    author: Author
    media_type: str
    data: bytes


class ShownChange(Struct, frozen=True):
    """A file, by its absolute path, as it was and as it becomes.

    `old` is `None` where there was none. Where nobody knows all of the file, both are the part
    that changes.
    """

    path: str
    old: str | None
    new: str


class CallBegun(Struct, frozen=True):
    """A call that was not told of before.

    `call_id` is this call's alone in its session. `title` is a line. `paths` are absolute.
    `arguments` are as the model wrote them, if that is an object. Of a command, `command` is all of
    it. `text` is what else there is to read.
    """

    call_id: str
    title: str
    kind: CallKind
    status: CallStatus
    paths: tuple[str, ...] = ()
    arguments: dict[str, Any] | None = None
    changes: tuple[ShownChange, ...] = ()
    command: str = ""
    text: str = ""


class CallChanged(Struct, frozen=True):
    """What has become of a call. `text` is its result once it has one.

    `exit_code` is that of a command that has ended by itself.
    """

    call_id: str
    status: CallStatus
    text: str = ""
    changes: tuple[ShownChange, ...] = ()
    pictures: tuple[MessagePicture, ...] = ()
    is_command: bool = False
    exit_code: int | None = None


class CommandPrinted(Struct, frozen=True):
    """A call that runs has printed more; `so_far` is the end of all that it has printed.

    What is no command has told how far it is.
    """

    call_id: str
    text: str
    so_far: str
    is_command: bool = True


class PlanTold(Struct, frozen=True):
    """The plan of the agent; it takes the place of the one before."""

    plan: AgentPlan


class ModeChosen(Struct, frozen=True):
    """The approval mode that holds from here on."""

    mode: str


class ModelChosen(Struct, frozen=True):
    """Who answers from here on, by the lasting name."""

    model: str


class ContextUsed(Struct, frozen=True):
    """How many tokens of its context the model has used, and how many it has; what it all cost."""

    used: int
    size: int
    cost_usd: float | None = None


class TitleChosen(Struct, frozen=True):
    """What the session is called."""

    title: str


SessionUpdate: TypeAlias = (
    MessageText
    | MessagePicture
    | CallBegun
    | CallChanged
    | CommandPrinted
    | PlanTold
    | ModeChosen
    | ModelChosen
    | ContextUsed
    | TitleChosen
)
