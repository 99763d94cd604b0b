"""Shows the thread at hand, and where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from treadle.app.files.file_names import find_first_read
from treadle.terminal.notices import shorten_ids, styled_text

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


async def show_thread(chat: Chat) -> None:
    """Open the thread at hand, and show what was said in it."""
    session = await chat.open()
    show_header(chat)
    if session is not None:
        chat.terminal.commit(*chat.view.history_blocks(session.conversation))


WELCOME: Final = "Treadle, a coding agent that loses nothing: kill it, go on, take it all back."
TRY: Final = "try: what does this project do? · fix the failing test"
"""What works in most projects; behind it a file that there is. Each line fits 80 columns."""


def show_welcome(chat: Chat) -> None:
    """What this is, where it works and how, and what could be said first."""
    if chat.options.quiet:
        show_header(chat)
        return
    chat.terminal.commit(styled_text(WELCOME, "bold"))
    show_header(chat)
    name = find_first_read(Path(chat.sessions.folder))
    third = f"explain @{name}" if name else "explain the last commit"
    chat.terminal.commit(styled_text(f"{TRY} · {third}", "dim"))


def show_header(chat: Chat) -> None:
    """Which thread this is, where, and how the agent works in it."""
    sessions = chat.sessions
    thread = shorten_ids(sessions.setup, sessions.thread_id or "a new thread")
    parts = [sessions.model, sessions.mode and f"mode {sessions.mode}", sessions.sandbox]
    chat.terminal.commit(f"{thread} in {sessions.folder}", ", ".join(filter(None, parts)))
    chat.refresh_status()
