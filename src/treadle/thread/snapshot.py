"""The snapshot: the thread at a version as one readable JSON file. A cache, never the truth.

Its last field is a checksum over all bytes before it; it names the record it stands on (sequence,
chain hash, size of the journal up to there), and is used only if that record is in the journal.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.thread.chat_state import restore_state
from treadle.thread.codec import UnknownEntryError
from treadle.thread.facts import FORMAT_VERSION, GitObserved, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.model import GitFields, Thread
from treadle.thread.record import Head

_CHECKSUM: Final = b',\n  "checksum": "'
_SEAL_SIZE: Final = len(_CHECKSUM) + 64 + len(b'"\n}\n')
_SIZE_LIMIT: Final = 2**63
"""No file is longer; a forged snapshot may claim to stand anywhere."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """What the file holds, besides the checksum.

    `head` is the record it stands on; `header`, `config`, `provider`, `observed`, `queued` and
    `turn_steps`, `turn_usage` are what the fold knows beyond the document.
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


_decode: Final = msgspec.json.Decoder(Snapshot).decode


def encode_snapshot(fold: ThreadFold, head: Head) -> bytes:
    """The file's bytes. Costs time in proportion to the conversation."""
    snapshot = Snapshot(
        format=FORMAT_VERSION,
        head=head,
        header=fold.header,
        config=fold.machine.config,
        thread=fold.document(),
        provider=fold.provider,
        observed=fold.observed,
        queued=fold.queued,
        turn_steps=fold.turn_steps,
        turn_usage=fold.turn_usage,
    )
    body = msgspec.json.format(msgspec.json.encode(snapshot), indent=2)
    sealed = body.rstrip()[:-1].rstrip()
    return sealed + _CHECKSUM + sha256(sealed).hexdigest().encode() + b'"\n}\n'


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
    return snapshot if is_sound and snapshot.format == FORMAT_VERSION else None


def restore_fold(snapshot: Snapshot) -> ThreadFold | None:
    """The fold as it was when the snapshot was taken; `None` if this version cannot have it."""
    thread = snapshot.thread
    try:
        fold = ThreadFold(snapshot.header)
        state = restore_state(
            thread.agent_state, Conversation(thread.conversation.messages), snapshot.config
        )
    except UnknownEntryError:
        return None
    fold.version = thread.version
    fold.created_at = thread.created_at
    fold.updated_at = thread.updated_at
    fold.last_activity_at = thread.last_activity_at
    fold.provider = snapshot.provider
    fold.git = GitFields(**{name: getattr(thread, name) for name in asdict(GitFields())})
    fold.observed = snapshot.observed
    fold.queued = snapshot.queued
    fold.usage = thread.usage
    fold.turn_steps = snapshot.turn_steps
    fold.turn_usage = snapshot.turn_usage or Usage()
    fold.resume(snapshot.config, state)
    return fold
