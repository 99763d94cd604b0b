"""`treadle` in a terminal: the chat from its first drawing to its last words.

The input is on the screen before anything heavy is imported: models, store and index are found
beside that. What must be known before, whether a model is configured at all, is asked of the
settings alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from treadle import exit_codes
from treadle.errors import MissingModelError, UsageError
from treadle.terminal.background_color import ThemeChoice
from treadle.terminal.chat import Chat
from treadle.terminal.chat_session import ChatOptions
from treadle.terminal.commands import all_commands
from treadle.terminal.idle_imports import import_while_idle
from treadle.terminal.notices import shorten_ids
from treadle.terminal.thread_view import show_thread, show_welcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.config.loader import LoadedSettings


def run_chat(options: ChatOptions) -> int:
    """Talk with an agent until the person leaves; the exit code.

    Raises:
        NotConfiguredError: the key of the model cannot be used; nothing was drawn.
        UsageError: the folder is none, or there is no such thread.
        StoreError: the thread cannot be read.
    """
    if options.latest and options.thread is not None:
        raise UsageError("-c and -r name two threads", hint="give one of them")
    is_named = options.latest or bool(options.thread)
    if options.fork and not is_named:
        raise UsageError("--fork needs a thread to go on from", hint="name one with -r ID, or -c")
    if not is_named:
        with suppress(MissingModelError):  # the chat helps to set one up
            check_configured(options)
    try:
        return asyncio.run(_run(options, is_named=is_named))
    finally:  # all is settled: Ctrl+C ends what is left, without telling where it was
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def check_configured(options: ChatOptions) -> None:
    """See that a new thread would have a model with a key, from the settings alone.

    Raises:
        MissingModelError: no model was chosen, or it has no key.
        NotConfiguredError: its key cannot be used.
        UsageError: the folder is none, or there is no such model.
    """
    from treadle.config.keys import find_key, make_missing_key_error, make_no_model_error
    from treadle.config.loader import load_settings
    from treadle.core.config import choose_model

    folder = _folder(options)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="-C takes the folder the agent works in")
    loaded: LoadedSettings = load_settings(folder, os.environ)
    wanted = options.model or choose_model(loaded.settings.models)
    if not wanted:
        if loaded.catalog.find_provider_with_key(os.environ) is None:
            raise make_no_model_error(loaded.catalog, os.environ)
        return
    if wanted.partition(":")[0] in ("scripted", "recorded"):
        return
    provider = loaded.catalog.resolve(wanted).provider
    entry = loaded.catalog.providers[provider]
    # A command that gives the key may ask for a password: it is run once, later.
    has_command = bool(entry.key_command)
    if entry.needs_key and not has_command and find_key(entry, os.environ) is None:
        raise make_missing_key_error(provider, entry)


async def _run(options: ChatOptions, *, is_named: bool) -> int:
    chat = Chat(options)
    early = _record_early_signals()
    if is_named:  # that there is no such thread is told before anything is drawn
        with suppress(MissingModelError):  # once there is a screen, the chat helps
            await chat.sessions.prepare(options.thread or None, latest=options.latest)
    # Here, so that the tests of what a start costs can tell who imports what.
    from treadle.app.folders import user_folders
    from treadle.terminal.terminal_factory import make_terminal

    theme = ThemeChoice(os.environ)
    terminal = make_terminal(
        theme=theme,
        folder=_folder(options),
        history=user_folders().state / "chat-history",
        is_plain=options.plain,
    )
    from treadle.terminal.view import ChatView

    view = ChatView(terminal, now=time.monotonic, folder=_folder(options))
    chat.attach(terminal, view)
    terminal.view = chat.view
    chat.slash_commands.set_own(all_commands(chat))
    chat.slash_commands.complete_in(terminal)
    _handle_signals(chat, early)
    logging.getLogger("treadle").addHandler(_ChatLogHandler(chat))
    try:
        await chat.run(lambda: _prepare_chat(chat, theme, is_named=is_named))
    except OSError:
        if not chat.code:  # else the terminal is gone, as it was told
            raise
    _print_summary(chat)
    return chat.code


def _folder(options: ChatOptions) -> Path:
    return Path(options.cwd or ".").expanduser().resolve()


class _ChatLogHandler(logging.Handler):
    """Warnings of any part of the program become lines of the chat, not scribbles across it."""

    def __init__(self, chat: Chat) -> None:
        super().__init__(logging.WARNING)
        self._chat = chat
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, from whatever thread."""
        with suppress(RuntimeError):  # the chat is over
            self._loop.call_soon_threadsafe(self._chat.notify, record.getMessage(), "warn")


_EXIT_SIGNALS: Final = {
    signal.SIGTERM: exit_codes.TERMINATED,
    signal.SIGHUP: exit_codes.HANGUP,
    signal.SIGQUIT: exit_codes.QUIT,
}


def _record_early_signals() -> list[int]:
    """Remember what is signalled before there is a chat to tell, as exit codes.

    From here on no signal ends the process with the terminal as a drawing needs it.
    """
    loop, early = asyncio.get_running_loop(), list[int]()
    for number, code in {**_EXIT_SIGNALS, signal.SIGINT: exit_codes.INTERRUPTED}.items():
        loop.add_signal_handler(number, early.append, code)
    return early


def _handle_signals(chat: Chat, early: Sequence[int]) -> None:
    """A closed window or an order to end settles the thread, so that it can be gone on with."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, chat.on_sigint)
    for number, code in _EXIT_SIGNALS.items():
        loop.add_signal_handler(number, chat.on_exit_signal, code)
    if early:
        chat.on_exit_signal(early[0])


async def _prepare_chat(chat: Chat, theme: ThemeChoice, *, is_named: bool) -> None:
    """What is done beside the first drawing."""
    await _begin_thread(chat, theme, is_named=is_named)
    if not chat.terminal.is_plain:
        chat.run_in_background(import_while_idle())


async def _begin_thread(chat: Chat, theme: ThemeChoice, *, is_named: bool) -> None:
    """Show the thread that the person named or picks, or where a new one will be."""
    options = chat.options
    if options.thread == "":
        await chat.run_switch(_pick_thread(chat, theme))
        return
    if not is_named:
        await chat.sessions.prepare()
        _set_theme(chat, theme)
        await _show_new_thread(chat)
        return
    await chat.sessions.ensure_prepared()  # with whom the person chooses, if nobody could answer
    _set_theme(chat, theme)
    from treadle.app.feature_tips import mark_used
    from treadle.app.folders import user_folders

    mark_used(user_folders(), "resume")  # who goes on with a thread needs no tip about it any more
    if options.fork:
        assert chat.sessions.thread_id is not None
        await chat.fork(chat.sessions.thread_id)
    await show_thread(chat)
    await chat.resume()


def _set_theme(chat: Chat, theme: ThemeChoice) -> None:
    """The colours of the settings, which are known once a session is prepared."""
    if (setup := chat.sessions.setup) is not None:
        theme.set_setting(setup.loaded.settings.theme)
        chat.terminal.refresh()


async def _pick_thread(chat: Chat, theme: ThemeChoice) -> None:
    """Go on with a thread that is picked, else with a new one."""
    from treadle.terminal.commands.threads import resume

    await chat.sessions.prepare()
    _set_theme(chat, theme)
    await resume(chat, "")
    if chat.sessions.thread_id is None:
        await _show_new_thread(chat)


async def _show_new_thread(chat: Chat) -> None:
    """Where the thread will be that begins with the first prompt, and what else is to be done."""
    show_welcome(chat)
    await _show_unfinished(chat)


async def _show_unfinished(chat: Chat) -> None:
    """What is not done in this folder, in a line."""
    setup = chat.sessions.setup
    assert setup is not None
    if not (Path(setup.store.places.data) / "threads").is_dir():
        return
    from treadle.app.threads.unfinished_threads import count_pending

    notify = partial(click.echo, err=True)
    line = await asyncio.to_thread(count_pending, setup.store, setup.folder, notify)
    if line:
        chat.notify(line, "accent")


def _print_summary(chat: Chat) -> None:
    """What it has cost, and how to go on; nothing if no thread was begun."""
    thread_id = chat.sessions.thread_id
    if thread_id is None or getattr(chat.terminal, "is_unread", False):
        return
    with suppress(OSError):  # the terminal may be gone
        usage = chat.sessions.usage
        if usage is not None:
            from treadle.models.prices.usage_text import describe_usage

            click.echo(describe_usage(usage))
        click.echo(f"to go on: treadle -r {shorten_ids(chat.sessions.setup, thread_id)}")
        sys.stdout.flush()
