"""What a person does about a thread that another process has open: watch it, or go on beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from treadle import exit_codes
from treadle.app.stores import Store
from treadle.app.threads.forks import can_fork, fork_at_rest
from treadle.cli.notices import print_line
from treadle.cli.question_dialog import is_interactive
from treadle.cli.thread_watch import watch_thread
from treadle.errors import ThreadBusyError
from treadle.terminal.keyboard_modes import asking_keyboard
from treadle.thread.safe_text import sanitize_text

_WATCH: Final = "watch"
_FORK: Final = "fork"
_QUIT: Final = "quit"

_CHOICE_TEXTS: Final = {
    _WATCH: "[w]atch it",
    _FORK: "[f]ork it and go on there",
    _QUIT: "[q]uit",
}


def handle_busy_thread(store: Store, busy: ThreadBusyError, *, has_prompt: bool) -> str | None:
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
    if not is_interactive():
        raise busy
    choices = [_WATCH, *([_FORK] if has_prompt and can_fork(store, busy.thread_id) else []), _QUIT]
    print_line(f"treadle: {sanitize_text(busy.message)}", err=True)
    choice = _ask_for_choice(choices)
    if choice == _QUIT:
        raise busy
    if choice == _WATCH:
        watch_thread(store, busy.thread_id)
        return None
    return fork_and_report(store, busy.thread_id)


def run_or_watch(store: Store, work: Callable[[], int]) -> int:
    """Work on a thread; where another process has it open, a person may watch it instead.

    Args:
        store: where the thread is.
        work: opens it, works on it, and gives the exit code.

    Raises:
        ThreadBusyError: as `handle_busy_thread`.
    """
    try:
        return work()
    except ThreadBusyError as busy:
        handle_busy_thread(store, busy, has_prompt=False)
        return exit_codes.DONE


def _ask_for_choice(choices: list[str]) -> str:
    words = {word: choice for choice in choices for word in (choice, choice[0])}
    question = ", ".join(_CHOICE_TEXTS[choice] for choice in choices)
    while True:
        with asking_keyboard():
            answer = click.prompt(question, err=True).strip().lower()
        if answer in words:
            return words[answer]


def fork_and_report(store: Store, thread_id: str) -> str:
    """A fork of a thread at its last rest; it is told of on standard error.

    Raises:
        StoreError: the thread cannot be read, or the disk refused.
    """
    fork = fork_at_rest(store, thread_id)
    base = fork.base
    print_line(f"{fork.thread} goes on from version {base.version} of {base.thread}", err=True)
    return fork.thread
