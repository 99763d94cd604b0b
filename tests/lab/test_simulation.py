"""Long random lives of a store, replayable from their seed; and bugs that such a life must notice.

A failure names its seed: `Simulation(SEED).run()` is the same run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from lab.layers import SEED
from lab.planted import plant
from lab.simulation import ACTIONS, STEP_COUNT, Simulation, Violation
from treadle.core.conversation import Conversation, View
from treadle.store import thread_reader
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.thread import snapshot as snapshot_module
from treadle.thread.fold import ThreadFold
from treadle.thread.snapshot import Snapshot

BLOCK_COUNT: Final = 16
RUNS_PER_BLOCK: Final = 25
TORTURE_RUN_COUNT: Final = 4_000
RUNS_UNTIL_FOUND_MAX: Final = 60


@pytest.mark.parametrize("block", range(BLOCK_COUNT))
def test_whatever_happens_to_a_store_what_must_hold_holds(
    block: int, record_property: Callable[[str, object], None]
) -> None:
    done = dict.fromkeys(ACTIONS, 0)
    steps = cuts = crashes = failures = 0
    for number in range(RUNS_PER_BLOCK):
        run = Simulation(SEED + block * RUNS_PER_BLOCK + number).run()
        done = {name: done[name] + run.done[name] for name in done}
        steps += run.step
        cuts += run.cut_count
        crashes += run.crash_count
        failures += run.failure_count
    record_property("lab", f"{steps} steps, {cuts} power cuts, {crashes} crashes, {done}")
    assert steps == RUNS_PER_BLOCK * STEP_COUNT
    assert min(done.values()) > 0
    assert min(cuts, crashes, failures) > RUNS_PER_BLOCK


def test_the_default_run_takes_two_hundred_thousand_steps() -> None:
    assert BLOCK_COUNT * RUNS_PER_BLOCK * STEP_COUNT >= 200_000


def test_a_seed_is_a_run_and_another_seed_another_one() -> None:
    once, again, other = (Simulation(seed).run() for seed in (SEED, SEED, SEED + 1))
    assert once.log.digest() == again.log.digest() != other.log.digest()
    assert once.disk.files() == again.disk.files()


@pytest.mark.torture
@pytest.mark.parametrize("block", range(8))
def test_whatever_happens_in_a_long_time_what_must_hold_holds(block: int) -> None:
    for number in range(TORTURE_RUN_COUNT // 8):
        Simulation(1_000_000 + 1_000 * block + number, 5_000).run()


# ---- planted bugs -------------------------------------------------------------------------------


def _rewind_forgets_messages() -> AbstractContextManager[Any]:
    rewind = Conversation.rewind

    def shorter(self: Conversation, view: View) -> Conversation:
        return rewind(Conversation(self[: view.length]), replace(view, hidden=()))

    return patch.object(Conversation, "rewind", shorter)


def _snapshot_without_title() -> AbstractContextManager[Any]:
    restore = snapshot_module.restore_fold

    def forgetful(snapshot: Snapshot) -> ThreadFold | None:
        fold = restore(snapshot)
        if fold is not None:
            fold.metadata = replace(fold.metadata, title=None)
        return fold

    return patch.object(thread_reader, "restore_fold", forgetful)


def _snapshot_without_hidden_spans() -> AbstractContextManager[Any]:
    restore = snapshot_module.restore_conversation

    def forgetful(stored: Any) -> Conversation:
        return restore(replace(stored, hidden=()))

    return patch.object(snapshot_module, "restore_conversation", forgetful)


def _fork_of_the_newest() -> AbstractContextManager[Any]:
    fork = LocalStore.fork

    def newest(self: LocalStore, thread_id: str, version: int, **rest: Any) -> ThreadWriter:
        return fork(self, thread_id, None, **rest)

    return patch.object(LocalStore, "fork", newest)


def _call_ids_as_they_come() -> AbstractContextManager[Any]:
    """Ids of calls are taken as they come, whoever has used them before."""
    return patch.object(Conversation, "has_call", lambda self, call_id: False)


@contextmanager
def _as_planted(name: str) -> Iterator[None]:
    with plant(name):
        yield


OURS: Final[dict[str, tuple[Callable[[], AbstractContextManager[Any]], set[str]]]] = {
    "rewind forgets messages": (_rewind_forgets_messages, {"removed", "changed", "view"}),
    "snapshot without title": (_snapshot_without_title, {"snapshot"}),
    "snapshot without hidden spans": (_snapshot_without_hidden_spans, {"snapshot"}),
    "fork of the newest": (_fork_of_the_newest, {"fork"}),
    "call ids used twice": (_call_ids_as_they_come, {"ids", "pairs"}),
    **{
        name: ((lambda name=name: _as_planted(name)), kinds)  # type: ignore[misc]
        for name, kinds in {
            "no fsync": {"lost", "stuck", "refused", "changed"},
            "acknowledged before synced": {"lost", "stuck", "refused", "changed"},
            "write error swallowed": {"lost", "stuck", "refused", "changed", "unreadable"},
            "sync error swallowed": {"lost", "stuck", "refused", "unreadable"},
            "torn end not cut": {"stuck", "refused", "unreadable", "version"},
            "snapshot renamed before synced": {"damaged"},
            "opened without settling": {"lost", "stuck", "version"},
            "lock not exclusive": {"shared"},
        }.items()
    },
}
"""Bugs, and as what a run may notice them."""


@pytest.mark.parametrize("bug", OURS)
def test_a_bug_planted_in_the_store_is_noticed(bug: str) -> None:
    make, kinds = OURS[bug]
    with make():
        noticed = _first_violation()
    assert noticed.partition(":")[0] in kinds, noticed


def _first_violation() -> str:
    for seed in range(RUNS_UNTIL_FOUND_MAX):
        try:
            Simulation(seed).run()
        except Violation as violation:
            return str(violation)
    return ""
