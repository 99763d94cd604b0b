"""For tests of programs with agents: a pytest plugin, and what such tests need.

In the `conftest.py` of a program::

    pytest_plugins = ["treadle.pytest_plugin"]

From then on no test reaches a model that is not on this machine, so that none costs money or goes
by what a model feels like today; one with the mark `real_models` may. `memory_store` is a store
that ends with its test. Models for tests are `treadle.ScriptedModel`, which says what is written
down, `treadle.TestModel`, which calls every tool once, and `recorded:FILE`, which answers as a real
one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from treadle.models.wire.endpoint import restrict_hosts
from treadle.store.local_store import LocalStore

LOCAL_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1"))
MARK: Final = "real_models"


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest know the mark."""
    config.addinivalue_line("markers", f"{MARK}: may ask models that are not on this machine")


@pytest.fixture(autouse=True)
def forbid_real_models(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no request leave this machine, unless the test has the mark `real_models`."""
    is_allowed = request.node.get_closest_marker(MARK) is not None
    before = restrict_hosts(None if is_allowed else LOCAL_HOSTS)
    yield
    restrict_hosts(before)


@pytest.fixture
def memory_store() -> LocalStore:
    """A store whose threads end with the test."""
    return LocalStore.in_memory()


def make_clock(start: str = "2026-01-01T00:00:00", step_s: float = 1.0) -> Callable[[], str]:
    """A clock for `LocalStore.in_memory(now=...)` that goes on a step each time it is read.

    Args:
        start: the first time it tells, UTC.
        step_s: seconds.
    """
    now = datetime.fromisoformat(start).replace(tzinfo=UTC)

    def read() -> str:
        nonlocal now
        told, now = now, now + timedelta(seconds=step_s)
        return told.isoformat(timespec="microseconds").replace("+00:00", "Z")

    return read
