"""The fold: records in, the thread out. The only way a thread's state comes about.

The live runtime and a replay run the same `ThreadFold.apply`, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self, cast

from msgspec.structs import asdict

from treadle.core.actions import AgentAction
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import AgentState
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import DurableEvent, LlmEvent, Rewound, Steered, ToolCompleted, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.sightings import Sighting, add_message_sightings, add_sightings
from treadle.core.task.events import TASK_EVENTS
from treadle.core.task.machine import TaskMachine, TaskState
from treadle.errors import AgentError
from treadle.thread.branches import read_branch_contents
from treadle.thread.chat_state import snapshot_conversation, snapshot_state, to_snake_case
from treadle.thread.codec import Entry, Event, UnknownEntryError, get_usage, is_event
from treadle.thread.document import (
    AgentStateSnapshot,
    GitFields,
    Thread,
    ThreadMetadata,
    ThreadSummary,
)
from treadle.thread.facts import (
    FORMAT_VERSION,
    Annotated,
    BackgroundEnded,
    ChildStarted,
    CommandBegun,
    CommandShown,
    Configured,
    ContextObserved,
    ExtraSet,
    FilesSaved,
    GitObserved,
    Granted,
    Imported,
    InputQueued,
    InputWithdrawn,
    KindGranted,
    Merged,
    Pinned,
    PrivacySet,
    Renamed,
    Restored,
    Revoked,
    Shared,
    Tagged,
    TakenOver,
    ThreadCreated,
    Trashed,
    Visibility,
)
from treadle.thread.git_fields import GitFieldsFold
from treadle.thread.grants import GrantFact, apply_grant_fact
from treadle.thread.metadata import MetadataFold, make_title
from treadle.thread.task_state import count_open_calls, get_model_name, snapshot_task
from treadle.thread.undelivered_input import UndeliveredInput

CHAT: Final = "chat"
TASK: Final = "task"
"""The machines, as headers name them."""


class ThreadFold:
    """A thread as far as its records have been applied.

    Args:
        header: what record 1 says. The fold of a fork is made by `branch`.

    Raises:
        UnknownEntryError: the thread is of a newer format, or of a machine this fold is not for.
    """

    __slots__ = (
        "_git",
        "_machine",
        "_metadata",
        "children",
        "context",
        "created_at",
        "files",
        "header",
        "imported_from",
        "is_named_by_person",
        "is_private",
        "is_shared_with_support",
        "is_trashed",
        "joining_messages",
        "last_activity_at",
        "observed",
        "provider",
        "sightings",
        "turn_steps",
        "turn_usage",
        "undelivered",
        "updated_at",
        "usage",
        "version",
        "visibility",
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
        self._git = GitFieldsFold(GitFields())
        self.observed: GitObserved | None = None
        self.undelivered = UndeliveredInput()
        self.usage = Usage()
        self.turn_usage = Usage()
        """What the current turn has used, failed requests included."""
        self.turn_steps = 0
        """Model responses of the current turn."""
        self.children: dict[str, str] = {}
        """The threads of sub-agents, by the call they work for."""
        self._metadata = MetadataFold(ThreadMetadata())
        self.is_named_by_person = False
        self.context: ContextObserved | None = None
        self.files: FilesSaved | None = None
        """The newest state of the files that was saved."""
        self.sightings: tuple[Sighting, ...] = ()
        """What the model was told of files, oldest first."""
        self.imported_from: str | None = None
        self.is_trashed = False
        self.is_private = header.is_private
        """Whether the thread may not leave this machine; what it goes on from, or works for, may
        be private besides."""
        self.visibility: Visibility = "organization"
        self.is_shared_with_support = False
        self.joining_messages: tuple[Message, ...] = ()
        """Messages of another branch that join as soon as nothing is open."""
        kind = ConversationMachine if header.machine == CHAT else TaskMachine
        self._machine: ConversationMachine | TaskMachine = kind(
            AgentConfig(), thread_id=header.thread
        )

    def make_fork(self, header: ThreadCreated) -> Self:
        """The fold of a fork that goes on from here, before its own records; this one stays.

        The fork has the machine's state, the configuration and the files; title, tags, repository
        and, in a conversation, what was used begin anew. A task goes on with its memory, and with
        that its limits. What a person allowed there, or said and was not heard yet, is not for it.

        Raises:
            UnknownEntryError: the fork says that it is driven by another machine.
        """
        if header.machine != self.header.machine:
            raise UnknownEntryError(
                f"thread {header.thread} is a {header.machine}, its base "
                f"{self.header.thread} a {self.header.machine}"
            )
        fork = type(self)(header)
        fork._machine = self._machine.fork(header.thread)
        fork.provider = self.provider
        fork.context, fork.files, fork.sightings = self.context, self.files, self.sightings
        fork.visibility, fork.joining_messages = self.visibility, self.joining_messages
        fork.turn_steps, fork.turn_usage = self.turn_steps, self.turn_usage
        if isinstance(self._machine, TaskMachine):
            fork.usage = self.usage
        return fork

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
    def metadata(self) -> ThreadMetadata:
        """What people and programs have added; the title only if somebody has set one.

        Costs time in proportion to it, as `git` and `queued` do to theirs.
        """
        return self._metadata.metadata(self._metadata.title)

    @metadata.setter
    def metadata(self, metadata: ThreadMetadata) -> None:
        self._metadata = MetadataFold(metadata)

    @property
    def git(self) -> GitFields:
        """The repository over the thread's life."""
        return self._git.fields()

    @git.setter
    def git(self, fields: GitFields) -> None:
        self._git = GitFieldsFold(fields)

    @property
    def queued(self) -> tuple[Message, ...]:
        """Prompts that are not delivered yet, oldest first."""
        return tuple(one.message for one in self.undelivered.queued)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._machine.is_at_rest and not self._machine.questions

    @property
    def workspace(self) -> str | None:
        """The folder the agent works in: the last one that was recorded."""
        moved = "" if self.context is None else self.context.workspace
        return moved or self.header.workspace

    @property
    def state_kind(self) -> str:
        """The state in snake case."""
        return to_snake_case(self._machine.state_name)

    def apply(self, seq: int, at: str, entry: Entry) -> AgentAction | None:
        """Take in one record.

        Returns:
            The machine's action for an event, `None` for a fact.

        Raises:
            UnknownEntryError: the machine cannot have done this; nothing has changed.
        """
        if is_event(entry):
            before = self._machine.conversation
            action = self._apply_event(entry)
            after = self._machine.conversation
            if after is not before:
                self.sightings = add_message_sightings(self.sightings, after, len(before))
            if isinstance(entry, ToolCompleted):
                self.sightings = add_sightings(self.sightings, entry)
                self.undelivered.follow_result(entry)
            self._join_branch_messages()
            self.version, self.updated_at, self.last_activity_at = seq, at, at
            return action
        self.version, self.updated_at = seq, at
        if (take := _FACT_HANDLERS.get(type(entry))) is not None:
            take(self, entry)
        return None

    def _apply_event(self, event: Event) -> AgentAction:
        used = get_usage(event)
        if isinstance(self._machine, TaskMachine):
            before = self.turn_usage
            try:
                action = self._machine.handle_event(event)
            except AgentError as error:
                raise UnknownEntryError(error.message, hint=error.hint) from error
            memory = self._machine.memory
            self.turn_usage, self.turn_steps = memory.total_usage, memory.step
            if used is not None and self.turn_usage != before:  # what was merged is not in it
                self.usage = self.usage + used
            return action
        if type(event) in TASK_EVENTS:
            raise UnknownEntryError("a conversation holds an event of a task")
        state = self._machine.state
        action = self._machine.handle_event(cast("DurableEvent", event))
        has_moved = self._machine.state is not state
        if isinstance(event, Rewound) and has_moved:
            self.undelivered.clear()  # it was said to what one has gone back from
        elif isinstance(event, UserInput):
            self.turn_steps, self.turn_usage = 0, Usage()
            if has_moved:
                self.undelivered.deliver_prompt(event.message, was_queued=event.was_queued)
        elif isinstance(event, Steered) and has_moved:
            self.undelivered.deliver_steering()
        elif isinstance(event, LlmEvent.Completed):
            self.turn_steps += 1
        if used is not None:
            self.usage, self.turn_usage = self.usage + used, self.turn_usage + used
        return action

    def _apply_header(self, _: ThreadCreated) -> None:
        self.created_at = self.last_activity_at = self.updated_at

    def _apply_configuration(self, entry: Configured) -> None:
        self.provider = entry.provider
        self._machine = self._machine.with_config(entry.config)

    def _apply_grant(self, entry: GrantFact) -> None:
        self._machine = self._machine.with_config(apply_grant_fact(self._machine.config, entry))

    def _apply_title(self, entry: Renamed) -> None:
        if entry.usage is not None:
            self.usage = self.usage + entry.usage
        if entry.by == "model" and (self.is_named_by_person or not entry.title):
            return
        self.is_named_by_person = entry.by == "person" and bool(entry.title)
        self._metadata.title = entry.title or None

    def _apply_pin(self, entry: Pinned) -> None:
        self._metadata.is_pinned = entry.is_pinned

    def _apply_context(self, entry: ContextObserved) -> None:
        self.context = entry

    def _apply_files(self, entry: FilesSaved) -> None:
        self.files = entry

    def _apply_origin(self, entry: Imported) -> None:
        self.imported_from = entry.source

    def _apply_trash(self, entry: Trashed | Restored) -> None:
        self.is_trashed = isinstance(entry, Trashed)

    def _apply_sharing(self, entry: Shared) -> None:
        self.visibility = entry.visibility or self.visibility
        if entry.with_support is not None:
            self.is_shared_with_support = entry.with_support

    def _apply_privacy(self, entry: PrivacySet) -> None:
        self.is_private = entry.is_private

    def _apply_takeover(self, _: TakenOver) -> None:
        self._machine = self._machine.fork(self.header.thread)

    def _apply_merge(self, entry: Merged) -> None:
        """The branch's messages and prompts, what it used, and what people added there.

        Work there brings a thread out of the trash: who put it there did not know of it.
        """
        brought = read_branch_contents(entry)
        self.usage = self.usage + brought.usage
        for said in brought.said:
            _FACT_HANDLERS[type(said)](self, said)
        self._git.add_commits(brought.heads)
        self.undelivered.merge_commands(brought.ended, brought.untold)
        self.undelivered.merge_background(brought.running, brought.ends)
        if entry.messages:
            self.is_trashed = False
        for message in entry.queued:
            self.undelivered.add(message)
        self.joining_messages = (*self.joining_messages, *entry.messages)
        self._join_branch_messages()

    def _join_branch_messages(self) -> None:
        """Let the messages of another branch in, if they would not come between open calls."""
        if self.joining_messages and isinstance(self._machine, ConversationMachine):
            joined = self._machine.join_messages(self.joining_messages)
            if joined is not None:
                self._machine, self.joining_messages = joined, ()

    def _apply_git(self, observation: GitObserved) -> None:
        self._git.add_observation(observation, is_first=self.observed is None)
        self.observed = observation

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
            agent_state=self._snapshot_agent_state(),
            workspace_root=self.workspace,
            cwd=header.cwd,
            treadle_version=header.creator,
            provider=self.provider or None,
            model=get_model_name(self._machine, self._machine.config) or None,
            usage=self.usage,
            visibility="private" if self.is_private else self.visibility,
            is_private=self.is_private,
            is_shared_with_support=self.is_shared_with_support,
            metadata=self._metadata.metadata(self.title()),
            project_name=None if self.context is None else self.context.project_name or None,
            directory=None if self.context is None else self.context.directory or None,
            worker_count=0 if self.context is None else self.context.workers,
            worker_configuration={} if self.context is None else self.context.worker_configuration,
            environment={} if self.context is None else self.context.environment,
            forked_from=header.base,
            imported_from=self.imported_from,
            is_trashed=self.is_trashed,
            **asdict(self.git),
        )

    def summary(self, problem: str = "") -> ThreadSummary:
        """The thread's line in a list. Costs the same however long the thread is.

        Args:
            problem: what is wrong with the thread on disk; empty if nothing.
        """
        machine, header, git, queued = self._machine, self.header, self.git, self.undelivered
        return ThreadSummary(
            id=header.thread,
            version=self.version,
            created_at=self.created_at,
            updated_at=self.updated_at,
            last_activity_at=self.last_activity_at,
            title=self.title(),
            state=self.state_kind,
            message_count=len(self.conversation),
            workspace_root=self.workspace,
            git_branch=git.git_branch,
            git_remote_url=git.git_remote_url,
            git_initial_commit_sha=git.git_initial_commit_sha,
            git_current_commit_sha=git.git_current_commit_sha,
            git_commits=git.git_commits,
            provider=self.provider or None,
            model=get_model_name(machine, machine.config) or None,
            is_private=self.is_private,
            visibility="private" if self.is_private else self.visibility,
            problem=problem,
            machine=header.machine,
            questions=len(machine.questions),
            parent=header.parent,
            forked_from=None if header.base is None else header.base.thread,
            imported_from=self.imported_from,
            tags=self._metadata.tags,
            is_pinned=self._metadata.is_pinned,
            open_calls=count_open_calls(machine.round),
            queued=len(queued),
            is_unfinished=not machine.is_at_rest or bool(queued and not machine.questions),
            is_trashed=self.is_trashed,
            key=header.key,
        )

    def _snapshot_agent_state(self) -> AgentStateSnapshot:
        machine = self._machine
        if isinstance(machine, ConversationMachine):
            return snapshot_state(machine.state)
        return snapshot_task(machine, self.state_kind)

    def title(self) -> str | None:
        """What somebody set, or the first line of the first prompt; `TITLE_LENGTH_MAX` at most."""
        return make_title(self._metadata.title, self.conversation)


_FACT_HANDLERS: Final[Mapping[type, Callable[[ThreadFold, Any], None]]] = MappingProxyType(
    {
        ThreadCreated: ThreadFold._apply_header,
        Configured: ThreadFold._apply_configuration,
        Granted: ThreadFold._apply_grant,
        KindGranted: ThreadFold._apply_grant,
        Revoked: ThreadFold._apply_grant,
        ChildStarted: lambda fold, entry: fold.children.update({entry.call_id: entry.thread}),
        InputQueued: lambda fold, entry: fold.undelivered.add(entry.message, steers=entry.steers),
        InputWithdrawn: lambda fold, _: fold.undelivered.withdraw_newest(),
        CommandBegun: lambda fold, entry: fold.undelivered.add_command(entry),
        CommandShown: lambda fold, entry: fold.undelivered.add_command(entry),
        BackgroundEnded: lambda fold, entry: fold.undelivered.add_end(entry),
        GitObserved: ThreadFold._apply_git,
        Renamed: ThreadFold._apply_title,
        Tagged: lambda fold, entry: fold._metadata.apply_tags(entry),
        Pinned: ThreadFold._apply_pin,
        Annotated: lambda fold, entry: fold._metadata.add_annotation(fold.updated_at, entry.text),
        ExtraSet: lambda fold, entry: fold._metadata.apply_extra(entry),
        ContextObserved: ThreadFold._apply_context,
        FilesSaved: ThreadFold._apply_files,
        Imported: ThreadFold._apply_origin,
        Trashed: ThreadFold._apply_trash,
        Restored: ThreadFold._apply_trash,
        Shared: ThreadFold._apply_sharing,
        PrivacySet: ThreadFold._apply_privacy,
        Merged: ThreadFold._apply_merge,
        TakenOver: ThreadFold._apply_takeover,
    }
)
"""What each fact does to the fold; those that are not here are for readers only."""
