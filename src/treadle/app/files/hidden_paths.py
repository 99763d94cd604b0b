"""What of a folder is hidden from tools, told to all else that reads files for an agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from treadle.store.paths import Places


def treadle_folders(places: Places) -> tuple[str, ...]:
    """The folders of this program, which no tool sees."""
    return (str(places.data), str(places.state), str(places.config))


def make_hidden_check(folder: str | Path, places: Places) -> Callable[[str | Path], bool]:
    """Whether a path leads to a hidden place of a folder.

    What a person lets tools see counts as hidden here all the same: settings change, and what is
    committed or kept as a state of the files must not depend on when it is looked at.
    """
    from treadle.sandbox.box import Sandbox
    from treadle.sandbox.policy import Policy

    return Sandbox(Policy(hidden=treadle_folders(places)), folder).rules.hides
