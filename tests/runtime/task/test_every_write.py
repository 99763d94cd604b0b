"""The process dies before, in the middle of and after each write and sync of a whole task."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from runtime.desk import Desk, imbalance
from runtime.task.scarf import ANSWER, MUTATING, effects_in, scarf, story
from treadle.errors import StoreError, UsageError
from treadle.runtime.engine import AgentEngine
from treadle.store.replay import verify_thread

WAYS: Final = {"before": lambda data: b"", "torn": lambda data: data[:-9], "whole": lambda d: d}
"""What the write leaves in the file during which the process dies."""


class Fault:
    """Fails at the n-th operation of a kind on a journal, and for ever after it."""

    def __init__(self, operation: str, number: int) -> None:
        self.operation = operation
        self.left = number

    def __call__(self, operation: str, path: str, handle: int) -> None:
        if operation == self.operation or self.left < 0:
            self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "the process is dead")


def lines(engine: AgentEngine) -> list[tuple[int, str, str, str]]:
    """The story, without the one failure that a process may take with it into its grave."""
    return [line for line in story(engine.trace) if line[2] != "LLM_STREAM_ERROR"]


async def run_until(desk: Desk, operation: str, number: int, way: str) -> bool:
    """Whether the process died before the task was over."""
    desk.disk.before = Fault(operation, number)
    desk.disk.left_by_failed_write = WAYS[way]
    try:
        engine = scarf(desk.folder, desk.store).build()
        await engine.run()
    except StoreError:
        return True
    finally:
        desk.crash()
    return False


@pytest.mark.parametrize(("operation", "way"), [("write", way) for way in WAYS] + [("sync", "")])
async def test_a_task_that_died_at_any_write_ends_as_if_it_had_not(
    tmp_path: Path, operation: str, way: str
) -> None:
    (tmp_path / "whole").mkdir()
    whole = scarf(tmp_path / "whole", Desk(tmp_path / "whole").store).build()
    assert await whole.run() == ANSWER
    number, is_dead = 0, True
    while is_dead:
        folder = tmp_path / str(number)
        folder.mkdir()
        desk = Desk(folder)
        is_dead = await run_until(desk, operation, number, way or "before")
        if not desk.store.ids():  # what could not be written is taken away again
            assert number == 0
            number += 1
            continue
        (thread_id,) = desk.store.ids()
        try:
            engine = scarf(folder, desk.store).resume(thread_id)
        except UsageError:  # it was being made, and nobody was told that it was there
            assert (number, way in ("before", "torn")) == (0, True)
        else:
            assert await engine.run() == ANSWER
            pairs = zip(lines(whole), lines(engine), strict=True)
            differ = {there[2] for here, there in pairs if here != there}
            assert differ <= {"TOOL_FAILURE", "PARALLEL_ACTING_DONE"}, number
            runs = Counter(line.split()[0] for line in effects_in(folder))
            assert max(runs[name] for name in MUTATING) == 1
            assert imbalance(engine.memory.transcript) == ""
            await engine.close()
            assert verify_thread(desk.store, thread_id).is_good
        number += 1
    assert number > 12
