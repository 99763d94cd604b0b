"""The fleet that `bench.fleet` measures, where `BENCH_URL` and `BENCH_FOLDER` say."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from treadle import (
    Agent,
    EffectClass,
    Fleet,
    PostgresStore,
    ProcrastinateScheduler,
    ScriptedModel,
    tool,
)

URL: Final = os.environ.get("BENCH_URL", "postgresql:///bench")
FOLDER: Final = Path(os.environ.get("BENCH_FOLDER", "."))
STALLED_S: Final = 2.0
"""A worker that is not heard of for so long is taken for dead; 30 s if nobody says so."""
SCALE: Final = STALLED_S / 30
"""All that a fleet waits for is so much shorter than if nobody says anything."""

WORK: Final = {"calls": [{"tool": "work", "arguments": {"path": "src/module.py"}}]}
WAIT: Final = {"calls": [{"tool": "wait", "arguments": {}}]}
DONE: Final = {"text": "The tool did what it should; nothing else is left to do here."}


@tool(effect=EffectClass.MUTATE)
def work(path: str) -> str:
    """Work."""
    return "x" * 1_000


@tool(effect=EffectClass.IDEMPOTENT)
async def wait() -> str:
    """Say who has begun, and wait for as long as a file is there."""
    with (FOLDER / "begun").open("a") as begun:
        begun.write(f"{os.getpid()}\n")
    while (FOLDER / "hold").exists():  # noqa: ASYNC110  another process takes it away
        await asyncio.sleep(0.01)
    return "waited"


store = PostgresStore(URL, "owner", lease_s=10 * SCALE)
scheduler = ProcrastinateScheduler(
    URL, heartbeat_s=10 * SCALE, stalled_s=STALLED_S, poll_s=5 * SCALE
)
fleet = Fleet(scheduler, sweep_s=15 * SCALE)
worker = Agent("worker", model=ScriptedModel.of(WORK, DONE), tools=[work], store=store)
waiter = Agent("waiter", model=ScriptedModel.of(WAIT, DONE), tools=[wait], store=store)
fleet.add(worker)
fleet.add(waiter)
