"""What the first answer needs: it is imported after keys are heard, and before it is waited for."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
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
    """Import them step by step, in the thread that handles keys.

    Two threads that import what makes decoders would make them at a time: msgspec crashes.
    """
    for name in MODULES:
        await asyncio.sleep(PAUSE_S)
        with suppress(ImportError):  # a broken installation is told of by who needs it
            import_module(name)
    gc.freeze()  # see `InlineTerminal.run`
