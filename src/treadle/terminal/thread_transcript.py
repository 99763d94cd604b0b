"""What happened in the thread at hand, read from the disk for its person to look through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.app.threads.transcript import Transcript
    from treadle.terminal.canvas import Canvas
    from treadle.terminal.chat_session import ChatSession
    from treadle.thread.facts import CommandShown


async def look_through(canvas: Canvas, tell: Callable[[str], None]) -> None:
    """Have the person look through it, unless something is asked meanwhile."""
    transcript = await canvas.keys.read_transcript()
    if transcript is None:
        tell("nothing has happened yet")
    elif canvas.dialog is None:
        await canvas.browse(transcript)


class TranscriptReader:
    """Reads the transcript of the thread at hand.

    Args:
        tell: takes why it cannot be read.
    """

    def __init__(self, tell: Callable[[TreadleError], None]) -> None:
        self._tell = tell
        self._version = 0
        """Of the thread, when it was read last."""

    async def read(
        self, sessions: ChatSession, commands: Sequence[CommandShown], *, only_news: bool
    ) -> Transcript | None:
        """The transcript; `None` if there is nothing in it, or if it cannot be read.

        Args:
            sessions: whose thread it is.
            commands: what its person has run, if there is no thread yet.
            only_news: `None` also if nothing has happened since the last time.
        """
        from treadle.app.stores import open_store
        from treadle.app.threads.transcript import make_command_transcript, read_transcript

        session, thread_id = sessions.session, sessions.thread_id
        before, self._version = self._version, 0 if session is None else session.version
        if only_news and before == self._version:
            return None
        if thread_id is None:
            found = make_command_transcript(commands)
        else:
            try:
                found = await asyncio.to_thread(lambda: read_transcript(open_store(), thread_id))
            except TreadleError as error:
                self._tell(error)
                return None
        return found if found.parts else None
