"""A store of a test's own, and agents on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")
