"""The slash commands of the chat, one file per group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from treadle.terminal.commands.agent_settings import agent_setting_commands
from treadle.terminal.commands.background import ask_before_close, background_commands
from treadle.terminal.commands.information import information_commands
from treadle.terminal.commands.results import result_commands
from treadle.terminal.commands.skills import skill_commands
from treadle.terminal.commands.threads import thread_commands
from treadle.terminal.commands.tool_servers import tool_server_commands
from treadle.terminal.commands.undo import undo_commands
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat

_CLOSING: Final = frozenset(
    {"new", "resume", "fork", "rewind", "undo", "redo", "rename", "share", "private"}
)
"""Those that close the session, to work on the thread or to go to another one."""


def all_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """Every slash command, in the order of /help."""
    commands = (
        *information_commands(chat),
        *thread_commands(chat),
        *undo_commands(chat),
        *agent_setting_commands(chat),
        *skill_commands(chat),
        *tool_server_commands(chat),
        *background_commands(chat),
        *result_commands(chat),
    )
    return tuple(
        replace(one, run=ask_before_close(chat, one.run)) if one.name in _CLOSING else one
        for one in commands
    )
