"""Slash commands that only tell something, and the one that ends the chat."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from treadle.terminal.notices import styled_text, two_column_table
from treadle.terminal.pickers import filter_rows
from treadle.terminal.ports import ListRow, SlashCommand

_LINES_AROUND_HELP: Final = 6
"""Its own empty lines, the line that was typed, the input and the status."""

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


_SUM_TEXT = "sums over all requests: each sends the conversation again, most of it from the cache"


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
            "usage",
            "what all threads have used, per day and model",
            partial(_usage, chat),
            "[--since TIME]",
        ),
        SlashCommand(
            "plan", "the steps that the agent has told", partial(_plan, chat), waits_for_turn=False
        ),
        SlashCommand(
            "quit",
            "end the chat",
            partial(_quit, chat),
            waits_for_turn=False,
            other_names=("exit",),
        ),
    )


async def _help(chat: Chat, _: str) -> None:
    from treadle.terminal.early_prompt import screen_height
    from treadle.terminal.keys import INPUT_PREFIXES, KEYS

    commands = [
        ListRow(f"/{one.name} ", f"/{', /'.join(one.names)} {one.argument}".strip(), one.words)
        for one in chat.slash_commands.all
    ]
    marks = [ListRow("", *row) for row in INPUT_PREFIXES]
    keys = [ListRow("", key.shown, key.words) for key in KEYS]
    rows = [*commands, *marks, *keys]
    width = max(1, chat.terminal.width - max(len(row.text) for row in commands) - 2)
    height = sum(1 + len(row.detail) // width for row in rows) + _LINES_AROUND_HELP
    if chat.terminal.is_plain or height <= screen_height():
        parts = [two_column_table((r.text, r.detail) for r in part) for part in (commands, marks)]
        told = two_column_table((row.text, row.detail) for row in keys)
        chat.terminal.commit(parts[0], styled_text(""), parts[1], styled_text(""), told)
        return
    title = "What can be typed here (type to search it)"
    if picked := await chat.terminal.pick(title, lambda text: filter_rows(rows, text)):
        chat.terminal.fill(picked)


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
        rows.append(("context", _describe_context(*session.context_tokens)))
        rows.append(("all requests", _usage_text(chat)))
    if sessions.thread_id is not None and sessions.setup is not None:
        rows.append(("sync", await asyncio.to_thread(_sync_text, chat)))
    chat.terminal.commit(two_column_table(rows))


def _describe_context(used: int, window: int) -> str:
    if not used:
        return ""
    share = f" of {window:,} ({used / window:.0%})" if window else ""
    return f"{used:,} tokens{share}, when the model last answered"


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
    chat.terminal.commit(two_column_table(rows), styled_text(_SUM_TEXT, "dim"))


async def _usage(chat: Chat, rest: str) -> None:
    await chat.run_cli_command("usage", *rest.split())


async def _plan(chat: Chat, _: str) -> None:
    if (block := chat.view.plan.block()) is None:
        chat.notify("the agent has told no plan")
    else:
        chat.terminal.commit(block)


async def _quit(chat: Chat, _: str) -> None:
    chat.leave()
