"""What holds for all tests: none of them fails because the machine is busy with other things."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import warm_process

# Where it is forbidden to keep compiled modules, each of thousands of processes would compile all
# that it imports, and each worker rewrite the assertions of all tests, in every run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile(
    "any machine",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """What a command does in this process to where modules come from ends with its test.

    It takes out of it what commands may write, which is the clone itself if that lies in `/tmp`.
    """
    before = sys.path[:]
    yield
    sys.path[:] = before


@pytest.fixture(scope="module")
def forget_trees() -> Iterator[None]:
    """What was parsed for a module goes with it: who looks for garbage would pass each node."""
    from house import source  # what it imports few tests need

    yield
    source.nodes.cache_clear()
    source.parsed.cache_clear()


def pytest_collection_finish() -> None:
    """What stands for the tests stays to the end: who looks for garbage need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    warm_process.stop()
