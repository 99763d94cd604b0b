"""Tips about what nobody expects of an agent, each told when it fits, until it has been used."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from treadle import outputs
from treadle.config.plain_file import read_plain_file
from treadle.core.tool_families import FILE_CHANGES, names_of
from treadle.errors import StoreError
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.paths import Places

Feature: TypeAlias = Literal["rewind", "resume", "blame"]

TIPS: Final[Mapping[Feature, str]] = {
    "rewind": "Esc Esc goes back to an earlier prompt, and takes the files back too",
    "blame": "`treadle blame FILE:LINE` tells the prompt behind a line",
    "resume": "kill this at any moment: `treadle -c` goes on where it was",
}
"""By the feature, in the order in which they are told if several fit."""

SESSIONS_MAX: Final = 3
"""Who was told of something in so many sessions and has not used it does not want to hear more."""

CALLS_MIN: Final = 3
"""A turn with so many calls is one that it would be bad to lose."""

_FILE_WRITERS: Final = names_of(*FILE_CHANGES)
_FILE_SIZE_MAX: Final = 64 * 1024


class TipHistory(Struct, frozen=True, omit_defaults=True):
    """The features that were used, and in how many sessions each tip was told."""

    used: frozenset[str] = frozenset()
    told: Mapping[str, int] = {}


class TipChooser:
    """The tips of one session.

    Args:
        places: the folders of the user, where it is kept what they know.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._told: set[Feature] = set()
        self._fitting: set[Feature] = set()
        self._call_count = 0

    def observe(self, output: outputs.Output) -> None:
        """Something happened, for which a tip may fit."""
        if isinstance(output, outputs.TurnStarted):
            self._call_count = 0
            self._fitting.clear()
        elif isinstance(output, outputs.ToolFinished):
            self._call_count += 1
            if output.tool_name in _FILE_WRITERS:
                self._fitting.add("rewind")
            if self._call_count >= CALLS_MIN:
                self._fitting.add("resume")
        elif isinstance(output, outputs.HookFinished) and output.action_taken:
            self._fitting |= {"rewind", "blame"}

    def choose(self) -> str:
        """The tip that fits what has happened since the last one; empty if none does."""
        fitting, self._fitting = self._fitting - self._told, set()
        if not fitting:
            return ""
        known = read_history(self._places)
        for feature, words in TIPS.items():
            count = known.told.get(feature, 0)
            if feature in fitting and feature not in known.used and count < SESSIONS_MAX:
                self._told.add(feature)
                told = {**known.told, feature: count + 1}
                _write_history(self._places, TipHistory(known.used, told))
                return words
        return ""


def mark_used(places: Places, feature: str) -> None:
    """The person has used it, and is told no more of it. Nothing is made for who has no threads."""
    known = read_history(places)
    if feature not in known.used and places.state.is_dir():
        _write_history(places, TipHistory(known.used | {feature}, known.told))


def read_history(places: Places) -> TipHistory:
    """What is kept; nothing if that cannot be read."""
    try:
        return msgspec.json.decode(
            read_plain_file(_file_of(places), _FILE_SIZE_MAX).data, type=TipHistory
        )
    except (OSError, ValueError, RecursionError):
        return TipHistory()


def _write_history(places: Places, known: TipHistory) -> None:
    with suppress(StoreError):  # a tip is told once more
        replace_file(PosixDisk(), str(_file_of(places)), msgspec.json.encode(known))


def _file_of(places: Places) -> Path:
    return places.state / "tips.json"
