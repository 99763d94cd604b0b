"""The picture on the clipboard, in the input: its path, which goes along with the prompt."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer

from treadle.app.sessions.clipboard_picture import save_clipboard_picture
from treadle.errors import UsageError


async def insert_clipboard_picture(buffer: Buffer, tell: Callable[[str], None]) -> None:
    """Keep the picture in a file, type its path at the cursor; `tell` takes why there is none."""
    try:
        path = await save_clipboard_picture()
    except UsageError as error:
        tell(error.message)
        return
    before = buffer.document.text_before_cursor
    gap = " " if before and not before[-1].isspace() else ""
    buffer.insert_text(f"{gap}{path} ")
