"""What a visitor of this machine's pages does: asked of whoever works on the thread, or done here.

What is asked for is a request on the disk (`store/thread_requests.py`). The session that has the
thread open takes it; where none has, one is opened here, which goes on until the turn is over or
asks something, as `treadle approve` and `treadle resume` do.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, cast

from anyio import to_thread

from treadle.app.sessions.approvals import read_waiting_calls
from treadle.app.sessions.request_taker import make_verdict
from treadle.app.sessions.unattended_work import UnattendedWork, WorkWatch
from treadle.app.threads.call_arguments import read_arguments
from treadle.app.threads.call_changes import make_file_reader
from treadle.app.threads.call_diffs import name_diffed_argument, preview_diff
from treadle.app.threads.changed_calls import make_changed_question
from treadle.core.approval import Question
from treadle.core.tools import RiskLevel
from treadle.errors import TreadleError, UnknownThreadError, UsageError
from treadle.pages.act_routes import ANSWERS, WORDS, ActForm, OpenActs, WaitingRequest
from treadle.pages.question_page import QuestionView, make_question_view
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import Act, PersonRequest, RequestReply, ThreadRequests
from treadle.thread.fold import TASK, ThreadFold
from treadle.thread.ids import is_thread_id
from treadle.thread.question_digest import digest_question
from treadle.thread.question_text import describe_possible_grant, list_dangers

BY: Final = "a page on this machine"
KEPT_S: Final = 600
"""Seconds for which a request waits for somebody to take it."""
ANSWER_S: Final = 5.0
"""Seconds that a form waits for what became of it; then the page says that it is still asked."""
LOOK_S: Final = 0.1

_CHANGED: Final = "this question was answered already, or has changed since the page was loaded"
_FOREIGN: Final = "It was made on another machine: go on with it in the terminal first."
_CHILD: Final = "It is a sub-agent's: what it asks is answered where the agent works it works for."
_TRASHED: Final = "It is in the trash."

_log = logging.getLogger("treadle.pages")


class LocalActs:
    """See `Acts`.

    Args:
        store: the threads of this machine.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._work = UnattendedWork(store)

    async def read(self, thread_id: str) -> OpenActs:
        """See `Acts`."""
        return await to_thread.run_sync(self._read, thread_id)

    async def confirm(self, thread_id: str, form: ActForm) -> QuestionView | None:
        """See `Acts`."""
        is_yes = form.act in ANSWERS and form.act != "reject"
        is_sent_again = self._find_requests(thread_id).read_reply(form.request) is not None
        if not is_yes or form.is_confirmed or is_sent_again:
            return None
        return await to_thread.run_sync(self._find_critical_question, thread_id, form)

    async def do(self, thread_id: str, form: ActForm) -> str:
        """See `Acts`."""
        requests = self._find_requests(thread_id)
        if (reply := requests.read_reply(form.request)) is not None:
            return reply.why  # the same form again
        if not requests.is_waiting(form.request):
            request = await to_thread.run_sync(self._make_request, thread_id, form)
            await to_thread.run_sync(requests.place, request)
        return await self._wait_for_reply(thread_id, form)

    async def withdraw(self, thread_id: str, request: str) -> None:
        """See `Acts`."""
        self._find_requests(thread_id).remove(request)

    async def close(self) -> None:
        """Stop what is at work here; it stays unfinished on the disk, to be resumed."""
        await self._work.close()

    # ---- what can be done ----------------------------------------------------------------------

    def _read(self, thread_id: str) -> OpenActs:
        fold = self._load(thread_id)
        if why_not := self._find_obstacle(fold):
            return OpenActs(why_not=why_not)
        is_held = self._store.find_holder(thread_id) is not None
        waiting = self._find_requests(thread_id).list_waiting()
        return OpenActs(
            questions=[self._show(fold, one) for one in self._list_questions(fold)],
            can_speak=fold.header.machine != TASK,
            is_working=is_held and not fold.is_idle,
            waiting=[WaitingRequest(one.id, one.act, one.by) for one in waiting],
        )

    def _load(self, thread_id: str) -> ThreadFold:
        if not is_thread_id(thread_id):
            raise UnknownThreadError("that is the id of no thread")
        return self._store.load(thread_id).fold

    def _find_obstacle(self, fold: ThreadFold) -> str:
        if fold.is_trashed:
            return _TRASHED
        if fold.header.parent is not None:
            return _CHILD
        return _FOREIGN if self._store.adopted.is_foreign(fold.header.thread) else ""

    def _list_questions(self, fold: ThreadFold) -> tuple[Question, ...]:
        if not fold.machine.questions:
            return ()
        with suppress(UsageError):  # it was answered meanwhile
            return read_waiting_calls(self._store, fold.header.thread).questions
        return ()

    def _show(self, fold: ThreadFold, question: Question) -> QuestionView:
        folder = fold.workspace
        diff = None
        try:
            diff = preview_diff(question.call, make_file_reader(Path(folder)) if folder else None)
        except (OSError, TreadleError):  # the folder is gone: the arguments tell of it
            diff = preview_diff(question.call)
        return make_question_view(
            fold.header.thread,
            question,
            read_arguments(question.call),
            tuple(list_dangers(question)),
            describe_possible_grant(question),
            diff=diff,
            diffed=name_diffed_argument(question.call),
        )

    # ---- doing it ------------------------------------------------------------------------------

    def _find_requests(self, thread_id: str) -> ThreadRequests:
        if not is_thread_id(thread_id):
            raise UnknownThreadError("that is the id of no thread")
        return ThreadRequests(self._store.folders.disk, self._store.places, thread_id)

    def _find_question(self, thread_id: str, form: ActForm) -> tuple[ThreadFold, Question]:
        fold = self._load(thread_id)
        if why_not := self._find_obstacle(fold):
            raise UsageError(why_not)
        for question in self._list_questions(fold):
            is_same = digest_question(thread_id, question) == form.ground
            if question.call.id == form.call and is_same:
                return fold, question
        raise UsageError(_CHANGED)

    def _find_critical_question(self, thread_id: str, form: ActForm) -> QuestionView | None:
        fold, question = self._find_question(thread_id, form)
        shown = question
        if form.act == "change":
            changed = _read_changed_arguments(question, form)
            shown = make_changed_question(question, changed, fold.workspace or "/")
        if RiskLevel.CRITICAL not in (question.risk, shown.risk):
            return None
        return self._show(fold, shown)

    def _make_request(self, thread_id: str, form: ActForm) -> PersonRequest:
        expires_at = (datetime.now(UTC) + timedelta(seconds=KEPT_S)).strftime(
            "%Y-%m-%dT%H:%M:%S.%fZ"
        )
        request = partial(
            PersonRequest,
            id=form.request,
            thread=thread_id,
            act=cast("Act", form.act),  # the routes know no other
            by=BY,
            expires_at=expires_at,
        )
        if form.act in ANSWERS:
            _, question = self._find_question(thread_id, form)
            text = form.text.strip()
            if form.act == "change":
                text = _read_changed_arguments(question, form)
            made = request(call_id=form.call, ground=form.ground, text=text)
            make_verdict(made, question)  # what cannot be is said before it waits
            return made
        fold = self._load(thread_id)
        if why_not := self._find_obstacle(fold):
            raise UsageError(why_not)
        if form.act in WORDS:
            if fold.header.machine == TASK:
                raise UsageError("this thread is a task, which takes no prompts")
            if not form.text.strip():
                raise UsageError("there is nothing in the prompt")
            return request(text=form.text)
        if self._store.find_holder(thread_id) is None:
            raise UsageError("no turn is running, so there is nothing to interrupt")
        return request()

    async def _wait_for_reply(self, thread_id: str, form: ActForm) -> str:
        requests = self._find_requests(thread_id)
        loop = asyncio.get_running_loop()
        end = loop.time() + ANSWER_S
        while loop.time() < end:
            if (reply := requests.read_reply(form.request)) is not None:
                return reply.why
            if not self._work.has(thread_id) and self._store.find_holder(thread_id) is None:
                watch = WorkWatch(_ignore, partial(self._refuse_waiting, thread_id))
                self._work.go_on(thread_id, watch)
            await asyncio.sleep(LOOK_S)
        return ""

    def _refuse_waiting(self, thread_id: str, why: str) -> None:
        requests = self._find_requests(thread_id)
        for request in requests.list_waiting():
            requests.reply(request.id, RequestReply(is_taken=False, why=why))


def _ignore() -> None:
    """What waits there waits already."""


def _read_changed_arguments(question: Question, form: ActForm) -> str:
    """The arguments of the changed call, as JSON."""
    if not form.command.strip():
        if not form.arguments.strip():
            raise UsageError("there is nothing in the changed call")
        return form.arguments
    arguments = read_arguments(question.call) or {}
    return json.dumps({**arguments, "command": form.command}, ensure_ascii=False)
