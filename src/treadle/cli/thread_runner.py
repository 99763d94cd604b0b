"""Works on a thread in a terminal: shows it, hears signals, ends with an exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

import click

from treadle import exit_codes
from treadle.app.sessions.open_threads import OpenThread
from treadle.app.sessions.setup import Setup
from treadle.app.sessions.thread_work import ThreadWork, cancel_turn, work_on_thread
from treadle.cli.notices import print_line
from treadle.cli.renderers import Renderer, make_printable
from treadle.outputs import Notice, TurnFinished, TurnOutcome

_EXIT_CODES: Final = {
    TurnOutcome.DONE: exit_codes.DONE,
    TurnOutcome.FAILED: exit_codes.FAILED,
    TurnOutcome.LIMIT: exit_codes.LIMIT,
    TurnOutcome.APPROVAL: exit_codes.APPROVAL,
    TurnOutcome.CANCELLED: exit_codes.INTERRUPTED,
    TurnOutcome.INTERRUPTED: exit_codes.TERMINATED,
}


def run_thread(
    setup: Setup,
    renderer: Renderer,
    open_thread: Callable[[], OpenThread],
    work: ThreadWork,
    *,
    wants_trace: bool = False,
) -> int:
    """Open a thread, work on it, close it, show how it ended; the exit code.

    Args:
        setup: whose models are closed at the end, and whose notices are shown.
        renderer: shows it; what the thread puts out must reach it already.
        open_thread: opens it.
        work: what is done.
        wants_trace: whether the trace of a task is printed to stderr at the end.
    """
    signalled: dict[str, int] = {}

    def begin(opened: OpenThread) -> None:
        renderer.begin(opened.thread_id, opened.driver.model_name, setup.notices)
        setup.hooks.tell = lambda text: renderer.show(Notice(text))
        _install_signal_handlers(opened, signalled)

    async def watched(opened: OpenThread) -> TurnFinished:
        try:
            return await work(opened)
        except click.Abort:  # nobody answers any more; what was asked about waits on
            print_line(f"\nto go on: treadle resume {opened.thread_id}", err=True)
            raise

    result = asyncio.run(work_on_thread(setup, open_thread, watched, on_open=begin, notify=_warn))
    if wants_trace and result.trace:
        click.echo(make_printable(result.trace), err=True)
    renderer.end(result.turn, result.questions, is_over=result.is_over)
    return signalled.get("code", _code_of(result.turn))


def _code_of(finished: TurnFinished) -> int:
    if finished.error_kind is not None:
        return exit_codes.code_of_kind(finished.error_kind)
    return _EXIT_CODES[finished.outcome]


def _install_signal_handlers(opened: OpenThread, signalled: dict[str, int]) -> None:
    """Ctrl-C cancels a turn; being told to end settles the thread so that it can be resumed.

    A task that is stopped can always be resumed.
    """
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        signalled["code"] = exit_codes.INTERRUPTED
        cancel_turn(opened)

    def end(code: int) -> None:
        signalled["code"] = code
        opened.driver.interrupt()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, end, exit_codes.TERMINATED)
    loop.add_signal_handler(signal.SIGHUP, end, exit_codes.HANGUP)


def _warn(line: str) -> None:
    print_line(f"treadle: {make_printable(line)}", err=True)
