"""A run of retention: what the rules say is done, a few threads at a time.

Each step is one transaction, which looks at its threads once more: who has gone on with one
meanwhile, or has placed a hold, comes first. A run that is killed has done some of its steps whole,
and the next one does the others. Two runs at once do each thing once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from sqlalchemy import Connection, select

from treadle.api.error_codes import ErrorCode
from treadle.server import search
from treadle.server.accounts import audit
from treadle.server.accounts.accounts import OPERATOR
from treadle.server.context import Context
from treadle.server.data.database import Database
from treadle.server.data.schema import threads
from treadle.server.refusals import Refusal
from treadle.server.threads import retention
from treadle.server.threads.journal_holds import find_obstacle
from treadle.server.threads.legal_holds import check_not_held
from treadle.server.threads.removal import purge_row
from treadle.server.threads.retention import PUT_AWAY, Due
from treadle.server.threads.threads import put_row_away

SQLITE_STEP_COUNT: Final = 20
"""Threads of a step on SQLite, which writes the words of the search anew at its end. A change is
the end of a transaction on PostgreSQL: there a step is one thread."""

FAILURE_COUNT_MAX: Final = 10
"""Steps in a row for which the database was not to be had: then it is given up."""


class RetentionReport(Struct, frozen=True):
    """What a run has done: numbers of threads, and the bytes of those that were removed.

    `skipped` have changed since the run began, are held or at work.
    """

    put_away: int = 0
    removed: int = 0
    size: int = 0
    skipped: int = 0

    def add(self, one: Due, *, is_done: bool) -> RetentionReport:
        """With one thread more."""
        if not is_done:
            return RetentionReport(self.put_away, self.removed, self.size, self.skipped + 1)
        if one.act == PUT_AWAY:
            return RetentionReport(self.put_away + 1, self.removed, self.size, self.skipped)
        return RetentionReport(
            self.put_away, self.removed + 1, self.size + one.row.size, self.skipped
        )


def run_retention(
    database: Database,
    now: Callable[[], str],
    is_stopping: Callable[[], bool] = lambda: False,
) -> RetentionReport:
    """Do what the rules say.

    Args:
        database: the server's.
        now: the clock.
        is_stopping: whether to leave the rest to the next run.

    Raises:
        Refusal: the database is not there; what was done stays done.
    """
    if not database.run(retention.has_rules, is_write=False):
        return RetentionReport()
    due = database.run(
        lambda db: retention.schedule(Context(db, OPERATOR, now())).due, is_write=False
    )
    count = SQLITE_STEP_COUNT if database.dialect == "sqlite" else 1
    report, failures = RetentionReport(), 0
    for start in range(0, len(due), count):
        if is_stopping():
            break
        step = due[start : start + count]
        try:
            done = _do_step(database, now, step)
            failures = 0
        except Refusal as refusal:
            # One of them is the reason: a worker is at work on it, or nobody can fold it.
            failures += refusal.code is ErrorCode.UNAVAILABLE
            if failures > FAILURE_COUNT_MAX:
                raise
            done = [_try_one(database, now, one) for one in step]
        for one, is_done in zip(step, done, strict=True):
            report = report.add(one, is_done=is_done)
    return report


def _try_one(database: Database, now: Callable[[], str], one: Due) -> bool:
    try:
        return _do_step(database, now, [one])[0]
    except Refusal:
        return False


def _do_step(database: Database, now: Callable[[], str], step: Sequence[Due]) -> list[bool]:
    """What is done of each, all in one transaction."""

    def work(db: Connection) -> list[bool]:
        context = Context(db, OPERATOR, now())
        done = [_do(context, one) for one in step]
        if any(one.act != PUT_AWAY for one in step):
            search.rewrite_words(db)
        return done

    return database.run(work, is_write=True)


def _do(context: Context, one: Due) -> bool:
    """Put a thread away, or remove what was said in it, if it still is time for that."""
    query = select(threads).where(threads.c.key == one.row.key)
    row = context.db.execute(query.with_for_update()).one_or_none()
    still = retention.find_due(context, one.row)
    if row is None or not still or still[0].act != one.act:
        return False
    is_away = one.act == PUT_AWAY
    forks = retention.list_forks_of(context.db, row)
    if any(fork.deleted_at is None or not is_away for fork in forks):
        return False
    if (is_away and retention.waits_for_parent(context, row)) or find_obstacle(context.db, row):
        return False
    try:
        check_not_held(context, row)
    except Refusal:
        return False
    told = f"put away: nothing came since {still[0].since[:10]}"
    if not is_away:
        told = f"removed: put away on {still[0].since[:10]}"
    audit.log_action(context, "thread_expired", row.key, told)
    if is_away:
        put_row_away(context, row)
    else:
        purge_row(context, row, rewrites_words=False)
    return True
