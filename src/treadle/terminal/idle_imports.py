"""What the first prompt and its answer need, imported while a person types: they would wait for it.

The chat itself imports none of it, so that keys are heard early.
"""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from typing import Final

MODULES: Final = (
    "markdown_it",
    "pygments.lexers",
    "rich.markdown",
    "treadle.terminal.blocks.markdown",
    "treadle.terminal.blocks.notices",
    "treadle.app.sessions.open_threads",
)
"""In steps of some milliseconds each: a key that is typed waits for one of them at most."""

PAUSE_S: Final = 0.25


async def import_while_idle() -> None:
    """Import them, a step at a time.

    It is done by the thread that handles keys: two threads that import what makes decoders would
    make them at a time, which msgspec does not stand.
    """
    for name in MODULES:
        await asyncio.sleep(PAUSE_S)
        import_module(name)
    gc.freeze()  # see `InlineTerminal.run`
