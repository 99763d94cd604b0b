"""What a person does about a thread that another process has open: watch it, or go on beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from treadle.app.sessions.providers import CREATOR
from treadle.cli import exit_codes
from treadle.cli.ask import is_somebody_there
from treadle.cli.thread_watch import watch
from treadle.errors import ThreadBusyError
from treadle.store.local import LocalStore
from treadle.thread.fold import CHAT
from treadle.thread.safe_text import legible

_WATCH: Final = "watch"
_FORK: Final = "fork"
_QUIT: Final = "quit"

_WORDS: Final = {
    _WATCH: "[w]atch it",
    _FORK: "[f]ork it and go on there",
    _QUIT: "[q]uit",
}


def go_elsewhere(store: LocalStore, busy: ThreadBusyError, *, has_prompt: bool) -> str | None:
    """Ask what to do about a busy thread, and do it.

    Args:
        store: where the thread is.
        busy: how it was found.
        has_prompt: whether there is something to go on with.

    Returns:
        The fork to go on with; `None` if the thread was watched, to its end.

    Raises:
        ThreadBusyError: `busy` itself: nobody is there to be asked, or that is their choice.
        click.Abort: nobody answers any more.
        StoreError: the thread cannot be read.
    """
    if not is_somebody_there():
        raise busy
    choices = [_WATCH, *([_FORK] if has_prompt and _can_fork(store, busy.thread_id) else []), _QUIT]
    click.echo(f"treadle: {legible(busy.message)}", err=True)
    choice = _ask(choices)
    if choice == _QUIT:
        raise busy
    if choice == _WATCH:
        watch(store, busy.thread_id)
        return None
    return fork_at_rest(store, busy.thread_id)


def or_watch(store: LocalStore, work: Callable[[], int]) -> int:
    """Work on a thread; where another process has it open, a person may watch it instead.

    Args:
        store: where the thread is.
        work: opens it, works on it, and gives the exit code.

    Raises:
        ThreadBusyError: as `go_elsewhere`.
    """
    try:
        return work()
    except ThreadBusyError as busy:
        go_elsewhere(store, busy, has_prompt=False)
        return exit_codes.DONE


def _can_fork(store: LocalStore, thread_id: str) -> bool:
    """A task takes no further prompts, nor does its fork."""
    line = store.summary(thread_id)
    return line is not None and line.machine == CHAT


def _ask(choices: list[str]) -> str:
    words = {word: choice for choice in choices for word in (choice, choice[0])}
    question = ", ".join(_WORDS[choice] for choice in choices)
    while True:
        answer = click.prompt(question, err=True).strip().lower()
        if answer in words:
            return words[answer]


def fork_at_rest(store: LocalStore, thread_id: str) -> str:
    """A thread that goes on from the newest version at which nothing was open.

    What a process is in the middle of is its own to finish: it would be done twice otherwise, in
    the same folder.

    Raises:
        StoreError: the thread cannot be read, or the disk refused.
    """
    fork, told = begin_fork(store, thread_id)
    click.echo(told, err=True)
    return fork


def begin_fork(store: LocalStore, thread_id: str) -> tuple[str, str]:
    """As `fork_at_rest`; the fork, and a line that tells of it."""
    writer = store.fork(thread_id, last_rest(store, thread_id), creator=CREATOR)
    try:
        base = writer.fold.header.base
        assert base is not None
        told = f"{writer.thread_id} goes on from version {base.version} of {base.thread}"
        return writer.thread_id, told
    finally:
        writer.close()


def last_rest(store: LocalStore, thread_id: str) -> int | None:
    """The newest version at which nothing was open; `None` if there never was one.

    Raises:
        StoreError: the thread cannot be read.
    """
    rests = store.rests(thread_id)
    return rests[-1].version if rests else None
