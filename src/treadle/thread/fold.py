"""The fold: records in, the thread out. The only way a thread's state comes about.

The live runtime and a replay run the same `ThreadFold.apply`, so they cannot disagree.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict, replace

from treadle.core.actions import AgentAction
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import AgentState, ShuttingDown
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import (
    DURABLE,
    AgentEvent,
    LlmEvent,
    PostToolsHookCompleted,
    UserInput,
)
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.thread.chat_state import snapshot_state
from treadle.thread.codec import Entry, UnknownEntryError
from treadle.thread.facts import (
    FORMAT_VERSION,
    Configured,
    GitObserved,
    InputQueued,
    ThreadCreated,
)
from treadle.thread.model import ConversationSnapshot, GitFields, Thread, ThreadMetadata

MACHINE: Final = "chat"
"""The machine this fold drives, as the header names it."""

TITLE_LENGTH_MAX: Final = 80


class ThreadFold:
    """A thread as far as its records have been applied.

    Args:
        header: what record 1 says.

    Raises:
        UnknownEntryError: the thread is of a newer format, or of a machine this fold is not for.
    """

    __slots__ = (
        "_machine",
        "created_at",
        "git",
        "header",
        "last_activity_at",
        "observed",
        "provider",
        "queued",
        "turn_steps",
        "turn_usage",
        "updated_at",
        "usage",
        "version",
    )

    def __init__(self, header: ThreadCreated) -> None:
        if header.format > FORMAT_VERSION:
            raise UnknownEntryError(
                f"thread {header.thread} has format {header.format}; this version reads up to "
                f"{FORMAT_VERSION}",
                hint="use the Treadle that wrote it, or a newer one",
            )
        if header.machine != MACHINE:
            raise UnknownEntryError(
                f"thread {header.thread} is driven by the machine {header.machine!r}"
            )
        self.header = header
        self.version = 0
        self.created_at = self.updated_at = self.last_activity_at = ""
        self.provider = ""
        self.git = GitFields()
        self.observed: GitObserved | None = None
        self.queued: tuple[Message, ...] = ()
        self.usage = Usage()
        self.turn_usage = Usage()
        """What the current turn has used, failed requests included."""
        self.turn_steps = 0
        """Model responses of the current turn."""
        self._machine = ConversationMachine(AgentConfig(), thread_id=header.thread)

    @property
    def machine(self) -> ConversationMachine:
        """The thread's machine."""
        return self._machine

    @property
    def state(self) -> AgentState:
        """The machine's state."""
        return self._machine.state

    @property
    def conversation(self) -> Conversation:
        """All messages so far."""
        state = self._machine.state
        return Conversation() if isinstance(state, ShuttingDown) else state.conversation

    def apply(self, seq: int, at: str, entry: Entry) -> AgentAction | None:
        """Take in one record.

        Returns:
            The machine's action for an event, `None` for a fact.
        """
        self.version = seq
        self.updated_at = at
        if isinstance(entry, DURABLE):
            return self._take_event(at, entry)
        if isinstance(entry, GitObserved):
            self._take_git(entry)
        elif isinstance(entry, Configured):
            self.provider = entry.provider
            self._machine = self._machine.with_config(entry.config)
        elif isinstance(entry, InputQueued):
            self.queued = (*self.queued, entry.message)
        elif isinstance(entry, ThreadCreated):
            self.created_at = self.last_activity_at = at
        return None

    def _take_event(self, at: str, event: AgentEvent) -> AgentAction:
        self.last_activity_at = at
        if isinstance(event, UserInput):
            self.turn_steps = 0
            self.turn_usage = Usage()
            if self.queued and self.queued[0] == event.message:
                self.queued = self.queued[1:]
        elif isinstance(event, LlmEvent.Completed):
            self.turn_steps += 1
            self._spend(event.response.usage)
        elif isinstance(event, LlmEvent.Error):
            self._spend(event.error.usage)
        elif isinstance(event, PostToolsHookCompleted):
            self._spend(event.usage)
        return self._machine.handle_event(event)

    def _spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = self.usage + usage
            self.turn_usage = self.turn_usage + usage

    def _take_git(self, seen: GitObserved) -> None:
        """Initial fields are set by the first observation only; the others by each.

        A commit is noted whenever HEAD is one not seen before; the list never shrinks.
        """
        git = self.git
        if self.observed is None:
            git = replace(
                git,
                git_initial_branch=seen.branch,
                git_initial_commit_sha=seen.head,
                git_start_dirty=seen.dirty,
            )
        commits = git.git_commits
        if seen.head is not None and seen.head not in commits:
            commits = (*commits, seen.head)
        self.git = replace(
            git,
            git_branch=seen.branch,
            git_remote_url=git.git_remote_url or seen.remote,
            git_current_commit_sha=seen.head or git.git_current_commit_sha,
            git_end_dirty=seen.dirty,
            git_commits=commits,
        )
        self.observed = seen

    def resume(self, config: AgentConfig, state: AgentState) -> None:
        """Put the machine where a snapshot says it was."""
        self._machine = self._machine.with_config(config).with_state(state)

    def document(self) -> Thread:
        """The thread document at this version. Costs time in proportion to the conversation."""
        header = self.header
        return Thread(
            id=header.thread,
            version=self.version,
            created_at=self.created_at,
            updated_at=self.updated_at,
            last_activity_at=self.last_activity_at,
            conversation=ConversationSnapshot(tuple(self.conversation)),
            agent_state=snapshot_state(self.state),
            workspace_root=header.workspace,
            cwd=header.cwd,
            treadle_version=header.creator,
            provider=self.provider or None,
            model=self._machine.config.model_name or None,
            usage=self.usage,
            visibility="private" if header.is_private else "organization",
            is_private=header.is_private,
            metadata=ThreadMetadata(title=self.title()),
            **asdict(self.git),
        )

    def title(self) -> str | None:
        """The first line of the first prompt, at most `TITLE_LENGTH_MAX` characters."""
        for message in self.conversation:
            if message.role == "user":
                line = message.content.strip().partition("\n")[0].strip()
                if len(line) > TITLE_LENGTH_MAX:
                    line = line[: TITLE_LENGTH_MAX - 1] + "…"
                return line or None
        return None
