"""A new machine that syncs, in a process of its own, until it kills itself.

Run as ``first_sync_program.py HOME URL TOKEN CALL``. It dies by SIGKILL in the CALLth call to its
disk, whichever of its threads makes it; with a CALL of 0 never. Then it tells how many threads were
received, and whether all is synced.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from sync.engines import engine_of
from treadle.app.sync.sync_engine import FETCHES_AT_A_TIME
from treadle.store.disk import PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import Account


class MortalDisk:
    """A disk, one call to which is the process's last."""

    def __init__(self, last_call: int) -> None:
        self._disk = PosixDisk()
        self._last_call = last_call
        self._calls = count(1)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)

        def call(*values: Any, **options: Any) -> Any:
            if next(self._calls) == self._last_call:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*values, **options)

        return call


def main() -> None:
    """Sync once."""
    home, url, token, last_call = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
    mortal: Any = MortalDisk(last_call)
    store = LocalStore(Places(home / "data", home / "state", home / "config"), disk=mortal)
    with HttpRemote(Account(url=url, token=token)) as remote:
        many = FETCHES_AT_A_TIME
        report = engine_of(store, remote, Random(1), fetches_at_a_time=many).sync()
    sys.stdout.write(f"{len(report.received)} {report.is_complete} {report.unreachable}".strip())


if __name__ == "__main__":
    main()
