"""What is recorded about a thread besides the machine's events. Facts never move the machine."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from treadle.core.budget import Limit
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.core.messages import BlobRef, Message
from treadle.core.tools import RiskLevel

Visibility: TypeAlias = Literal["organization", "private", "public"]
"""Who may see a thread on a server: the owner's organization, the owner alone, or anybody."""

FORMAT_VERSION = 1
"""The journal format this program writes; a higher one is opened read-only."""


class _Fact(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Tagged like the events, so that a record says what it is."""


class Base(Struct, frozen=True):
    """What a fork goes on from: a thread, one of its versions, and the first hash of that record.

    The hash covers all of the history before it. A scrub of that history leaves it as it is.
    """

    thread: str
    version: int
    hash: str


class ThreadCreated(_Fact, frozen=True, tag="thread_created"):
    """Record 1 of every journal.

    `machine` names the state machine that folds the thread, `creator` the program and version.
    A sub-agent's thread names the thread and the call it works for; `depth` counts from 0. A fork
    names its `base`: the thread is folded from the base's records up to there, then from its own.
    `key` is the name that a program has for it.
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
    base: Base | None = None
    key: str = ""


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


class KindGranted(_Fact, frozen=True, tag="kind_granted"):
    """A person allowed calls of this kind of a tool, up to this risk, on this ground."""

    tool_name: str
    risk: RiskLevel
    kind: str
    ground: str = ""


class Revoked(_Fact, frozen=True, tag="revoked"):
    """A person took back what they had allowed for the thread: a kind, or all of the tool."""

    tool_name: str
    kind: str = ""


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
    """The person said something while the agent was busy; delivered when the machine waits.

    If it `steers` it is delivered before the next request to the model, should one come first.
    """

    message: Message
    steers: bool = False


class InputWithdrawn(_Fact, frozen=True, tag="input_withdrawn"):
    """The person has taken back the newest message that was queued; the model never sees it."""


class CommandBegun(_Fact, frozen=True, tag="command_begun"):
    """The person's own command is about to run in `folder`; nothing ever runs it again.

    The `CommandShown` of the same `id` is its end. Where there is none, nobody knows how it ended.
    """

    id: str
    command: str
    folder: str


class CommandShown(_Fact, frozen=True, tag="command_shown"):
    """The person ran a command themselves; the model is told of it with their next message.

    `output` is what it printed, secrets replaced and cut to size like that of a tool. `id` is that
    of its beginning; empty if that was not recorded, because there was no thread yet.
    """

    command: str
    output: str
    exit_code: int = 0
    id: str = ""


class RequestTaken(_Fact, frozen=True, tag="request_taken"):
    """A person has said something where the session itself does not ask: on a page, say.

    It is recorded in the batch of what it led to. `id` is that of the request, which is taken once,
    whatever happens; `act` is what was asked for, `by` who asked and from where, for people.
    `call_id` is the call that it answers, if it is an answer.
    """

    id: str
    act: str
    by: str
    call_id: str = ""


class BackgroundEnded(_Fact, frozen=True, tag="background_ended"):
    """A command has ended that went on when the call that began it had its result.

    `how` says why: it exited with `exit_code`; its time was over; somebody stopped it; its session
    ended, which stops it; or nobody knows, because the process that ran it died. `output` is what
    a model is told of what it printed: the end, and where the rest is. `blob` is all of it, `None`
    if there is nothing or it could not be kept.
    """

    call_id: str
    command: str
    how: Literal["exit", "timeout", "stopped", "session", "unknown"] = "exit"
    exit_code: int = 0
    output: str = ""
    blob: BlobRef | None = None


class ServerAsked(_Fact, frozen=True, tag="server_asked"):
    """A server of tools has asked something back in a call; a person is asked about it then.

    `wants` is a `form` filled out, a `visit` of an address, or the `answer` of a model, `text` what
    the person is shown. The `ServerAnswered` of the same `id` is its end. Where there is none,
    nobody has answered: the call was over before.
    """

    id: str
    call_id: str
    server: str
    wants: Literal["form", "visit", "answer"]
    text: str


class ServerAnswered(_Fact, frozen=True, tag="server_answered"):
    """What came of a question of a server.

    A person has said yes or no, or has put it aside (`cancel`); or it was refused unasked: because
    `nobody` could be asked, or because of a `limit`. `text` is what the server was given, secrets
    replaced. What a model has used for it stands with the result of the call.
    """

    id: str
    action: Literal["accept", "decline", "cancel", "nobody", "limit"]
    text: str = ""


class Recovered(_Fact, frozen=True, tag="recovered"):
    """Work was left unfinished; `note` says what was found and done.

    With `stopped`, its own program left it, in order, and that is why; else its process had died.
    """

    note: str = ""
    stopped: str = ""


class ContextObserved(_Fact, frozen=True, tag="context_observed"):
    """Where and how the agent works, besides the repository.

    `workspace` is the folder it works in if that is another one than when the thread began, because
    it was moved or chosen anew. `directory` is where the program was started, `workers` how many
    calls it runs at a time, `worker_configuration` what bounds them. `environment` holds variables
    that say how programs behave (a fixed list, secrets replaced), never all of them.
    """

    project_name: str = ""
    directory: str = ""
    workers: int = 0
    worker_configuration: dict[str, Any] = {}
    environment: dict[str, str] = {}
    workspace: str = ""


class FilesSaved(_Fact, frozen=True, tag="files_saved"):
    """The workspace's files as a git commit, before or after a round of calls that may change them.

    Recorded when it is news. So what differs between an `after` and the state recorded before it is
    what the agent changed; between a `before` and the state before it, what others did. `skipped`
    names files that were not saved, at most a few.
    """

    commit: str
    tree: str
    moment: Literal["before", "after"]
    skipped: tuple[str, ...] = ()


class FilesNotSaved(_Fact, frozen=True, tag="files_not_saved"):
    """The files could not be kept before or after a round of calls that may have changed them.

    What that round changed is not told apart from what others did; `why` is for people. At most one
    is recorded for a round.
    """

    moment: Literal["before", "after"]
    why: str = ""


class Renamed(_Fact, frozen=True, tag="renamed"):
    """The thread has this title; one that a person gave is not replaced by a model's.

    `usage` is what it used of `model`, if a model wrote it. An empty title by a person is the first
    line of the first prompt again; an empty one by a model changes nothing.
    """

    title: str
    by: Literal["person", "model"] = "person"
    usage: Usage | None = None
    model: str = ""


class Tagged(_Fact, frozen=True, tag="tagged"):
    """Tags were added and removed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Pinned(_Fact, frozen=True, tag="pinned"):
    """The thread stands on top of lists, or does so no longer."""

    is_pinned: bool = True


class Annotated(_Fact, frozen=True, tag="annotated"):
    """A person wrote something down about the thread. Models do not see it."""

    text: str


class ExtraSet(_Fact, frozen=True, tag="extra_set"):
    """A program keeps what it likes with the thread: keys are replaced, `null` removes one."""

    extra: dict[str, Any]


class Trashed(_Fact, frozen=True, tag="trashed"):
    """The thread is in the trash: shown nowhere unasked, and not continued."""


class Restored(_Fact, frozen=True, tag="restored"):
    """It is back."""


class Scrubbed(_Fact, frozen=True, tag="scrubbed"):
    """A text was removed from the whole thread, and its records chained anew.

    `count` is how many records held it; `before` the hash of the last record before that. Records
    keep their first hashes if `keeps_ids`; older programs have let them go.
    """

    count: int
    before: str
    keeps_ids: bool = False


class Shared(_Fact, frozen=True, tag="shared"):
    """Who may see the thread on a server, from here on; `None` leaves it as it was."""

    visibility: Visibility | None = None
    with_support: bool | None = None


class PrivacySet(_Fact, frozen=True, tag="privacy_set"):
    """From here on the thread never leaves this machine, or may do so again."""

    is_private: bool


class TakenOver(_Fact, frozen=True, tag="taken_over"):
    """From here on somebody else goes on with the thread: no yes that was given before counts."""


class BranchRecord(Struct, frozen=True):
    """A record of another branch, as it stood there; its `hash`, the first, is its id."""

    seq: int
    at: str
    hash: str
    event: dict[str, Any]


class Merged(_Fact, frozen=True, tag="merged"):
    """Another machine had gone on with the thread from an earlier version; this is what it did.

    `version` and `hash` name the last record both have in common, `host` the other machine.
    `records` are all of that branch which are not in this thread, as they stood there. The state
    of this thread stays. `messages` join the conversation as soon as nothing is open in it, with
    every call beside its result; `queued` are prompts that were not heard there. A task has
    neither: its memory is that of one branch alone.
    """

    version: int
    hash: str
    records: tuple[BranchRecord, ...]
    messages: tuple[Message, ...] = ()
    queued: tuple[Message, ...] = ()
    host: str = ""


class Imported(_Fact, frozen=True, tag="imported"):
    """What follows was recorded by another program.

    `source` is its name, `session` its id there, `path` the file. `problems` says what was not as
    it should be; `foreign_count` counts the records kept as they were.
    """

    source: str
    session: str
    path: str = ""
    problems: tuple[str, ...] = ()
    foreign_count: int = 0


class Foreign(_Fact, frozen=True, tag="foreign"):
    """A record of another program that has no counterpart here, as its text was."""

    text: str


Fact: TypeAlias = (
    ThreadCreated
    | Configured
    | GitObserved
    | InputQueued
    | InputWithdrawn
    | CommandBegun
    | CommandShown
    | RequestTaken
    | BackgroundEnded
    | ServerAsked
    | ServerAnswered
    | Recovered
    | Granted
    | KindGranted
    | Revoked
    | ChildStarted
    | TaskEnded
    | ContextObserved
    | FilesSaved
    | FilesNotSaved
    | Renamed
    | Tagged
    | Pinned
    | Annotated
    | ExtraSet
    | Trashed
    | Restored
    | Scrubbed
    | Shared
    | PrivacySet
    | Merged
    | TakenOver
    | Imported
    | Foreign
)
