"""A process that is killed while it applies a patch; for `test_patched_files`.

Arguments: the folder of the store, the folder with the files. Where the store has a thread, it goes
on with that; it prints how the call has ended.
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
from treadle.core.approval import NeverAsk
from treadle.runtime.session import Session
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

PATCH = """\
*** Begin Patch
*** Update File: a
@@
-old
+new
*** Update File: b
@@
-old
+new
*** End Patch"""
REPLIES: tuple[Any, ...] = (
    {"calls": [{"tool": "apply_patch", "arguments": {"input": PATCH}}]},
    "done",
)


def die_between_files() -> None:
    """Be killed when the second of the two is to get its name."""
    real, seen = os.rename, list[object]()

    def rename(source: Any, *rest: Any, **more: Any) -> None:
        if str(source).endswith(".treadle-tmp"):
            seen.append(source)
            if len(seen) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        real(source, *rest, **more)

    os.rename = rename


async def work(folder: Path, workspace: Path) -> None:
    store, tools = make_store(folder), Registry(builtin_tools("openai"), workspace=workspace)
    model, threads = Model(*REPLIES), store.ids()
    if threads:
        session = Session(store.open(threads[0]), model, tools)
        await session.resume()
    else:
        die_between_files()
        config = replace(CONFIG, approval=NeverAsk())
        session = Session(store.create("test"), model, tools, config)
        await session.turn("go")
    for message in session.conversation:
        if message.role == "tool":
            print(message.content)  # noqa: T201  read by the test
    await session.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2])))
