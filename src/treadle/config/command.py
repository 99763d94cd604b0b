"""Runs a short command of the person's: it may ask in the terminal, and is held to its bounds."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

_PIECE_SIZE: Final = 16 * 1024
_INTERRUPT_CODES: Final = (-signal.SIGINT, 128 + signal.SIGINT)
_TERMINAL_LOCK: Final = threading.Lock()
"""The terminal is one: commands that may ask there do so one after another."""


class UserCommandResult(Struct, frozen=True):
    """What a command printed and how it ended; `problem` says why it was ended, if it was."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    problem: str = ""


def run_bounded(
    words: Sequence[str], environ: Mapping[str, str], *, timeout_s: float, size_max: int
) -> UserCommandResult:
    """Run a command to its end, or end it.

    It has the standard input of this process and, where this process has the terminal, the
    terminal. It is a process group of its own; one that takes or prints too much is killed whole.

    Args:
        words: the program and its arguments; no shell reads them.
        environ: its environment.
        timeout_s: how long it may take.
        size_max: bytes that it may print, on each of its two outputs.

    Raises:
        OSError: it cannot be started.
        ValueError: a word holds what no word can.
        KeyboardInterrupt: Ctrl-C ended it while it had the terminal.
    """
    with _TERMINAL_LOCK:
        deadline_s = time.monotonic() + timeout_s
        process = subprocess.Popen(
            words,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        late = f"was not done in {timeout_s:.0f} seconds"
        problem = ""
        outputs: dict[str, bytes] = {}
        with process, _lend_terminal(process.pid) as has_terminal:
            try:
                problem, outputs = _read_outputs(process, deadline_s, size_max, late)
                if not problem:
                    process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                problem = late
            finally:
                if process.returncode is None:  # not waited for yet, so the number is still its own
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    if has_terminal and not problem and process.returncode in _INTERRUPT_CODES:
        raise KeyboardInterrupt
    return UserCommandResult(
        process.returncode, outputs.get("stdout", b""), outputs.get("stderr", b""), problem
    )


def _read_outputs(
    process: subprocess.Popen[bytes], deadline_s: float, size_max: int, late: str
) -> tuple[str, dict[str, bytes]]:
    """What it prints until it closes both outputs, and why that was not waited for."""
    read = {"stdout": bytearray(), "stderr": bytearray()}
    problem = ""
    with selectors.DefaultSelector() as selector:
        for name in read:
            selector.register(getattr(process, name), selectors.EVENT_READ, name)
        while selector.get_map() and not problem:
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if time.monotonic() >= deadline_s:
                problem = late
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_SIZE)
                read[key.data] += piece
                if not piece:
                    selector.unregister(key.fileobj)
                elif len(read[key.data]) > size_max:
                    problem = f"printed more than {size_max} bytes"
    return problem, {name: bytes(data) for name, data in read.items()}


@contextmanager
def _lend_terminal(group: int) -> Iterator[bool]:
    """Hands the terminal to a process group if this process has it, and takes it back.

    Without it a group of its own would be stopped as soon as it reads from the terminal.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # there is none
        yield False
        return
    try:
        own = os.getpgrp()
        has_terminal = False
        with suppress(OSError):  # it may be gone already, or the terminal hung up
            if os.tcgetpgrp(terminal) == own:
                os.tcsetpgrp(terminal, group)
                has_terminal = True
                os.killpg(group, signal.SIGCONT)  # it may have read before it was allowed to
        try:
            yield has_terminal
        finally:
            if has_terminal:
                _reclaim_terminal(terminal, own)
    finally:
        os.close(terminal)


def _reclaim_terminal(terminal: int, group: int) -> None:
    """Who is in the background may do so only with SIGTTOU blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):  # the terminal hung up
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
