"""Real processes die without a word, and the next one finds everything and goes on."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runtime import crashing
from runtime.clock import tick
from runtime.crashing import EXIT_CODE, PLACES, REPLIES, make_store, make_tools
from runtime.desk import Folder, Model, imbalance, roles
from treadle.outputs import TurnOutcome
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.store.replay import verify_thread


@pytest.fixture(scope="module", params=PLACES)
def dead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that died at a place; the place is the folder's name."""
    folder = tmp_path_factory.mktemp("dead") / str(request.param)
    arguments = [str(folder), request.param, str(folder / "effects")]
    folder.mkdir()
    died = subprocess.run(
        [sys.executable, crashing.__file__, *arguments],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert died.returncode == EXIT_CODE, died.stderr
    return folder


async def test_what_a_dead_process_left_is_finished_by_the_next(dead: Path) -> None:
    place = dead.name
    store, effects = make_store(dead), dead / "effects"
    effects.touch()
    (thread_id,) = store.ids()
    model, tools = Model(*REPLIES), make_tools(effects, lambda _: tick())
    options = DriverOptions(workspace=Folder())
    session = Session(store.open(thread_id), model, tools, options=options)
    assert not session.is_waiting
    assert (await session.resume()).outcome is TurnOutcome.DONE

    said = [m.content for m in session.conversation if m.role == "user"]
    assert said == (["go", "more"] if place == "queue" else ["go"])
    assert imbalance(session.conversation) == ""
    assert roles(session.conversation)[:5] == ["user", "assistant", "tool", "tool", "tool"]
    assert model.refused == []

    lines = effects.read_text().splitlines()
    runs = Counter(line.split()[0] for line in lines)
    assert len(set(lines)) == len(runs), "each call has one key, whoever runs it"
    is_doubtful = session.conversation[4].content.startswith("ERROR: Uncertain")
    assert is_doubtful == (place in ("read", "idempotent", "mutate", "queue"))
    assert runs["mutate"] == (place not in ("read", "idempotent")), "at most once, and said so"
    assert runs["read"] >= 1
    assert runs["idempotent"] >= 1
    await session.close()
    report = verify_thread(store, thread_id)
    assert report.is_good, report.text
