"""A task whose work is done by a sub-agent; and a process that dies while that is at it.

Arguments: the folder of store and effects, the name of the tool in which to die.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from runtime.desk import Model, Toolbox
from runtime.task.scarf import make_store, make_tools, pause
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.ports import ThreadStore

TASK: Final = "Make me a carpet"
ANSWER: Final = "The carpet is made, somebody wove it."
WOVEN: Final = "It is woven as it should be."

WEAVE: Final[dict[str, Any]] = {"tool": "weaver", "arguments": {"task": "weave it"}}
PARENT: Final[tuple[Any, ...]] = (
    {"calls": [WEAVE], "usage": {"input_tokens": 100, "output_tokens": 10}},
    {"text": ANSWER, "usage": {"input_tokens": 100, "output_tokens": 10}},
)
CHILD: Final[tuple[Any, ...]] = (
    {"calls": [{"tool": "cut"}], "usage": {"input_tokens": 1000, "output_tokens": 7}},
    {"calls": [{"tool": "sew"}], "usage": {"input_tokens": 1000, "output_tokens": 7}},
    {"text": WOVEN, "usage": {"input_tokens": 1000, "output_tokens": 7}},
)
USED: Final = (2 * 100 + 3 * 1000, 2 * 10 + 3 * 7)
"""Tokens in and out of the whole."""


def family(
    folder: Path, store: ThreadStore, during: Callable[[str], Awaitable[None]] = pause
) -> AgentBuilder:
    """The parent; what its sub-agent does is done in `folder`."""
    weaver = AgentBuilder("", llm=Model(*CHILD)).tools(make_tools(folder / "effects", during))
    parent = AgentBuilder(TASK, llm=Model(*PARENT), store=store).tools(Toolbox())
    return parent.sub_agent("weaver", "weaves", weaver)


async def work(folder: Path, place: str) -> None:
    """One run, which does not get to its end."""

    async def during(name: str) -> None:
        if name == place:
            os.kill(os.getpid(), signal.SIGKILL)

    await family(folder, make_store(folder), during).build().run()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
    sys.exit(f"nobody died in {sys.argv[2]}")
