"""Work on one thread, from opening it to closing it: the same for every use case."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.json_text import escape_json
from treadle.app.notices import Notify, ignore_notice
from treadle.app.sessions.background_sync import BackgroundSync
from treadle.app.sessions.open_threads import OpenThread
from treadle.app.sessions.request_taker import RequestTaker
from treadle.app.sessions.setup import Setup, close_setup
from treadle.core.approval import Question
from treadle.core.conversation import Conversation
from treadle.core.llm import Usage
from treadle.errors import TreadleError
from treadle.outputs import Notice, TurnFinished, TurnOutcome
from treadle.runtime.engine import AgentEngine
from treadle.runtime.session import Session
from treadle.store.index.lookup import Index

ThreadWork: TypeAlias = Callable[[OpenThread], Awaitable[TurnFinished]]


class WorkResult(Struct, frozen=True):
    """How work on a thread ended.

    `questions` still wait for a person. `is_over` says that it is a task that has ended, for ever.
    `trace` is the table of what a task did; empty for a conversation.
    """

    turn: TurnFinished
    questions: tuple[Question, ...] = ()
    is_over: bool = False
    trace: str = ""


async def work_on_thread(
    setup: Setup,
    open_thread: Callable[[], OpenThread],
    work: ThreadWork,
    *,
    on_open: Callable[[OpenThread], None] = lambda _: None,
    notify: Notify = ignore_notice,
) -> WorkResult:
    """Open a thread, work on it, close it. What it records is sent meanwhile, if it is to be sent.

    Args:
        setup: whose models and servers of tools are closed at the end.
        open_thread: opens it; what the thread puts out must go somewhere already.
        work: what is done.
        on_open: called between the two.
        notify: takes what a person should know of the sending.

    Raises:
        TreadleError: as `open_thread` and `work`.
    """
    background = BackgroundSync(setup, notify)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(background.close)  # when the last record is written
        closing.push_async_callback(close_setup, setup)
        opened = open_thread()
        closing.push_async_callback(opened.close)
        background.begin(opened)
        on_open(opened)
        taker = background.taker
        assert taker is not None
        await taker.take_waiting()
        turn = await _follow_requests(opened, taker, await work(opened))
        turn = _format_json_answer(opened, turn)
        await setup.hooks.after_turn(turn)
        questions = opened.questions
        if turn.outcome is TurnOutcome.APPROVAL:  # nobody was there to be asked
            for question in questions:
                await setup.hooks.approval_needed(question)
        is_over = isinstance(opened, AgentEngine) and opened.is_waiting
    trace = opened.trace.to_table() if isinstance(opened, AgentEngine) else ""
    update_index(setup, opened.thread_id)
    return WorkResult(turn, tuple(questions), is_over, trace)


async def _follow_requests(
    opened: OpenThread, taker: RequestTaker, turn: TurnFinished
) -> TurnFinished:
    """Go on with what was said on a page at the end of a turn: nobody else would hear it."""
    while turn.outcome not in (TurnOutcome.CANCELLED, TurnOutcome.INTERRUPTED):
        await taker.take_waiting()
        version = opened.driver.journal.fold.version
        if not taker.needs_turn:
            break
        turn = await opened.resume()
        if turn.version == version:
            break
    return turn


def cancel_turn(opened: OpenThread) -> None:
    """Stop what is under way: the turn of a conversation is over, a task can be resumed."""
    if isinstance(opened, Session):
        opened.cancel()
    else:
        opened.driver.interrupt()


def update_index(setup: Setup, thread_id: str) -> None:
    """Add the thread to the index while it is small news; whoever reads next would do it too."""
    index = Index(setup.store)
    with suppress(TreadleError, OSError):
        index.update(thread_id)
    index.close()


async def finish_task(opened: OpenThread) -> TurnFinished:
    """Work until the task is over, waits for a person, or a limit stops it."""
    return await opened.resume()


async def resume_thread(opened: OpenThread, on_notice: Callable[[Notice], None]) -> TurnFinished:
    """Finish what was left; where nothing was, the last answer, which may not have been seen."""
    nothing_left, length = opened.is_waiting, len(opened.conversation)
    finished = await opened.resume()
    if not nothing_left or len(opened.conversation) != length:
        return finished
    if isinstance(opened, AgentEngine):
        on_notice(Notice("the task has ended already; this is how"))
        return replace(finished, turn_usage=Usage())
    on_notice(Notice("nothing was left unfinished; this is the last answer"))
    return replace(finished, answer=_last_answer(opened), turn_usage=Usage())


def _last_answer(session: Session) -> str:
    """For whoever resumes because the process died between the answer's record and its print."""
    conversation = session.conversation
    assert isinstance(conversation, Conversation)
    last = conversation.in_view[-1] if conversation.in_view else None
    return last.content if last is not None and last.role == "assistant" else ""


def _format_json_answer(opened: OpenThread, finished: TurnFinished) -> TurnFinished:
    """The JSON document alone, where one was asked for: models put a fence around it by habit."""
    if not isinstance(opened, AgentEngine) or finished.outcome is not TurnOutcome.DONE:
        return finished
    if (mode := opened.output_mode) == "text":
        return finished
    answer = escape_json(json.dumps(opened.output, ensure_ascii=False))
    return replace(finished, answer=answer, output_mode=mode)
