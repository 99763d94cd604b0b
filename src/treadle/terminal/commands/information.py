"""Slash commands that only tell something, and the one that ends the chat."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from treadle.terminal.notices import styled_text, two_column_table
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


def information_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand("help", "what can be typed here", partial(_help, chat), waits_for_turn=False),
        SlashCommand(
            "status", "how this thread stands", partial(_status, chat), waits_for_turn=False
        ),
        SlashCommand(
            "cost", "what this thread has cost", partial(_cost, chat), waits_for_turn=False
        ),
        SlashCommand(
            "plan", "the steps that the agent has told", partial(_plan, chat), waits_for_turn=False
        ),
        SlashCommand("quit", "end the chat", partial(_quit, chat), waits_for_turn=False),
    )


async def _help(chat: Chat, _: str) -> None:
    from treadle.terminal.keys import INPUT_PREFIXES, KEYS

    commands = [
        (f"/{one.name} {one.argument}".strip(), one.words) for one in chat.slash_commands.all
    ]
    keys = [(key.shown, key.words) for key in KEYS]
    chat.terminal.commit(
        two_column_table(commands),
        styled_text(""),
        two_column_table(INPUT_PREFIXES),
        styled_text(""),
        two_column_table(keys),
    )


async def _status(chat: Chat, _: str) -> None:
    sessions, status = chat.sessions, chat.status
    session = sessions.session
    branch = status.branch + " (with changes)" * status.is_dirty if status else ""
    rows = [
        ("thread", sessions.thread_id or "none yet: it begins with your first prompt"),
        ("folder", sessions.folder),
        ("branch", branch),
        ("model", sessions.model),
        ("approval mode", sessions.mode or "the policy of the program that began the thread"),
        ("sandbox", sessions.sandbox),
        ("private", "yes: it never leaves this machine" if sessions.is_private else ""),
    ]
    if session is not None:
        share = session.context_share
        rows.append(("context", "" if share is None else f"{share:.0%} of the model's window"))
        rows.append(("used", _usage_text(chat)))
    if sessions.thread_id is not None and sessions.setup is not None:
        rows.append(("sync", await asyncio.to_thread(_sync_text, chat)))
    chat.terminal.commit(two_column_table(rows))


def _sync_text(chat: Chat) -> str:
    from treadle.app.sync.sync_status import describe_sync

    setup, thread_id = chat.sessions.setup, chat.sessions.thread_id
    assert setup is not None
    assert thread_id is not None
    return describe_sync(setup.store, setup.store.load(thread_id).fold)


def _usage_text(chat: Chat) -> str:
    from treadle.models.prices.usage_text import describe_usage

    assert chat.sessions.session is not None
    return describe_usage(chat.sessions.session.usage)


async def _cost(chat: Chat, _: str) -> None:
    from treadle.models.prices.usage_text import describe_usage

    session = chat.sessions.session
    if session is None:
        chat.notify("nothing was asked of a model yet")
        return
    rows = [
        ("the last turn", describe_usage(session.turn_usage)),
        ("this thread", describe_usage(session.usage)),
    ]
    chat.terminal.commit(two_column_table(rows))


async def _plan(chat: Chat, _: str) -> None:
    if (block := chat.view.plan.block()) is None:
        chat.notify("the agent has told no plan")
    else:
        chat.terminal.commit(block)


async def _quit(chat: Chat, _: str) -> None:
    chat.leave()
