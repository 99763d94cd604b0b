"""One turn without a terminal: `treadle -p` and `treadle resume`."""

from __future__ import annotations

import asyncio
import select
import signal
import stat
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from treadle.cli import exits
from treadle.cli.ask import ask, is_somebody_there
from treadle.cli.render import Renderer, make_renderer
from treadle.cli.wiring import ModelChoice, Setup, make_setup
from treadle.core.llm import Usage
from treadle.errors import UsageError
from treadle.runtime.outputs import Notice, TurnFinished, TurnOutcome
from treadle.runtime.session import Session

STDIN_SIZE_MAX: Final = 8 * 1024 * 1024
STDIN_WAIT_S_MAX: Final = 3.0
"""After so long a silence it is told what is waited for."""

_CODE_OF_OUTCOME: Final = {
    TurnOutcome.DONE: exits.DONE,
    TurnOutcome.FAILED: exits.FAILED,
    TurnOutcome.LIMIT: exits.LIMIT,
    TurnOutcome.CANCELLED: exits.INTERRUPTED,
    TurnOutcome.INTERRUPTED: exits.TERMINATED,
}


class RunOptions(Struct, frozen=True):
    """The options of `treadle -p`; those of `resume` are a part of them."""

    prompt: str | None
    latest: bool = False
    thread: str | None = None
    model: str | None = None
    cwd: str | None = None
    approval_mode: str | None = None
    output_format: str = "text"
    max_steps: int | None = None
    private: bool = False
    no_commit: bool = False
    record: str | None = None


def run(options: RunOptions) -> int:
    """Run one turn (or, without a prompt, finish what was left) and give the exit code."""
    if options.latest and options.thread:
        raise UsageError("-c and -r name two threads", hint="give one of them")
    prompt = _with_stdin(options.prompt)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    setup, thread_id = make_setup(
        ModelChoice(options.model, options.approval_mode, options.max_steps, options.record),
        folder=options.cwd,
        no_commit=options.no_commit,
        thread=options.thread,
        latest=options.latest,
    )
    renderer = make_renderer(options.output_format)
    return asyncio.run(_turn(setup, thread_id, prompt, renderer, is_private=options.private))


def _with_stdin(prompt: str | None) -> str | None:
    """The prompt with piped input appended; `-` stands for piped input alone."""
    piped = _piped() if prompt is not None else ""
    if prompt == "-":
        prompt = ""
    if prompt is None or not piped.strip():
        return prompt
    return f"{prompt}\n\n{piped}" if prompt else piped


def _piped() -> str:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        return ""
    mode = Path(f"/dev/fd/{stdin.fileno()}").stat().st_mode
    if stat.S_ISCHR(mode):
        return ""
    if not stat.S_ISREG(mode) and not select.select([stdin], [], [], STDIN_WAIT_S_MAX)[0]:
        click.echo("treadle: waiting for the end of stdin (`< /dev/null` goes without)", err=True)
    data = stdin.buffer.read(STDIN_SIZE_MAX + 1)
    if len(data) > STDIN_SIZE_MAX:
        raise UsageError(
            f"stdin is over {STDIN_SIZE_MAX // 2**20} MiB, which no model reads",
            hint="put it into a file: the agent can look at parts of it",
        )
    return data.decode(errors="replace")


async def _turn(
    setup: Setup, thread_id: str | None, prompt: str | None, renderer: Renderer, *, is_private: bool
) -> int:
    async with AsyncExitStack() as closing:
        closing.push_async_callback(setup.models.aclose)
        asks = ask if is_somebody_there() else None
        session = setup.open(thread_id, renderer.show, is_private=is_private, ask=asks)
        closing.push_async_callback(session.close)
        renderer.begin(session.thread_id, session.model_name, setup.notices)
        signalled = _listen(session)
        said_before = len(session.conversation)
        finished = await (session.resume() if prompt is None else session.turn(prompt))
        if prompt is None and len(session.conversation) == said_before:
            renderer.show(Notice("nothing was left unfinished; this is the last answer"))
            finished = replace(finished, answer=_last_answer(session), turn_usage=Usage())
    renderer.end(finished)
    return signalled.get("code", _code_of(finished))


def _last_answer(session: Session) -> str:
    """For whoever resumes because the process died between the answer's record and its print."""
    said = session.conversation
    return said[-1].content if said and said[-1].role == "assistant" else ""


def _code_of(finished: TurnFinished) -> int:
    if finished.error_kind is not None:
        return exits.code_of_kind(finished.error_kind)
    return _CODE_OF_OUTCOME[finished.outcome]


def _listen(session: Session) -> dict[str, int]:
    """Ctrl-C cancels the turn; being told to end settles the thread so that it can be resumed."""
    loop = asyncio.get_running_loop()
    signalled: dict[str, int] = {}

    def interrupt() -> None:
        signalled["code"] = exits.INTERRUPTED
        session.cancel()

    def end(code: int) -> None:
        signalled["code"] = code
        session.interrupt()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, end, exits.TERMINATED)
    loop.add_signal_handler(signal.SIGHUP, end, exits.HANGUP)
    return signalled
