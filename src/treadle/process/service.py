"""A program that works for this one for as long as it is wanted, and is spoken with over pipes.

It leads a process group of its own, and nothing of that group outlives this process: it is ended
when the service is closed, and by its leash (`leash.py`) where nobody could close it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from treadle.platform.process_exit import watch_exit
from treadle.process.termination import GroupTermination

CHUNK_SIZE: Final = 65536
"""Bytes that are read at a time."""
REMARK_SIZE_MAX: Final = 4096
"""Bytes of standard error that are kept: the last ones."""
PATIENCE_S: Final = 1.0
"""What a service is given to end by itself when its input ends, and again when it is asked to."""
GONE_S: Final = 5.0
"""How long the kernel is given to end what was killed."""

_LEASH: Final = Path(__file__).with_name("leash.py")


class Service:
    """A program that runs. To be closed.

    Args:
        argv: the program, by its name or its path, and its arguments.
        folder: where it runs.
        environment: all of its environment.
        pass_fds: descriptors that it gets besides, under the same numbers.

    Raises:
        OSError: nothing could be started. A program that is not there is started, and ends at
            once; `remark` says why.
    """

    def __init__(
        self,
        argv: Sequence[str],
        folder: str | Path,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Future[None] = self._loop.create_future()
        self._remark = b""
        far_leash, self._leash = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LEASH), str(far_leash), *argv],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=(far_leash, *pass_fds),
            )
        except BaseException:
            os.close(self._leash)
            raise
        finally:
            os.close(far_leash)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._errors = self._process.stderr.fileno()
        for descriptor in (self._input, self._output, self._errors):
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._errors, self._take_remark)
        self._stop_watching = watch_exit(self._process.pid, self._hear_exit, self._process.wait)

    @property
    def pid(self) -> int:
        """The number of its process group."""
        return self._process.pid

    @property
    def remark(self) -> str:
        """The end of what it has said on standard error."""
        return self._remark.decode(errors="replace").strip()

    async def read(self) -> bytes:
        """The next bytes that it says; empty once there are no more."""
        while not self._closing.done():
            try:
                return os.read(self._output, CHUNK_SIZE)
            except BlockingIOError:
                await self._wait(self._output, self._loop.add_reader, self._loop.remove_reader)
        return b""

    async def write(self, data: bytes) -> None:
        """Tell it something.

        Raises:
            BrokenPipeError: it does not listen any more.
        """
        rest = memoryview(data)
        while rest:
            if self._closing.done():
                raise BrokenPipeError
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                await self._wait(self._input, self._loop.add_writer, self._loop.remove_writer)

    async def close(self) -> None:
        """End it and its group: its input ends, it is asked to, it is killed. Takes 2 s at most.

        A cancellation only hurries.
        """
        if self._closing.done():
            return
        self._closing.set_result(None)
        group, cancelled = GroupTermination(self._process.pid), False
        assert self._process.stdin is not None
        self._loop.remove_writer(self._input)
        with suppress(OSError):
            self._process.stdin.close()
        try:
            await asyncio.wait([self._ended], timeout=PATIENCE_S)
            if not self._ended.done():
                group.ask()
                await asyncio.wait([self._ended], timeout=PATIENCE_S)
        except asyncio.CancelledError:
            cancelled = True
        finally:
            # Its own process was not waited for, so the number of the group is nobody else's.
            group.kill()
            self._release()
        if cancelled:
            raise asyncio.CancelledError

    def _release(self) -> None:
        with suppress(RuntimeError):  # the loop may be closed
            self._stop_watching()
            self._loop.remove_reader(self._output)
            self._loop.remove_reader(self._errors)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_S)
        os.close(self._leash)

    def _hear_exit(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _take_remark(self) -> None:
        try:
            data = os.read(self._errors, CHUNK_SIZE)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._errors)
        self._remark = (self._remark + data)[-REMARK_SIZE_MAX:]

    async def _wait(
        self,
        descriptor: int,
        add: Callable[[int, Callable[[], None]], None],
        remove: Callable[[int], bool],
    ) -> None:
        """Until a pipe can be read or written, or all is over."""
        ready = asyncio.Event()
        add(descriptor, ready.set)
        waiting: asyncio.Future[Any] = asyncio.ensure_future(ready.wait())
        try:
            await asyncio.wait([waiting, self._closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if not self._closing.done():
                remove(descriptor)
