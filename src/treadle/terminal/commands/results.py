"""Slash commands about what comes of the thread: changes, commits, who may see it, files."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treadle.errors import UsageError
from treadle.terminal.notices import styled_text
from treadle.terminal.ports import DialogChoice, SlashCommand
from treadle.thread.ids import SHORT_LENGTH

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat

_SHARE_OPTIONS: Final = {
    "o": "--visibility organization",
    "l": "--link",
    "y": "--visibility private",
    "p": "--visibility public",
}
_SHARE_CHOICES: Final = (
    DialogChoice("o", "everybody in your organization"),
    DialogChoice("l", "who has a link, which is made now"),
    DialogChoice("y", "you alone, on the server too"),
    DialogChoice("p", "everybody"),
    DialogChoice("n", "nothing changes"),
)


def result_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""

    def command(
        name: str, words: str, run: Callable[[Chat, str], Awaitable[None]], argument: str = ""
    ) -> SlashCommand:
        return SlashCommand(name, words, partial(run, chat), argument)

    return (
        command("diff", "what the agent has changed", _diff, "[V1..V2]"),
        command("commit", "commit what the agent has changed", _commit, "[MESSAGE]"),
        command("pr", "push what was committed, and open a pull request", _pr, "[BASE]"),
        command("share", "say who may see the thread", _share, "[--link]"),
        command("private", "never let the thread leave this machine", _private, "[--off]"),
        command("search", "search all threads", _search, "TEXT"),
        command("export", "write the thread to a file", _export, "[FILE]"),
    )


async def _run_on_thread(chat: Chat, name: str, rest: str, *, lets_go: bool = False) -> None:
    """A command on the thread at hand, with what was typed behind it."""
    thread_id = chat.sessions.thread_id
    if thread_id is None:
        chat.notify("there is no thread yet: it begins with your first prompt", "warn")
        return
    await chat.run_cli_command(name, thread_id, *_split_words(rest), lets_go=lets_go)


def _split_words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{rest!r} cannot be read: {error}", hint="close the quotes") from error


async def _diff(chat: Chat, rest: str) -> None:
    await _run_on_thread(chat, "diff", rest)


async def _share(chat: Chat, rest: str) -> None:
    if not rest and chat.sessions.thread_id is not None:
        question = styled_text("Who may see this thread?", "bold")
        rest = _SHARE_OPTIONS.get(await chat.terminal.choose(question, _SHARE_CHOICES), "")
        if not rest:
            return
    await _run_on_thread(chat, "share", rest, lets_go=True)


async def _private(chat: Chat, rest: str) -> None:
    if chat.sessions.thread_id is None:
        chat.sessions.set_private(is_private="--off" not in rest)
        chat.refresh_status()
        told = "never leaves this machine" if chat.sessions.is_private else "is not private"
        chat.notify(f"the thread that begins with your first prompt {told}")
        return
    await _run_on_thread(chat, "private", rest, lets_go=True)


async def _search(chat: Chat, rest: str) -> None:
    if not rest:
        chat.notify("say /search TEXT", "warn")
        return
    await chat.run_cli_command("search", *_split_words(rest))


async def _export(chat: Chat, rest: str) -> None:
    words = _split_words(rest)
    if not words and chat.sessions.thread_id is not None:
        # Not a file of the repository by itself: it would be committed some day.
        free = await asyncio.to_thread(_find_free_name, chat.sessions.thread_id)
        target = await chat.terminal.enter("write the thread to", free)
        if not target:
            return
        words = [target]
    if len(words) == 1 and not words[0].startswith("-"):
        form = {"json": "json", "jsonl": "jsonl", "html": "html"}.get(
            words[0].rpartition(".")[2], "markdown"
        )
        rest = shlex.join(["--format", form, "-o", words[0]])
    await _run_on_thread(chat, "export", rest)


def _find_free_name(thread_id: str) -> str:
    """A file of the home folder that is not there yet, named after the thread."""
    stem = f"~/treadle-{thread_id[-SHORT_LENGTH:]}"
    names = (f"{stem}{f'-{number}' if number else ''}.md" for number in count())
    with suppress(RuntimeError):  # an account without a home, as in some containers
        return next(name for name in names if not os.path.lexists(Path(name).expanduser()))
    return f"{stem}.md"


async def _commit(chat: Chat, message: str) -> None:
    from treadle.terminal.agent_commit import ask_to_commit

    await ask_to_commit(chat, message)


async def _pr(chat: Chat, base: str) -> None:
    from treadle.terminal.pull_request import ask_for_pull_request

    await ask_for_pull_request(chat, base)
