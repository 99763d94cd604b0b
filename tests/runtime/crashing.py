"""A process that works on a thread and dies at a place; `test_crash` starts it.

Arguments: the folder of the store, the place to die at, the file that effects are written to.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from runtime.clock import tick
from runtime.desk import CONFIG, Folder, Model, Run, Toolbox, calls, idempotent, mutate, read
from treadle import outputs
from treadle.outputs import Output
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

EXIT_CODE = 9
PLACES = ("model", "stream", "read", "idempotent", "mutate", "queue", "hook", "result", "answer")
"""Where a process can be told to die."""

REPLIES: tuple[Any, ...] = (
    {"when": {"user": "more"}, "text": "more done"},
    calls("read", "idempotent", "mutate", text="I look"),
    "done",
)


def make_tools(effects: Path, after: Callable[[str], Awaitable[None]]) -> Toolbox:
    """Tools whose effects are lines of a file, each with the key of its call."""

    async def work(run: Run) -> str:
        with effects.open("a") as file:
            file.write(f"{run.name} {run.key}\n")
        await after(run.name)
        return f"{run.name} ran"

    return Toolbox(read=read(work), idempotent=idempotent(work), mutate=mutate(work))


def make_store(folder: Path) -> LocalStore:
    return LocalStore(Places(folder / "data", folder / "state", folder / "config"))


async def work(folder: Path, place: str, effects: Path) -> None:
    """One turn, which does not get to its end."""

    def die(where: str) -> None:
        if where == place:
            os._exit(EXIT_CODE)

    async def hook() -> None:
        die("hook")

    async def after(name: str) -> None:
        die(name)
        if (name, place) == ("mutate", "queue"):
            said = asyncio.ensure_future(session.turn("more"))
            await tick(2)
            assert not said.done()
            die("queue")

    def on_output(output: Output) -> None:
        if isinstance(output, outputs.TextDelta):
            die("answer" if output.text == "done" else "stream")
        if isinstance(output, outputs.ToolFinished):
            die("result")

    model = Model(*REPLIES, on_request=lambda _: die("model"))
    tools = make_tools(effects, after)
    writer = make_store(folder).create("test")
    options = DriverOptions(workspace=Folder(hook), on_output=on_output)
    session = Session(writer, model, tools, CONFIG, options)
    await session.turn("go")
    raise AssertionError(f"nobody died at {place}")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
