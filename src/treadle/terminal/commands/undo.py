"""Slash commands that take the last turn back with its files, and bring it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from treadle.errors import UsageError
from treadle.terminal.pickers import to_row_text
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.app.files.rewind import RewindResult
    from treadle.app.files.undo import UndoneTurn
    from treadle.app.stores import Store
    from treadle.terminal.chat import Chat

T = TypeVar("T")

NAMES_COUNT_MAX: Final = 20
"""Files that are named of those that were put back."""


def undo_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    undone: list[UndoneTurn] = []
    return (
        SlashCommand("undo", "take back the last turn and its files", partial(_undo, chat, undone)),
        SlashCommand("redo", "have again what `/undo` took back", partial(_redo, chat, undone)),
    )


async def _undo(chat: Chat, undone: list[UndoneTurn], _: str) -> None:
    from treadle.app.files.undo import undo_turn

    thread_id = chat.sessions.thread_id
    if thread_id is None:
        chat.notify("there is nothing to take back yet", "warn")
        return
    done = await _work_on_files(chat, lambda store: undo_turn(store, thread_id, notify=chat.notify))
    if done is not None:
        undone.append(done)
        _tell(chat, f"taken back: {to_row_text(done.prompt)}", done.result)
        chat.notify("/redo brings it back; Up has the prompt again")


async def _redo(chat: Chat, undone: list[UndoneTurn], _: str) -> None:
    from treadle.app.files.undo import redo_turn

    if not undone or undone[-1].result.thread != chat.sessions.thread_id:
        chat.notify("there is nothing that /undo has taken back here", "warn")
        return
    last = undone[-1]
    done = await _work_on_files(chat, lambda store: redo_turn(store, last, notify=chat.notify))
    if done is not None:
        undone.pop()
        _tell(chat, f"there again: {to_row_text(last.prompt)}", done)


async def _work_on_files(chat: Chat, work: Callable[[Store], Awaitable[T]]) -> T | None:
    """Let go of the thread, do it, and open the thread again; `None` if it was refused.

    Raises:
        TreadleError: the disk or the store refused; the thread is open again.
    """
    from treadle.app.stores import open_store

    had_session = chat.sessions.session is not None
    await chat.sessions.close()
    done = None
    try:
        done = await work(open_store("treadle"))
    except UsageError as error:
        chat.notify(error.message, "bad")
        chat.notify("/rewind can take back the conversation alone")
    finally:
        if had_session:
            await chat.open()
    return done


def _tell(chat: Chat, headline: str, result: RewindResult) -> None:
    from treadle.app.files.name_text import format_name, format_names

    chat.notify(headline, "good")
    for one in result.files[:NAMES_COUNT_MAX]:
        chat.notify(f"  {one.what}: {format_name(one.path)}")
    if (more := len(result.files) - NAMES_COUNT_MAX) > 0:
        chat.notify(f"  and {more} more")
    if not result.files:
        chat.notify("  no file had to be put back")
    if result.left:
        left = format_names(result.left)
        chat.notify(f"  left as they are (ignored, not kept, or in the way): {left}", "warn")
