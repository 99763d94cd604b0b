"""What it costs to begin: imports, `--version`, opening a long thread in a fresh process."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.processor import Command, least_processor_ms
from bench.report import Row, at_most
from bench.turns import make_thread
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

_MACHINES = "import treadle.core.chat.machine, treadle.thread.recovery"
_AGENT = """
from treadle import Agent, LocalStore, ScriptedModel, tool

@tool
def add(first: int, second: int) -> int:
    "The sum."
    return first + second

agent = Agent(
    "bench", model=ScriptedModel.of("Yes."), store=LocalStore.in_memory(), tools=[add]
)
"""
_STORE = """
import sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
root = Path(sys.argv[1])
"""
_OPEN = """
writer = LocalStore(Places(root, root, root)).open(sys.argv[2])
assert len(writer.fold.conversation) == int(sys.argv[3])
"""
_LENGTHS: Final = {5_000: 50, 66_000: 300}
"""How long a thread is, and the milliseconds that opening it may take."""


def measure() -> list[Row]:
    """Time of the processor, over a bare interpreter."""
    python = [sys.executable, "-I", "-c"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        opened: dict[str, list[str]] = {}
        for length in _LENGTHS:
            writer = make_thread(LocalStore(Places(root, root, root)), length)
            writer.close()
            found = [*python, _STORE + _OPEN, folder, writer.thread_id, str(length)]
            opened[str(length)] = found
        programs = {
            "bare": [*python, "pass"],
            "import": [*python, "import treadle"],
            "machines": [*python, _MACHINES],
            "libraries": [*python, "import asyncio, msgspec"],
            "agent": [*python, _AGENT],
            "answer": [*python, _AGENT + "assert agent.run_sync('?').output == 'Yes.'"],
            "version": [str(Path(sys.executable).parent / "treadle"), "--version"],
            "store": [*python, _STORE, folder],
            **opened,
        }
        home = {"HOME": folder, "TREADLE_HOME": folder}
        took = least_processor_ms(
            {name: Command(one, root, home) for name, one in programs.items()}
        )
    over = {name: one - took["bare"] for name, one in took.items()}
    note = f"of which asyncio and msgspec {over['libraries']:.0f} ms"
    return [
        Row("a bare interpreter, processor", took["bare"], "ms"),
        at_most("import treadle, over bare", over["import"], "ms", 10),
        at_most("import the machines, over bare", over["machines"], "ms", 40),
        at_most("an agent with a store and a tool, over bare", over["agent"], "ms", 70, note),
        Row("  run and answered from memory, over bare", over["answer"], "ms"),
        at_most("treadle --version, over bare", over["version"], "ms", 60),
        *(
            at_most(
                f"{length:,} messages opened, over the imports",
                took[str(length)] - took["store"],
                "ms",
                limit,
            )
            for length, limit in _LENGTHS.items()
        ),
    ]
