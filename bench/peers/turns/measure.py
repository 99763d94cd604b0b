"""What the three programs have in common: how long a model takes, and what is measured."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

MODEL_S = 0.01
"""How long a model takes to answer; a turn asks it twice."""
RESULT = "It left the house. " * 53
"""What the tool says: 1 kB."""
CONNECTIONS = 10
"""Of a process to the database, at most."""


async def run(work: Callable[[int], Awaitable[None]], agents: int, turns: int) -> None:
    """Have so many agents work at a time, and print what that took."""
    began, processor_began = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(work, range(agents)))
    took, processor = time.perf_counter() - began, time.process_time() - processor_began
    count = agents * turns
    print(json.dumps({"per_s": count / took, "processor_ms": 1000 * processor / count}))
