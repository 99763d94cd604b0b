"""What holds for all tests: none of them fails because the machine is busy with other things."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

import warm_process

settings.register_profile(
    "any machine",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """What stands for the tests stays to the end: who looks for garbage need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    warm_process.stop()
