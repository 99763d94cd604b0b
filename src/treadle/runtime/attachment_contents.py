"""The bytes of what messages show, read for the request that sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from msgspec.structs import replace

from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits, explain_blindness
from treadle.core.messages import Attachment, BlobRef, Message, describe_left_out
from treadle.errors import MissingBlobError, StoreError

SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes that are read for one request; no provider takes as many."""

_GONE: Final = "its bytes are not on this machine"
_REFUSED: Final = "its provider refuses it"
_SUSPECTS: Final = {
    LlmErrorKind.BAD_REQUEST: ("image", "pdf"),
    LlmErrorKind.CONTEXT_TOO_LONG: ("pdf",),
}
"""What a request may have been refused for, by the kind of the refusal."""


class AttachmentContents:
    """Puts the bytes into requests; those of the last one are not read again.

    Args:
        read: gives kept bytes; raises `MissingBlobError` or `StoreError` if they are not there.
        tell: takes a line for the person, about something that the model is not shown.
    """

    def __init__(
        self, read: Callable[[BlobRef], Awaitable[bytes]], tell: Callable[[str], None]
    ) -> None:
        self._read = read
        self._tell = tell
        self._known: dict[str, bytes] = {}
        self._told: set[tuple[str, str]] = set()
        self._taken: set[str] = set()
        self._refused: set[str] = set()

    async def add_to(self, request: LlmRequest, traits: ModelTraits) -> LlmRequest:
        """The request with the bytes of its attachments; of the newest, if they are too many.

        What is gone is left out: a thread may have come from elsewhere without it. That, and what
        the model cannot see, is told once.

        Args:
            request: what is asked.
            traits: of the model.
        """
        if self._refused:
            request = _leave_out(request, self._refused)
        found: dict[str, bytes] = {}
        room = SIZE_MAX
        for message in reversed(request.messages):
            for attachment in message.attachments:
                ref = attachment.blob
                if ref.sha256 in found or ref.size > room:
                    continue
                data = self._known.get(ref.sha256)
                if data is None:
                    data = await self._read_or_none(ref)
                if data is not None:
                    found[ref.sha256] = data
                    room -= len(data)
                why = explain_blindness(attachment, traits) or _GONE * (data is None)
                self._tell_once(attachment, why)
        self._known = found
        return replace(request, contents=found) if found else request

    def leave_out_new(self, sent: LlmRequest, error: LlmError) -> LlmRequest | None:
        """The request without what no answer was given to so far; `None` if that is nothing.

        What a provider takes for damaged, or a document of too many pages, is known to nobody
        before it refuses the request; and it would refuse each later one of the thread. A document
        alone may be longer than all that the model reads, where no summary makes room for it.

        Args:
            sent: what was refused, with its bytes.
            error: the refusal.
        """
        kinds = _SUSPECTS.get(error.kind, ())
        shown = (one for message in sent.messages for one in message.attachments)
        digests = {one.blob.sha256 for one in shown if one.kind in kinds}
        new = (digests & sent.contents.keys()) - self._taken
        return _leave_out(sent, new) if new else None

    def note_answer(
        self, sent: LlmRequest, refused: LlmRequest | None = None, why: str = ""
    ) -> None:
        """Remember that a provider has taken what a request shows.

        Args:
            sent: what it has answered.
            refused: the same with more, which it has refused before; that is not sent again.
            why: the provider's words for it.
        """
        self._taken |= sent.contents.keys()
        if refused is None:
            return
        self._refused |= refused.contents.keys() - sent.contents.keys()
        for message in refused.messages:
            for attachment in message.attachments:
                if attachment.blob.sha256 in self._refused:
                    self._tell_once(attachment, f"{_REFUSED}: {why}")

    def _tell_once(self, attachment: Attachment, why: str) -> None:
        key = attachment.blob.sha256, why
        if why and key not in self._told:
            self._told.add(key)
            self._tell(f"the model is not shown {attachment.name}: {why}")

    async def _read_or_none(self, ref: BlobRef) -> bytes | None:
        try:
            return await self._read(ref)
        except (MissingBlobError, StoreError):
            return None


def _leave_out(request: LlmRequest, lost: Collection[str]) -> LlmRequest:
    """The request with a line in place of each attachment of these digests."""
    contents = {digest: data for digest, data in request.contents.items() if digest not in lost}
    messages = Conversation(_leave_out_of(message, lost) for message in request.messages)
    return replace(request, messages=messages, contents=contents)


def _leave_out_of(message: Message, lost: Collection[str]) -> Message:
    gone = [one for one in message.attachments if one.blob.sha256 in lost]
    if not gone:
        return message
    content = "\n".join(filter(None, (message.content, describe_left_out(gone, _REFUSED))))
    kept = tuple(one for one in message.attachments if one not in gone)
    return replace(message, content=content, attachments=kept)
