"""Every store of ours keeps what a store promises, and one that a program has brought.

What the checks are worth is shown by stores that are broken, each found by the check named for it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from store_conformance.broken_stores import BROKEN
from store_conformance.example import SqliteStore
from store_conformance.leased_store import LeasedStore
from treadle import LocalStore, Store, StoreError
from treadle.store_conformance import CHECKS, PROCESS_CHECKS, Check, ConformanceError
from treadle.store_conformance.demands import demand_equal

ALL = {check.__name__: check for check in (*CHECKS, *PROCESS_CHECKS)}


@pytest.mark.parametrize("name", ALL)
def test_a_folder_is_a_store(name: str, tmp_path: Path) -> None:
    ALL[name](partial(LocalStore, tmp_path / "store"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_memory_is_a_store(check: Check) -> None:
    store: Store = LocalStore.in_memory()
    check(lambda: store)


@pytest.mark.parametrize("name", ALL)
def test_the_store_of_an_example_is_a_store(name: str, tmp_path: Path) -> None:
    ALL[name](partial(SqliteStore, str(tmp_path / "threads.db")))


@pytest.mark.parametrize("name", ALL)
def test_a_store_with_leases_is_a_store(name: str, tmp_path: Path) -> None:
    ALL[name](partial(LeasedStore, str(tmp_path / "threads.db")))


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_store_is_found_out(fault: str, tmp_path: Path) -> None:
    store, name = BROKEN[fault]
    with pytest.raises((ConformanceError, StoreError)):
        ALL[name](partial(store, str(tmp_path / "threads.db")))


def test_a_promise_that_is_broken_says_what_was_found() -> None:
    with pytest.raises(ConformanceError, match=r"kept: found b'one', not b'two'"):
        demand_equal(b"one", b"two", "what is kept is kept")


def test_every_check_of_a_journal_finds_something() -> None:
    agents = {name for name in ALL if name.startswith(("an_agent", "threads_are"))}
    assert {*ALL} - {name for _, name in BROKEN.values()} == agents
