"""Reads of others' threads on their way into the database: before the answer, once in an hour.

What this process has kept in an hour it does not keep again, so a page that is live, or a program
that asks each second, costs one write an hour. Who reads at the same moment as others is kept with
them in one transaction.

A database that does not take a row in time holds nobody up: the answer goes out, the row is told in
the log, stays in memory, and is written as soon as it can be. When too many wait like that, nothing
of others is given out any more before they are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from threading import Lock
from time import monotonic
from typing import Final

from msgspec.structs import asdict
from sqlalchemy import Connection

from treadle.api.audit_types import ReadWay
from treadle.server.context import ThreadRead
from treadle.server.data.database_errors import make_unavailable_refusal
from treadle.server.http import logs
from treadle.server.refusals import Refusal
from treadle.server.threads.thread_reads import HOUR_LENGTH, ReadNote, keep_reads

WAIT_S: Final = 0.5
"""So long an answer waits for its row."""
KNOWN_MAX: Final = 100_000
"""What is remembered as kept; of more all is forgotten, and looked up when it comes again."""
WAITING_MAX: Final = 10_000
"""What waits for the database to take it."""

RunWrite = Callable[[Callable[[Connection], None], float], None]
"""Runs a function in a transaction that writes; waits so long for others. Raises `Refusal`."""


class ReadNotes:
    """Of one process. Safe for threads.

    Args:
        run: runs transactions.
    """

    def __init__(self, run: RunWrite) -> None:
        self._run = run
        self._lock = Lock()
        self._writer = Lock()
        self._known: set[ReadNote] = set()
        self._hour = ""
        self._waiting: dict[ReadNote, str] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether something is not kept yet."""
        return bool(self._waiting)

    def find_new(
        self, reads: Collection[ThreadRead], way: ReadWay, address: str, now: str
    ) -> list[ReadNote]:
        """What of these reads is not kept yet, as far as this process knows."""
        hour = now[:HOUR_LENGTH]
        notes = (
            ReadNote(one.key, one.user_id, one.share_id, way, address, hour)
            for one in dict.fromkeys(reads)
        )
        return [one for one in notes if one not in self._known]

    def keep(self, notes: Collection[ReadNote], now: str) -> None:
        """Keep reads, or see that they will be; called in a thread, before the answer goes out.

        Args:
            notes: of `find_new`.
            now: the time.

        Raises:
            Refusal: too many wait already.
        """
        if not notes:
            return
        with self._lock:
            if len(self._waiting) >= WAITING_MAX:
                raise make_unavailable_refusal("who reads what cannot be noted at this moment")
            is_told = all(one in self._waiting for one in notes)
            self._waiting |= {one: now for one in notes if one not in self._waiting}
        if not self.write(WAIT_S, notes) and not is_told:
            for one in notes:
                logs.log_event("read_waits", level=logging.WARNING, **asdict(one))

    def write(self, wait_s: float, notes: Collection[ReadNote] = ()) -> bool:
        """Write all that waits.

        Args:
            wait_s: how long to wait for others, and for the database.
            notes: what it is about; if others have written it meanwhile, nothing is left to do.

        Returns:
            Whether it is kept.
        """
        until = monotonic() + wait_s
        if not self._writer.acquire(timeout=wait_s):
            return False
        try:
            with self._lock:
                taken = dict(self._waiting)
            if not taken or (notes and not any(one in taken for one in notes)):
                return True
            self._run(lambda db: keep_reads(db, taken), max(0.0, until - monotonic()))
            self._remember(taken)  # before anybody else takes what waits
        except Refusal:
            return False  # the database is busy, away or full
        except Exception as error:  # noqa: BLE001  it is in the log; reading goes on
            logs.log_event("reads_failed", level=logging.ERROR, error=error)
            return False
        finally:
            self._writer.release()
        return True

    def _remember(self, kept: dict[ReadNote, str]) -> None:
        with self._lock:
            for one in kept:
                del self._waiting[one]
            newest = max(one.hour for one in kept)
            if newest > self._hour or len(self._known) > KNOWN_MAX:
                self._known, self._hour = set(), newest
            self._known |= {one for one in kept if one.hour == self._hour}
