"""The session of the lab as a program: `python -m lab.program FOLDER NOTES`."""

from __future__ import annotations

import asyncio
import sys

from lab.script import lab_store, play, small_snapshots
from lab.world import World
from treadle.store.disk import PosixDisk


def main(folder: str, notes: str) -> None:
    """Play it there; what the outside is told goes to `notes`."""
    with small_snapshots():
        asyncio.run(play(lab_store(PosixDisk(), folder), World((), notes, f"{folder}/effects")))


if __name__ == "__main__":
    main(*sys.argv[1:])
