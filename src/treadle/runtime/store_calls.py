"""Calls of a store that may be far away: waited for beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

CALL_THREAD_COUNT: Final = 16
CALLS: Final = ThreadPoolExecutor(CALL_THREAD_COUNT, thread_name_prefix="treadle-store")
"""Where a store over a network is waited for. Not the loop's own pool: a tool may take hours there,
and no other agent may wait for it. Threads are started when there is something to wait for."""


def start_call(work: Callable[[], Result]) -> Future[Result]:
    """Begin it in a thread; what it reads of the caller's context is as it is now."""
    return CALLS.submit(copy_context().run, work)


async def call_store(
    is_slow: bool,
    work: Callable[[], Result],
    undo: Callable[[Result], object] = lambda _: None,
) -> Result:
    """Do what asks a store: `call_beside` if it is slow, else at once."""
    return await call_beside(work, undo) if is_slow else work()


async def call_beside(
    work: Callable[[], Result], undo: Callable[[Result], object] = lambda _: None
) -> Result:
    """Do this in a thread, while the loop goes on.

    Args:
        work: what is done; to its end, also if nobody waits for that any more.
        undo: is given what came of it then, in whatever thread.
    """
    call, loop = start_call(work), asyncio.get_running_loop()
    # `asyncio.wrap_future` and `shield` cost as much as many a call.
    waiter: asyncio.Future[None] = loop.create_future()

    def end_wait() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end_wait)

    call.add_done_callback(wake)
    try:
        await waiter
        return call.result()
    except asyncio.CancelledError:

        def end(done: Future[Result]) -> None:
            if done.exception() is None:
                undo(done.result())

        call.add_done_callback(end)
        raise


async def end_anyway(work: Coroutine[Any, Any, None]) -> None:
    """Do this to its end: who is cancelled meanwhile is cancelled behind it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    finally:
        await asyncio.wait({task})
