"""Whether a store keeps what `treadle.Store` promises: checks for whoever writes one.

In the tests of a store, with pytest or anything else::

    from functools import partial
    import pytest
    from treadle.store_conformance import CHECKS, PROCESS_CHECKS

    @pytest.mark.parametrize("check", [*CHECKS, *PROCESS_CHECKS], ids=lambda check: check.__name__)
    def test_the_store_keeps_its_promises(check, tmp_path):
        check(partial(MyStore, tmp_path / "threads"))

Each check is a function of one argument, a function without arguments that opens the store: an
empty one at first, and after that the same one again, as another process would. `PROCESS_CHECKS`
open it in other processes, so what opens it must be something that `pickle` takes; they are not for
a store that lives in one process. Where two processes meet, one is stopped before a line of the
store's own code (what is in the package of its class) while the other one does all of its work, one
line after the other: a fault that needs a certain moment is found each time. A store whose holders
have leases says in an attribute `lease_s` how many seconds a dead one's thread may stay held.

A check that fails raises `ConformanceError`, an
`AssertionError` that says which promise was broken, or what the store has raised. None of them can
take the power away: what a store calls durable is believed where a killed process loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.store_conformance import agent_checks, journal_checks, process_checks
from treadle.store_conformance.demands import Check, ConformanceError, OpenStore

CHECKS: Final[Sequence[Check]] = (*journal_checks.CHECKS, *agent_checks.CHECKS)
"""What can be seen in one process."""

PROCESS_CHECKS: Final[Sequence[Check]] = process_checks.CHECKS
"""What only several processes show: locks, deaths, races."""

__all__ = ["CHECKS", "PROCESS_CHECKS", "Check", "ConformanceError", "OpenStore"]
