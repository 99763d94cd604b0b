"""The fleet whose queue stands in the server's database, as far as somebody may see its tasks.

Its threads are the server's, so who may see one sees its task. What a queue knows of workers is for
those who see any of their tasks, and for admins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Row, and_, column, func, select, table

from treadle.api.marks import Mark
from treadle.core.approval import Question
from treadle.errors import StoreError
from treadle.fleet.job_mark import JobMark, find_mark, is_over
from treadle.fleet.overview import FleetView, describe_fleet
from treadle.fleet.port import QueueState
from treadle.fleet.queue_tables import (
    HAS_TABLES,
    PREFIX,
    READ_MARK,
    READ_STATE,
    make_queue_state,
)
from treadle.server.accounts import access
from treadle.server.context import Context, Principal
from treadle.server.data.fold_cache import FOLD_CACHE, load_fold
from treadle.server.data.schema import threads, users
from treadle.server.refusals import Refusal
from treadle.server.threads.stories import find_shown_thread
from treadle.thread.fold import ThreadFold

_JOBS: Final = table("procrastinate_jobs", column("lock"), column("queue_name"))


class SeenFleet(Struct, frozen=True):
    """A fleet, as somebody sees it.

    `names` are those under which the pages of its threads are found, by their ids; `own` the ids of
    those of which the caller may say what becomes of their tasks.
    """

    view: FleetView
    names: Mapping[str, str]
    own: frozenset[str]


def has_queue(db: Connection) -> bool:
    """Whether a fleet works from a queue in this database."""
    if db.dialect.name != "postgresql":
        return False
    return bool(db.exec_driver_sql(HAS_TABLES).scalar_one())


def read_queue_mark(db: Connection) -> str:
    """What is another one when the queue has changed."""
    return " ".join(str(one) for one in db.exec_driver_sql(READ_MARK).one())


def read_fleet(context: Context) -> SeenFleet | None:
    """How the fleet stands, for the caller; `None` if there is no queue in this database."""
    if not has_queue(context.db):
        return None
    ids = _list_visible_tasks(context)
    state = _read_state(context.db, ids)
    if not ids and not context.caller.is_admin:
        state = replace(state, workers=(), limits=())
    rows = _find_rows(context, [one.job.thread for one in state.jobs])
    kept = []

    def load(thread_id: str) -> ThreadFold:
        row = rows[thread_id]
        try:
            folded = load_fold(context.db, row.key, Mark(row.version, row.hash))
        except Refusal as refusal:
            raise StoreError(str(refusal)) from refusal
        kept.append(folded)
        return folded.fold

    try:
        view = describe_fleet(state, load)
    finally:
        for folded in kept:
            FOLD_CACHE.put(folded)
    for task in view.tasks:
        if task.questions or task.problem:  # words of the thread itself
            context.note_read(rows[task.thread].key, rows[task.thread].owner_id)
    me = context.caller.user_id
    names = {
        one.id: one.id if one.owner_id == me else f"{one.id}@{one.owner}" for one in rows.values()
    }
    own = {
        one.thread for one in view.tasks if _may_decide(context.caller, rows[one.thread], one.user)
    }
    return SeenFleet(view, names, frozenset(own))


def _is_visible(context: Context) -> Any:
    """Threads that workers append to: who has taken the id of one sees nothing of its job."""
    visible = access.make_visibility_condition(context.caller, context.now)
    return and_(visible, threads.c.has_journal)


def _list_visible_tasks(context: Context) -> list[str]:
    is_job = select(_JOBS.c.lock).where(func.starts_with(_JOBS.c.queue_name, PREFIX))
    query = select(threads.c.id).where(_is_visible(context), threads.c.id.in_(is_job))
    return list(context.db.execute(query).scalars())


def _read_state(db: Connection, ids: Sequence[str]) -> QueueState:
    found = [
        [{**one} for one in db.exec_driver_sql(each, {"threads": [*ids]}).mappings()]
        for each in READ_STATE
    ]
    return make_queue_state(*found)


def _find_rows(context: Context, ids: Sequence[str]) -> dict[str, Row[Any]]:
    query = (
        select(threads, users.c.name.label("owner"))
        .join(users, users.c.id == threads.c.owner_id)
        .where(_is_visible(context), threads.c.id.in_(ids))
    )
    return {row.id: row for row in context.db.execute(query)}


class FleetThread(Struct, frozen=True):
    """The thread of a task as far as it was taken in: its row, what it asks, and its mark.

    `may_decide` is whether the caller may answer what it asks, cancel it, and have it tried again.
    """

    row: Row[Any]
    questions: tuple[Question, ...]
    is_over: bool
    mark: JobMark
    may_decide: bool


def find_fleet_thread(context: Context, name: str) -> FleetThread | None:
    """The thread of a task that the caller may see; `None` if the thread holds none of a fleet.

    Raises:
        Refusal: there is no such thread.
    """
    row = find_shown_thread(context, name)
    if not row.has_journal:
        return None
    folded = load_fold(context.db, row.key, Mark(row.version, row.hash))
    fold = folded.fold
    mark, questions, has_ended = find_mark(fold), tuple(fold.machine.questions), is_over(fold)
    FOLD_CACHE.put(folded)
    if mark is None:
        return None
    may_decide = _may_decide(context.caller, row, mark.user)
    return FleetThread(row, questions, has_ended, mark, may_decide)


def _may_decide(caller: Principal, row: Row[Any], user: str) -> bool:
    """Whether a caller, who sees the thread, may say what becomes of its task.

    That may its owner, the user of the same organization for whom it was submitted, and admins.
    """
    is_here = caller.user_id is not None and caller.organization_id == row.organization_id
    is_for = is_here and caller.user == user
    is_chief = is_here and caller.role == "organization_admin"
    is_own = caller.user_id is not None and caller.user_id == row.owner_id
    return is_own or is_for or is_chief or caller.is_admin
