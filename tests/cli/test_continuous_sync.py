"""What `treadle sync --watch` does again by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import LocalStore, Places
from treadle.app.sync.continuous_sync import RETRY_POLLS, sync_continuously
from treadle.store.disk import FileStat, PosixDisk
from treadle.sync.context import SyncProblem, SyncReport
from treadle.sync.credentials import Account


class EnoughError(Exception):
    """The watcher has been seen for long enough."""


class Watched(PosixDisk):
    """A disk that is looked at so often, and then no more."""

    looks = 0

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        self.looks += 1
        if self.looks > 2 * RETRY_POLLS:
            raise EnoughError
        return super().stats(folder, ending)


@pytest.mark.parametrize("waiting", [(SyncProblem("T-1", "it is open"),), ()])
def test_what_waits_is_tried_again_though_nothing_is_new(
    tmp_path: Path, waiting: tuple[SyncProblem, ...]
) -> None:
    store = LocalStore(Places.find({"TREADLE_HOME": str(tmp_path)}), disk=Watched())
    reports: list[SyncReport] = []
    report = SyncReport(waiting=waiting, unreachable="nobody listens")
    account = Account("http://127.0.0.1:9", "x")
    with pytest.raises(EnoughError):
        sync_continuously(store, account, lambda: 0, lambda: report, reports.append, look_s=0.0)
    assert len(reports) == (2 if waiting else 1)
