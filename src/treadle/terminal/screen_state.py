"""What a drawn terminal shows, set from outside at any time, before it runs too."""

from __future__ import annotations

import os
from collections.abc import Sequence

from treadle.terminal.background_color import ThemeChoice
from treadle.terminal.ports import LiveView, QueuedInput, SlashCommand, StatusFields


class ScreenState:
    """Plain state; whoever changes it asks for a drawing."""

    def __init__(
        self,
        view: LiveView | None,
        commands: Sequence[SlashCommand],
        theme: ThemeChoice | None = None,
    ) -> None:
        self.view = view
        self.commands = commands
        self.facts = StatusFields()
        self.queued: Sequence[QueuedInput] = ()
        self.keeps_history = True
        self.filled = ""
        """What stands in the input when it is first drawn."""
        self.theme = theme or ThemeChoice(os.environ)
