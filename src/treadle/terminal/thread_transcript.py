"""What happened in the thread at hand, read from the disk for its person to look through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.app.threads.transcript import Transcript
    from treadle.terminal.canvas import Canvas
    from treadle.thread.facts import CommandShown


async def look_through(canvas: Canvas, tell: Callable[[str], None]) -> None:
    """Have the person look through it, unless something is asked meanwhile."""
    transcript = await canvas.keys.read_transcript()
    if transcript is None:
        tell("nothing has happened yet")
    elif canvas.dialog is None:
        await canvas.browse(transcript)


async def read_thread_transcript(
    thread_id: str | None, commands: Sequence[CommandShown], tell: Callable[[TreadleError], None]
) -> Transcript | None:
    """The transcript; `None` if there is nothing in it, or if it cannot be read.

    Args:
        thread_id: the thread at hand.
        commands: what its person has run, if there is no thread yet.
        tell: takes why it cannot be read.
    """
    from treadle.app.stores import open_store
    from treadle.app.threads.transcript import make_command_transcript, read_transcript

    if thread_id is None:
        found = make_command_transcript(commands)
    else:
        try:
            found = await asyncio.to_thread(lambda: read_transcript(open_store(), thread_id))
        except TreadleError as error:
            tell(error)
            return None
    return found if found.parts else None
