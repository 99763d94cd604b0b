"""Takes what people ask of an open thread on a page or another device, and does it.

Each request is taken once: what it leads to is recorded together with its id, in one write, and
only then it is removed from where it waits. So a process that dies in between, at any moment,
leaves a request that is still to be taken, or one that the journal shows to have been.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from treadle.answers import Verdict
from treadle.app.threads.changed_calls import check_changed_arguments
from treadle.core.approval import Approved, Modified, Question, Rejected
from treadle.errors import AgentError, TreadleError, UsageError
from treadle.outputs import Notice
from treadle.runtime.engine import AgentEngine
from treadle.runtime.given_answers import GivenAnswer
from treadle.runtime.session import Session
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import PersonRequest, RequestReply, ThreadRequests
from treadle.thread.facts import RequestTaken
from treadle.thread.question_digest import digest_question
from treadle.thread.question_text import describe_possible_grant

LOOK_S: Final = 0.25
"""Between two looks at what waits; one costs a microsecond or two."""
REPLIES_MAX: Final = 100
"""Replies that are kept; who has asked reads theirs within seconds."""

_SAYS: Final[Mapping[str, str]] = {
    "prompt": "says something",
    "steer": "says something",
    "interrupt": "stops it",
    "start": "has begun it",
}
_NOT_ASKED: Final = "this question is not open any more: it was answered, or the turn has ended"
_CHANGED: Final = "this question has changed since it was shown: look at it again"
_LATE: Final = "it came too late: its time was over before anybody took it"


class RequestTaker:
    """Takes the requests of a thread while it is open.

    Args:
        store: the threads of this user.
        opened: the thread.
        speak: has the session hear what was said, and records who said it with it.
        wake: called when something was taken that only a turn can act on, and none is running.
    """

    def __init__(
        self,
        store: LocalStore,
        opened: Session | AgentEngine,
        speak: Callable[[Session, PersonRequest, RequestTaken], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._opened = opened
        self._speak = speak
        self._wake = wake
        self._requests = ThreadRequests(store.folders.disk, store.places, opened.thread_id)
        self._taken: set[str] | None = None
        """The requests that the journal holds; read when there is one to be compared."""
        self._given: dict[str, PersonRequest] = {}
        """Answers that the session has, and has not recorded."""
        self._has_spoken = False
        self._taking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def needs_turn(self) -> bool:
        """Whether something was taken that only a turn can act on, and none is running."""
        opened = self._opened
        if opened.driver.is_running:
            return False
        is_unheard = isinstance(opened, Session) and bool(opened.queued_inputs)
        return bool(self._given) or (self._has_spoken and is_unheard)

    def start(self) -> None:
        """Look for requests from now on, until `close`."""
        self._requests.remove_replies(REPLIES_MAX)
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Take nothing any more; what waits goes on waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def take_waiting(self) -> None:
        """Take what waits now, unless the session is over: then it goes on waiting."""
        if not self._opened.driver.journal.writer.is_usable:
            return
        async with self._taking:
            for request in self._requests.list_waiting():
                if request.id not in self._given:
                    await self._take(request)
            self._drop_unanswerable()
        if self.needs_turn:
            self._wake()

    async def _run(self) -> None:
        while True:
            # What cannot be taken now, as the disk refuses, is tried again: nobody was told yet.
            with contextlib.suppress(TreadleError, OSError):
                await self.take_waiting()
            await asyncio.sleep(LOOK_S)

    async def _take(self, request: PersonRequest) -> None:
        if request.id in self._list_taken():
            # The process that took it died before it could say so.
            self._requests.reply(request.id, RequestReply(is_taken=True))
            return
        if request.expires_at < self._store.now():
            self._requests.reply(request.id, RequestReply(is_taken=False, why=_LATE))
            return
        try:
            await _TAKES[request.act](self, request)
        except (UsageError, AgentError) as error:
            why = f"{error.message}: {error.hint}" if error.hint else error.message
            self._requests.reply(request.id, RequestReply(is_taken=False, why=why))

    def _list_taken(self) -> set[str]:
        if self._taken is None:
            # Not before there is a request: a turn begins without it.
            from treadle.app.exchange.taken_requests import read_taken_requests

            self._taken = set(read_taken_requests(self._store, self._opened.thread_id))
        return self._taken

    def _finish(self, request: PersonRequest, taken: RequestTaken) -> None:
        """It is on disk: whoever asked is told, and so is who looks at the session."""
        self._list_taken().add(request.id)
        self._given.pop(request.id, None)
        self._requests.reply(request.id, RequestReply(is_taken=True))
        self._opened.driver.journal.emit(
            Notice(f"{taken.by} {_SAYS.get(request.act, 'has answered')}")
        )

    # ---- each act ------------------------------------------------------------------------------

    async def _take_answer(self, request: PersonRequest) -> None:
        driver = self._opened.driver
        question = self._find_question(request.call_id)
        if question is None:
            raise UsageError(_NOT_ASKED)
        if digest_question(self._opened.thread_id, question) != request.ground:
            raise UsageError(_CHANGED)
        if any(one.call_id == request.call_id for one in self._given.values()):
            raise UsageError(_NOT_ASKED)
        verdict = make_verdict(request, question)
        self._given[request.id] = request
        taken = RequestTaken(request.id, request.act, request.by, request.call_id)
        on_recorded = partial(self._finish, request, taken)
        driver.approvals.give_answer(GivenAnswer(question, verdict, taken, on_recorded))

    def _find_question(self, call_id: str) -> Question | None:
        """The open question about a call, with what a yes to it covers."""
        driver = self._opened.driver
        found = (one for one in driver.questions if one.call.id == call_id)
        return next(map(driver.approvals.fill_scope, found), None)

    def _drop_unanswerable(self) -> None:
        """Answers to questions that something else has settled are told to have come too late."""
        for request in tuple(self._given.values()):
            question = self._find_question(request.call_id)
            if (
                question is None
                or digest_question(self._opened.thread_id, question) != request.ground
            ):
                del self._given[request.id]
                why = _NOT_ASKED if question is None else _CHANGED
                self._requests.reply(request.id, RequestReply(is_taken=False, why=why))

    async def _take_words(self, request: PersonRequest) -> None:
        session = self._opened
        if not isinstance(session, Session):
            raise UsageError("this thread is a task, which takes no prompts")
        taken = RequestTaken(request.id, request.act, request.by)
        await self._speak(session, request, taken)
        self._has_spoken = True
        self._finish(request, taken)

    async def _take_start(self, request: PersonRequest) -> None:
        """The thread was begun with the prompt: who said it is recorded before it is answered."""
        taken = RequestTaken(request.id, request.act, request.by)
        self._opened.driver.record(taken)
        self._finish(request, taken)

    async def _take_interruption(self, request: PersonRequest) -> None:
        driver = self._opened.driver
        if not driver.is_running:
            raise UsageError("no turn is running, so there is nothing to interrupt")
        taken = RequestTaken(request.id, request.act, request.by)
        driver.record(taken)
        if driver.questions or not isinstance(self._opened, Session):
            driver.interrupt()  # a question stays open, a task can be resumed
        else:
            driver.cancel(f"stopped by {request.by}")
        self._finish(request, taken)


_TAKES: Final[Mapping[str, Callable[[RequestTaker, PersonRequest], Awaitable[None]]]] = {
    "approve": RequestTaker._take_answer,
    "always": RequestTaker._take_answer,
    "change": RequestTaker._take_answer,
    "reject": RequestTaker._take_answer,
    "prompt": RequestTaker._take_words,
    "steer": RequestTaker._take_words,
    "interrupt": RequestTaker._take_interruption,
    "start": RequestTaker._take_start,
}


def make_verdict(request: PersonRequest, question: Question) -> Verdict:
    """What an answer says of the call.

    Raises:
        UsageError: the call can only be allowed by itself, or its tool does not take the arguments.
    """
    if request.act == "reject":
        return Verdict(Rejected(request.text))
    if request.act == "change":
        check_changed_arguments(question, request.text)
        return Verdict(Modified(request.text))
    if request.act == "approve":
        return Verdict(Approved())
    if not describe_possible_grant(question):
        raise UsageError("this call can only be allowed by itself")
    return Verdict(Approved(), always=True, kinds=question.scope.kinds)
