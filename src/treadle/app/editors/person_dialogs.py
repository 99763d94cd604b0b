"""Puts the questions of a session to the person at an editor, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from treadle.answers import Answer, Verdict
from treadle.app.editors.live_updates import LiveUpdates
from treadle.app.editors.person_questions import (
    FAILED,
    NO,
    ONCE,
    PLAN_OPTIONS,
    RUN_AGAIN,
    AnswerOption,
    PersonQuestion,
    choose_mode_after_plan,
    explain_question,
    list_verdict_options,
    make_resolution,
    make_verdict,
)
from treadle.app.editors.session_updates import CallBegun, CallChanged, SessionUpdate
from treadle.app.editors.unsaved_files import EditorFiles
from treadle.config.settings import ApprovalMode
from treadle.core.approval import Approved, Question
from treadle.server_questions import ServerAnswer, ServerQuestion

T = TypeVar("T")


class EditorClient(Protocol):
    """The editor, as a session sees it."""

    @property
    def files(self) -> EditorFiles | None:
        """The files as it has them; `None` if it offers none."""
        ...

    def show(self, update: SessionUpdate) -> None:
        """Show it, behind all that was shown before; returns at once."""
        ...

    async def ask(self, question: PersonQuestion) -> str | None:
        """The id of the answer that the person chose; `None` if they cancel the turn instead."""
        ...

    @property
    def shows_forms(self) -> bool:
        """Whether it shows what servers of tools ask back."""
        ...

    async def answer_server(self, question: ServerQuestion) -> ServerAnswer | None:
        """What the person says to a form, or a visit; `None` if it cannot be shown."""
        ...


class PersonDialogs:
    """Asks about calls, and whether a plan is carried out.

    Args:
        client: the editor.
        updates: who tells of calls.
        cancel: ends the turn.
        is_own: whether a call is of this thread, and not of one that works for it.
    """

    def __init__(
        self,
        client: EditorClient,
        updates: LiveUpdates,
        cancel: Callable[[], None],
        is_own: Callable[[Question], bool],
    ) -> None:
        self._client = client
        self._updates = updates
        self._cancel = cancel
        self._is_own = is_own
        self._asking: asyncio.Future[Any] | None = None

    def stop(self) -> None:
        """Whoever is asked is asked no more."""
        if self._asking is not None:
            self._asking.cancel()

    async def approve(self, question: Question) -> Verdict:
        """Whether a call may run."""
        answer = await self._ask_about(question, list_verdict_options(question))
        verdict = make_verdict(question, answer)
        is_allowed = isinstance(verdict.decision, Approved)
        # No output tells of a call that does not run, nor of one of another agent.
        if not is_allowed or not self._is_own(question):
            self._updates.end_question(question.call, is_allowed=is_allowed)
        return verdict

    async def ask_about_uncertain_call(self, question: Question) -> Answer:
        """What became of a call that was running when its process died."""
        return make_resolution(await self._ask_about(question, (RUN_AGAIN, FAILED)))

    async def ask_about_plan(self) -> ApprovalMode | None:
        """The mode in which the plan that was told is carried out; `None` if it is not."""
        name = self._updates.count_call("plan")
        call = CallBegun(name, "Carry out this plan?", "switch_mode", "pending")
        self._client.show(call)
        answer = await self._ask(PersonQuestion(call, PLAN_OPTIONS))
        mode = None if answer is None else choose_mode_after_plan(answer)
        self._client.show(CallChanged(name, "failed" if mode is None else "completed"))
        return mode

    async def answer_server(self, question: ServerQuestion) -> ServerAnswer:
        """What a person says to what a server of tools asks back in a call."""
        if question.wants != "answer":
            answer = await self._wait(self._client.answer_server(question))
            return ServerAnswer("cancel") if answer is None else answer
        name = self._updates.count_call("server")
        title = f"Let the model answer {question.server}?"
        call = CallBegun(name, title, "other", "pending", text=_explain_wish(question))
        self._client.show(call)
        chosen = await self._ask(PersonQuestion(call, (ONCE, NO)))
        self._client.show(CallChanged(name, "completed" if chosen == ONCE.id else "failed"))
        if chosen is None:
            return ServerAnswer("cancel")
        return ServerAnswer("accept" if chosen == ONCE.id else "decline")

    async def _ask_about(self, question: Question, options: tuple[AnswerOption, ...]) -> str:
        """The answer; where the turn is cancelled instead, this waits until that ends it."""
        begun = self._updates.show_question(question.call)
        shown = replace(begun, text=explain_question(question))
        answer = await self._ask(PersonQuestion(shown, options))
        if answer is None:
            self._cancel()
            await asyncio.get_running_loop().create_future()
        assert answer is not None
        return answer

    async def _ask(self, question: PersonQuestion) -> str | None:
        """What a person says; `None` if they say nothing any more."""
        return await self._wait(self._client.ask(question))

    async def _wait(self, answer: Coroutine[Any, Any, T | None]) -> T | None:
        asking = self._asking = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({asking})
            return None if asking.cancelled() else asking.result()
        finally:
            asking.cancel()
            self._asking = None


def _explain_wish(question: ServerQuestion) -> str:
    """All that the model would be asked."""
    wish = question.wish
    assert wish is not None  # of a question that wants an answer
    asked = (("system", wish.system), *wish.messages)
    return "\n\n".join([question.text, *(f"{who}: {text}" for who, text in asked if text)])
