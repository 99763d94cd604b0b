"""Time of the processor that programs take: others at work on the machine change it little."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TIMES: Final = 9


@dataclass(frozen=True)
class Command:
    """A program, the folder where it runs, and what is added to an environment that has `PATH`."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def least_processor_ms(commands: Mapping[str, Command]) -> dict[str, float]:
    """The least time of each, its own and that of all it starts, in milliseconds.

    They run in turns, so that what else happens on the machine meets all alike.
    """
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(TIMES):
        for name, command in commands.items():
            least[name] = min(least[name], processor_ms(command))
    return least


def processor_ms(command: Command) -> float:
    """The time of a program and of all it starts, in milliseconds.

    Raises:
        CalledProcessError: it fails.
    """
    before = _used_s()
    subprocess.run(
        command.arguments,
        cwd=command.folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **command.environment},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return (_used_s() - before) * 1e3


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Used:
    """What a process has used so far: seconds of the processor, bytes given to disks."""

    processor_s: float
    written: int


def read_used(pid: int) -> Used:
    """Of all its threads, as Linux counts it."""
    process = Path(f"/proc/{pid}")
    tasks = (process / "task").iterdir()
    spent_ns = sum(int((one / "schedstat").read_text().split()[0]) for one in tasks)
    lines = (process / "io").read_text().splitlines()
    written = next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))
    return Used(spent_ns / 1e9, written)
