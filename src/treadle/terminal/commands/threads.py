"""Slash commands that choose a thread, or a place in it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from treadle.terminal.notices import styled_text
from treadle.terminal.pickers import find_conversation_rows, find_prompts, preview_conversation
from treadle.terminal.ports import DialogChoice, SlashCommand

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


def thread_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand(
            "new",
            "begin another thread; this one can be resumed",
            partial(_new, chat),
            other_names=("clear",),
        ),
        SlashCommand(
            "resume", "go on with another thread", partial(resume, chat), "[ID]", is_switch=True
        ),
        SlashCommand("fork", "go on in a fork, this thread stays as it is", partial(_fork, chat)),
        SlashCommand("rewind", "go back to an earlier prompt", partial(_rewind, chat)),
        SlashCommand(
            "compact",
            "have a summary stand for what was said so far",
            partial(_compact, chat),
            "[FOCUS]",
        ),
        SlashCommand("rename", "give the thread a title", partial(_rename, chat), "TITLE"),
    )


async def _new(chat: Chat, _: str) -> None:
    left = chat.sessions.thread_id
    await chat.switch(None)
    told = f"; /resume {left} goes on with the one before" if left else ""
    chat.notify(f"a new thread begins with your next prompt{told}")


async def resume(chat: Chat, thread: str) -> None:
    """Go on with the thread that begins like this, or with one that is picked."""
    from treadle.app.stores import open_store
    from treadle.terminal.thread_view import show_thread

    if thread:
        picked: str | None = await asyncio.to_thread(open_store().resolve, thread)
        # Before the one at hand is left: there may be none like that.
    else:
        search = partial(find_conversation_rows, chat.sessions.folder or ".")
        title = "Go on with which thread?"
        picked = await chat.terminal.pick(title, search, preview_conversation)
    if picked is None:
        return
    await chat.switch(picked)
    await show_thread(chat)
    await chat.resume()


async def _fork(chat: Chat, _: str) -> None:
    if chat.sessions.thread_id is None:
        chat.notify("there is no thread yet that could be forked", "warn")
        return
    await chat.fork(chat.sessions.thread_id)
    await chat.open()


async def _rewind(chat: Chat, _: str) -> None:
    thread_id, setup = chat.sessions.thread_id, chat.sessions.setup
    prompts = None
    if thread_id is not None and setup is not None:
        prompts = await asyncio.to_thread(find_prompts, setup.store, thread_id)
    if thread_id is None or not prompts:
        chat.notify("there is nothing to go back to yet", "warn")
        return
    picked = await chat.terminal.pick("Back to before which prompt?", prompts.search)
    if picked is None:
        return
    past = prompts[picked]
    is_own = past.thread == thread_id
    # Files go back within a thread: what another one saved is not this one's to undo.
    files = DialogChoice("f", "the conversation, and the files the agent changed since")
    choices = [
        DialogChoice("c", "the conversation only"),
        *([files] if is_own else []),
        DialogChoice("n", "nothing"),
    ]
    key = await chat.terminal.choose(styled_text("What goes back?", "bold"), choices)
    if key not in ("c", "f"):
        return
    more = ["--files"] * (key == "f") if is_own else ["--of", past.thread]
    version = str(max(1, past.turn.version - 1))
    code = await chat.run_cli_command(
        "rewind", thread_id, "--version", version, *more, lets_go=True
    )
    if code == 0:
        chat.terminal.fill(past.turn.prompt)


async def _compact(chat: Chat, focus: str) -> None:
    if chat.sessions.thread_id is None:
        chat.notify("there is nothing to compact yet", "warn")
        return
    await chat.compact(focus)


async def _rename(chat: Chat, title: str) -> None:
    thread_id = chat.sessions.thread_id
    if thread_id is None or not title:
        chat.notify("say /rename TITLE once a thread has begun", "warn")
        return
    await chat.run_cli_command("rename", "--", thread_id, title, lets_go=True)
