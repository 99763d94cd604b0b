"""Works on a thread until it waits, is over or is told to stop: the same for every command."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final, TypeAlias

import click
from msgspec.structs import replace

from treadle.cli import exit_codes
from treadle.cli.background import BackgroundSync
from treadle.cli.json_output import escape_json
from treadle.cli.render import Renderer, printable
from treadle.cli.setup import Setup
from treadle.cli.threads import Opened
from treadle.core.conversation import Conversation
from treadle.core.llm import Usage
from treadle.errors import TreadleError
from treadle.runtime.engine import AgentEngine
from treadle.runtime.outputs import Notice, TurnFinished, TurnOutcome
from treadle.runtime.session import Session
from treadle.store.index.lookup import Index

Work: TypeAlias = Callable[[Opened], Awaitable[TurnFinished]]

_CODE_OF_OUTCOME: Final = {
    TurnOutcome.DONE: exit_codes.DONE,
    TurnOutcome.FAILED: exit_codes.FAILED,
    TurnOutcome.LIMIT: exit_codes.LIMIT,
    TurnOutcome.APPROVAL: exit_codes.APPROVAL,
    TurnOutcome.CANCELLED: exit_codes.INTERRUPTED,
    TurnOutcome.INTERRUPTED: exit_codes.TERMINATED,
}


def drive(
    setup: Setup,
    renderer: Renderer,
    open_thread: Callable[[], Opened],
    work: Work,
    *,
    wants_trace: bool = False,
) -> int:
    """Open a thread, work on it, close it, show how it ended; the exit code.

    Args:
        setup: whose models are closed at the end, and whose notices are shown.
        renderer: shows it; what the thread tells must reach it already.
        open_thread: opens it.
        work: what is done.
        wants_trace: whether the trace of a task is printed to stderr at the end.
    """
    return asyncio.run(_drive(setup, renderer, open_thread, work, wants_trace=wants_trace))


async def _drive(
    setup: Setup,
    renderer: Renderer,
    open_thread: Callable[[], Opened],
    work: Work,
    *,
    wants_trace: bool,
) -> int:
    background = BackgroundSync(setup)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(background.close)  # when the last record is written
        closing.push_async_callback(setup.models.aclose)
        opened = open_thread()
        closing.push_async_callback(opened.close)
        background.begin(opened)
        renderer.begin(opened.thread_id, opened.model_name, setup.notices)
        setup.hooks.tell = lambda text: renderer.show(Notice(text))
        signalled = _listen(opened)
        try:
            finished = _as_document(opened, await work(opened))
            await setup.hooks.after_turn(finished)
        except click.Abort:  # nobody answers any more; what was asked about waits on
            click.echo(f"\nto go on: treadle resume {opened.thread_id}", err=True)
            raise
        questions = opened.questions
        is_over = isinstance(opened, AgentEngine) and opened.is_waiting
    if wants_trace and isinstance(opened, AgentEngine):
        click.echo(printable(opened.trace.to_table()), err=True)
    renderer.end(finished, questions, is_over=is_over)
    tell_index(setup, opened.thread_id)
    return signalled.get("code", _code_of(finished))


def tell_index(setup: Setup, thread_id: str) -> None:
    """Take the thread into the index while it is small news; whoever reads next would do it too."""
    index = Index(setup.store)
    with suppress(TreadleError, OSError):
        index.update(thread_id)
    index.close()


async def resume(opened: Opened, say: Callable[[Notice], None]) -> TurnFinished:
    """Finish what was left; where nothing was, the last answer, which may not have been seen."""
    nothing_left, said = opened.is_waiting, len(opened.conversation)
    finished = await opened.resume()
    if not nothing_left or len(opened.conversation) != said:
        return finished
    if isinstance(opened, AgentEngine):
        say(Notice("the task has ended already; this is how"))
        return replace(finished, turn_usage=Usage())
    say(Notice("nothing was left unfinished; this is the last answer"))
    return replace(finished, answer=_last_answer(opened), turn_usage=Usage())


def _last_answer(session: Session) -> str:
    """For whoever resumes because the process died between the answer's record and its print."""
    said = session.conversation
    assert isinstance(said, Conversation)
    last = said.in_view[-1] if said.in_view else None
    return last.content if last is not None and last.role == "assistant" else ""


def _as_document(opened: Opened, finished: TurnFinished) -> TurnFinished:
    """The JSON document alone, where one was asked for: models put a fence around it by habit."""
    has_form = isinstance(opened, AgentEngine) and opened.memory.config.output_schema is not None
    if not has_form or finished.outcome is not TurnOutcome.DONE:
        return finished
    assert isinstance(opened, AgentEngine)
    return replace(finished, answer=escape_json(json.dumps(opened.output, ensure_ascii=False)))


def _code_of(finished: TurnFinished) -> int:
    if finished.error_kind is not None:
        return exit_codes.code_of_kind(finished.error_kind)
    return _CODE_OF_OUTCOME[finished.outcome]


def _listen(opened: Opened) -> dict[str, int]:
    """Ctrl-C cancels a turn; being told to end settles the thread so that it can be resumed.

    A task that is stopped can always be resumed.
    """
    loop = asyncio.get_running_loop()
    signalled: dict[str, int] = {}

    def interrupt() -> None:
        signalled["code"] = exit_codes.INTERRUPTED
        if isinstance(opened, Session):
            opened.cancel()
        else:
            opened.interrupt()

    def end(code: int) -> None:
        signalled["code"] = code
        opened.interrupt()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, end, exit_codes.TERMINATED)
    loop.add_signal_handler(signal.SIGHUP, end, exit_codes.HANGUP)
    return signalled
