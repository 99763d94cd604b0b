"""A process that changes files and is killed half way, for the tests of what is left then.

Arguments: the name of a `Scene`, the folder of the store, the folder with the files. Where the
store has a thread, the process goes on with that; it prints how each call has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from runtime.crashing import make_store
from runtime.desk import CONFIG, Model
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, NeverAsk, Question
from treadle.core.config import AgentConfig
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.tools.builtin import builtin_tools
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry

PATCH: Final = """\
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


class Scene(Struct, frozen=True):
    """One round of calls, and how the process dies in it; `begin` is called before the round."""

    calls: list[dict[str, Any]]
    config: AgentConfig
    family: str = ""
    begin: Callable[[], object] = lambda: None


def edit(old: str, new: str) -> dict[str, Any]:
    """A call that replaces a text in the file `paper`."""
    edits = [{"old_str": old, "new_str": new}]
    return {"tool": "edit_file", "arguments": {"path": "paper", "edits": edits}}


@tool()
def die() -> str:
    """Kill the process, without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def die_between_files() -> None:
    """Be killed when the second of the two files of a patch is to get its name."""
    real, seen = os.rename, list[object]()

    def rename(source: Any, *rest: Any, **more: Any) -> None:
        if str(source).endswith(".treadle-tmp"):
            seen.append(source)
            if len(seen) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        real(source, *rest, **more)

    os.rename = rename


SCENES: Final = {
    "edits": Scene(
        [edit("one", "1"), {"tool": "die", "arguments": {}}, edit("two", "2")],
        replace(CONFIG, approval=AlwaysAsk(), parallel_max=1),
    ),
    "patch": Scene(
        [{"tool": "apply_patch", "arguments": {"input": PATCH}}],
        replace(CONFIG, approval=NeverAsk()),
        "openai",
        die_between_files,
    ),
}


async def yes(_: Question) -> Verdict:
    return Verdict(Approved())


async def work(scene: Scene, folder: Path, workspace: Path) -> None:
    store = make_store(folder)
    tools = Registry([*builtin_tools(scene.family), die], workspace=workspace)
    model, threads = Model({"calls": scene.calls}, "done"), store.ids()
    if threads:
        session = Session(store.open(threads[0]), model, tools)
        await session.resume()
    else:
        scene.begin()
        options = DriverOptions(approve=yes)
        session = Session(store.create("test"), model, tools, scene.config, options)
        await session.turn("go")
    for message in session.conversation:
        if message.role == "tool":
            print(message.content)  # noqa: T201  read by the test
    await session.close()


def run(scene: str, folder: Path, workspace: Path) -> subprocess.CompletedProcess[str]:
    """Run the process to its end, or to its death."""
    return subprocess.run(
        [sys.executable, __file__, scene, str(folder), str(workspace)],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )


if __name__ == "__main__":
    asyncio.run(work(SCENES[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])))
