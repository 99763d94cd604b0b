"""`treadle -p` and `treadle resume`: one turn of a conversation, or what was left unfinished."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from treadle import exit_codes
from treadle.app.sessions.setup import RunChoice, Setup
from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
from treadle.app.sessions.turns import (
    TurnRequest,
    check_turn,
    finish_turn,
    open_turn,
    prepare_request,
)
from treadle.app.threads.unfinished_threads import make_pending_notice
from treadle.cli.busy_threads import fork_and_report, handle_busy_thread
from treadle.cli.host import make_host, notify, open_command_store
from treadle.cli.options import make_budget
from treadle.cli.prompt import read_prompt
from treadle.cli.renderers import make_renderer
from treadle.cli.thread_runner import run_thread
from treadle.config.settings import ApprovalMode, NetworkMode, SandboxLevel
from treadle.errors import ThreadBusyError, UsageError


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
    quiet: bool = False


def run_turn(options: TurnOptions) -> int:
    """Run one turn (or, without a prompt, finish what was left) and give the exit code.

    Where another process has the thread open, a person is asked what to do instead.
    """
    if options.latest and options.thread:
        raise UsageError("-c and -r name two threads", hint="give one of them")
    prompt, piped = (None, "") if options.prompt is None else read_prompt(options.prompt)
    request = TurnRequest(
        prompt,
        make_budget(options.max_tokens, options.max_cost, options.time_limit),
        options.max_steps,
        options.private,
        piped,
    )
    if options.fork:
        options = _fork_first(options, request)
    while True:
        setup = _make_setup(options)
        try:
            return _run_once(setup, options, request)
        except ThreadBusyError as busy:
            fork = handle_busy_thread(setup.store, busy, has_prompt=prompt is not None)
        if fork is None:
            return exit_codes.DONE
        options = replace(options, thread=fork, latest=False)


def _fork_first(options: TurnOptions, request: TurnRequest) -> TurnOptions:
    """The same, on a fork of the thread that is named."""
    if not (options.latest or options.thread):
        raise UsageError("--fork needs a thread to go on from", hint="name one with -r ID, or -c")
    setup = _make_setup(options)
    assert setup.thread_id is not None
    if setup.is_task:
        check_turn(setup, request)
    fork = fork_and_report(setup.store, setup.thread_id)
    return replace(options, thread=fork, latest=False, fork=False)


def _make_setup(options: TurnOptions) -> Setup:
    def find_folder() -> str:
        return setup.workspace()

    setup = make_setup(
        open_command_store(),
        RunChoice(
            options.model,
            options.approval_mode,
            max_steps=options.max_steps,
            record=options.record,
            sandbox=options.sandbox,
            network=options.network,
        ),
        ThreadTarget(options.cwd, options.thread, options.latest, options.fork),
        make_host(find_folder),
        no_commit=options.no_commit,
    )
    return setup


def _run_once(setup: Setup, options: TurnOptions, request: TurnRequest) -> int:
    check_turn(setup, request)
    if setup.thread is None and (text := make_pending_notice(setup.store, setup.folder, notify)):
        setup.notices.append(text)
    renderer = make_renderer(options.output_format, is_quiet=options.quiet)
    if setup.thread is None and request.prompt is not None:
        request = asyncio.run(prepare_request(setup, request))
    return run_thread(
        setup,
        renderer,
        lambda: open_turn(setup, request, renderer.show),
        lambda opened: finish_turn(setup, opened, request, renderer.show),
    )
