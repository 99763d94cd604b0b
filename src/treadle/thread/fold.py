"""The fold: records in, the thread out. The only way a thread's state comes about.

The live runtime and a replay run the same `ThreadFold.apply`, so they cannot disagree.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict, replace

from treadle.core.actions import AgentAction
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import AgentState
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.events import TaskEvent
from treadle.core.task.machine import TaskMachine, TaskState
from treadle.core.tools import ToolExecutionStatus
from treadle.errors import AgentError
from treadle.thread.chat_state import in_snake_case, snapshot_conversation, snapshot_state
from treadle.thread.codec import Entry, Event, UnknownEntryError, usage_of
from treadle.thread.facts import (
    FORMAT_VERSION,
    ChildStarted,
    Configured,
    GitObserved,
    Granted,
    InputQueued,
    ThreadCreated,
)
from treadle.thread.model import (
    AgentStateSnapshot,
    GitFields,
    PendingToolCall,
    Thread,
    ThreadMetadata,
)

CHAT: Final = "chat"
TASK: Final = "task"
"""The machines, as headers name them."""

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
        "children",
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
        if header.machine not in (CHAT, TASK):
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
        self.children: dict[str, str] = {}
        """The threads of sub-agents, by the call they work for."""
        kind = ConversationMachine if header.machine == CHAT else TaskMachine
        self._machine: ConversationMachine | TaskMachine = kind(
            AgentConfig(), thread_id=header.thread
        )

    @property
    def machine(self) -> ConversationMachine | TaskMachine:
        """The thread's machine."""
        return self._machine

    @property
    def state(self) -> AgentState | TaskState:
        """The machine's state."""
        return self._machine.state

    @property
    def conversation(self) -> Conversation:
        """All messages so far."""
        return self._machine.conversation

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._machine.is_at_rest and not self._machine.questions

    @property
    def state_kind(self) -> str:
        """The state in snake case."""
        return in_snake_case(self._machine.state_name)

    def apply(self, seq: int, at: str, entry: Entry) -> AgentAction | None:
        """Take in one record.

        Returns:
            The machine's action for an event, `None` for a fact.

        Raises:
            UnknownEntryError: the machine cannot have done this; nothing has changed.
        """
        if isinstance(entry, Event):
            action = self._take_event(entry)
            self.version, self.updated_at, self.last_activity_at = seq, at, at
            return action
        self.version = seq
        self.updated_at = at
        if isinstance(entry, GitObserved):
            self._take_git(entry)
        elif isinstance(entry, Configured):
            self.provider = entry.provider
            self._machine = self._machine.with_config(entry.config)
        elif isinstance(entry, Granted):
            config = self._machine.config
            up_to = max(entry.risk, config.granted.get(entry.tool_name, entry.risk))
            granted = {**config.granted, entry.tool_name: up_to}
            self._machine = self._machine.with_config(replace(config, granted=granted))
        elif isinstance(entry, ChildStarted):
            self.children = {**self.children, entry.call_id: entry.thread}
        elif isinstance(entry, InputQueued):
            self.queued = (*self.queued, entry.message)
        elif isinstance(entry, ThreadCreated):
            self.created_at = self.last_activity_at = at
        return None

    def _take_event(self, event: Event) -> AgentAction:
        if isinstance(self._machine, TaskMachine):
            try:
                action = self._machine.handle_event(event)
            except AgentError as error:
                raise UnknownEntryError(error.message, hint=error.hint) from error
            memory = self._machine.memory
            self.usage = self.turn_usage = memory.total_usage
            self.turn_steps = memory.step
            return action
        if isinstance(event, TaskEvent):
            raise UnknownEntryError("a conversation holds an event of a task")
        action = self._machine.handle_event(event)
        if isinstance(event, UserInput):
            self.turn_steps = 0
            self.turn_usage = Usage()
            if self.queued and self.queued[0] == event.message:
                self.queued = self.queued[1:]
        elif isinstance(event, LlmEvent.Completed):
            self.turn_steps += 1
        used = usage_of(event)
        if used is not None:
            self.usage = self.usage + used
            self.turn_usage = self.turn_usage + used
        return action

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

    def resume(self, config: AgentConfig, state: AgentState | TaskState) -> None:
        """Put the machine where a snapshot says it was."""
        machine = self._machine
        if isinstance(machine, TaskMachine):
            assert isinstance(state, TaskState)
            self._machine = machine.with_config(config).with_state(state)
        else:
            assert not isinstance(state, TaskState)
            self._machine = machine.with_config(config).with_state(state)

    def document(self) -> Thread:
        """The thread document at this version. Costs time in proportion to the conversation."""
        header = self.header
        return Thread(
            id=header.thread,
            version=self.version,
            created_at=self.created_at,
            updated_at=self.updated_at,
            last_activity_at=self.last_activity_at,
            conversation=snapshot_conversation(self.conversation),
            agent_state=self._agent_state(),
            workspace_root=header.workspace,
            cwd=header.cwd,
            treadle_version=header.creator,
            provider=self.provider or None,
            model=model_of(self._machine, self._machine.config) or None,
            usage=self.usage,
            visibility="private" if header.is_private else "organization",
            is_private=header.is_private,
            metadata=ThreadMetadata(title=self.title()),
            **asdict(self.git),
        )

    def _agent_state(self) -> AgentStateSnapshot:
        machine = self._machine
        if isinstance(machine, ConversationMachine):
            return snapshot_state(machine.state)
        pending = [
            PendingToolCall(call.id, call.tool_name)
            for call, status in machine.round
            if not isinstance(status, ToolExecutionStatus.Completed)
        ]
        waiting = [PendingToolCall(one.call.id, one.call.tool_name) for one in machine.questions]
        return AgentStateSnapshot(
            self.state_kind,
            last_error=machine.gave_up.text if machine.gave_up else machine.memory.error,
            pending_tool_calls=(*pending, *waiting),
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


def model_of(machine: ConversationMachine | TaskMachine, config: AgentConfig) -> str:
    """The model that answers with this configuration: a task may have one for its kind."""
    if isinstance(machine, TaskMachine):
        return machine.with_config(config).model_name
    return config.model_name
