"""Programs that run beside us, are spoken with, and end with us, whoever ends first."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcp_servers.desk import is_alive
from runtime.clock import tick
from treadle.process import service
from treadle.process.service import REMARK_SIZE_MAX, Service

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
PATIENT = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(os.getpid(), child.pid, flush=True)
signal.pause()
"""


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Service]]:
    made: list[Service] = []

    def start(program: str, **environment: str) -> Service:
        made.append(Service([sys.executable, "-c", program], tmp_path, environment))
        return made[-1]

    yield start
    for one in made:
        await one.close()


async def read_all(one: Service) -> bytes:
    pieces = []
    while piece := await one.read():
        pieces.append(piece)
    return b"".join(pieces)


async def test_it_is_spoken_with_both_ways_however_much_there_is(
    start: Callable[..., Service],
) -> None:
    one = start(ECHO)
    line = b"x" * 300_000 + b"\n"

    async def speak() -> None:
        for _ in range(5):
            await one.write(line)

    speaking = asyncio.ensure_future(speak())
    heard = b""
    while len(heard) < 5 * len(line):
        heard += await one.read()
    await speaking
    assert heard == line * 5
    await one.close()
    assert await one.read() == b""
    with pytest.raises(BrokenPipeError):
        await one.write(b"more")


async def test_what_it_says_of_a_failure_is_kept_to_its_end(start: Callable[..., Service]) -> None:
    one = start("import sys; sys.stderr.write('a' * 9000 + 'the end'); sys.exit(3)")
    assert await read_all(one) == b""
    await one.close()
    assert one.remark.endswith("the end")
    assert len(one.remark) == REMARK_SIZE_MAX
    missing = Service(["no-such-program"], "/", {})
    assert await read_all(missing) == b""
    await missing.close()
    assert "no-such-program: No such file or directory" in missing.remark


@pytest.fixture
def restore() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def test_it_gets_the_environment_that_is_given_and_no_signal_that_is_ignored(
    restore: ExitStack,
) -> None:
    """Python ignores two signals for itself, and who inherits that hears of no broken pipe.

    A shell ignores two others for what it begins in the background.
    """
    said = []
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        before = signal.signal(number, signal.SIG_IGN)
        restore.callback(signal.signal, number, before)
    for argv in (["/usr/bin/env"], ["/bin/cat", "/proc/self/status"]):
        one = Service(argv, "/", {"A": "1"})
        said.append((await read_all(one)).decode())
        await one.close()
    assert said[0] in ("A=1\n", "A=1\nLC_CTYPE=C.UTF-8\n")  # Python itself adds the second
    (mask,) = (line.split()[1] for line in said[1].splitlines() if line.startswith("SigIgn"))
    # The C library keeps two numbers for itself, which `make` passes on as ignored.
    assert [one for one in signal.valid_signals() if int(mask, 16) >> (one - 1) & 1] == []


async def test_one_that_does_not_want_to_end_is_ended_with_its_group(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATIENCE_S", 0.1)
    for is_cancelled in (False, True):
        one = start(PATIENT)
        pids = [*map(int, (await one.read()).split())]
        closing = asyncio.ensure_future(one.close())
        if is_cancelled:
            await tick()
            closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled() == is_cancelled
        while any(map(is_alive, pids)):
            os.sched_yield()


PARENT = """
import asyncio, os, sys
from treadle.process.service import Service
async def main():
    one = Service([sys.executable, "-c", sys.argv[1]], "/", {})
    print((await one.read()).decode(), end="", flush=True)
    await asyncio.get_running_loop().create_future()
asyncio.run(main())
"""


def test_nothing_of_it_is_left_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, PATIENT], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [*map(int, parent.stdout.readline().split())]
    assert all(map(is_alive, pids))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    while any(map(is_alive, pids)):
        os.sched_yield()
