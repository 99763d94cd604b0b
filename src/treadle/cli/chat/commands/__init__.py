"""The slash commands of the chat, one file per group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.cli.chat.commands.outward import outward_commands
from treadle.cli.chat.commands.telling import telling_commands
from treadle.cli.chat.commands.threads import thread_commands
from treadle.cli.chat.commands.ways import way_commands
from treadle.cli.chat.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.cli.chat.chat import Chat


def all_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """Every slash command, in the order of /help."""
    return (
        *telling_commands(chat),
        *thread_commands(chat),
        *way_commands(chat),
        *outward_commands(chat),
    )
