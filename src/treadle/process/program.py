"""Running a program so that it ends, with everything it has started.

The program leads a session of its own. Its output is read from the event loop, as it comes. When it
has exited, has used up its time, or is cancelled, what is left of it is killed: first the process
group, then every process found in /proc that belongs to it by parent, by session, or by a mark in
its environment, which a daemon inherits too. Only a process that became a daemon and emptied its
environment gets away; what holds that one is a sandbox with a process namespace.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from msgspec import Struct

TERM_S: Final = 2.0
"""Seconds between TERM, on which programs tidy up, and KILL."""
PIPE_S: Final = 0.5
"""Seconds that output may still come after the program's end; what is in the pipe takes less."""
CHUNK_SIZE: Final = 64 * 1024
"""A pipe's capacity: one read empties it and gives the event loop its turn."""
ROUND_COUNT_MAX: Final = 250
ROUND_S: Final = 0.004
"""With `ROUND_COUNT_MAX`: a second for killed processes to vanish, which takes milliseconds."""
MARK: Final = "TREADLE_RUN_ID"
"""The environment variable by which descendants are found; random in each run."""
_PROC: Final = Path("/proc")


class Cause(Enum):
    """Why a run is over."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    CANCEL = "cancel"


class Ended(Struct, frozen=True):
    """How a run ended.

    `exit_code` is negative for the number of the signal that ended it. `left_count` says how many
    of its descendants were still running and were killed; always 0 where there is no /proc.
    """

    cause: Cause
    exit_code: int
    left_count: int


async def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float,
    sink: Callable[[bytes], None],
    pass_fds: Sequence[int] = (),
    spares_leader: bool = False,
) -> Ended:
    """Run a program to its end, or end it. A cancellation is a `Cause`, not an exception.

    Args:
        argv: the program and its arguments; its standard input is empty.
        cwd: the folder it starts in.
        env: its whole environment, to which `MARK` is added.
        timeout_s: after so many seconds it is ended: TERM, `TERM_S` later KILL.
        sink: takes standard output and standard error, in the order written.
        pass_fds: descriptors that it inherits; all others are closed.
        spares_leader: whether TERM is for what the program has started, not for itself: it holds
            the others, and must not be the first to go.

    Raises:
        OSError: it could not be started.
    """
    program = _Program(argv, cwd, env, sink, pass_fds, spares_leader=spares_leader)
    try:
        cause = await program.wait(timeout_s)
        left_count = await program.end(cause)
    finally:
        exit_code = program.release()
    return Ended(cause, exit_code, left_count)


class _Program:
    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        sink: Callable[[bytes], None],
        pass_fds: Sequence[int],
        *,
        spares_leader: bool,
    ) -> None:
        self._spares_leader = spares_leader
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._sink = sink
        self._is_killed = False
        mark = secrets.token_hex(16)
        self._pipe, far_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**env, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=far_end,
                stderr=far_end,
                start_new_session=True,
                pass_fds=tuple(pass_fds),
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(far_end)
        self._kin = _Kin(self._process.pid, f"{MARK}={mark}".encode())
        os.set_blocking(self._pipe, False)
        self._loop.add_reader(self._pipe, self._read)
        self._watch = _watch(self._process, self._loop, self._exited)

    async def wait(self, timeout_s: float) -> Cause:
        """Until the program exits by itself, or must not go on."""
        try:
            done, _ = await asyncio.wait([self._exited], timeout=timeout_s)
        except asyncio.CancelledError:
            return Cause.CANCEL
        return Cause.EXIT if done else Cause.TIMEOUT

    async def end(self, cause: Cause) -> int:
        """Kill what is left; a cancellation only hurries. Returns how many were left.

        What reads /proc does so in a thread, since it takes milliseconds.
        """
        with suppress(asyncio.CancelledError):
            if cause is Cause.EXIT:
                await asyncio.wait([self._closed], timeout=PIPE_S)
            else:
                await self._loop.run_in_executor(None, self._ask_to_end)
                await asyncio.wait([self._exited], timeout=TERM_S)
        killing = self._loop.run_in_executor(None, self._kill)
        while not killing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([killing])
        return killing.result()

    def release(self) -> int:
        """Take the rest of the output, give everything back; the exit code."""
        if not self._is_killed:
            self._kill()
        with suppress(RuntimeError):  # the loop may be closed
            for _ in range(ROUND_COUNT_MAX):
                if not self._read():
                    break
            self._loop.remove_reader(self._pipe)
            if self._watch is not None:
                self._loop.remove_reader(self._watch)
        os.close(self._pipe)
        if self._watch is not None:
            os.close(self._watch)
        return self._process.wait()

    def _read(self) -> bool:
        """Pass on what the pipe holds; false once there is nothing more, for now or ever."""
        try:
            data = os.read(self._pipe, CHUNK_SIZE)
        except BlockingIOError:
            return False
        if data:
            self._sink(data)
        elif not self._closed.done():
            self._loop.remove_reader(self._pipe)
            self._closed.set_result(None)
        return bool(data)

    def _ask_to_end(self) -> None:
        # Those who lose their parent to the signal would not be found afterwards.
        kin = self._kin.find()
        if self._spares_leader:
            # The older first, as a rule (numbers come round again): who waits for a child would
            # see it end, and exit without having heard it itself.
            for number in (signal.SIGTERM, signal.SIGCONT):
                for pid in sorted(kin - {self._process.pid}):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            return
        _signal_group(self._process.pid, signal.SIGTERM)
        # Who stands still hears TERM only after going on.
        _signal_group(self._process.pid, signal.SIGCONT)

    def _kill(self) -> int:
        left_count = len(self._kin.find())
        # The dead leader was not waited for yet, so its number cannot be anybody else's.
        _signal_group(self._process.pid, signal.SIGKILL)
        stopped: set[int] = set()
        for _ in range(ROUND_COUNT_MAX):
            kin = self._kin.find()
            if not kin:
                break
            # What stands still has no more children: stop until there is nobody new, then kill.
            fresh = kin - stopped
            for pid in fresh or kin:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGSTOP if fresh else signal.SIGKILL)
            stopped |= fresh
            time.sleep(ROUND_S)  # in a thread: the kernel tells nobody when others' children stop
        self._is_killed = True
        return left_count


def _watch(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, exited: asyncio.Future[None]
) -> int | None:
    """Settle `exited` once the process has; if possible without reaping it, by a descriptor."""

    def settle(fd: int | None) -> None:
        if fd is not None:
            loop.remove_reader(fd)
        if not exited.done():
            exited.set_result(None)

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, None)

    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # no Linux, or an old one
        threading.Thread(target=wait, daemon=True).start()
        return None
    loop.add_reader(fd, settle, fd)
    return fd


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class _Kin:
    """Finds the processes that belong to a run, and does not forget them.

    Args:
        leader: the number of the program's own process.
        mark: stands in the environment of its descendants.
    """

    def __init__(self, leader: int, mark: bytes) -> None:
        self._leader = leader
        self._mark = mark
        self._known: set[tuple[int, bytes]] = set()

    def find(self) -> set[int]:
        """Those that live, by number."""
        kin: set[int] = set()
        begun: dict[int, bytes] = {}
        children: dict[int, list[int]] = {}
        for pid in _list_processes():
            try:
                # The name, in brackets, may hold anything. After it stand the state, the parent,
                # the group, the session, and later the time it began, which makes it unique.
                fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
                # The first thread may have ended, and look like a dead process, while others run.
                if fields[0] in b"ZX" and int(fields[17]) <= 1:
                    continue
                begun[pid] = fields[19]
                parent, *groups = (int(field) for field in fields[1:4])
                children.setdefault(parent, []).append(pid)
                is_kin = self._leader in groups or (pid, begun[pid]) in self._known
                if is_kin or self._mark in _read_environment(pid, fields[0]):
                    kin.add(pid)
            except (OSError, ValueError, IndexError):  # it has just gone, or is somebody else's
                continue
        todo = [self._leader, *kin]
        while todo:
            fresh = [pid for pid in children.get(todo.pop(), ()) if pid not in kin]
            kin.update(fresh)
            todo += fresh
        self._known.update((pid, begun[pid]) for pid in kin)
        return kin


def _read_environment(pid: int, state: bytes) -> bytes:
    folder = _PROC / str(pid)
    if state not in b"ZX":
        return (folder / "environ").read_bytes()
    for thread in (folder / "task").iterdir():
        with suppress(OSError):  # of a thread that has ended nothing is told
            return (thread / "environ").read_bytes()
    return b""


def _list_processes() -> list[int]:
    try:
        with os.scandir(_PROC) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []
