"""Which terminal a chat gets: a drawn one where one can draw, else a plain one.

    terminal = make_terminal(folder=folder, history=state / "history", is_plain=options.plain)
    terminal.view = ChatView(terminal, ...)
    terminal.commands = commands
    await terminal.run(keys)

A drawn terminal shows its empty input when it is made, before anything heavy is imported; what is
typed until `run` is kept. View and commands are set afterwards, because they need the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from treadle.terminal.background_color import ThemeChoice
from treadle.terminal.inline_terminal import InlineTerminal
from treadle.terminal.plain_terminal import PlainTerminal
from treadle.terminal.ports import LiveView, SlashCommand

AnyTerminal: TypeAlias = InlineTerminal | PlainTerminal
"""Both have, beyond `Terminal`: `view`, `commands` and `keeps_history`, to be set any time."""


def make_terminal(
    *,
    folder: Path,
    history: Path,
    view: LiveView | None = None,
    commands: Sequence[SlashCommand] = (),
    is_plain: bool = False,
    theme: ThemeChoice | None = None,
) -> AnyTerminal:
    """The terminal of this process.

    Args:
        folder: what `@` completes the files of.
        history: the file that keeps what was entered, across sessions.
        view: what draws the unfinished.
        commands: what `/` completes.
        is_plain: the person wants lines only. It is so anyway where nothing can be drawn: `TERM`
            is `dumb` or unset, or input or output is no terminal.
        theme: the colours of a drawn terminal; by default those of its background.
    """
    if is_plain or not can_draw():
        return PlainTerminal(view=view, commands=commands)
    return InlineTerminal(view=view, commands=commands, folder=folder, history=history, theme=theme)


def can_draw() -> bool:
    """Whether input and output are a terminal that knows how to move its cursor."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
