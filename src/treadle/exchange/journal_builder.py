"""A session of another program, fed to the conversation machine: out comes a journal.

The machine decides what follows what, as it does for threads made here. So whatever the session was
like, in the thread each call has exactly one result, and it rests in the end.

- A call whose result nobody recorded is answered as cancelled; a result without a call is kept raw.
- An answer that nothing asked for follows a note, because the machine answers inputs only.
- What was under way when a person said the next thing, or when the session ended, is cancelled.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import CallingLlm, Compacting, PostToolsHook, WaitingForUserInput
from treadle.core.compaction import compute_user_text_size
from treadle.core.config import AgentConfig
from treadle.core.conversation import View
from treadle.core.events import (
    CancelRequested,
    Compacted,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    Rewound,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse
from treadle.core.media import identify_media, make_attachment
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.core.task.events import TaskEvent
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.exchange.imported_ids import make_imported_id
from treadle.exchange.json_lines import format_problems
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCallResult,
    SessionFailure,
    SessionForeignRecord,
    SessionGitState,
    SessionPrompt,
    SessionRewind,
    SessionStep,
    SessionStop,
    SessionSummary,
    SessionTitle,
)
from treadle.thread.codec import Entry, Event, encode_entry
from treadle.thread.facts import (
    FORMAT_VERSION,
    Configured,
    ExtraSet,
    Foreign,
    GitObserved,
    Imported,
    Renamed,
    ThreadCreated,
)
from treadle.thread.fold import CHAT
from treadle.thread.record import Head, encode_batch

RECORD_COUNT_KEY: Final = "imported_records"
"""Under this name the thread's `extra` says how many records its session had."""

NO_PROMPT: Final = "(what this answers was not recorded)"
NO_RESULT: Final = "no result of it was recorded"
SESSION_ENDED: Final = "the session ended here"
TURN_STOPPED: Final = "a person stopped the turn"
PERSON_CONTINUED: Final = "the person went on before it was answered"

TEXT_LENGTH_MAX: Final = 4_000_000
"""Characters of one text; a journal takes no record that is much longer."""

_EARLIEST: Final = "2000-01-01T00:00:00.000000Z"


_HEADER_RECORD_COUNT: Final = 3
"""Records that say what the thread is, before anything that happened in it."""

_Results: TypeAlias = tuple[SessionCallResult | None, ...]


class ImportedThread(Struct, frozen=True):
    """A thread that can be taken in.

    `data` is its journal. `repaired` counts what had to be mended for pairs to be whole, `foreign`
    the records kept as they were. `kept` is what is to be kept beside it first.
    """

    thread: str
    data: bytes
    title: str
    message_count: int
    repaired: int
    foreign: int
    problems: tuple[str, ...]
    kept: tuple[bytes, ...] = ()


class ImportOptions(Struct, frozen=True):
    """How sessions are taken in.

    `redact` replaces known secrets, `remote_of` makes `host/path` of a repository's URL. `latest`
    is the time now: nothing was recorded after it. `is_private` is for the threads.
    """

    redact: Callable[[str], str]
    remote_of: Callable[[str], str | None]
    latest: str
    is_private: bool = False


def build_imported_thread(
    session: ImportedSession, path: str, options: ImportOptions, *, again: bool = False
) -> ImportedThread:
    """The thread of a session.

    Args:
        session: what a converter has read.
        path: the file it was read from.
        options: how it is taken in.
        again: whether the session gets another id than it had when it was shorter.

    Raises:
        UsageError: a message is larger than a journal takes.
    """
    feeder = _JournalBuilder(session, options)
    feeder.add_steps()
    return feeder.build(path, again=again)


def find_session_title(session: ImportedSession) -> str:
    """What a session is called there, or the first line of what a person said in it first."""
    titled = [step.title for step in session.steps if isinstance(step, SessionTitle)]
    said = (step.text for step in session.steps if isinstance(step, SessionPrompt))
    return titled[-1] if titled else next(said, "").strip().partition("\n")[0]


class _JournalBuilder:
    def __init__(self, session: ImportedSession, options: ImportOptions) -> None:
        self._session = session
        self._options = options
        self._machine = ConversationMachine(AgentConfig())
        self._batches: list[tuple[str, list[bytes]]] = []
        self._at = min(session.started_at or _EARLIEST, options.latest)
        self._begun_at = self._at
        self._mended: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._foreign_count = 0
        self._model = ""
        self._record_count = _HEADER_RECORD_COUNT
        self._places: dict[int, tuple[int, View]] = {}
        self._kept: list[bytes] = []
        self._results = _pair_results(session.steps)
        self._used = {id(result) for found in self._results.values() for result in found}

    def add_steps(self) -> None:
        steps = self._session.steps
        for index, (step, goes_on) in enumerate(
            zip(steps, _find_continued_steps(steps), strict=True)
        ):
            if step.at:
                self._at = max(self._at, min(step.at, self._options.latest))
            self._batches.append((self._at, []))
            if isinstance(step, SessionAnswer):
                self._add_answer(step, self._results.get(index, ()), goes_on=goes_on)
            else:
                _HANDLERS[type(step)](self, step)
        self._batches.append((self._at, []))
        self._cancel_open_work(SESSION_ENDED)

    # ---- what happened ---------------------------------------------------------------------------

    def _add_prompt(self, step: SessionPrompt) -> None:
        self._cancel_open_work(PERSON_CONTINUED)
        self._places[id(step)] = self._record_count, self._machine.conversation.view
        if text := self._truncate(step.text):
            self._record(UserInput(Message.user(text, self._attach_pictures(step.pictures))))

    def _attach_pictures(self, pictures: Iterable[bytes]) -> tuple[Attachment, ...]:
        """What a message shows; the bytes are to be kept before the journal is taken in."""
        found: list[Attachment] = []
        for data in pictures:
            media = identify_media(data)
            assert media is not None  # else it would be none of the step's
            attachment = make_attachment(media, f"picture {len(self._kept) + 1}", data)
            self._kept.append(data)
            found.append(attachment)
        return tuple(found)

    def _add_answer(self, step: SessionAnswer, results: _Results, *, goes_on: bool) -> None:
        """An answer, its calls, and what came of them, wherever in the file that stands."""
        text = self._truncate(step.text)
        if not text and not step.calls:
            return
        self._expect_answer()
        self._configure(step.model)
        calls = tuple(
            ToolCall(call.id, call.tool_name or "unknown", self._truncate(call.arguments_json))
            for call in step.calls
        )
        message = Message.assistant(text, calls)
        reason = "tool_calls" if calls else "stop"
        self._record(LlmEvent.Completed(LlmResponse(message, step.usage, reason), self._at))
        if calls:
            self._add_round(results, goes_on=goes_on)

    def _add_round(self, results: _Results, *, goes_on: bool) -> None:
        """The machine may have given a call another id, so they are told apart by their place."""
        opened = [call.id for call, _ in self._machine.round]
        for call_id in opened:
            self._record(ToolStarted(call_id, self._at))
        missing = []
        for call_id, result in zip(opened, results, strict=True):
            if result is None:
                missing.append(call_id)
                continue
            at = max(self._at, min(result.at, self._options.latest))
            self._record(ToolCompleted(call_id, self._make_outcome(call_id, result), at))
        if missing:
            self._mended["calls without a result"] += len(missing)
        if missing and not goes_on:
            self._record(CancelRequested(reason=NO_RESULT, at=self._at))
            return
        for call_id in missing:
            error = ToolError(ToolErrorKind.CANCELLED, NO_RESULT)
            outcome = ToolExecutionOutcome.Error(call_id, error)
            self._record(ToolCompleted(call_id, outcome, self._at))
        if isinstance(self._machine.state, PostToolsHook):
            self._record(PostToolsHookCompleted(False, at=self._at))

    def _make_outcome(self, call_id: str, result: SessionCallResult) -> Outcome:
        text = self._truncate(result.text)
        if result.is_error:
            error = ToolError(ToolErrorKind.FAILED, text)  # which shows nothing besides
            return ToolExecutionOutcome.Error(call_id, error)
        shown = self._attach_pictures(result.pictures)
        return ToolExecutionOutcome.Success(call_id, text, attachments=shown)

    def _add_result(self, step: SessionCallResult) -> None:
        """Recorded with its call; what belongs to none is kept."""
        if id(step) not in self._used:
            self._mended["results without a call"] += 1
            self._record_foreign(step.text)

    def _add_failure(self, step: SessionFailure) -> None:
        if not isinstance(self._machine.state, CallingLlm):
            self._record_foreign(step.reason)
            return
        error = LlmError(LlmErrorKind.INTERNAL, self._truncate(step.reason))
        self._record(LlmEvent.Error(error, at=self._at))

    def _add_stop(self, _: SessionStop) -> None:
        self._cancel_open_work(TURN_STOPPED)

    def _add_rewind(self, step: SessionRewind) -> None:
        """What was taken back stays, out of view."""
        place = self._places.get(id(step.before))
        if place is not None:
            self._cancel_open_work(PERSON_CONTINUED)
            self._record(Rewound(*place, self._at))

    def _add_summary(self, step: SessionSummary) -> None:
        """The machine is asked to compact, which it does if there is something to compact.

        The person's newest words stay in view, as after a compaction here: what the other program
        showed its model beside the summary is not what this one shows.
        """
        self._cancel_open_work(PERSON_CONTINUED)
        self._record(CompactionRequested(at=self._at))
        state = self._machine.state
        if isinstance(state, Compacting):
            words = compute_user_text_size(
                self._machine.config, state.conversation, is_too_long=False
            )
            self._record(
                Compacted(state.through, self._truncate(step.summary), self._at, words=words)
            )
        else:
            self._record_foreign(step.summary)

    def _add_git_state(self, step: SessionGitState) -> None:
        remote = self._options.remote_of(step.remote) if step.remote else None
        self._record(GitObserved(step.branch, step.head, remote=remote))

    def _add_title(self, step: SessionTitle) -> None:
        by: Any = "person" if step.by_person else "model"
        self._record(Renamed(self._truncate(step.title), by))

    def _add_foreign_record(self, step: SessionForeignRecord) -> None:
        self._record_foreign(step.text)

    # ---- how it is recorded ----------------------------------------------------------------------

    def _expect_answer(self) -> None:
        """Bring the machine where it waits for an answer."""
        if not isinstance(self._machine.state, CallingLlm):
            self._mended["answers to nothing"] += 1
            self._record(UserInput(Message.note(NO_PROMPT)))

    def _cancel_open_work(self, reason: str) -> None:
        if not isinstance(self._machine.state, WaitingForUserInput):
            self._record(CancelRequested(reason=reason, at=self._at))

    def _configure(self, model: str) -> None:
        """Models are named as here: `provider:model`."""
        if model and model != self._model:
            self._model = model
            provider = self._session.provider
            name = f"{provider}:{self._truncate(model)}" if provider else self._truncate(model)
            self._record(Configured(replace(self._machine.config, model_name=name), provider))

    def _record_foreign(self, text: str) -> None:
        if len(text) > TEXT_LENGTH_MAX:
            self._lost["too long to be kept"] += 1
            return
        self._foreign_count += 1
        self._record(Foreign(text))

    def _truncate(self, text: str) -> str:
        if len(text) <= TEXT_LENGTH_MAX:
            return text
        self._lost["cut to what a journal takes"] += 1
        return f"{text[:TEXT_LENGTH_MAX]}\n[{len(text) - TEXT_LENGTH_MAX} more characters]"

    def _record(self, entry: Entry) -> None:
        """What the machine is fed is what the bytes say."""
        stored, data = encode_entry(entry, self._options.redact)
        self._batches[-1][1].append(data)
        self._record_count += 1
        if isinstance(stored, Configured):
            self._machine = self._machine.with_config(stored.config)
        elif isinstance(stored, Event):
            assert not isinstance(stored, TaskEvent)
            self._machine.handle_event(stored)

    def build(self, path: str, *, again: bool) -> ImportedThread:
        """The journal, and what is to be said of it."""
        session, redact = self._session, self._options.redact
        count = session.record_count
        begun = session.started_at
        thread = make_imported_id(session.source, session.name, begun, count if again else 0)
        # Where nobody knows when the parent began, its thread cannot be named.
        parent = session.parent if session.parent and session.parent.started_at else None
        header = ThreadCreated(
            FORMAT_VERSION,
            thread,
            CHAT,
            f"{session.source} {session.version}".strip(),
            session.folder,
            session.folder,
            self._options.is_private,
            make_imported_id(session.source, parent.name, parent.started_at) if parent else None,
            parent.call_id if parent else None,
            1 if parent else 0,
        )
        problems = (
            *session.problems,
            *format_problems(self._lost),
            *(f"{what}: {number}" for what, number in sorted(self._mended.items())),
        )
        # It stands before what follows, and says what was found in it.
        origin = Imported(session.source, session.name, path, problems, self._foreign_count)
        first: list[Entry] = [header, origin, ExtraSet({RECORD_COUNT_KEY: count})]
        head, pieces = Head(), []
        batches = [
            (self._begun_at, [encode_entry(one, redact)[1] for one in first]),
            *self._batches,
        ]
        for at, batch in batches:
            if batch:
                data, head = encode_batch(head, at, batch)
                pieces.append(data)
        return ImportedThread(
            thread,
            b"".join(pieces),
            redact(find_session_title(session)),
            len(self._machine.conversation),
            self._mended.total(),
            self._foreign_count,
            problems,
            tuple(self._kept),
        )


def _pair_results(steps: tuple[SessionStep, ...]) -> dict[int, _Results]:
    """For each answer, by its place, the results of its calls, in their order.

    A result belongs to the first call of its id that has none yet, even if it stands before it.
    """
    waiting: defaultdict[str, deque[SessionCallResult]] = defaultdict(deque)
    for step in steps:
        if isinstance(step, SessionCallResult) and step.call_id:
            waiting[step.call_id].append(step)
    return {
        index: tuple(waiting[c.id].popleft() if waiting.get(c.id) else None for c in step.calls)
        for index, step in enumerate(steps)
        if isinstance(step, SessionAnswer)
    }


def _find_continued_steps(steps: tuple[SessionStep, ...]) -> list[bool]:
    """For each step, whether the model speaks next, or a summary is made, and no person."""
    found: list[bool] = []
    goes_on = False
    for step in reversed(steps):
        found.append(goes_on)
        if isinstance(
            step,
            SessionPrompt
            | SessionAnswer
            | SessionFailure
            | SessionStop
            | SessionRewind
            | SessionSummary,
        ):
            goes_on = isinstance(step, SessionAnswer | SessionSummary)
    return found[::-1]


_HANDLERS: Final[Mapping[type, Callable[[_JournalBuilder, Any], None]]] = {
    SessionPrompt: _JournalBuilder._add_prompt,
    SessionCallResult: _JournalBuilder._add_result,
    SessionFailure: _JournalBuilder._add_failure,
    SessionStop: _JournalBuilder._add_stop,
    SessionRewind: _JournalBuilder._add_rewind,
    SessionSummary: _JournalBuilder._add_summary,
    SessionGitState: _JournalBuilder._add_git_state,
    SessionTitle: _JournalBuilder._add_title,
    SessionForeignRecord: _JournalBuilder._add_foreign_record,
}
