"""Each way to hear of the exit of a child, with real ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from treadle.platform.process_exit import (
    Heard,
    Stop,
    watch_by_descriptor,
    watch_by_thread,
    watch_exit,
)

Child = subprocess.Popen[bytes]
Watch = Callable[[Child, Heard], Stop]

WAYS: dict[str, Watch] = {
    "descriptor": lambda child, heard: watch_by_descriptor(child.pid, heard),
    "thread": lambda child, heard: watch_by_thread(child.pid, heard, child.wait),
    "as chosen": lambda child, heard: watch_exit(child.pid, heard, child.wait),
}


@pytest.fixture
def child() -> Iterator[Child]:
    """One that exits with 3 once its input is closed."""
    with subprocess.Popen(["sh", "-c", "cat; exit 3"], stdin=subprocess.PIPE) as process:
        yield process


def let_exit(child: Child) -> None:
    assert child.stdin is not None
    child.stdin.close()


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def watch(request: pytest.FixtureRequest) -> Watch:
    way: Watch = request.param
    return way


async def test_an_exit_is_told_once_and_the_dead_child_is_left(child: Child, watch: Watch) -> None:
    told, over = [], asyncio.Event()

    def hear() -> None:
        told.append(True)
        over.set()

    stop = watch(child, hear)
    await asyncio.sleep(0)
    assert told == []
    let_exit(child)
    await over.wait()
    await asyncio.sleep(0)
    stop()
    assert told == [True]
    assert child.returncode is None
    assert child.poll() == 3


async def test_a_child_that_has_exited_before_is_told_too(child: Child, watch: Watch) -> None:
    let_exit(child)
    for _ in range(2):  # the first time it may not have exited yet
        over = asyncio.Event()
        stop = watch(child, over.set)
        await over.wait()
        stop()


async def test_who_has_stopped_listening_is_told_nothing(child: Child, watch: Watch) -> None:
    told: list[bool] = []
    watch(child, lambda: told.append(True))()
    over = asyncio.Event()
    stop = watch(child, over.set)
    let_exit(child)
    await over.wait()
    stop()
    assert told == []


async def test_where_nothing_waits_without_reaping_the_child_is_waited_for(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid")
    monkeypatch.delattr(os, "pidfd_open")
    over = asyncio.Event()
    stop = watch_exit(child.pid, over.set, child.wait)
    let_exit(child)
    await over.wait()
    stop()
    assert child.returncode == 3
