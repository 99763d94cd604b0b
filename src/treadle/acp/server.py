"""Serves one editor from the start of the process to its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from acp.agent.connection import AgentSideConnection

from treadle import exit_codes
from treadle.acp.agent import TreadleAgent
from treadle.acp.stdio_transport import StdioTransport
from treadle.app.editors.held_thread import EditorChoice
from treadle.app.stores import Store

_SIGNALS: Final = {
    signal.SIGINT: exit_codes.INTERRUPTED,
    signal.SIGTERM: exit_codes.TERMINATED,
    signal.SIGHUP: exit_codes.HANGUP,
}


def serve(store: Store, choice: EditorChoice, redact: Callable[[str], str]) -> int:
    """Serve the editor at the other end of standard input and output; the exit code.

    It ends when the editor closes its end, or with a signal: then every thread rests, what was
    under way stays unfinished, and `treadle resume` or loading it goes on with it. From here on
    nothing but messages reaches standard output: what else writes there writes to standard error.

    Args:
        store: the threads of this user.
        choice: what was chosen for all sessions.
        redact: takes secrets out of what is said of an error.
    """
    sink = os.dup(1)
    os.dup2(2, 1)
    return asyncio.run(_serve(sink, store, choice, redact))


async def _serve(
    sink: int, store: Store, choice: EditorChoice, redact: Callable[[str], str]
) -> int:
    transport = StdioTransport(0, sink)
    agent = TreadleAgent(store, choice, redact)
    code = exit_codes.DONE

    def stop(ending: int) -> None:
        nonlocal code
        code = ending
        transport.stop_reading()

    loop = asyncio.get_running_loop()
    for number, ending in _SIGNALS.items():
        loop.add_signal_handler(number, stop, ending)
    handler: Any = agent
    connection = AgentSideConnection(
        handler, transport, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await agent.close()
        with suppress(ConnectionError):
            await connection.close()
    return code
