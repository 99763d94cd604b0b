"""What the runtime asks of its adapters. They do not know each other, nor the runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal, Protocol, TypeGuard

from treadle.core.actions import AgentAction
from treadle.core.approval import Scope
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import BlobRef, ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    CompletedToolInfo,
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolProgress,
)
from treadle.runtime.group_sync import SyncMember
from treadle.server_questions import AnswerServer
from treadle.thread.codec import Entry
from treadle.thread.facts import FilesSaved, GitObserved
from treadle.thread.fold import ThreadFold
from treadle.tools.background import BackgroundCommands


class Provider(Protocol):
    """Who answers."""

    @property
    def name(self) -> str:
        """The provider's name, as recorded in the thread: `scripted`, `anthropic`."""
        ...

    def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one response.

        Deltas, then exactly one `Completed` or `Error`. A stream that ends without either counts
        as cut. Failures are `Error` events; an exception is a bug of the provider. While the
        provider is alive but has nothing to say, empty `ThinkingDelta`s tell so: the runtime ends
        a stream that stays silent.
        """
        ...

    def traits(self, model: str) -> ModelTraits:
        """What a model can do and how much of it; a name nobody knows has the default traits."""
        ...

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """How many tokens the request would be; `None` where the provider cannot say."""
        ...

    async def aclose(self) -> None:
        """Free connections; the provider is not used after it."""
        ...


class Tools(Protocol):
    """Who runs calls."""

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools offered to the model, in a stable order."""
        ...

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """The risk seen in the arguments of a call, if it is above the tool's own. Never raises."""
        ...

    def scope_of(self, call: ToolCall) -> Scope | None:
        """What a yes to a call covers, as things stand now. Never raises.

        Looked at when a model asks for the call, and again when it is about to begin: a yes holds
        if `ground` and `content` are still the same. `None` if there is nothing to say.
        """
        ...

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """Run one call to its end; never raises for anything the call does.

        Args:
            call: as the model asked; its arguments may be malformed.
            key: the same for every run of the same call: an idempotency key. It begins with the id
                of the thread and a colon.
            progress: called from the event loop, as often as the tool likes.
            sightings: which files the model has been told of in this thread.
            background: who looks after commands that go on when the call has its result.

        When cancelled: end what was started (process groups included), then either return an
        outcome with what is known, or let the cancellation through.
        """
        ...


class StartedTools(Protocol):
    """Tools of which some are run by programs that have to be started first.

    Whoever made them ends what was started; sessions and tasks may share it.
    """

    def recall(self, recorded: Sequence[ToolDefinition]) -> None:
        """Hear what the thread was told of its tools: so much is offered until more is known."""
        ...

    async def prepare(self) -> Sequence[str]:
        """Start what has to be, and learn what there is now; asked before requests to a model.

        Bounded in time, and never raises for anything that is started. May be cancelled.

        Returns:
            What people should know, a line each: what did not start, and why.
        """
        ...


def have_start(tools: object) -> TypeGuard[StartedTools]:
    """Whether these are tools of which some are started first.

    Not asked with `isinstance` and a protocol: each turn asks several times, and that looked at the
    protocol's names anew each time, for a tenth of what a turn costs.
    """
    return hasattr(tools, "recall") and hasattr(tools, "prepare")


class AskingTools(Protocol):
    """Tools of which some are run by programs that may ask something back in a call."""

    def answer_with(self, thread: str, answer: AnswerServer) -> None:
        """Have what is asked in calls of a thread answered so from now on.

        Args:
            thread: its id, with which the keys of its calls begin.
            answer: has a question answered; may raise `StoreError`.
        """
        ...


def have_questions(tools: object) -> TypeGuard[AskingTools]:
    """Whether these are tools of which some may ask something back."""
    return hasattr(tools, "answer_with")


class Workspace(Protocol):
    """Who knows the folder the agent works in."""

    async def observe(self) -> GitObserved | None:
        """How the repository stands now; `None` where there is none (or no git)."""
        ...

    async def after_tools(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> PostToolsHookResult:
        """The post-tools hook: commit what this round of tools changed, and nothing else.

        Args:
            completed: the calls of the round.
            before: how the repository stood before the round.
            is_whole: whether this process saw the round from its beginning. If not (the process
                before died), only files that the tools name themselves are the agent's for sure.
            trailer: ends the commit message: `Treadle-Thread: T-...@12`; empty for a private
                thread, which nothing that travels may name.
        """
        ...


class FileStateSaver(Protocol):
    """Who keeps the workspace's files as they were, so that one can go back to them.

    `problem` says why they are not kept; it is empty while they are.
    """

    problem: str

    async def save(
        self, moment: Literal["before", "after"], previous: FilesSaved | None
    ) -> FilesSaved | None:
        """Keep the files as they are now, durably, without touching what the person sees of git.

        Args:
            moment: before or after a round of calls that may change them.
            previous: the newest state that is recorded in the thread.

        Returns:
            What is to be recorded; `None` if nothing has changed since `previous`, or files cannot
            be kept here (no repository, no git, no room): that never stops the work.
        """
        ...


class PostToolsHookResult(Protocol):
    """What a post-tools hook did."""

    @property
    def action_taken(self) -> bool:
        """Whether it changed something (made a commit)."""
        ...

    @property
    def note(self) -> str:
        """One or two lines for people; empty when there is nothing to say."""
        ...

    @property
    def commit(self) -> str | None:
        """The full hash of the commit it made, if it made one."""
        ...

    @property
    def observed(self) -> GitObserved | None:
        """How it left the repository, as `observe` would say now; `None` if it did not look."""
        ...


class TextRedactor(Protocol):
    """Who keeps known secrets out of records and requests.

    One that has a method `stream`, without arguments, which returns a `RedactedStream`, also keeps
    them out of what a model says while it says it.
    """

    def redact(self, text: str) -> str:
        """The text with every known secret replaced by `[REDACTED:<kind>]`; idempotent.

        Must know a secret in its JSON-escaped form too: whole records are looked at as JSON first.
        """
        ...


class RedactedStream(Protocol):
    """One text that comes in pieces, of which what may be a piece of a secret is held back."""

    def feed(self, piece: str) -> str:
        """The next piece; what can be shown by now, without secrets. It may be empty."""
        ...

    def end(self) -> str:
        """What was still held back, without secrets."""
        ...


class LivePublisher(Protocol):
    """Who tells watchers in other processes what is being said. Never waits, never fails."""

    def begin(self, version: int) -> None:
        """An answer is asked for; `version` is that of the thread."""
        ...

    def add(self, text: str) -> None:
        """The next piece of the answer, without secrets."""
        ...

    def end(self) -> None:
        """The answer is whole, or there is none: the records tell of it."""
        ...

    def close(self) -> None:
        """Nothing more is told."""
        ...


class Writer(Protocol):
    """A thread open for its one writer. Errors are those of the store (`StoreError`)."""

    fold: ThreadFold
    note: str
    stopped: str

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        ...

    @property
    def has_staged(self) -> bool:
        """Whether there is something to write."""
        ...

    @property
    def is_usable(self) -> bool:
        """Whether the thread can still be written to."""
        ...

    @property
    def has_slow_sync(self) -> bool:
        """Whether `sync` may take long, and may be called in another thread: a network is between.

        To change the thread costs more than a disk takes, so those of folders are not.
        """
        ...

    @property
    def member(self) -> SyncMember | None:
        """It as one of those whose syncs may be one; `None` if it is synced by itself."""
        ...

    def now(self) -> str:
        """The clock, in the form of records."""
        ...

    def stage(self, entry: Entry, redact: Callable[[str], str] | None = None) -> AgentAction | None:
        """Fold an entry and put it into the next batch."""
        ...

    def write(self) -> None:
        """Write the batch; not durable before `sync`."""
        ...

    def sync(self) -> None:
        """Make what was written durable."""
        ...

    def refresh_snapshot(self) -> None:
        """Write the snapshot if it is time."""
        ...

    def keep(self, data: bytes) -> BlobRef:
        """Keep bytes beside the thread, durable when this returns."""
        ...

    def read_kept(self, ref: BlobRef) -> bytes:
        """Bytes that are kept beside the thread; raises `StoreError` if they are not to be had."""
        ...

    def read_output(self, call_id: str) -> bytes | None:
        """What was kept of a call's output; `None` if nothing was."""
        ...

    def close(self) -> Exception | None:
        """Free the thread; returns why no snapshot could be written, if so."""
        ...


class ThreadStore(Protocol):
    """The threads of a store: `LocalStore` those of a folder, `Threads` those of any `Store`."""

    def now(self) -> str:
        """The clock, in the form of records."""
        ...

    def create(
        self,
        creator: str,
        *,
        machine: str,
        is_private: bool,
        parent: tuple[str, str, int] | None,
        first: Sequence[Entry],
        redact: Callable[[str], str] | None,
    ) -> Writer:
        """A new thread, durable with its first entries."""
        ...

    def open(self, thread_id: str) -> Writer:
        """An existing thread."""
        ...
