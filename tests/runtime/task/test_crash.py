"""Real processes are killed in each of the nine states; the next one ends with the same trace."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.desk import imbalance
from runtime.task import dying
from runtime.task.dying import PLACES
from runtime.task.scarf import (
    ANSWER,
    MUTATING,
    PATH,
    Weak,
    effects_in,
    make_store,
    scarf,
    story,
)
from treadle import outputs
from treadle.core.task.table import State
from treadle.errors import BudgetExceeded, UnknownThreadError
from treadle.runtime.engine import AgentEngine
from treadle.store.disk import PosixDisk
from treadle.store.replay import verify_thread

DOUBTFUL: Final = {
    "before the tool": ["cut"],
    "in the tool": ["cut"],
    "before the result": ["cut"],
    "among the calls": ["stitch"],
    "in the last call": ["stitch"],
    "decided": [],
}
"""The mutating calls that were running, by where the process died."""


def fresh(folder: Path) -> Path:
    """The folder, made."""
    folder.mkdir(exist_ok=True)
    return folder


def killed(folder: Path, place: str, *thread: str) -> None:
    """A process works there, and dies at the place."""
    died = subprocess.run(
        [sys.executable, dying.__file__, str(fresh(folder)), place, *thread],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr


@pytest.fixture(params=PLACES)
def dead(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a process that died at a place; the place is the folder's name."""
    folder = tmp_path / str(request.param)
    killed(folder, folder.name)
    return folder


async def finished(engine: AgentEngine) -> tuple[str, list[tuple[int, str, str, str]]]:
    """How it ended, in words, and the story of it."""
    try:
        end = await engine.run()
    except BudgetExceeded as error:
        end = error.message
    return end, story(engine.trace)


async def uninterrupted(folder: Path, **limits: Any) -> tuple[AgentEngine, Any]:
    engine = scarf(fresh(folder), make_store(folder), **limits).build()
    end = await finished(engine)
    await engine.close()
    return engine, end


def different(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """The lines of the second that stand in the place of others in the first."""
    assert len(one) == len(other)
    return [there for here, there in zip(one, other, strict=True) if here != there]


async def test_an_uninterrupted_run_goes_through_all_nine_states(tmp_path: Path) -> None:
    states = []

    def on_output(output: outputs.Output) -> None:
        if isinstance(output, outputs.StateStarted):
            states.append(output.state)

    folder = fresh(tmp_path / "whole")
    engine = scarf(folder, make_store(folder), on_output=on_output).build()
    assert await engine.run() == ANSWER
    await engine.close()
    assert tuple(states) == PATH
    assert {*states, "Error"} == {*State}
    assert Counter(line.split()[0] for line in effects_in(folder)) == dict.fromkeys(
        ("cut", "look", "stitch", "sew", "burn"), 1
    )


async def test_the_next_process_ends_with_the_same_trace_and_no_effect_twice(
    dead: Path, tmp_path: Path
) -> None:
    place = dead.name
    limits = {"max_steps": 2} if place == "failure" else {}
    whole, (wanted_end, wanted) = await uninterrupted(tmp_path / "whole", **limits)
    store = make_store(dead)
    (thread_id,) = store.ids()
    assert store.load(thread_id).fold.machine.state_name == PLACES[place]

    agent = scarf(dead, store)
    engine = agent.resume(thread_id)
    end, found = await finished(engine)
    assert end == wanted_end
    uncertain = DOUBTFUL.get(place, [])
    other = different(wanted, found)
    assert [line[2:] for line in other if line[2] != "PARALLEL_ACTING_DONE"] == [
        ("TOOL_FAILURE", line[3]) for line in other if line[2] == "TOOL_FAILURE"
    ]
    reported = [line[3] for line in other if line[2] == "TOOL_FAILURE"]
    assert [line.partition(": ERROR: Uncertain: ")[0] for line in reported] == uncertain
    if not uncertain:
        assert found == wanted
        assert engine.memory.total_usage == whole.memory.total_usage
        assert engine.memory.transcript == whole.memory.transcript
    assert isinstance(agent._llm, Weak)
    assert agent._llm.inner.refused == []
    assert imbalance(engine.memory.transcript) == ""
    no_mutating_tool_ran_twice_or_was_left_out(dead)
    await engine.close()
    assert verify_thread(store, thread_id).is_good


def no_mutating_tool_ran_twice_or_was_left_out(folder: Path) -> None:
    lines = effects_in(folder)
    runs = Counter(line.split()[0] for line in lines)
    assert len({*lines}) == len(runs), "each call has one key, whoever runs it"
    for name in MUTATING:
        never_began = folder.name == "before the tool" and name == "cut"
        is_beyond = folder.name == "failure" and name == "burn"
        assert runs[name] == (not never_began and not is_beyond), name


async def test_a_resumed_task_that_was_over_asks_nobody_anything(tmp_path: Path) -> None:
    for place in ("answer", "failure"):
        killed(tmp_path / place, place)
        store = make_store(tmp_path / place)
        (thread_id,) = store.ids()
        before = effects_in(tmp_path / place)
        agent = scarf(tmp_path / place, store)
        engine = agent.resume(thread_id)
        await finished(engine)
        assert isinstance(agent._llm, Weak)
        assert agent._llm.inner.requests == []
        assert effects_in(tmp_path / place) == before
        await engine.close()


class _Cut(PosixDisk):
    """Refuses to write, as if the process had died before."""

    def write(self, handle: int, data: bytes) -> None:
        raise OSError(5, "dead")


def test_a_thread_that_was_not_written_yet_was_never_there(tmp_path: Path) -> None:
    store = make_store(tmp_path, _Cut())
    with pytest.raises(Exception, match="dead"):
        scarf(tmp_path, store).build()
    store = make_store(tmp_path)
    assert store.list() == []
    for thread_id in store.ids():
        with pytest.raises(UnknownThreadError):
            scarf(tmp_path, store).resume(thread_id)


async def test_a_process_may_die_again_and_again(tmp_path: Path) -> None:
    folder = tmp_path / "often"
    killed(folder, "request")
    store = make_store(folder)
    (thread_id,) = store.ids()
    for place in ("hook", "summary", "waiting"):
        killed(folder, place, thread_id)
    engine = scarf(folder, store).resume(thread_id)
    end = await finished(engine)
    assert end == (await uninterrupted(tmp_path / "whole"))[1]
    await engine.close()
