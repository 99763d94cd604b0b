"""`treadle -p` and `treadle resume`: one turn of a conversation, or what was left unfinished."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from treadle.cli import exit_codes
from treadle.cli.busy_threads import fork_at_rest, go_elsewhere
from treadle.cli.command_setup import make_setup
from treadle.cli.options import budget_of
from treadle.cli.prompt import read_prompt
from treadle.cli.render import make_renderer
from treadle.cli.setup import Choice, Setup
from treadle.cli.threads import Opened, open_conversation, open_recorded
from treadle.cli.unfinished_threads import notice
from treadle.cli.work_loop import drive, resume
from treadle.config.settings import ApprovalMode, NetworkMode, SandboxLevel
from treadle.errors import ThreadBusyError, UsageError
from treadle.runtime.outputs import Notice, TurnFinished
from treadle.runtime.session import Session


class TurnOptions(Struct, frozen=True):
    """The options of `treadle -p`; those of `resume` are a part of them."""

    prompt: str | None
    latest: bool = False
    thread: str | None = None
    fork: bool = False
    model: str | None = None
    cwd: str | None = None
    approval_mode: ApprovalMode | None = None
    output_format: str = "text"
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    time_limit: float | None = None
    private: bool = False
    no_commit: bool = False
    record: str | None = None
    sandbox: SandboxLevel | None = None
    network: NetworkMode | None = None


def run_turn(options: TurnOptions) -> int:
    """Run one turn (or, without a prompt, finish what was left) and give the exit code.

    Where another process has the thread open, a person is asked what to do instead.
    """
    if options.latest and options.thread:
        raise UsageError("-c and -r name two threads", hint="give one of them")
    prompt = None if options.prompt is None else read_prompt(options.prompt)
    if options.fork:
        options = _forked(options)
    while True:
        setup = _make_setup(options)
        try:
            return _run(setup, options, prompt)
        except ThreadBusyError as busy:
            fork = go_elsewhere(setup.store, busy, has_prompt=prompt is not None)
        if fork is None:
            return exit_codes.DONE
        options = replace(options, thread=fork, latest=False)


def _forked(options: TurnOptions) -> TurnOptions:
    """The same, on a fork of the thread that is named."""
    if not (options.latest or options.thread):
        raise UsageError("--fork needs a thread to go on from", hint="name one with -r ID, or -c")
    setup = _make_setup(options)
    assert setup.thread_id is not None
    if setup.is_task:
        _refuse_for_task(setup, options)
    fork = fork_at_rest(setup.store, setup.thread_id)
    return replace(options, thread=fork, latest=False, fork=False)


def _make_setup(options: TurnOptions) -> Setup:
    return make_setup(
        Choice(
            options.model,
            options.approval_mode,
            max_steps=options.max_steps,
            record=options.record,
            sandbox=options.sandbox,
            network=options.network,
        ),
        folder=options.cwd,
        no_commit=options.no_commit,
        thread=options.thread,
        latest=options.latest,
        is_for_fork=options.fork,
    )


def _run(setup: Setup, options: TurnOptions, prompt: str | None) -> int:
    budget = budget_of(options.max_tokens, options.max_cost, options.time_limit)
    if setup.is_task:
        _refuse_for_task(setup, options)
    elif prompt is None:
        _refuse_if_empty(setup)
    if setup.thread is None and (text := notice(setup.store, setup.folder)):
        setup.notices.append(text)
    renderer = make_renderer(options.output_format)
    if setup.thread is None and prompt is not None:
        prompt = asyncio.run(setup.hooks.heard(prompt))

    async def work(opened: Opened) -> TurnFinished:
        if prompt is None:
            return await resume(opened, renderer.show)
        if setup.thread is None:
            return await opened.resume()
        assert isinstance(opened, Session)
        if opened.questions:
            text = "the prompt is kept: it is delivered when the calls that wait are answered"
            renderer.show(Notice(text))
        return await opened.turn(await setup.hooks.heard(prompt))

    def open_thread() -> Opened:
        if setup.thread is None:
            return open_conversation(
                setup, renderer.show, budget=budget, is_private=options.private, prompt=prompt
            )
        return open_recorded(setup, renderer.show, budget=budget)

    return drive(setup, renderer, open_thread, work)


def _refuse_if_empty(setup: Setup) -> None:
    """Its process died before anything was said: there is nothing to finish, and no answer."""
    fold = setup.thread
    if fold is not None and not fold.conversation and not fold.queued and fold.is_idle:
        raise UsageError(
            f"thread {setup.thread_id} is empty: nothing was said in it, so there is no answer",
            hint=f"treadle resume {setup.thread_id} -p PROMPT",
        )


def _refuse_for_task(setup: Setup, options: TurnOptions) -> None:
    """A task has all it needs since it began."""
    thread = setup.thread_id
    if options.prompt is not None:
        raise UsageError(
            f"thread {thread} is a task, which takes no further prompts",
            hint=f"`treadle resume {thread}` goes on with it; `treadle run TASK` begins another",
        )
    if options.max_steps or options.max_tokens or options.max_cost or options.time_limit:
        raise UsageError(
            f"thread {thread} is a task, whose limits are those it was begun with",
            hint="leave them out, or begin another task: `treadle run TASK`",
        )
