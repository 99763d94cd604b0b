"""Pictures of threads: which are shown, and what their bytes must be."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Final

from treadle.core.media import MediaError, identify_media
from treadle.core.messages import Attachment
from treadle.exchange.readable_thread import ReadableNote, ReadableThread

PICTURE_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""What browsers show and nothing runs in: no SVG, no PDF."""


def is_picture(attachment: Attachment | None) -> bool:
    """Whether it is of a kind that is shown."""
    return attachment is not None and attachment.media_type in PICTURE_TYPES


def list_pictures(story: ReadableThread) -> Iterator[Attachment]:
    """The pictures of a thread that can be shown, as they stand in it."""
    for turn in story.turns:
        for item in turn.items:
            if isinstance(item, ReadableNote) and item.attachment and is_picture(item.attachment):
                yield item.attachment


def identify_picture(data: bytes) -> str | None:
    """The type of the bytes of a picture, whatever was said of them; `None` if it is not shown."""
    try:
        media = identify_media(data)
    except MediaError:
        return None
    return media.media_type if media and media.media_type in PICTURE_TYPES else None


def make_picture_links(pictures: Mapping[str, bytes]) -> dict[str, str]:
    """Pictures as addresses that hold them, by their digests."""
    types = {digest: identify_picture(data) for digest, data in pictures.items()}
    return {
        digest: f"data:{types[digest]};base64,{b64encode(data).decode()}"
        for digest, data in pictures.items()
        if types[digest]
    }
