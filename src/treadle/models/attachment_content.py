"""Which pictures and documents of a conversation go into a request, and what stands for the rest.

Pure, and from the newest to the oldest: what no model or no request takes becomes a line in its
message, so that a conversation never ends because of something that was shown in it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits, explain_blindness
from treadle.core.messages import Attachment, Message, describe_left_out

IMAGE_COUNT_MAX: Final = 100
"""Pictures of a request: what Anthropic takes; OpenAI takes 500, Gemini 3,600."""
FREE_IMAGE_COUNT: Final = 20
"""With more pictures than these, Anthropic takes none whose side is over `MANY_SIDE_MAX`."""
MANY_SIDE_MAX: Final = 2000
SIZE_MAX: Final = 22 * 1024 * 1024
"""Bytes of all of them: as base64 they stay below the 32 MB of a request that Anthropic takes;
OpenAI takes 50 MB, Gemini 100 MB."""

GONE: Final = "its bytes are not on this machine"
TOO_MANY: Final = "the newer ones are all that a request takes"


class _RequestRoom:
    """What the rest of a request may hold."""

    def __init__(self, request: LlmRequest, traits: ModelTraits) -> None:
        self._contents = request.contents
        self._traits = traits
        self._size = SIZE_MAX
        self._count = 0
        self._has_large = False

    def refuse(self, attachment: Attachment) -> str:
        """Why there is no room for the next older one; empty if it is in."""
        if why := explain_blindness(attachment, self._traits):
            return why
        data = self._contents.get(attachment.blob.sha256)
        if data is None:
            return GONE
        is_image = attachment.kind == "image"
        # A newer one that is large, and goes, bounds the older ones too.
        has_large = self._has_large or max(attachment.width, attachment.height) > MANY_SIDE_MAX
        count_max = FREE_IMAGE_COUNT if has_large else IMAGE_COUNT_MAX
        if len(data) > self._size or (is_image and self._count >= count_max):
            return TOO_MANY
        self._size -= len(data)
        self._count += is_image
        self._has_large = has_large
        return ""


def select_attachments(request: LlmRequest, traits: ModelTraits) -> LlmRequest:
    """The request with those attachments alone that are sent; a line stands for each other one.

    Args:
        request: what is asked.
        traits: of the model, by way of its endpoint.
    """
    if not any(message.attachments for message in request.messages):
        return request
    room = _RequestRoom(request, traits)
    newest_first = [_select(message, room) for message in reversed(request.messages)]
    return replace(request, messages=Conversation(reversed(newest_first)))


def _select(message: Message, room: _RequestRoom) -> Message:
    kept, lines = list[Attachment](), list[str]()
    for attachment in reversed(message.attachments):
        if why := room.refuse(attachment):
            lines.append(describe_left_out([attachment], why))
        else:
            kept.append(attachment)
    if not lines:
        return message
    content = "\n".join(filter(None, (message.content, *reversed(lines))))
    return replace(message, content=content, attachments=tuple(reversed(kept)))


def encode_content(attachment: Attachment, contents: Mapping[str, bytes]) -> str:
    """The bytes of an attachment in base64."""
    return b64encode(contents[attachment.blob.sha256]).decode()


def make_data_url(attachment: Attachment, contents: Mapping[str, bytes]) -> str:
    """The bytes of an attachment as an address that holds them."""
    return f"data:{attachment.media_type};base64,{encode_content(attachment, contents)}"


def get_file_name(attachment: Attachment) -> str:
    """What a provider is told that the file is called: no path, never empty."""
    return attachment.name.rstrip("/").rpartition("/")[2] or attachment.kind
