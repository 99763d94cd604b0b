"""The slash command about skills and commands that people have in files."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from treadle.terminal.notices import styled_text, two_column_table
from treadle.terminal.ports import SlashCommand

if TYPE_CHECKING:
    from treadle.app.sessions.prompt_files import PromptFileList
    from treadle.terminal.chat import Chat


def skill_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand(
            "skills",
            "skills and commands from files; trust the repository's",
            partial(_skills, chat),
            "[trust]",
        ),
        SlashCommand("init", "have the agent write AGENTS.md", partial(_init, chat), "[improve]"),
    )


async def _init(chat: Chat, rest: str) -> None:
    from treadle.app.sessions.agents_file import COMMAND_NAME, has_agents_file

    await chat.sessions.ensure_prepared()
    if chat.sessions.mode == "plan":
        chat.notify("in mode plan the agent writes no files; /mode chooses another one", "warn")
    elif not rest and await asyncio.to_thread(has_agents_file, chat.sessions.folder):
        told = "AGENTS.md is there: /init improve has the agent check it and mend it"
        chat.notify(told, "warn")
    else:
        chat.turns.add_prompt(f"/{COMMAND_NAME} {rest}".strip(), steers=False)


async def _skills(chat: Chat, rest: str) -> None:
    from treadle.app.sessions.prompt_files import list_prompts

    if rest not in ("", "trust"):
        chat.notify("say /skills, or /skills trust", "warn")
        return
    await chat.sessions.ensure_prepared()
    setup, folder = chat.sessions.setup, chat.sessions.folder
    if setup is None:
        return
    if rest == "trust":
        await chat.run_cli_command("config", "trust")
    # As they are now: a person may just have written one.
    listed = await asyncio.to_thread(list_prompts, folder, setup.store.places)
    chat.set_prompts(listed)
    _show_prompts(chat, listed, folder)


def _show_prompts(chat: Chat, listed: PromptFileList, folder: str) -> None:
    from treadle.app.sessions.prompt_files import describe_prompt_use, format_path

    own = {one.name for one in chat.slash_commands.own}
    rows = [
        (
            f"/{one.prompt.name} {one.prompt.argument_hint}".rstrip(),
            "\n".join(
                (
                    one.prompt.description,
                    ", ".join((one.prompt.kind, *describe_prompt_use(one, own))),
                    format_path(one.path, folder),
                )
            ),
        )
        for one in listed.prompts
    ]
    refused = [f"{one.path} is not used: {one.reason}" for one in listed.refused]
    if rows:
        chat.terminal.commit(two_column_table(rows))
    else:
        words = "no skills in .agents/skills or ~/.agents/skills, no commands in .treadle/commands"
        chat.terminal.commit(styled_text(words, "dim"))
    for line in refused:
        chat.notify(line, "warn")
