"""What is recorded about a thread besides the machine's events. Facts never move the machine."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from treadle.core.budget import Limit
from treadle.core.config import AgentConfig
from treadle.core.messages import Message
from treadle.core.tools import RiskLevel

FORMAT_VERSION = 1
"""The journal format this program writes; a higher one is opened read-only."""


class _Fact(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Tagged like the events, so that a record says what it is."""


class ThreadCreated(_Fact, frozen=True, tag="thread_created"):
    """Record 1 of every journal.

    `machine` names the state machine that folds the thread, `creator` the program and version.
    A sub-agent's thread names the thread and the call it works for; `depth` counts from 0.
    """

    format: int
    thread: str
    machine: str
    creator: str
    workspace: str | None = None
    cwd: str | None = None
    is_private: bool = False
    parent: str | None = None
    parent_call: str | None = None
    depth: int = 0


class ChildStarted(_Fact, frozen=True, tag="child_started"):
    """A call is worked on by a sub-agent, in a thread of its own."""

    call_id: str
    thread: str


class TaskEnded(_Fact, frozen=True, tag="task_ended"):
    """A task is over: in which state, and why if not with an answer.

    It is said in the same batch as the event that led there, which alone moves the machine.
    """

    state: str
    error: str = ""
    exceeded: Limit = ""


class Granted(_Fact, frozen=True, tag="granted"):
    """A person allowed this tool for the rest of the thread, up to this risk."""

    tool_name: str
    risk: RiskLevel


class Configured(_Fact, frozen=True, tag="configured"):
    """From here on the machine works with this configuration."""

    config: AgentConfig
    provider: str = ""


class GitObserved(_Fact, frozen=True, tag="git_observed"):
    """How the repository stood.

    `branch` is `None` when HEAD is detached, `head` is `None` before the first commit, `remote` is
    normalised to `host/path` without credentials. `changed` names what was staged, modified or
    untracked, relative to the workspace, at most `CHANGED_COUNT_MAX` names; `changed_is_cut`
    says that there were more. A folder that is no repository has no observation.
    """

    branch: str | None = None
    head: str | None = None
    dirty: bool = False
    remote: str | None = None
    changed: tuple[str, ...] = ()
    changed_is_cut: bool = False


CHANGED_COUNT_MAX = 1000
"""More uncommitted files than this are not told apart: nothing is committed then."""


class InputQueued(_Fact, frozen=True, tag="input_queued"):
    """The person said something while the agent was busy; delivered when the machine waits."""

    message: Message


class Recovered(_Fact, frozen=True, tag="recovered"):
    """The thread was opened after its process had died; `note` says what was found and done."""

    note: str = ""


Fact: TypeAlias = (
    ThreadCreated
    | Configured
    | GitObserved
    | InputQueued
    | Recovered
    | Granted
    | ChildStarted
    | TaskEnded
)
