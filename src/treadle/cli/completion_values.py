"""Completes the ids of threads on a shell's command line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from treadle.cli.render import printable
from treadle.errors import TreadleError
from treadle.store.index.filters import Filters
from treadle.store.index.lookup import Index
from treadle.store.local import LocalStore
from treadle.store.paths import Places
from treadle.thread.ids import PREFIX

SHOWN_MAX: Final = 50
"""Ids that are offered; who has more threads types a little of the id, or searches."""


class ThreadIds(click.ParamType[str]):
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
        prefix = incomplete if incomplete.startswith(PREFIX) else PREFIX + incomplete
        if not incomplete or PREFIX.startswith(incomplete):
            prefix = PREFIX
        places = Places.find()
        if not (places.data / "threads").is_dir():
            return []
        try:
            index = Index(LocalStore(places))
            try:
                found = index.threads(Filters(is_trashed=self._in_trash))
            finally:
                index.close()
        except (TreadleError, OSError):
            return []
        here = str(Path.cwd())
        fitting = [line for line in found if line.id.startswith(prefix)]
        fitting.sort(key=lambda line: line.workspace_root != here)
        return [
            CompletionItem(line.id, help=printable(line.title or "").partition("\n")[0])
            for line in fitting[:SHOWN_MAX]
        ]


def complete_ids(command: click.Command) -> None:
    """Have the arguments and options of a command that take a thread complete one."""
    for param in command.params:
        metavar = getattr(param, "metavar", None) or ""
        if metavar.strip("[]").startswith("ID"):
            param.type = ThreadIds(in_trash=command.name == "restore")
