"""Other processes that use the store: each does what it is told, and stops where it is told to.

Where two processes meet is not left to chance: one of them is stopped before a line of the store's
own code, as its debugger would, while the other one does all that it has to do. So a fault that
needs a certain moment is found whenever the store is tried, and not once in a thousand times.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from multiprocessing.connection import Connection
from time import monotonic
from types import FrameType
from typing import Any, Final

from treadle.errors import ThreadBusyError
from treadle.store.port import HeldJournal, Store
from treadle.store_conformance.demands import OpenStore, demand

ANSWER_S_MAX: Final = 60.0
"""Seconds after which another process counts as stuck."""

PATIENCE_S: Final = 0.1
"""At least so long a process may wait for one that is stopped in the middle: it may hold a lock."""

PATIENCE_FACTOR: Final = 20
"""So many times what the same takes alone is waited for."""

LOOK_S: Final = 0.02
"""Seconds between two looks whether a thread is free."""


class Desk:
    """What a worker has open: the store, and the journals that it holds, by their threads."""

    def __init__(self, store: Store, stop: Callable[[], None]) -> None:
        self.store = store
        self.stop = stop
        """Says that it has come here, and waits until it is told to go on."""
        self.held: dict[str, HeldJournal] = {}


Deed = Callable[..., Any]
"""A function of a desk and of what else it is given. Another process finds it by its name."""


class _Sign(Enum):
    STOPPED = "stopped before a line"


class Worker:
    """Another process that has opened the store."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._said: Any = None
        self._took_s = 0.0
        self.line_count = 0
        """Lines of the store's own code that the last thing took."""
        self.patience_s = PATIENCE_S
        """Seconds that it is given where another one that is stopped may have a lock that it needs:
        what it takes alone is far less."""

    def do(self, deed: Deed, *arguments: object) -> Any:
        """Do this alone; what it gives. Raises as `hear`."""
        self.begin(deed, *arguments)
        found = self.hear()
        self.patience_s = max(self.patience_s, PATIENCE_FACTOR * self._took_s)
        return found

    def begin(self, deed: Deed, *arguments: object, line: int = 0) -> None:
        """Do this, and stop before a line of the store's own code, counted from 1; 0 for none."""
        self._connection.send((deed, arguments, line))

    def is_stopped(self) -> bool:
        """Whether it is stopped where it was to be; it may have ended before, in fewer lines."""
        said = self._receive()
        if said is _Sign.STOPPED:
            return True
        self._said = said
        return False

    def go_on(self) -> None:
        """Let it go on that is stopped."""
        self._connection.send(None)

    def is_done(self, within_s: float) -> bool:
        """Whether it has an answer in so many seconds."""
        return self._connection.poll(within_s)

    def hear(self) -> Any:
        """What it has done gives; a `ConformanceError` if it has raised, died, or is stuck."""
        said, self._said = self._said or self._receive(), None
        demand(not isinstance(said, Exception), f"another process can use the store: {said!r}")
        found, self.line_count, self._took_s = said
        return found

    def _receive(self) -> Any:
        try:
            demand(self._connection.poll(ANSWER_S_MAX), "another process is not kept waiting")
            return self._connection.recv()
        except EOFError:
            return RuntimeError("it has ended")

    def kill(self) -> None:
        """End it, as `kill -9` does."""
        self._process.kill()
        self._process.join()

    def pause(self) -> None:
        """Stop all that it does, as a machine that sleeps."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on that was paused, as if no time had passed."""
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def start_worker(open_store: OpenStore) -> Iterator[Worker]:
    """Another process that opens the store; it is killed at the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(open_store, theirs), daemon=True)
    process.start()
    theirs.close()
    worker = Worker(process, ours)
    try:
        yield worker
    finally:
        worker.kill()
        ours.close()


def _serve(open_store: OpenStore, to: Connection) -> None:
    try:

        def stop() -> None:
            to.send(_Sign.STOPPED)
            to.recv()

        desk = Desk(open_store(), stop)
        packages = _find_packages(desk.store)
        while True:
            deed, arguments, line = to.recv()
            lines = _LineStop(packages, line, stop)
            began = monotonic()
            sys.settrace(lines.trace)
            try:
                found = deed(desk, *arguments)
            finally:
                sys.settrace(None)
            to.send((found, lines.count, monotonic() - began))
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:  # noqa: BLE001  it is told in the process that asked
        to.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _find_packages(store: Store) -> set[str]:
    """The packages that the store's own code is in."""
    kinds = (kind for kind in type(store).__mro__ if kind not in (object, Store))
    return {kind.__module__.partition(".")[0] for kind in kinds}


class _LineStop:
    """Counts the lines of some packages that are run, and stops before one of them."""

    def __init__(self, packages: set[str], line: int, stop: Callable[[], None]) -> None:
        self._packages = packages
        self._line = line
        self._stop = stop
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """See `sys.settrace`."""
        if event == "call":
            name: str = frame.f_globals.get("__name__", "")
            is_own = name.partition(".")[0] in self._packages
            return self.trace if is_own and not name.startswith(__package__) else None
        if event == "line":
            self.count += 1
            if self.count == self._line:
                self._stop()
        return self.trace


def choose_lines(count: int, most: int) -> Sequence[int]:
    """Lines from 1 to `count`: all, or so many of them, the first and the last among them."""
    if count <= most:
        return range(1, count + 1)
    return [1 + (count - 1) * nth // (most - 1) for nth in range(most)]


def meet(
    first: Worker, second: Worker, deed: Deed, arguments: Sequence[object], line: int
) -> tuple[Any, Any]:
    """Both do this: the second all of it while the first is stopped before a line, if it can.

    What waits for the first, because that one holds a lock, ends when the first goes on.
    """
    first.begin(deed, *arguments, line=line)
    is_stopped = first.is_stopped()
    second.begin(deed, *arguments)
    if is_stopped:
        second.is_done(second.patience_s)
        first.go_on()
    return first.hear(), second.hear()


def hold_when_free(store: Store, thread_id: str) -> HeldJournal:
    """Hold a thread whose holder has died, as soon as the store gives it.

    Raises:
        ThreadBusyError: it does not within the time that it says (`lease_s`).
    """
    until = monotonic() + getattr(store, "lease_s", 0.0)
    while True:
        try:
            return store.hold(thread_id)
        except ThreadBusyError:
            if monotonic() >= until:
                raise
            threading.Event().wait(LOOK_S)
