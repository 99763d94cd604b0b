"""Shows the thread at hand, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.terminal.notices import styled_text

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


async def show_thread(chat: Chat) -> None:
    """Open the thread at hand, and show what was said in it."""
    session = await chat.open()
    show_header(chat)
    if session is not None:
        chat.terminal.commit(*chat.view.history_blocks(session.conversation, session.thread_id))


WELCOME: Final = "Treadle, a coding agent that loses nothing: kill it, go on, take it all back."
TRY: Final = "try: what does this project do? · fix the failing test · explain @README.md"
"""Three things that work in most projects; each line fits 80 columns."""


def show_welcome(chat: Chat) -> None:
    """What this is, where it works and how, and what could be said first."""
    if chat.options.quiet:
        show_header(chat)
        return
    chat.terminal.commit(styled_text(WELCOME, "bold"))
    show_header(chat)
    chat.terminal.commit(styled_text(TRY, "dim"))


def show_header(chat: Chat) -> None:
    """Which thread this is, where, and how the agent works in it."""
    sessions = chat.sessions
    thread = sessions.thread_id or "a new thread"
    parts = [sessions.model, sessions.mode and f"mode {sessions.mode}", sessions.sandbox]
    chat.terminal.commit(f"{thread} in {sessions.folder}", ", ".join(filter(None, parts)))
    chat.refresh_status()
