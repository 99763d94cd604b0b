"""What it costs to begin: imports, `--version`, opening a long thread in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.report import Row, at_most
from bench.turns import make_thread
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

TIMES = 15

_MACHINES = "import treadle.core.chat.machine, treadle.thread.recovery"
_ANSWER = """
from treadle import Agent, LocalStore, ScriptedModel
agent = Agent("bench", model=ScriptedModel.of("Yes."), store=LocalStore.in_memory())
assert agent.run_sync("?").output == "Yes."
"""
_OPEN = """
import sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
root = Path(sys.argv[1])
writer = LocalStore(Places(root, root, root)).open(sys.argv[2])
assert len(writer.fold.conversation) == 5000
"""


def _interleaved(commands: dict[str, list[str]]) -> dict[str, float]:
    """Median wall milliseconds of each, run in turns so that drift hits all alike."""
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TIMES):
        for name, arguments in commands.items():
            start = time.perf_counter()
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            took[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(times) for name, times in took.items()}


def measure() -> list[Row]:
    """Over a bare interpreter."""
    python = [sys.executable, "-I"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        writer = make_thread(LocalStore(Places(root, root, root)), 5_000)
        writer.close()
        took = _interleaved(
            {
                "bare": [*python, "-c", "pass"],
                "import": [*python, "-c", "import treadle"],
                "machines": [*python, "-c", _MACHINES],
                "agent": [*python, "-c", "from treadle import Agent"],
                "answer": [*python, "-c", _ANSWER],
                "version": [str(Path(sys.executable).parent / "treadle"), "--version"],
                "open": [*python, "-c", _OPEN, folder, writer.thread_id],
            }
        )
    bare = took["bare"]
    return [
        Row("a bare interpreter", bare, "ms"),
        at_most("import treadle, over bare", took["import"] - bare, "ms", 10),
        at_most("import the machines, over bare", took["machines"] - bare, "ms", 40),
        at_most("from treadle import Agent, over bare", took["agent"] - bare, "ms", 60),
        Row("an agent made, run and answered from memory, over bare", took["answer"] - bare, "ms"),
        at_most("treadle --version, over bare", took["version"] - bare, "ms", 60),
        at_most("open 5,000 messages in a fresh process, all", took["open"], "ms", 150),
    ]
