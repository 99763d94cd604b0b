"""What the outside saw: records acknowledged, messages shown to a model, effects of tools.

A `World` outlives every crash of the program under test. It is a stream of notes, each one written
at the moment at which the outside could rely on it; `checks` compares a thread with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from treadle.core.messages import Message


class Acked(Struct, frozen=True, tag=True):
    """`sync` returned: this record and all before it are durable."""

    thread: str
    seq: int
    hash: str
    size: int


class Seen(Struct, frozen=True, tag=True):
    """A model or a person was shown the first `count` messages of a thread."""

    thread: str
    count: int
    digest: str


class Said(Struct, frozen=True, tag=True):
    """A person's input was accepted: it is in the thread once, or will be delivered."""

    thread: str
    text: str


class Begun(Struct, frozen=True, tag=True):
    """A tool begins to have its effect, with these arguments, while the world is so."""

    thread: str
    call: str
    tool: str
    key: str
    arguments: str = "{}"
    ground: str = ""
    content: str = ""


class Ended(Struct, frozen=True, tag=True):
    """A tool had its whole effect."""

    thread: str
    call: str


class Allowed(Struct, frozen=True, tag=True):
    """A person, asked about an uncertain call, said that it is to run again."""

    thread: str
    call: str


class Moved(Struct, frozen=True, tag=True):
    """From here on calls stand on another ground, or would write to another content."""

    ground: str
    content: str


class Asked(Struct, frozen=True, tag=True):
    """A person was shown a question about a call: from then on it waits for them."""

    thread: str
    call: str


class Found(Struct, frozen=True, tag=True):
    """A process that has just opened the thread finds questions open about these calls."""

    thread: str
    calls: tuple[str, ...]


class Agreed(Struct, frozen=True, tag=True):
    """A person said yes to a call with these arguments, and this is what it was shown to be on."""

    thread: str
    call: str
    arguments: str
    ground: str
    content: str


class Denied(Struct, frozen=True, tag=True):
    """A person said no to a call that waits for their word."""

    thread: str
    call: str


class GrantedKind(Struct, frozen=True, tag=True):
    """A person allowed all calls that need a yes, for the rest of the thread, on this ground."""

    thread: str
    ground: str


class Chose(Struct, frozen=True, tag=True):
    """A person chose a mode: the thread is in plan mode from here on, or may leave it."""

    thread: str
    only_reads: bool


class Hidden(Struct, frozen=True, tag=True):
    """A rewind is durable: no model is shown this text of the thread any more."""

    thread: str
    text: str


class Trashed(Struct, frozen=True, tag=True):
    """The thread was put away, or is there again."""

    thread: str
    is_there_again: bool = False


class Scrubbed(Struct, frozen=True, tag=True):
    """A text is being taken out of threads, or stands nowhere any more."""

    threads: tuple[str, ...]
    text: str
    is_over: bool = False
    left: tuple[str, ...] = ()
    """The files in which it still stood when it was said to be gone."""


class Adopted(Struct, frozen=True, tag=True):
    """A thread of another machine is being taken in: from then on it counts as one, or is not."""

    thread: str


Note = (
    Acked
    | Seen
    | Said
    | Begun
    | Ended
    | Allowed
    | Moved
    | Asked
    | Found
    | Agreed
    | Denied
    | GrantedKind
    | Chose
    | Hidden
    | Trashed
    | Scrubbed
    | Adopted
)

encode_note = _encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Note).decode


class World:
    """Keeps its notes in memory, and in a file too if one is given: one write per note.

    Args:
        notes: what was noted before.
        path: a file outside of everything that is made to fail.
        effects: a file among what is made to fail, which tools append to.
    """

    def __init__(self, notes: Sequence[Note] = (), path: str = "", effects: str = "") -> None:
        self.notes = list(notes)
        moved = [note for note in notes if isinstance(note, Moved)]
        self.place = moved[-1] if moved else Moved("home", "paper")
        """What calls stand on now."""
        self.on_effect: Callable[[str], None] = lambda call: None
        self._effects = effects
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._handle = os.open(path, flags, 0o600) if path else -1

    def note(self, note: Note) -> None:
        """Note it, now."""
        self.notes.append(note)
        if isinstance(note, Moved):
            self.place = note
        if self._handle >= 0:
            os.write(self._handle, _encode(note) + b"\n")

    def effect(self, call: str) -> None:
        """What a tool does to the world; its process can die here too."""
        self.on_effect(f"the effect of {call}")
        if self._effects:
            handle = os.open(self._effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, f"{call}\n".encode())
            finally:
                os.close(handle)

    def seen(self, thread: str, messages: Sequence[Message]) -> None:
        """Note that somebody outside knows these messages."""
        self.note(Seen(thread, len(messages), digest_of(messages)))

    def close(self) -> None:
        """Give the file back."""
        if self._handle >= 0:
            os.close(self._handle)


def read_notes(data: bytes) -> list[Note]:
    """The notes of a file."""
    return [_decode(line) for line in data.splitlines()]


def digests_of(messages: Iterable[Message]) -> list[str]:
    """Stands for the first message, the first two, and so on; before that, for none."""
    whole = sha256()
    found = [whole.hexdigest()[:16]]
    for message in messages:
        whole.update(_encode(message))
        found.append(whole.hexdigest()[:16])
    return found


def digest_of(messages: Iterable[Message]) -> str:
    """Stands for all the messages."""
    return digests_of(messages)[-1]
