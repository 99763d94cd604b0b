"""What another process tells a test through a FIFO."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


async def read_fifo(path: Path) -> bytes:
    """All that is written by the first who opens it, when they have closed it again.

    No thread waits for them: it could not be ended, and a process that ends joins its threads. So a
    test to which nobody writes would not fail but hang.
    """
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        return await reader.read()
    finally:
        transport.close()
