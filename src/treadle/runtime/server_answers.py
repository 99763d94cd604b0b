"""What servers of tools ask back in calls: recorded, put to a person, answered within bounds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from treadle import outputs
from treadle.core.budget import TokenBudget, estimate_request_usage
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, Usage
from treadle.core.messages import Message, ToolCall
from treadle.runtime.approvals import Approvals
from treadle.runtime.calls import CallLimit
from treadle.runtime.ports import Tools, have_questions
from treadle.runtime.thread_journal import ThreadJournal
from treadle.server_questions import (
    AskPersonForServer,
    ModelWish,
    ServerAnswer,
    ServerQuestion,
)
from treadle.thread.facts import ServerAnswered, ServerAsked
from treadle.thread.task_state import get_model_name

ASKED_COUNT_MAX: Final = 8
"""Questions of one call; further ones are refused, and nobody is asked."""
TEXT_LENGTH_MAX: Final = 8_000
"""Characters that are recorded of a question, and of an answer."""
ANSWER_TOKENS_MAX: Final = 4_096
"""Tokens of a model's answer for a server."""

SendRequest = Callable[[LlmRequest], Awaitable[LlmEvent.Completed | LlmEvent.Error]]


class ServerAnswers:
    """Has questions of servers answered. Intent first: each is on disk before a person sees it.

    A call that is over takes its questions with it: what waits for an answer is cancelled by
    whoever asked.

    Args:
        journal: the thread.
        approvals: who asks a person one thing at a time.
        budget_left: what a model may use now.
        ask: asks a person; `None` where nobody is there.
        send: asks a model.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        approvals: Approvals,
        budget_left: Callable[[], TokenBudget | None],
        ask: AskPersonForServer | None,
        send: SendRequest,
    ) -> None:
        self._journal = journal
        self._approvals = approvals
        self._budget_left = budget_left
        self._ask = ask
        self._send = send
        self._counts: Counter[str] = Counter()
        self._used: dict[str, Usage] = {}
        self._limits: dict[str, CallLimit] = {}

    @contextmanager
    def serve(
        self, tools: Tools, call: ToolCall, limit: CallLimit
    ) -> Iterator[Callable[[], Usage | None]]:
        """While a call runs, answer what is asked in it; its time stands still meanwhile.

        Yields what says, when it is over, how much a model has used for its server.
        """
        self._limits[call.id] = limit
        if have_questions(tools):
            tools.answer_with(self._journal.writer.thread_id, self.answer)
        try:
            yield lambda: self._used.pop(call.id, None)
        finally:
            del self._limits[call.id]
            self._counts.pop(call.id, None)

    async def answer(self, call: ToolCall, question: ServerQuestion) -> ServerAnswer:
        """Have a question of a call answered.

        Raises:
            StoreError: the disk refused; nobody was asked.
        """
        self._counts[call.id] += 1
        number = self._counts[call.id]
        if number > ASKED_COUNT_MAX or call.id not in self._limits:
            return ServerAnswer("decline")
        asked = f"{call.id}/{number}"
        text = describe_question(question)[:TEXT_LENGTH_MAX]
        intent = ServerAsked(asked, call.id, question.server, question.wants, text)
        if self._ask is None:
            await self._record(intent)
            await self._record(ServerAnswered(asked, "nobody"))
            words = "and nobody is there to answer; it was told so"
            told = f"the server {question.server} asks something of a person, {words}"
            self._journal.emit(outputs.Notice(told))
            return ServerAnswer("cancel")
        said = await self._ask_person(call, question, intent)
        if said.action != "accept" or question.wants == "visit":
            await self._record(ServerAnswered(asked, said.action))
        elif question.wish is not None:
            return await self._ask_model(call, asked, question.wish)
        else:
            given = json.dumps(said.values, ensure_ascii=False)[:TEXT_LENGTH_MAX]
            await self._record(ServerAnswered(asked, "accept", given))
        return said

    async def _ask_person(
        self, call: ToolCall, question: ServerQuestion, intent: ServerAsked
    ) -> ServerAnswer:
        ask = self._ask
        assert ask is not None

        async def begin() -> ServerAnswer:
            # Now that it is this one's turn: what is recorded was asked.
            await self._record(intent)
            return await ask(question)

        with self._limits[call.id].pause():
            said = await self._approvals.ask_person(begin)
        if said.action == "accept" and question.find_fault(said.values):
            return ServerAnswer("cancel")  # a program has filled it out, and not as it is
        return said

    async def _ask_model(self, call: ToolCall, asked: str, wish: ModelWish) -> ServerAnswer:
        """What a model says, within what is left of the budget; it is counted with the call."""
        used = self._used.get(call.id, Usage())
        left = self._budget_left()
        spent = left is not None and left.find_exceeded_limit(used)[0]
        if spent:
            await self._record(ServerAnswered(asked, "limit"))
            return ServerAnswer("decline")
        machine = self._journal.fold.machine
        request = LlmRequest(
            model=get_model_name(machine, machine.config),
            messages=Conversation(
                Message.user(text) if role == "user" else Message.assistant(text)
                for role, text in wish.messages
            ),
            system=wish.system,
            max_tokens=min(wish.tokens_max or ANSWER_TOKENS_MAX, ANSWER_TOKENS_MAX),
            reasoning="off",
        )
        event = await self._send(request)
        if isinstance(event, LlmEvent.Error):
            self._count(call, event.error.usage)
            await self._record(
                ServerAnswered(asked, "cancel", event.error.message[:TEXT_LENGTH_MAX])
            )
            return ServerAnswer("cancel")
        message = event.response.message
        self._count(call, event.response.usage or estimate_request_usage(request, message))
        text = (self._journal.redact or str)(message.content)
        await self._record(ServerAnswered(asked, "accept", text[:TEXT_LENGTH_MAX]))
        return ServerAnswer("accept", text=text, model=request.model or "default")

    def _count(self, call: ToolCall, usage: Usage | None) -> None:
        if usage is not None:
            self._used[call.id] = self._used.get(call.id, Usage()) + usage

    async def _record(self, fact: ServerAsked | ServerAnswered) -> None:
        self._journal.stage(fact)
        await self._journal.commit_beside()


def describe_question(question: ServerQuestion) -> str:
    """A question in words, as it is recorded."""
    lines = [question.text, question.url]
    lines += [
        f"- {one.title or one.name}: {one.description}".rstrip(": ") for one in question.fields
    ]
    if question.wish is not None:
        lines += [f"[system] {question.wish.system}"] if question.wish.system else []
        lines += [f"[{role}] {text}" for role, text in question.wish.messages]
    return "\n".join(filter(None, lines))
