"""A store on PostgreSQL keeps what a store promises."""

from __future__ import annotations

from functools import partial

import pytest

from treadle import PostgresStore
from treadle.store_conformance import CHECKS, PROCESS_CHECKS

ALL = {check.__name__: check for check in (*CHECKS, *PROCESS_CHECKS)}


@pytest.mark.parametrize("name", ALL)
def test_postgresql_is_a_store(name: str, open_store: partial[PostgresStore]) -> None:
    ALL[name](open_store)
