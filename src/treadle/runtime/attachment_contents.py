"""The bytes of what messages show, read for the request that sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from treadle.core.llm import LlmRequest, ModelTraits, explain_blindness
from treadle.core.messages import Attachment, BlobRef
from treadle.errors import MissingBlobError, StoreError

SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes that are read for one request; no provider takes as many."""


_GONE: Final = "its bytes are not on this machine"


class AttachmentContents:
    """Puts the bytes into requests; those of the last one are not read again.

    Args:
        read: gives kept bytes; raises `MissingBlobError` or `StoreError` if they are not there.
        tell: takes a line for the person, about something that the model is not shown.
    """

    def __init__(self, read: Callable[[BlobRef], bytes], tell: Callable[[str], None]) -> None:
        self._read = read
        self._tell = tell
        self._known: dict[str, bytes] = {}
        self._told: set[tuple[str, str]] = set()

    def add_to(self, request: LlmRequest, traits: ModelTraits) -> LlmRequest:
        """The request with the bytes of its attachments; of the newest, if they are too many.

        What is gone is left out: a thread may have come from elsewhere without it. That, and what
        the model cannot see, is told once.

        Args:
            request: what is asked.
            traits: of the model.
        """
        found: dict[str, bytes] = {}
        room = SIZE_MAX
        for message in reversed(request.messages):
            for attachment in message.attachments:
                ref = attachment.blob
                if ref.sha256 in found or ref.size > room:
                    continue
                data = self._known.get(ref.sha256)
                if data is None:
                    data = self._read_or_none(ref)
                if data is not None:
                    found[ref.sha256] = data
                    room -= len(data)
                why = explain_blindness(attachment, traits) or _GONE * (data is None)
                self._tell_once(attachment, why)
        self._known = found
        return replace(request, contents=found) if found else request

    def _tell_once(self, attachment: Attachment, why: str) -> None:
        key = attachment.blob.sha256, why
        if why and key not in self._told:
            self._told.add(key)
            self._tell(f"the model is not shown {attachment.name}: {why}")

    def _read_or_none(self, ref: BlobRef) -> bytes | None:
        try:
            return self._read(ref)
        except (MissingBlobError, StoreError):
            return None
