"""Completes the ids of threads on a shell's command line."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from treadle.app.stores import open_store
from treadle.app.threads.thread_lists import complete_id
from treadle.thread.ids import PREFIX, ShortIds
from treadle.thread.safe_text import sanitize_text


class ThreadIdType(click.ParamType[str]):
    """The id of a thread: taken as it is, completed from the threads of this machine.

    Args:
        in_trash: whether those in the trash are meant.
    """

    name = "id"

    def __init__(self, *, in_trash: bool = False) -> None:
        self._in_trash = in_trash

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Those that begin so, those of this folder first; none where threads cannot be read."""
        found = complete_id(open_store(), incomplete, in_trash=self._in_trash)
        return [
            CompletionItem(
                _complete(line.id, incomplete),
                help=sanitize_text(line.title or "").partition("\n")[0],
            )
            for line in found
        ]


def _complete(thread_id: str, incomplete: str) -> str:
    """The whole id, unless the short one is what was begun."""
    is_whole = thread_id.removeprefix(PREFIX).startswith(incomplete.removeprefix(PREFIX))
    return thread_id if is_whole else ShortIds().shorten(thread_id)


def enable_id_completion(command: click.Command) -> None:
    """Have the arguments and options of a command that take a thread complete one."""
    for param in command.params:
        metavar = getattr(param, "metavar", None) or ""
        if metavar.strip("[]").startswith("ID"):
            param.type = ThreadIdType(in_trash=command.name == "restore")
