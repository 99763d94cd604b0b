"""A process that works at the scarf and dies at a place; `test_crash` starts it.

Arguments: the folder of store and effects, the place to die at, and the thread to
resume if it is not to begin one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from runtime.task.scarf import make_store, scarf
from treadle import outputs
from treadle.core.llm import LlmRequest
from treadle.errors import TreadleError
from treadle.outputs import Output
from treadle.store.disk import PosixDisk

PLACES = {
    "creating": "Planning",
    "created": "Planning",
    "request": "Planning",
    "retry": "Planning",
    "stream": "Planning",
    "before the intent": "Planning",
    "before the tool": "Acting",
    "in the tool": "Acting",
    "before the result": "Acting",
    "after the tool": "Observing",
    "among the calls": "ParallelActing",
    "in the last call": "ParallelActing",
    "waiting": "WaitingForHuman",
    "decided": "Acting",
    "hook": "Observing",
    "summary": "Reflecting",
    "answer": "Done",
    "failure": "Error",
}
"""Where a process can be told to die, and the state that it leaves on disk."""


class Dying(PosixDisk):
    """Dies when a journal is written to that holds a text, before it or after it is durable."""

    def __init__(self, before: bytes = b"", after: bytes = b"") -> None:
        self._before = before
        self._after = after
        self._is_written = False

    def write(self, handle: int, data: bytes) -> None:
        if self._before and self._before in data:
            die()
        super().write(handle, data)
        self._is_written = bool(self._after) and self._after in data

    def sync(self, handle: int) -> None:
        super().sync(handle)
        if self._is_written:
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


DISKS = {
    "creating": {"after": b'"task_given"'},
    "before the intent": {"before": b'"tool_started"'},
    "before the tool": {"after": b'"tool_started"'},
    "before the result": {"before": b'"tool_completed"'},
    "decided": {"after": b'"approval_decided"'},
}


class Death:
    """What happens in the process, each a chance to die."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.requests = 0
        self.running: set[str] = set()

    def at(self, place: str) -> None:
        if place == self.place:
            die()

    def on_request(self, request: LlmRequest) -> None:
        self.requests += 1
        self.at("summary" if request.system.startswith("You write the summary") else "request")

    def on_output(self, output: Output) -> None:
        if isinstance(output, outputs.Retrying):
            self.at("retry")
        elif isinstance(output, outputs.TextDelta):
            self.at("stream")
        elif isinstance(output, outputs.ToolFinished):
            self.at({"cut": "after the tool", "look": "among the calls"}.get(output.tool_name, ""))
        elif isinstance(output, outputs.ApprovalRequested):
            self.at("waiting")
        elif isinstance(output, outputs.FinalAnswer):
            self.at("answer")
        elif isinstance(output, outputs.ErrorShown):
            self.at("failure")

    async def during(self, name: str) -> None:
        """`look` ends first; the others of its round wait until it is on disk."""
        if name == "cut":
            self.at("in the tool")
        if name == "sew":
            self.at("in the last call")
        if self.place == "among the calls" and name in ("stitch", "sew"):
            await asyncio.Event().wait()

    async def hook(self) -> None:
        self.at("hook")


async def work(folder: Path, place: str, thread_id: str = "") -> None:
    """One run, which does not get to its end."""
    death = Death(place)
    limits: dict[str, Any] = {"max_steps": 2} if place == "failure" else {}
    disk = Dying(**DISKS.get(place, {}))
    agent = scarf(
        folder,
        make_store(folder, disk),
        during=death.during,
        hook=death.hook,
        on_request=death.on_request,
        on_output=death.on_output,
        **limits,
    )
    engine = agent.resume(thread_id) if thread_id else agent.build()
    death.at("created")
    await engine.run()


if __name__ == "__main__":
    try:
        asyncio.run(work(Path(sys.argv[1]), *sys.argv[2:]))
    except TreadleError as error:
        sys.exit(f"nobody died at {sys.argv[2]}: {error}")
    sys.exit(f"nobody died at {sys.argv[2]}")
