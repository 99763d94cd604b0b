"""One turn of a conversation, or what was left unfinished in a thread."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.notices import Notify, ignore_notice
from treadle.app.sessions.open_threads import (
    OnOutput,
    OpenThread,
    open_conversation,
    reopen_thread,
)
from treadle.app.sessions.prompt_text import prepare_prompt
from treadle.app.sessions.setup import Setup
from treadle.app.sessions.thread_work import WorkResult, resume_thread, work_on_thread
from treadle.core.budget import TokenBudget
from treadle.core.messages import Attachment, SeenFile
from treadle.errors import UsageError
from treadle.outputs import Notice, TurnFinished
from treadle.runtime.session import Session


class TurnRequest(Struct, frozen=True):
    """What a person wants of a thread.

    Without a `prompt` what was left unfinished is finished. `budget` and `max_steps` bound this
    turn. `is_private` is of a new thread, which then never leaves this machine. `piped` came with
    the prompt from another program: it is said behind it, and `@FILE` means nothing there.
    `attachments` are shown with it; their bytes are kept already. `seen` are the files in it.
    """

    prompt: str | None
    budget: TokenBudget | None = None
    max_steps: int | None = None
    is_private: bool = False
    piped: str = ""
    attachments: tuple[Attachment, ...] = ()
    seen: tuple[SeenFile, ...] = ()


def check_turn(setup: Setup, request: TurnRequest) -> None:
    """Refuse what the thread cannot do, before anything is recorded.

    Raises:
        UsageError: it is a task and was given a prompt or limits; or it is empty, and there is no
            prompt.
    """
    if setup.is_task:
        _check_task(setup, request)
    elif request.prompt is None:
        _check_not_empty(setup)


def open_turn(setup: Setup, request: TurnRequest, on_output: OnOutput) -> OpenThread:
    """The thread of the setup, or a new one that begins with the prompt.

    Raises:
        TreadleError: as `open_conversation` and `reopen_thread`.
    """
    if setup.thread is not None:
        return reopen_thread(setup, on_output, budget=request.budget)
    return open_conversation(
        setup,
        on_output,
        budget=request.budget,
        is_private=request.is_private,
        prompt=request.prompt,
        attachments=request.attachments,
        seen=request.seen,
    )


async def run_turn(
    setup: Setup, request: TurnRequest, on_output: OnOutput, *, notify: Notify = ignore_notice
) -> WorkResult:
    """Run one turn, or finish what was left, and close the thread: what `treadle -p` does.

    A cancellation of the caller is one of the turn; the thread can be resumed.

    Args:
        setup: which thread, with which settings: of `make_setup`.
        request: the prompt and its limits.
        on_output: gets every output, in order.
        notify: gets a line for a person about the sync in the background.

    Raises:
        UsageError: the thread cannot do what is wanted; nothing was recorded.
        ThreadBusyError: another process has the thread open.
        TreadleError: a hook refused the prompt, no model has a key, or the disk refused.
    """
    check_turn(setup, request)
    if setup.thread is None and request.prompt is not None:
        request = await prepare_request(setup, request)
    return await work_on_thread(
        setup,
        lambda: open_turn(setup, request, on_output),
        lambda opened: finish_turn(setup, opened, request, on_output),
        notify=notify,
    )


async def prepare_request(setup: Setup, request: TurnRequest) -> TurnRequest:
    """The request with a prompt as it is said; see `prepare_prompt`. Raises as that."""
    assert request.prompt is not None
    said = await prepare_prompt(setup, request.prompt, request.piped)
    shown = (*request.attachments, *said.attachments)
    seen = (*request.seen, *said.seen)
    return replace(request, prompt=said.text, piped="", attachments=shown, seen=seen)


async def finish_turn(
    setup: Setup, opened: OpenThread, request: TurnRequest, on_notice: Callable[[Notice], None]
) -> TurnFinished:
    """Answer the prompt, or finish what was left.

    Raises:
        TreadleError: a hook refused the prompt, or the disk refused.
    """
    if request.prompt is None:
        return await resume_thread(opened, on_notice)
    if setup.thread is None:
        return await opened.resume()
    assert isinstance(opened, Session)
    if opened.questions:
        text = "the prompt is kept: it is delivered when the calls that wait are answered"
        on_notice(Notice(text))
    request = await prepare_request(setup, request)
    assert request.prompt is not None
    return await opened.turn(request.prompt, request.attachments, request.seen)


def _check_not_empty(setup: Setup) -> None:
    """Its process died before anything was said: there is nothing to finish, and no answer."""
    fold = setup.thread
    if fold is not None and not fold.conversation and not fold.queued and fold.is_idle:
        raise UsageError(
            f"thread {setup.thread_id} is empty: nothing was said in it, so there is no answer",
            hint=f"treadle resume {setup.thread_id} -p PROMPT",
        )


def _check_task(setup: Setup, request: TurnRequest) -> None:
    """A task has all it needs since it began."""
    thread = setup.thread_id
    if request.prompt is not None:
        raise UsageError(
            f"thread {thread} is a task, which takes no further prompts",
            hint=f"`treadle resume {thread}` goes on with it; `treadle run TASK` begins another",
        )
    if request.max_steps or request.budget:
        raise UsageError(
            f"thread {thread} is a task, whose limits are those it was begun with",
            hint="leave them out, or begin another task: `treadle run TASK`",
        )
