"""Tests of the runtime run on a clock that jumps, at a desk of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from runtime.clock import JumpingLoop
from runtime.desk import Desk


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping": JumpingLoop}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A place to work; what a test leaves open is given back."""
    place = Desk(tmp_path)
    yield place
    place.disk.kill()
    assert place.refused() == []
