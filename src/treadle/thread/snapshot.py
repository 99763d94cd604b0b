"""The snapshot: the thread at a version as one JSON file, a message a line. A cache, not the truth.

Its last field is a checksum over all bytes before it; it names the record it stands on (sequence,
chain hash, size of the journal up to there), and is used only if that record is in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from treadle.core.append_list import AppendList
from treadle.core.chat.states import AgentState
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.sightings import Sighting
from treadle.core.task.machine import TaskState
from treadle.core.task.memory import History, HistoryEntry
from treadle.core.task.trace import Trace, TraceEntry
from treadle.thread.chat_state import restore_conversation, restore_state
from treadle.thread.codec import UnknownEntryError, holds_attachments
from treadle.thread.document import GitFields, Thread, ThreadMetadata
from treadle.thread.facts import (
    FORMAT_VERSION,
    BackgroundEnded,
    ContextObserved,
    FilesSaved,
    GitObserved,
    ThreadCreated,
    Visibility,
)
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.record import Head
from treadle.thread.undelivered_input import QueuedMessage, UndeliveredInput, UserCommand

_CHECKSUM: Final = b',\n  "checksum": "'
_SEAL_SIZE: Final = len(_CHECKSUM) + 64 + len(b'"\n}\n')
_FORMAT_WITH_ATTACHMENTS: Final = 2
"""Of one that holds attachments: programs from before there were any would lose them."""
_SIZE_LIMIT: Final = 2**63
"""No file is longer; a forged snapshot may claim to stand anywhere."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """What the file holds, besides the checksum.

    `head` is the record it stands on; the fields that are not explained are what the fold knows
    beyond the document.
    """

    format: int
    head: Head
    header: ThreadCreated
    config: AgentConfig
    thread: Thread
    provider: str = ""
    observed: GitObserved | None = None
    queued: tuple[Message, ...] = ()
    turn_steps: int = 0
    turn_usage: Usage | None = None
    """`None` in snapshots made before it was kept; then the journal knows it."""
    children: dict[str, str] = {}
    task: TaskState | None = None
    """The task machine's state, without its transcript: that is the thread's conversation."""
    metadata: ThreadMetadata = ThreadMetadata()
    is_named_by_person: bool = False
    context: ContextObserved | None = None
    files: FilesSaved | None = None
    visibility: Visibility = "organization"
    """Which one holds when the thread is not private; the document names the one that holds now."""
    merging: tuple[Message, ...] = ()
    steering: tuple[int, ...] = ()
    """The places in `queued` of what steers."""
    commands: tuple[UserCommand, ...] = ()
    """Those that the next message tells of."""
    sightings: tuple[Sighting, ...] = ()
    background: dict[str, str] = {}
    ends: tuple[BackgroundEnded, ...] = ()


def _to_plain(value: Any) -> Any:
    if isinstance(value, AppendList):
        return _encode_lines(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value))  # how a hook of msgspec says that it has no answer


def _from_plain(kind: type, value: Any) -> Any:
    if kind is Conversation:
        return Conversation()
    if kind is History:
        return History(msgspec.convert(value, list[HistoryEntry]))
    if kind is Trace:
        return Trace(msgspec.convert(value, list[TraceEntry]))
    raise NotImplementedError(kind)  # as above


# By the import, as the decoder of records is, and for the same reason.
_decode: Final = msgspec.json.Decoder(Snapshot, dec_hook=_from_plain).decode
for _kind in (History, Trace):
    _from_plain(_kind, [])
_encode: Final = msgspec.json.Encoder(enc_hook=_to_plain).encode


def _encode_lines(items: Iterable[object]) -> Any:
    """The items as they are to stand in the file, one in each line."""
    return msgspec.Raw(b"[\n" + b",\n".join(map(_encode, items)) + b"\n]")


def encode_snapshot(fold: ThreadFold, head: Head) -> bytes:
    """The file's bytes. Costs time in proportion to the conversation."""
    thread = fold.document()
    messages = _encode_lines(thread.conversation.messages)
    snapshot = Snapshot(
        format=FORMAT_VERSION,
        head=head,
        header=fold.header,
        config=fold.machine.config,
        thread=replace(thread, conversation=replace(thread.conversation, messages=messages)),
        provider=fold.provider,
        observed=fold.observed,
        queued=fold.queued,
        turn_steps=fold.turn_steps,
        turn_usage=fold.turn_usage,
        children=fold.children,
        task=_drop_transcript(fold.state) if isinstance(fold.state, TaskState) else None,
        metadata=fold.metadata,
        is_named_by_person=fold.is_named_by_person,
        context=fold.context,
        files=fold.files,
        visibility=fold.visibility,
        merging=fold.joining_messages,
        steering=tuple(nth for nth, one in enumerate(fold.undelivered.queued) if one.steers),
        commands=fold.undelivered.commands,
        sightings=fold.sightings,
        background=fold.undelivered.running,
        ends=fold.undelivered.ends,
    )
    data = _encode(snapshot)
    if holds_attachments(data):
        data = _encode(replace(snapshot, format=_FORMAT_WITH_ATTACHMENTS))
    sealed = data[:-1]
    return sealed + _CHECKSUM + sha256(sealed).hexdigest().encode() + b'"\n}\n'


def _drop_transcript(state: TaskState) -> TaskState:
    return replace(state, memory=replace(state.memory, transcript=Conversation()))


def decode_snapshot(data: bytes) -> Snapshot | None:
    """The snapshot, or `None` if the bytes are damaged, cut, of another format or at odds."""
    sealed, seal = data[:-_SEAL_SIZE], data[-_SEAL_SIZE:]
    if seal != _CHECKSUM + sha256(sealed).hexdigest().encode() + b'"\n}\n':
        return None
    try:
        snapshot = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    head = snapshot.head
    is_sound = head.seq == snapshot.thread.version and 0 < head.size < _SIZE_LIMIT
    is_known = snapshot.format in (FORMAT_VERSION, _FORMAT_WITH_ATTACHMENTS)
    return snapshot if is_sound and is_known else None


def _restore_state(snapshot: Snapshot) -> AgentState | TaskState:
    thread, task = snapshot.thread, snapshot.task
    conversation = restore_conversation(thread.conversation)
    if snapshot.header.machine == CHAT:
        return restore_state(thread.agent_state, conversation, snapshot.config)
    if task is None:
        raise UnknownEntryError("a snapshot of a task holds no task")
    return replace(task, memory=replace(task.memory, transcript=conversation))


def restore_fold(snapshot: Snapshot) -> ThreadFold | None:
    """The fold as it was when the snapshot was taken; `None` if this version cannot have it."""
    thread = snapshot.thread
    try:
        fold = ThreadFold(snapshot.header)
        state = _restore_state(snapshot)
    except UnknownEntryError:
        return None
    fold.version = thread.version
    fold.created_at = thread.created_at
    fold.updated_at = thread.updated_at
    fold.last_activity_at = thread.last_activity_at
    fold.provider = snapshot.provider
    fold.git = GitFields(**{name: getattr(thread, name) for name in asdict(GitFields())})
    fold.observed = snapshot.observed
    fold.undelivered = UndeliveredInput(
        [QueuedMessage(one, nth in snapshot.steering) for nth, one in enumerate(snapshot.queued)],
        snapshot.commands,
        snapshot.background,
        snapshot.ends,
    )
    fold.usage = thread.usage
    fold.turn_steps = snapshot.turn_steps
    fold.turn_usage = snapshot.turn_usage or Usage()
    fold.children = dict(snapshot.children)
    fold.metadata = snapshot.metadata
    fold.is_named_by_person = snapshot.is_named_by_person
    fold.context, fold.files = snapshot.context, snapshot.files
    fold.sightings = snapshot.sightings
    fold.imported_from, fold.is_trashed = thread.imported_from, thread.is_trashed
    fold.is_private = thread.is_private
    fold.is_shared_with_support = thread.is_shared_with_support
    fold.visibility, fold.joining_messages = snapshot.visibility, snapshot.merging
    fold.resume(snapshot.config, state)
    return fold
