"""The slash command about servers of tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from treadle.terminal.notices import two_column_table
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.app.tool_servers.session_servers import ServerReport
    from treadle.terminal.chat import Chat


def tool_server_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand(
            "mcp",
            "the servers of tools, and what each offers",
            partial(_mcp, chat),
            "[NAME]",
            waits_for_turn=False,
        ),
    )


async def _mcp(chat: Chat, rest: str) -> None:
    await chat.sessions.ensure_prepared()
    setup = chat.sessions.setup
    reports = () if setup is None else setup.servers.report()
    if not reports:
        chat.notify("the settings name no server of tools; in a shell, `treadle mcp add` adds one")
        return
    found = next((one for one in reports if one.server.name == rest), None)
    if rest and found is None:
        known = ", ".join(one.server.name for one in reports)
        chat.notify(f"no server is called {rest}; there are: {known}", "warn")
    elif found is None:
        rows = [(one.server.name, f"{one.words}\n{_place(chat, one)}") for one in reports]
        chat.terminal.commit(two_column_table(rows))
    else:
        assert setup is not None
        await setup.servers.start(rest)  # who asks what it offers waits for it
        found = next(one for one in setup.servers.report() if one.server.name == rest)
        rows = [
            (one.name, f"{one.effect.value}, {one.risk.name.lower()} risk\n{one.description}")
            for one in found.tools
        ]
        rows += [(f"/{one.title} {one.hint}", one.description) for one in found.prompts]
        chat.terminal.commit(two_column_table(rows or [(rest, found.words)]))


def _place(chat: Chat, one: ServerReport) -> str:
    """Where it is, without what an argument of it may hold."""
    setup = chat.sessions.setup
    assert setup is not None
    return setup.models.redact(one.server.setting.place)
