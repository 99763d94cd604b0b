"""Streams that tell when a part of a page may be another: lists of threads, a fleet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from treadle.pages.site import HEARTBEAT_S
from treadle.server.context import Principal
from treadle.server.http.services import Services
from treadle.server.refusals import Refusal, make_unauthorized_refusal

PAUSE_S: Final = 1.0
"""Between two words: whoever hears one fetches the page."""

MarkReader = Callable[[Principal, str], Awaitable[str]]
"""What tells one state of the part from another, for a caller; gets what it was before."""


async def follow_region(
    services: Services, caller: Principal, read_mark: MarkReader
) -> AsyncGenerator[None]:
    """Gives a word at once, whenever the part may show something else, and now and then.

    Args:
        services: of the process.
        caller: who listens.
        read_mark: reads what the part depends on.

    Raises:
        Refusal: it is nobody in particular; there are too many streams.
    """
    if caller.user_id is None:
        raise make_unauthorized_refusal()
    seen, told_at, loop = "", 0.0, asyncio.get_running_loop()
    with services.change_listeners.add_listener(caller) as listener:
        while not services.change_listeners.is_stopping and listener.caller is not None:
            listener.wake.clear()
            try:
                found = await read_mark(listener.caller, seen)
            except Refusal:
                found = seen  # the database is away: it comes back
            if found != seen or not told_at or loop.time() - told_at >= HEARTBEAT_S:
                seen, told_at = found, loop.time()
                yield
                await asyncio.sleep(PAUSE_S)
            try:
                async with asyncio.timeout(services.config.poll_time_s):
                    await listener.wake.wait()
            except TimeoutError:
                continue
