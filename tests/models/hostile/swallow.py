"""A process that swallows big answers and says what it took: memory, time, how each ended.

`python swallow.py FORMAT URL FOLDER COUNT`: one session each for COUNT answers, after one good
answer that is the base. It writes one line of JSON for each.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Final

from models.hostile.formats import FORMATS, MODEL
from runtime.desk import Desk, Toolbox, imbalance, mutate
from treadle.core import retry
from treadle.core.config import AgentConfig
from treadle.runtime.session import Session

CONFIG = AgentConfig(model_name=MODEL, max_retries=0, max_steps=3, llm_timeout_s=60)


STATUS: Final = Path("/proc/self/status")


def peak() -> int:
    """The most memory that this process has had, in bytes.

    Not `ru_maxrss` where there is something better: it begins with what the parent had.
    """
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


async def main(name: str, url: str, folder: str, count: int) -> None:
    retry.DELAY_S_FIRST = 0.0  # type: ignore[misc]
    desk = Desk(Path(folder))
    provider = FORMATS[name].provider(url)
    base = 0
    for number in range(count):
        session = Session(
            desk.store.create("test"), provider, Toolbox(bash=mutate(), read_file=mutate()), CONFIG
        )
        finished = await session.turn(f"case {number}")
        ended_s = time.monotonic()
        took = peak()
        again = await session.turn("go on")
        desk.check(session)
        said = {
            "before": base or took,
            "peak": took,
            "ended_s": ended_s,
            "outcome": finished.outcome.value,
            "kind": finished.error_kind.value if finished.error_kind else "",
            "error": finished.error,
            "next": again.outcome.value,
            "imbalance": imbalance(session.conversation),
            "characters": len(finished.answer),
        }
        base = base or took
        await session.close()
        del session, finished, again
        gc.collect()
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    await provider.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
