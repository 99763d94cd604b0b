"""Runs a short command while the caller waits; it may ask in the terminal, if it is lent that."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from treadle.process.result import Bounds, KeptOutput, Ran

_PIECE_SIZE: Final = 16 * 1024
_INTERRUPT_CODES: Final = (-signal.SIGINT, 128 + signal.SIGINT)
_TERMINAL_LOCK: Final = threading.Lock()
"""The terminal is one: commands that may ask there do so one after another."""


_LISTING: Final = Bounds(10.0, 256 * 1024 * 1024)
"""`ps` prints of each process its environment, which may be large."""


def read_listing(argv: Sequence[str]) -> bytes:
    """What a program of the system lists; nothing if it fails.

    Raises:
        OSError: it cannot be started.
    """
    ran = run_command(argv, {"LC_ALL": "C"}, _LISTING)
    return ran.out if ran.status == 0 else b""


def run_command(
    words: Sequence[str],
    environment: Mapping[str, str],
    bounds: Bounds,
    *,
    folder: str | Path | None = None,
    data: bytes | None = None,
    pass_fds: Sequence[int] = (),
    lends_terminal: bool = False,
) -> Ran:
    """Run a command to its end, or end it with its process group.

    It leads a session of its own, without a terminal; what is left of it when it has exited goes
    on. One to which the terminal is lent has the standard input of this process and, where this
    process has it, the terminal: so it is a group of its own in the same session.

    Args:
        words: the program and its arguments; no shell reads them.
        environment: all of its environment.
        bounds: what it is held to, from when it has closed its outputs or its time is over.
        folder: where it runs; by default where this process does.
        data: what it reads; without any its input is empty.
        pass_fds: descriptors that it inherits; all others are closed.
        lends_terminal: whether it may ask in the terminal.

    Raises:
        OSError: it cannot be started.
        ValueError: a word holds what no word can.
        KeyboardInterrupt: Ctrl-C ended it while it had the terminal.
    """
    given = None if lends_terminal else subprocess.DEVNULL
    with ExitStack() as held:
        if lends_terminal:
            held.enter_context(_TERMINAL_LOCK)
        deadline_s = time.monotonic() + bounds.timeout_s
        process = held.enter_context(
            subprocess.Popen(
                words,
                cwd=folder,
                env=dict(environment),
                stdin=given if data is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=tuple(pass_fds),
                start_new_session=not lends_terminal,
                process_group=0 if lends_terminal else None,
            )
        )
        has_terminal = lends_terminal and held.enter_context(_lend_terminal(process.pid))
        out, err = KeptOutput(bounds.size_max), KeptOutput(bounds.size_max)
        try:
            problem = _exchange(process, data or b"", (out, err), bounds, deadline_s)
            if not problem:
                process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            problem = bounds.late
        finally:
            if process.returncode is None:  # not waited for yet, so the number is still its own
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if has_terminal and not problem and process.returncode in _INTERRUPT_CODES:
        raise KeyboardInterrupt
    return Ran(process.returncode, out.data, err.data, out.size, problem)


def _exchange(
    process: subprocess.Popen[bytes],
    data: bytes,
    kept: tuple[KeptOutput, KeptOutput],
    bounds: Bounds,
    deadline_s: float,
) -> str:
    """Give it what it reads and take what it prints, until it closes both outputs.

    Returns:
        Why that was not waited for; empty if it was.
    """
    with selectors.DefaultSelector() as selector:
        for pipe, output in zip((process.stdout, process.stderr), kept, strict=True):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, output)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        rest = memoryview(data)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if time.monotonic() >= deadline_s:
                return bounds.late
            for key, _ in ready:
                if key.data is None:
                    rest = _write_piece(key.fd, rest)
                    is_open = bool(rest)
                else:
                    piece = os.read(key.fd, _PIECE_SIZE)
                    key.data.add(piece)
                    is_open = bool(piece)
                    if bounds.ends_when_full and key.data.is_cut:
                        return bounds.too_long
                if not is_open:
                    selector.unregister(key.fileobj)
                    if key.data is None and process.stdin is not None:
                        process.stdin.close()
    return ""


def _write_piece(pipe: int, rest: memoryview) -> memoryview:
    """What is left to be written; nothing if nobody reads it any more."""
    try:
        return rest[os.write(pipe, rest) :]
    except BrokenPipeError:
        return rest[:0]


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
