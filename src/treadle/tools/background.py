"""Commands that go on when their call has returned, of one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.process.program import Cause
from treadle.tool_failure import ToolFailure
from treadle.tools.output import Output

START_S: Final = 1.0
"""So long a command is watched before its call returns: what ends by then was no background work,
and says so at once (a program that is not there, a port that is taken)."""
COUNT_MAX: Final = 8
"""Commands of one session that may run at a time: each holds memory for its output."""


class CommandEnd(Struct, frozen=True):
    """How a command ended.

    `exit_code` counts if it exited. `report` is what a model reads: what it printed, the notes and
    hints, and its exit code if it exited. `notes` are what the sandbox says of it, `hints` the ways
    out.
    """

    cause: Cause
    exit_code: int
    report: str
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class BackgroundCommand:
    """A command that goes on.

    Args:
        call_id: the call that began it.
        command: what runs.
        read: what it has printed so far; beyond what is kept the middle is left out.
        redact: replaces known secrets in that.
        work: ends it when it is cancelled, and says how it ended.
    """

    def __init__(
        self,
        call_id: str,
        command: str,
        read: Callable[[], str],
        redact: Callable[[str], str],
        work: asyncio.Task[CommandEnd],
    ) -> None:
        self.call_id: Final = call_id
        self.command: Final = command
        self.work: Final = work
        self._read = read
        self._redact = redact
        self._clock = asyncio.get_running_loop().time
        self._since_s = self._clock()

    async def read(self) -> str:
        """What it has printed so far, secrets replaced; beyond what is kept the middle is left out.

        They are replaced in all of it, because who reads a part would cut through some. That takes
        seconds for megabytes, in which others go on.
        """
        return await asyncio.to_thread(self._redact, self._read())

    @property
    def age_s(self) -> float:
        """For how many seconds it has been running."""
        return self._clock() - self._since_s


class BackgroundCommands:
    """Those of one session.

    Args:
        on_end: told once of each that has ended, whatever ended it.
        redact: replaces known secrets in what is read of one that runs.
    """

    def __init__(
        self,
        on_end: Callable[[BackgroundCommand, CommandEnd], None],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._on_end = on_end
        self._redact = redact
        self._running: dict[str, BackgroundCommand] = {}

    @property
    def running(self) -> tuple[BackgroundCommand, ...]:
        """Those that run, the oldest first."""
        return tuple(self._running.values())

    def find(self, call_id: str) -> BackgroundCommand | None:
        """The one that a call began; `None` if it does not run, or not any more."""
        return self._running.get(call_id)

    async def start(
        self, call_id: str, command: str, work: Coroutine[Any, Any, CommandEnd], output: Output
    ) -> CommandEnd | None:
        """Let it go on; `None` if it does after `START_S`, else how it has ended.

        Raises:
            ToolFailure: there are too many, or it could not begin.
        """
        if len(self._running) >= COUNT_MAX:
            work.close()
            known = ", ".join(self._running)
            why = f"{COUNT_MAX} commands run in the background already ({known}): stop one first"
            raise ToolFailure(ToolErrorKind.REJECTED, why)
        task = asyncio.ensure_future(work)
        begun = BackgroundCommand(call_id, command, output.text, self._redact, task)
        self._running[call_id] = begun  # at once: of calls that begin together each counts
        try:
            await asyncio.wait({task}, timeout=START_S)
        except asyncio.CancelledError:
            # Until it is over it is known, also to who does not wait for that.
            task.add_done_callback(lambda _: self._running.pop(call_id, None))
            task.cancel()
            await asyncio.wait({task})
        if task.done():
            self._running.pop(call_id, None)
            return task.result()
        output.mute()
        task.add_done_callback(lambda _: self._end(begun))
        return None

    async def wait(self, call_ids: Iterable[str], timeout_s: float) -> None:
        """Return when one of them has ended, or the time is over."""
        tasks = {one.work for one in map(self.find, call_ids) if one is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self, commands: Iterable[BackgroundCommand]) -> None:
        """End them, with all that they have started; all is told when this returns."""
        tasks = [one.work for one in commands]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # their callbacks come before whoever waits here goes on

    def _end(self, begun: BackgroundCommand) -> None:
        self._running.pop(begun.call_id, None)
        self._on_end(begun, _read_end(begun.work))


def _read_end(task: asyncio.Task[CommandEnd]) -> CommandEnd:
    """How it ended; whatever it raised is data, as with every call."""
    if task.cancelled():
        return CommandEnd(Cause.CANCEL, -1, "")
    error = task.exception()
    if isinstance(error, ToolFailure):
        return CommandEnd(Cause.CANCEL, -1, error.message)
    if error is not None:
        return CommandEnd(Cause.CANCEL, -1, f"{type(error).__name__}: {error}")
    return task.result()
