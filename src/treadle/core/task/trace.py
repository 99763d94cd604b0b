"""The trace: what every handler did that matters, in order. Append-only."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from treadle.core.append_list import AppendList

DATA_LENGTH_SHOWN: Final = 60
"""Characters of an entry's data that the table shows; the entry itself has all of it."""


class TraceEntry(Struct, frozen=True, gc=False):
    """One line: in which planning step and state, what happened, with what, when (UTC)."""

    step: int
    state: str
    event: str
    data: str
    timestamp: str


class Trace(AppendList[TraceEntry]):
    """All entries, oldest first; cheap to extend, every older value stays valid."""

    __slots__ = ()

    def for_state(self, state: str) -> list[TraceEntry]:
        """The entries of one state."""
        return [entry for entry in self if entry.state == state]

    def to_json(self) -> str:
        """A JSON array of objects, indented."""
        return msgspec.json.format(msgspec.json.encode(tuple(self)), indent=2).decode()

    def to_table(self) -> str:
        """A table for people: step, time, state, event, data; one line for each entry."""
        rows = [("step", "time", "state", "event", "data"), *map(_cells, self)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join(
            "  ".join([*(row[i].ljust(widths[i]) for i in range(4)), row[4]]).rstrip()
            for row in rows
        )

    def print(self) -> None:
        """Print the table to standard output."""
        print(self.to_table())  # noqa: T201  that is what the source document has it for


def _cells(entry: TraceEntry) -> tuple[str, str, str, str, str]:
    data = " ".join(entry.data.split())
    if len(data) > DATA_LENGTH_SHOWN:
        data = data[: DATA_LENGTH_SHOWN - 1] + "…"
    return str(entry.step), entry.timestamp[11:23], entry.state, entry.event, data
