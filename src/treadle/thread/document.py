"""The thread document: every field of the source document, for people, lists and servers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.chat.states import CompactionCause, ErrorOrigin
from treadle.core.conversation import Compaction, Masking
from treadle.core.llm import LlmError, Usage
from treadle.core.messages import Message
from treadle.core.tools import CompletedToolInfo, Status
from treadle.thread.facts import Base, Visibility


class ConversationSnapshot(Struct, frozen=True, omit_defaults=True):
    """All messages, oldest first.

    `compaction` is what a model is shown in place of the first of them, `hidden` the spans that a
    rewind took out of its view, `masking` says which results it is not shown, `tokens` how much of
    its context it had used when it last answered.
    """

    messages: tuple[Message, ...]
    compaction: Compaction | None = None
    tokens: int = 0
    hidden: tuple[tuple[int, int], ...] = ()
    masking: Masking | None = None


class PendingToolCall(Struct, frozen=True):
    """A call that is not completed."""

    call_id: str
    tool_name: str


class AgentStateSnapshot(Struct, frozen=True, omit_defaults=True):
    """The machine's state beside the conversation; with it, the state can be rebuilt exactly.

    `kind` is the state in snake case. `retries` is set for `calling_llm` and `error`; `last_error`
    for `error`; `pending_tool_calls` and `executions` for `executing_tools` and
    `waiting_for_approval`, which has `questions` besides; `completed_tools` for `post_tools_hook`;
    `through`, `cause` and `focus` for `compacting`. What a running call reports meanwhile (its
    progress) is not kept.
    """

    kind: str
    retries: int = 0
    last_error: str | None = None
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    executions: tuple[Status, ...] = ()
    completed_tools: tuple[CompletedToolInfo, ...] = ()
    error: LlmError | None = None
    origin: ErrorOrigin | None = None
    delay_s: float = 0.0
    questions: tuple[Question, ...] = ()
    through: int = 0
    cause: CompactionCause | None = None
    focus: str = ""


class Annotation(Struct, frozen=True):
    """What a person wrote down about a thread, and when."""

    at: str
    text: str


class ThreadMetadata(Struct, frozen=True, omit_defaults=True):
    """What people and programs add.

    `title` is the first line of the first prompt until somebody sets one.
    """

    title: str | None = None
    tags: tuple[str, ...] = ()
    is_pinned: bool = False
    extra: dict[str, Any] = {}
    annotations: tuple[Annotation, ...] = ()


class GitFields(Struct, frozen=True, omit_defaults=True):
    """The repository over the thread's life; `git_commits` in the order they were seen."""

    git_branch: str | None = None
    git_remote_url: str | None = None
    git_initial_branch: str | None = None
    git_initial_commit_sha: str | None = None
    git_current_commit_sha: str | None = None
    git_start_dirty: bool | None = None
    git_end_dirty: bool | None = None
    git_commits: tuple[str, ...] = ()


class Thread(Struct, frozen=True, omit_defaults=True):
    """One durable session at a version, folded from its journal.

    `version` is the `seq` of the last record folded; times are UTC strings.
    """

    id: str
    version: int
    created_at: str
    updated_at: str
    last_activity_at: str
    conversation: ConversationSnapshot
    agent_state: AgentStateSnapshot
    workspace_root: str | None = None
    cwd: str | None = None
    treadle_version: str | None = None
    git_branch: str | None = None
    git_remote_url: str | None = None
    git_initial_branch: str | None = None
    git_initial_commit_sha: str | None = None
    git_current_commit_sha: str | None = None
    git_start_dirty: bool | None = None
    git_end_dirty: bool | None = None
    git_commits: tuple[str, ...] = ()
    provider: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    visibility: Visibility = "organization"
    is_private: bool = False
    is_shared_with_support: bool = False
    metadata: ThreadMetadata = ThreadMetadata()
    project_name: str | None = None
    directory: str | None = None
    worker_count: int = 0
    worker_configuration: dict[str, Any] = {}
    environment: dict[str, str] = {}
    forked_from: Base | None = None
    imported_from: str | None = None
    is_trashed: bool = False


class ThreadSummary(Struct, frozen=True, omit_defaults=True):
    """One line of a list.

    `machine` says what the thread is: `chat` or `task`. `parent` is the thread a sub-agent works
    for, `forked_from` the one a fork goes on from. What is pending: `questions` calls wait for a
    person's yes, `open_calls` are not over, `queued` prompts are not delivered; `is_unfinished`
    says that something was left to be done that needs nobody's yes. `key` is the name that a
    program has for it.
    """

    id: str
    version: int
    created_at: str
    updated_at: str
    title: str | None
    state: str
    message_count: int
    workspace_root: str | None = None
    git_branch: str | None = None
    model: str | None = None
    is_private: bool = False
    problem: str = ""
    machine: str = "chat"
    questions: int = 0
    parent: str | None = None
    last_activity_at: str = ""
    tags: tuple[str, ...] = ()
    is_pinned: bool = False
    provider: str | None = None
    git_remote_url: str | None = None
    git_initial_commit_sha: str | None = None
    git_current_commit_sha: str | None = None
    git_commits: tuple[str, ...] = ()
    visibility: Visibility = "organization"
    forked_from: str | None = None
    imported_from: str | None = None
    open_calls: int = 0
    queued: int = 0
    is_unfinished: bool = False
    is_trashed: bool = False
    key: str = ""
