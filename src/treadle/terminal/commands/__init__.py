"""The slash commands of the chat, one file per group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.terminal.commands.outward import outward_commands
from treadle.terminal.commands.telling import telling_commands
from treadle.terminal.commands.threads import thread_commands
from treadle.terminal.commands.ways import way_commands
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


def all_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """Every slash command, in the order of /help."""
    return (
        *telling_commands(chat),
        *thread_commands(chat),
        *way_commands(chat),
        *outward_commands(chat),
    )
