"""A turn costs what it cost at the beginning, however much was said before."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from bench.turns import PROMPT, Model, Work, make_thread

from treadle.core.config import AgentConfig
from treadle.runtime.session import Session
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SHORT, LONG = 20, 4_000
TURNS = 6


async def count_calls(root: Path, length: int) -> int:
    """How often Python enters a function, or a generator goes on, in the cheapest turn.

    The dearest one writes a snapshot of all that was said, which is done every so many turns.
    """
    store = LocalStore(Places(root, root, root))
    session = Session(make_thread(store, length), Model(), Work(), AgentConfig("bench"))
    await session.turn(PROMPT)
    counts = []
    for _ in range(TURNS):
        count = 0

        def note(_: FrameType, event: str, __: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            await session.turn(PROMPT)
        finally:
            sys.setprofile(None)
        counts.append(count)
    await session.close()
    return min(counts)


async def test_a_turn_takes_as_many_steps_after_thousands_of_messages(tmp_path: Path) -> None:
    short = await count_calls(tmp_path / "short", SHORT)
    long = await count_calls(tmp_path / "long", LONG)
    assert long < 1.2 * short, (short, long)
