"""The process of a parent dies while its sub-agent is at work; the same sub-agent goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runtime.desk import Desk
from runtime.task import family as program
from runtime.task.family import ANSWER, USED, WOVEN, family
from runtime.task.scarf import effects_in, make_store
from runtime.task.test_every_write import WAYS, Fault
from treadle.errors import StoreError, UsageError
from treadle.runtime.engine import AgentEngine
from treadle.store.local_store import LocalStore
from treadle.store.replay import verify_thread


def children_at_work(store: LocalStore, parent: str) -> list[str]:
    """The sub-agents of a thread that have done more than to be there."""
    folds = [store.load(line.id).fold for line in store.list() if line.id != parent]
    return [fold.header.thread for fold in folds if fold.usage.total_tokens]


def parent_of(store: LocalStore) -> str:
    (found,) = (one for one in store.ids() if store.load(one).fold.header.parent is None)
    return found


async def whole_again(store: LocalStore, engine: AgentEngine, folder: Path) -> None:
    """It has its end, the work of one sub-agent, done once and counted once."""
    assert await engine.run() == ANSWER
    used = engine.memory.total_usage
    assert (used.input_tokens, used.output_tokens) == USED
    assert [entry.observation for entry in engine.memory.history] == [f"SUCCESS: {WOVEN}"]
    children = [*engine.driver.journal.writer.fold.children.values()]
    assert children_at_work(store, engine.thread_id) == children
    runs = Counter(line.split()[0] for line in effects_in(folder))
    assert runs["cut"] <= 1
    assert runs["sew"] in (1, 2)
    await engine.close()
    for thread_id in (engine.thread_id, *children):
        assert verify_thread(store, thread_id).is_good


@pytest.mark.parametrize("place", ["cut", "sew"])
async def test_the_sub_agent_of_a_killed_process_goes_on(tmp_path: Path, place: str) -> None:
    died = subprocess.run(  # noqa: ASYNC221  nothing else runs here
        [sys.executable, program.__file__, str(tmp_path), place],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    store = make_store(tmp_path)
    thread_id = parent_of(store)
    (child,) = store.load(thread_id).fold.children.values()
    engine = family(tmp_path, store).resume(thread_id)
    await whole_again(store, engine, tmp_path)
    assert len(store.ids()) == 2
    assert [*engine.driver.journal.writer.fold.children.values()] == [child]
    told = {m.name: m.content for m in store.load(child).fold.conversation if m.role == "tool"}
    assert ("Uncertain" in told["cut"]) == (place == "cut")
    runs = Counter(line.split()[0] for line in effects_in(tmp_path))
    assert runs == {"cut": 1, "sew": 2 if place == "sew" else 1}


@pytest.mark.parametrize(("operation", "way"), [*(("write", way) for way in WAYS), ("sync", "")])
async def test_a_family_that_died_at_any_write_ends_as_if_it_had_not(
    tmp_path: Path, operation: str, way: str
) -> None:
    number, is_dead = 0, True
    while is_dead:
        folder = tmp_path / str(number)
        desk = Desk(folder)
        folder.mkdir()
        desk.disk.before = Fault(operation, number)
        desk.disk.left_by_failed_write = WAYS[way or "before"]
        try:
            await family(folder, desk.store).build().run()
            is_dead = False
        except StoreError:
            pass
        desk.crash()
        if not desk.store.ids():  # what could not be written is taken away again
            assert number == 0
            number += 1
            continue
        try:
            engine = family(folder, desk.store).resume(min(desk.store.ids()))
        except UsageError:  # it was being made, and nobody was told that it was there
            assert (number, way in ("before", "torn")) == (0, True)
        else:
            await whole_again(desk.store, engine, folder)
        number += 1
    assert number >= 12
