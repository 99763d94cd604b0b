"""Runs the body of a tool that is not async: in a thread of its own, which may hang."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind, ToolProgress
from treadle.tool_failure import ToolFailure

GRACE_S: Final = 5.0
"""So long a cancelled call in a thread may take to end; then it is left behind. A file tool needs
milliseconds, and its result is worth more than "nobody knows"."""


class ThreadLink(Struct, frozen=True):
    """What the body of a tool in a thread has of its call: whom it tells, and whether it goes on.

    Both may be called from any thread.
    """

    progress: Callable[[ToolProgress], None]
    is_cancelled: Callable[[], bool]


async def run_in_thread(
    name: str, body: Callable[[ThreadLink], Any], progress: Callable[[ToolProgress], None]
) -> Any:
    """Run it in a daemon thread: one that hangs must not keep the program from exiting.

    Args:
        name: of the thread.
        body: what it raises is raised here.
        progress: is told, on the loop of the caller.

    Raises:
        ToolFailure: the call was cancelled, and the body does not end.
    """
    loop, cancelled = asyncio.get_running_loop(), threading.Event()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def post(callback: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed while the thread went on
            loop.call_soon_threadsafe(callback, *args)

    def settle(value: Any, error: BaseException | None = None) -> None:
        if not done.cancelled():
            done.set_result((value, error))

    def work() -> None:
        try:
            link = ThreadLink(lambda report: post(progress, report), cancelled.is_set)
            post(settle, body(link))
        except BaseException as error:  # noqa: BLE001  carried over to the event loop
            post(settle, None, error)

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name=name, daemon=True).start()
    try:
        value, error = await asyncio.shield(done)
    except asyncio.CancelledError:
        # A thread cannot be stopped; most end at once, and then what they did is known.
        cancelled.set()
        await asyncio.wait([done], timeout=GRACE_S)
        if not done.done():
            done.cancel()
            raise ToolFailure(
                ToolErrorKind.CANCELLED, "it does not stop and may still take effect"
            ) from None
        value, error = done.result()
    if error is not None:
        raise error
    return value
