"""Warnings of refused events are the point of other tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    for name in ("treadle.chat", "treadle.task"):
        logging.getLogger(name).disabled = True
    yield
    for name in ("treadle.chat", "treadle.task"):
        logging.getLogger(name).disabled = False
