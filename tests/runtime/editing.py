"""A process that edits a file twice in a round and is killed in between; for `test_one_file`.

Arguments: the folder of the store, the folder with the file. Where the store has a thread, it goes
on with that; it prints how each call has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from runtime.crashing import make_store
from runtime.desk import CONFIG, Model
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, Question
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry, tool

CONFIG_OF_BOTH = replace(CONFIG, approval=AlwaysAsk(), parallel_max=1)


def edit(old: str, new: str) -> dict[str, Any]:
    """A call that replaces a text in the file."""
    edits = [{"old_str": old, "new_str": new}]
    return {"tool": "edit_file", "arguments": {"path": "paper", "edits": edits}}


REPLIES: tuple[Any, ...] = (
    {"calls": [edit("one", "1"), {"tool": "die", "arguments": {}}, edit("two", "2")]},
    "done",
)


@tool()
def die() -> str:
    """Kill the process, without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


async def yes(_: Question) -> Verdict:
    return Verdict(Approved())


async def work(folder: Path, workspace: Path) -> None:
    store, tools = make_store(folder), Registry([*builtin_tools(), die], workspace=workspace)
    model, threads = Model(*REPLIES), store.ids()
    if threads:
        session = Session(store.open(threads[0]), model, tools)
        await session.resume()
    else:
        options = DriverOptions(approve=yes)
        session = Session(store.create("test"), model, tools, CONFIG_OF_BOTH, options)
        await session.turn("go")
    for message in session.conversation:
        if message.role == "tool":
            print(message.content)  # noqa: T201  read by the test
    await session.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2])))
