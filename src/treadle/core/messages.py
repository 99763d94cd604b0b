"""Messages, the calls in them, and what they show besides text. Values only.

A record holds what an attachment is and the digest of its bytes, which are kept beside the thread,
so that journals stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, Self, TypeAlias

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


IMAGE_LENGTH_MAX: Final = 6400
"""What a picture costs at most, as characters of text: 1,600 tokens, before which most providers
make it smaller. A guess, as all of it: what a provider has counted itself is what is recorded."""
PIXELS_OF_CHARACTER: Final = 188
PDF_LENGTH_MIN: Final = 8000
PDF_LENGTH_MAX: Final = 800_000
PDF_BYTES_OF_CHARACTER: Final = 6

NOTE: Final = "note"
"""The name of a user message that no person wrote. Providers are not told of it."""


def is_by_person(message: Message) -> bool:
    """Whether a person said it: neither a model nor a tool, and no note."""
    return message.role == "user" and message.name != NOTE


def cut_middle_bytes(text: str, size: int) -> str:
    """The text if it has at most `size` bytes, else its beginning and its end, and what is missing.

    The size is that of UTF-8, four bytes of which are about a token in any script.
    """
    data, half = text.encode(), size // 2
    if len(data) <= size:
        return text
    start, end = (
        data[:half].decode(errors="ignore"),
        data[len(data) - half :].decode(errors="ignore"),
    )
    left_out = len(text) - len(start) - len(end)
    return f"{start}\n[... {left_out} characters left out ...]\n{end}"


class BlobRef(Struct, frozen=True):
    """Names bytes that are kept beside a thread: their SHA-256 in hex, and how many they are."""

    sha256: str
    size: int


class Attachment(Struct, frozen=True, omit_defaults=True):
    """A picture or a document, as a message or a result carries it.

    `media_type` is what its bytes are, whatever its name says. `name` is for people and the model:
    a path, or what else it was called. `width` and `height` are in pixels; 0 where nobody knows.
    """

    kind: Literal["image", "pdf"]
    media_type: str
    name: str
    blob: BlobRef
    width: int = 0
    height: int = 0


class SeenFile(Struct, frozen=True, omit_defaults=True):
    """A file of which a call or a message has told the model, under the name a `Scope` has for it.

    `content` is a digest of all of it, like `Scope.content`. `first_line` and `last_line` are those
    that were shown, from 1; 0 where it shows none. `lines` is a short digest of the lines, by
    which those are found that differ later (`tools/line_digests.py`); empty if nobody can tell.
    """

    name: str
    content: str
    first_line: int = 0
    last_line: int = 0
    lines: str = ""


class ToolCall(Struct, frozen=True, gc=False):
    """A model's wish to run a tool.

    `arguments_json` is the JSON text exactly as the model wrote it: sent back byte for byte, so
    that prompt caches stay warm, and possibly malformed; whoever runs the tool parses it.
    """

    id: str
    tool_name: str
    arguments_json: str = "{}"


class TextPart(Struct, frozen=True, tag="text", gc=False):
    """The next `length` characters of the message's `content`; a block of its own."""

    length: int


class CallPart(Struct, frozen=True, tag="call", gc=False):
    """The next of the message's `tool_calls`."""


class OpaquePart(Struct, frozen=True, tag="opaque", gc=False):
    """A block that only its model understands, as JSON text: thinking with its signature, say."""

    block_json: str


Part: TypeAlias = TextPart | CallPart | OpaquePart


class NativeLayout(Struct, frozen=True, gc=False):
    """How a provider laid out an assistant message, so that it can be sent back as it came.

    `source` is the `provider:model` that wrote it; to every other model the parts mean nothing,
    and `content` and `tool_calls` say it all. Parts that no longer cover the content (a secret in
    it was replaced) mean nothing either.
    """

    source: str
    parts: tuple[Part, ...]


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of the conversation; never edited, never deleted.

    `interrupted` marks an assistant text that was cut short by a cancel. `native` is there if the
    message is more than one text followed by calls. `attachments` are what a person or a tool shows
    besides the text. `seen` are the files that stand in a person's message, as they stand there.
    `native_output` marks an answer that its provider held to the form which was asked for.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    interrupted: bool = False
    native: NativeLayout | None = None
    attachments: tuple[Attachment, ...] = ()
    seen: tuple[SeenFile, ...] = ()
    native_output: bool = False

    @classmethod
    def user(
        cls,
        content: str,
        attachments: tuple[Attachment, ...] = (),
        seen: tuple[SeenFile, ...] = (),
    ) -> Self:
        """A message by the person."""
        return cls("user", content, attachments=attachments, seen=seen)

    @classmethod
    def note(cls, content: str) -> Self:
        """What the agent is told between its own messages, in the person's place: no prompt."""
        return cls("user", content, name=NOTE)

    @classmethod
    def assistant(cls, content: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> Self:
        """A message by the model."""
        return cls("assistant", content, tool_calls)

    @classmethod
    def tool(cls, call: ToolCall, content: str, attachments: tuple[Attachment, ...] = ()) -> Self:
        """The result of `call`, as the model will read it."""
        return cls("tool", content, (), call.id, call.tool_name, attachments=attachments)


def measure_attachments(attachments: Iterable[Attachment]) -> int:
    """The characters of text that are likely to cost as much; the same for the same attachments."""
    return sum(map(_measure, attachments))


def _measure(attachment: Attachment) -> int:
    if attachment.kind == "pdf":
        guess = attachment.blob.size // PDF_BYTES_OF_CHARACTER
        return min(max(guess, PDF_LENGTH_MIN), PDF_LENGTH_MAX)
    pixels = attachment.width * attachment.height
    return min(pixels // PIXELS_OF_CHARACTER + 1, IMAGE_LENGTH_MAX) if pixels else IMAGE_LENGTH_MAX


def describe_attachment(attachment: Attachment) -> str:
    """A line for people and models: `shot.png, image/png, 640x480, 12.3 kB`."""
    size = attachment.blob.size
    told = f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB"
    told = told if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
    pixels = f"{attachment.width}x{attachment.height}, " if attachment.width else ""
    return f"{attachment.name}, {attachment.media_type}, {pixels}{told}"


def describe_left_out(attachments: Sequence[Attachment], why: str) -> str:
    """The line that stands for attachments which a model is not shown."""
    told = "; ".join(map(describe_attachment, attachments))
    return f"[Not shown, {why}: {told}]"
