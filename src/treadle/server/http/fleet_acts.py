"""What people say on pages to tasks of a fleet: answers go into the thread, then to the queue.

No machine of theirs holds such a thread, and while it waits for a person nobody does. So the server
records the answer as `treadle fleet approve` does, and with it who gave it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from anyio import to_thread
from sqlalchemy import Connection, select, text

from treadle.api.error_codes import ErrorCode
from treadle.core.approval import Approved, Question, Rejected
from treadle.core.tools import RiskLevel
from treadle.errors import ThreadBusyError, TreadleError, UsageError
from treadle.fleet.port import Job, Scheduler
from treadle.pages.act_routes import ActForm, OpenActs
from treadle.pages.question_page import QuestionView, make_question_view
from treadle.server.accounts import sessions
from treadle.server.context import Context, Principal
from treadle.server.data.schema import threads
from treadle.server.http import logs
from treadle.server.http.services import Services
from treadle.server.journals.task_records import TaskPlace, record_answer
from treadle.server.refusals import Refusal
from treadle.server.threads.fleet_tasks import FleetThread, find_fleet_thread, has_queue
from treadle.thread.facts import RequestTaken
from treadle.thread.question_digest import digest_question
from treadle.thread.question_text import list_dangers, read_object

Result = TypeVar("Result")

SHOWN_S: Final = 5.0
"""Seconds for which the answer to a form waits until the page shows what it did."""
LOOK_S: Final = 0.05
ID_LENGTHS: Final = range(16, 65)
"""Of the ids of forms."""

_BUSY: Final = "a worker holds this task at the moment: load the page again"
_WAS_TAKEN: Final = text(
    "SELECT EXISTS (SELECT FROM records WHERE thread_id = :key AND strpos(line, :id) > 0)"
)


def make_forbidden_refusal(found: FleetThread) -> Refusal:
    """Why somebody may not say what becomes of a task that they see."""
    whom = f"{found.mark.user}, for whom it was submitted," if found.mark.user else "its owner"
    return Refusal(ErrorCode.FORBIDDEN, f"only {whom} or an admin says what becomes of this task")


def name_visitor(caller: Principal) -> str:
    """Who says something on a page, as threads record it."""
    return f"{caller.user} on a page of the server"


def find_place(services: Services, found: FleetThread) -> TaskPlace:
    """Where the thread of a task is recorded."""
    return TaskPlace(find_url(services), found.row.owner)


def find_url(services: Services) -> str:
    """The URL of the server's PostgreSQL, for those who have connections of their own."""
    url = services.database.engine.url.set(drivername="postgresql")
    return url.render_as_string(hide_password=False)


def open_scheduler(services: Services) -> Scheduler:
    """The queue in the server's database, for one use; close it.

    Raises:
        UsageError: what it needs is not installed.
    """
    try:
        from treadle.fleet.procrastinate_scheduler import ProcrastinateScheduler
    except ImportError:
        raise UsageError(
            "this server cannot speak to the queue", hint='pip install "treadle[fleet]" there'
        ) from None
    return ProcrastinateScheduler(find_url(services))


class FleetActs:
    """See `Acts`. Of all that can be said to a thread a task of a fleet takes yes and no.

    Args:
        services: of the process.
        secret: of the session of who asks.
    """

    def __init__(self, services: Services, secret: str) -> None:
        self._services = services
        self._secret = secret

    async def read(self, thread_id: str) -> OpenActs | None:
        """See `Acts`."""
        found = await self._ask(partial(find_fleet_thread, name=thread_id))
        if found is None:
            return None
        if not found.may_decide:
            why = make_forbidden_refusal(found).problem.message
            return OpenActs(why_not=f"It waits for a person: {why}." if found.questions else "")
        views = [_show(found.row.id, one) for one in found.questions]
        return OpenActs(questions=views, can_change=False)

    async def confirm(self, thread_id: str, form: ActForm) -> QuestionView | None:
        """See `Acts`."""
        if form.act not in ("approve", "reject"):
            raise UsageError("a task of a fleet takes a yes or a no")
        if form.act == "reject" or form.is_confirmed:
            return None
        found, _ = await self._ask(partial(_find_for_form, name=thread_id, form=form))
        for one in found.questions:
            is_meant = digest_question(found.row.id, one) == form.ground
            if is_meant and one.risk >= RiskLevel.CRITICAL:
                return _show(found.row.id, one)
        return None

    async def do(self, thread_id: str, form: ActForm) -> str:
        """See `Acts`."""
        services = self._services
        find = partial(_find_for_form, name=thread_id, form=form)
        found, (by, was_taken, may_queue) = await self._ask(find)
        if was_taken:
            return ""
        decision = Approved() if form.act == "approve" else Rejected(form.text.strip())
        taken = RequestTaken(form.request, form.act, by, form.call)
        place = find_place(services, found)
        record = partial(record_answer, place, found.row.id, form.ground, decision, taken)
        try:
            seq = await to_thread.run_sync(record, limiter=services.read_limiter)
        except ThreadBusyError:
            return _BUSY
        if may_queue:
            await self._queue(found.mark.make_job(found.row.id))
        await self._wait_until_shown(found.row.key, seq)
        return ""

    async def withdraw(self, thread_id: str, request: str) -> None:
        """See `Acts`. An answer is taken when it is given."""

    async def _ask(self, function: Callable[[Context], Result]) -> Result:
        services = self._services

        def work(db: Connection) -> Result:
            caller = sessions.identify_session(db, self._secret, services.now())
            return function(Context(db, caller, services.now()))

        return await services.run_transaction(work, is_write=False)

    async def _queue(self, job: Job) -> None:
        """If it is not queued now, a worker finds what was answered."""
        with suppress(UsageError):
            scheduler = open_scheduler(self._services)
            try:
                await scheduler.submit([job])
            except TreadleError as error:
                logs.log_event("queue_failed", level=logging.WARNING, error=error)
            finally:
                await scheduler.close()

    async def _wait_until_shown(self, key: str, seq: int) -> None:
        """Lists and pages have what was recorded a moment later."""
        query = select(threads.c.version).where(threads.c.key == key)
        loop = asyncio.get_running_loop()
        end = loop.time() + SHOWN_S
        while loop.time() < end:
            version = await self._services.run_transaction(
                lambda db: db.execute(query).scalar_one_or_none(), is_write=False
            )
            if version is None or version >= seq:
                break
            await asyncio.sleep(LOOK_S)
        self._services.change_listeners.notify_change()


def _find_for_form(
    context: Context, name: str, form: ActForm
) -> tuple[FleetThread, tuple[str, bool, bool]]:
    """The task that a form is about; who sends it, whether it was taken, whether there is a queue.

    Raises:
        Refusal: there is no such task, or the caller may not say what becomes of it.
        UsageError: what the form answers is not asked.
    """
    found = find_fleet_thread(context, name)
    if found is None:
        raise UsageError("this thread is no task of a fleet")
    if not found.may_decide:
        raise make_forbidden_refusal(found)
    if len(form.request) not in ID_LENGTHS:
        raise UsageError("this form has no id of ours")
    told = {"key": found.row.key, "id": f'"id":"{form.request}"'}
    was_taken = bool(context.db.execute(_WAS_TAKEN, told).scalar_one())
    return found, (name_visitor(context.caller), was_taken, has_queue(context.db))


def _show(thread_id: str, question: Question) -> QuestionView:
    arguments = read_object(question.call.arguments_json)
    return make_question_view(thread_id, question, arguments, tuple(list_dangers(question)), "")
