"""What a drawn terminal shows, set from outside at any time, before it runs too."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.terminal.ports import Facts, Queued, SlashCommand, View


class Scene:
    """Plain state; whoever changes it asks for a drawing."""

    def __init__(self, view: View | None, commands: Sequence[SlashCommand]) -> None:
        self.view = view
        self.commands = commands
        self.facts = Facts()
        self.queued: Sequence[Queued] = ()
        self.keeps_history = True
        self.filled = ""
        """What stands in the input when it is first drawn."""
