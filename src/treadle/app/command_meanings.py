"""What other agents and programs call a command, and the one of ours that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from treadle.models.catalog import suggest_name


class Meaning(Struct, frozen=True):
    """What some words mean: the slash command, or the command of the command line, that does it.

    Either may be missing. Where neither fits, `note` says what is done instead.
    """

    words: str
    slash: str = ""
    command: str = ""
    note: str = ""


MEANINGS: Final = (
    Meaning("q bye close logoff end", "quit"),
    Meaning("quit exit", note="Ctrl+D ends the chat"),
    Meaning("reset restart clean wipe begin", "new"),
    Meaning("new clear chat start", note="`treadle` alone begins a new thread"),
    Meaning("continue reopen", "resume", "resume"),
    Meaning("sessions session threads history chats switch load open ls", "resume", "list"),
    Meaning("branch duplicate clone split", "fork", "fork"),
    Meaning("checkpoint checkpoints restore back rollback timeline snapshot", "rewind", "rewind"),
    Meaning("undo revert", "undo", "rewind"),
    Meaning("redo unrevert", "redo", "rewind"),
    Meaning("compress summarize summarise condense shrink smol", "compact", "compact"),
    Meaning("title name", "rename", "rename"),
    Meaning("models provider providers llm think thinking effort reasoning", "model", "models"),
    Meaning("auth connect setup signin sign-in key keys api-key apikey", "login", "login"),
    Meaning("signout sign-out", command="logout"),
    Meaning("modes yolo architect act chat-mode auto-accept approval-mode", "mode"),
    Meaning("approvals approval allow allowed allowed-tools trust", "permissions", "approve"),
    Meaning("stats tokens token usage spend billing credits price", "cost"),
    Meaning("cost", note="`treadle show ID --usage` tells it of a thread"),
    Meaning("about info whoami context statusline", "status", "list"),
    Meaning("status", command="list"),
    Meaning("todo todos steps", "plan"),
    Meaning("ps jobs bashes bg background processes", "tasks"),
    Meaning("tail follow logs", command="watch"),
    Meaning("memory rules instructions agents.md remember", "init"),
    Meaning("commands prompts custom-commands agents", "skills"),
    Meaning("changes review status-diff", "diff", "diff"),
    Meaning("mr pull-request pullrequest merge-request create-pr pr_comments", "pr", "pr"),
    Meaning("publish link invite", "share", "share"),
    Meaning("incognito privacy privacy-settings secret", "private", "private"),
    Meaning("find grep", "search", "search"),
    Meaning("save dump copy transcript", "export", "export"),
    Meaning("cat view read", command="show"),
    Meaning("who annotate why", command="blame"),
    Meaning("delete remove rm", command="trash"),
    Meaning("purge prune", command="gc"),
    Meaning("exec task do", command="run"),
    Meaning("upload push pull", command="sync"),
    Meaning("doctor bug debug feedback report issue", command="doctor"),
    Meaning("config settings preferences options set theme themes hooks vim", command="config"),
    Meaning("shortcuts hotkeys keybindings man ?", "help", "help"),
    Meaning("extensions extension plugins plugin servers", "mcp", "mcp"),
    Meaning("mention file files add drop image paste img", note="@FILE names a file in a prompt"),
    Meaning("shell sh bash cmd terminal", note="! at the beginning runs a command of yours"),
    Meaning("add-dir cd cwd dir", note="`treadle -C FOLDER` works there"),
    Meaning("worktree worktrees", note="`treadle --worktree NAME` works in one"),
    Meaning("version update upgrade release-notes", note="`treadle --version` tells the version"),
    Meaning("stop cancel abort interrupt", note="Esc ends the turn"),
    Meaning("init", note="/init in the chat has the agent write AGENTS.md"),
)
"""No word stands twice. What a face has itself is never looked up."""


def suggest_slash_command(name: str, known: Iterable[str]) -> str:
    """What is meant by a `/NAME` that is none: `; did you mean /undo?`, a note, or nothing.

    Args:
        name: without the slash.
        known: the names that there are, without the slash.
    """
    names = [*known]
    return _suggest(
        name,
        lambda row: f"did you mean /{row.slash}?" if row.slash in names else "",
        lambda row: f"in a shell, `treadle {row.command}` does that" if row.command else "",
    ) or suggest_name(f"/{name}", [f"/{one}" for one in names])


def suggest_command(name: str, known: Iterable[str]) -> str:
    """What is meant by a `treadle NAME` that is none, as `suggest_slash_command`."""
    names = [*known]
    return _suggest(
        name,
        lambda row: f"did you mean {row.command}?" if row.command in names else "",
        lambda row: f"in the chat, /{row.slash} does that" if row.slash else "",
    ) or suggest_name(name, names)


def _suggest(name: str, *ways: Callable[[Meaning], str]) -> str:
    word = name.lower()
    named = [row for row in MEANINGS if word in row.words.split()]
    row = next(iter(named or [row for row in MEANINGS if word in (row.slash, row.command)]), None)
    if row is None:
        return ""
    told = next(filter(None, (say(row) for say in ways)), row.note)
    return f"; {told}" if told else ""
