"""Slash commands about what comes of the thread: changes, commits, who may see it, files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treadle.errors import UsageError
from treadle.terminal.notices import words
from treadle.terminal.ports import Choice, SlashCommand

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat


_ID_LENGTH: Final = 8
"""Characters of a thread's id in the name of a file."""

_WHO: Final = {
    "o": "--visibility organization",
    "l": "--link",
    "y": "--visibility private",
    "p": "--visibility public",
}
_SEEING: Final = (
    Choice("o", "everybody in your organization"),
    Choice("l", "who has a link, which is made now"),
    Choice("y", "you alone, on the server too"),
    Choice("p", "everybody"),
    Choice("n", "nothing changes"),
)


def outward_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""

    def command(
        name: str, words: str, run: Callable[[Chat, str], Awaitable[None]], argument: str = ""
    ) -> SlashCommand:
        return SlashCommand(name, words, partial(run, chat), argument)

    return (
        command("diff", "what the agent has changed", _diff, "[V1..V2]"),
        command("commit", "commit what the agent has changed", _commit, "[MESSAGE]"),
        command("share", "say who may see the thread", _share, "[--link]"),
        command("private", "never let the thread leave this machine", _private, "[--off]"),
        command("search", "search all threads", _search, "TEXT"),
        command("export", "write the thread to a file", _export, "[FILE]"),
    )


async def _run(chat: Chat, name: str, rest: str, *, lets_go: bool = False) -> None:
    """A command on the thread at hand, with what was typed behind it."""
    thread_id = chat.sessions.thread_id
    if thread_id is None:
        chat.tell("there is no thread yet: it begins with your first prompt", "warn")
        return
    await chat.outside(name, thread_id, *_split(rest), lets_go=lets_go)


def _split(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{rest!r} cannot be read: {error}", hint="close the quotes") from error


async def _diff(chat: Chat, rest: str) -> None:
    await _run(chat, "diff", rest)


async def _share(chat: Chat, rest: str) -> None:
    if not rest and chat.sessions.thread_id is not None:
        question = words("Who may see this thread?", "bold")
        rest = _WHO.get(await chat.terminal.choose(question, _SEEING), "")
        if not rest:
            return
    await _run(chat, "share", rest, lets_go=True)


async def _private(chat: Chat, rest: str) -> None:
    if chat.sessions.thread_id is None:
        chat.sessions.make_private(is_private="--off" not in rest)
        chat.show_facts()
        told = "never leaves this machine" if chat.sessions.is_private else "is not private"
        chat.tell(f"the thread that begins with your first prompt {told}")
        return
    await _run(chat, "private", rest, lets_go=True)


async def _search(chat: Chat, rest: str) -> None:
    if not rest:
        chat.tell("say /search TEXT", "warn")
        return
    await chat.outside("search", *_split(rest))


async def _export(chat: Chat, rest: str) -> None:
    words = _split(rest)
    if not words and chat.sessions.thread_id is not None:
        words = [_free_name(Path(chat.sessions.folder or "."), chat.sessions.thread_id)]
    if len(words) == 1 and not words[0].startswith("-"):
        form = {"json": "json", "jsonl": "jsonl"}.get(words[0].rpartition(".")[2], "markdown")
        rest = shlex.join(["--format", form, "-o", words[0]])
    await _run(chat, "export", rest)


def _free_name(folder: Path, thread_id: str) -> str:
    """A file of this folder that is not there yet, named after the thread."""
    stem = f"treadle-{thread_id[:_ID_LENGTH]}"
    names = (f"{stem}{f'-{number}' if number else ''}.md" for number in count())
    return str(next(folder / name for name in names if not os.path.lexists(folder / name)))


async def _commit(chat: Chat, message: str) -> None:
    from treadle.terminal.agent_commit import commit

    await commit(chat, message)
