"""The thread of a case: a fork from before a prompt, or a task begun anew, and the work on it."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.app.evaluation.recorded_turns import RecordedTurn, make_prompt
from treadle.app.evaluation.values import EvaluationRequest
from treadle.app.sessions.host import Host
from treadle.app.sessions.open_threads import (
    OnOutput,
    OpenThread,
    Session,
    TaskRequest,
    begin_task,
    reopen_thread,
)
from treadle.app.sessions.setup import RunChoice, Setup
from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
from treadle.app.stores import CREATOR
from treadle.app.tool_servers.session_servers import SessionServers
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.outputs import TurnFinished
from treadle.store.local_store import LocalStore
from treadle.thread.facts import Fact, PrivacySet, Shared, Tagged


def make_case_setup(
    store: LocalStore,
    request: EvaluationRequest,
    turn: RecordedTurn,
    folder: str,
    tag: str,
    host: Host,
) -> Setup:
    """What a case runs with. Nobody is asked, and what it changes is thrown away: it needs no yes.

    A turn of a conversation has its thread then, in which nothing was said yet. Servers of tools
    are not used: what they do is not thrown away, and it would be done twice.

    Args:
        store: the threads.
        request: what is tried.
        turn: the turn that runs again.
        folder: where its files are.
        tag: what the new thread is tagged with.
        host: the program that calls.

    Raises:
        StoreError: the disk refused.
    """
    model, thread, kind = request.model, None, "default"
    if turn.task is None:
        thread = _fork(store, turn, tag)
    else:
        model, kind = model or turn.model_name, turn.task.task_type
    choice = RunChoice(
        model,
        "plan" if turn.was_plan else "auto",
        task_type=kind,
        instructions=request.instructions,
        left_out=request.left_out,
    )
    setup = make_setup(store, choice, ThreadTarget(folder, thread), host, no_commit=True)
    return replace(setup, servers=SessionServers(setup.servers.listed))


def _fork(store: LocalStore, turn: RecordedTurn, tag: str) -> str:
    """Nobody sees it who may not see the recorded thread now."""
    now = store.load(turn.thread).fold
    first: list[Fact] = [Tagged((tag,))]
    if now.is_private:
        first.append(PrivacySet(is_private=True))
    if now.visibility != "organization":
        first.append(Shared(now.visibility))
    writer = store.fork(turn.thread, turn.version, creator=CREATOR, first=first)
    writer.close()
    return writer.thread_id


def open_case(
    setup: Setup,
    turn: RecordedTurn,
    tag: str,
    home: str | None,
    budget: TokenBudget | None,
    on_output: OnOutput,
) -> OpenThread:
    """The thread of a case, opened; that of a task is made here, as hidden as the recorded one.

    Args:
        setup: of `make_case_setup`.
        turn: the turn.
        tag: what a new thread is tagged with.
        home: a folder of the repository, if it is not where it was.
        budget: what is left for it.
        on_output: gets every output.

    Raises:
        NotConfiguredError: no model was chosen, or it has no key.
        StoreError: the disk refused.
    """
    if turn.task is None:
        return reopen_thread(setup, on_output, budget=budget)
    had = turn.task.budget
    request = TaskRequest(
        turn.task.task,
        turn.task.config.max_steps,
        had if budget is None else budget.restrict_to(had or TokenBudget()),
        turn.task.config.output_schema,
        turn.task.attachments,
        turn.task.seen,
        (tag,),
        home or turn.workspace,
    )
    now = setup.store.load(turn.thread).fold
    is_hidden = now.is_private or now.visibility == "private"
    return begin_task(setup, request, on_output, is_private=is_hidden)


async def work_on_case(opened: OpenThread, turn: RecordedTurn) -> TurnFinished:
    """Say what was said then, or work on the task. Raises `StoreError`."""
    if isinstance(opened, Session):
        message = turn.message
        return await opened.turn(make_prompt(message), message.attachments, message.seen)
    return await opened.resume()


def sum_case_usage(opened: OpenThread) -> Usage:
    """What a case that runs has used up to now."""
    return opened.usage if isinstance(opened, Session) else opened.memory.total_usage
