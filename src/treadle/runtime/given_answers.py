"""Answers that were given where the session itself does not ask: on a page, say."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from treadle.answers import Verdict
from treadle.core.approval import Question
from treadle.thread.facts import RequestTaken


class GivenAnswer(Struct, frozen=True):
    """An answer, and what is recorded with it.

    `question` is as it was shown where the answer was given: one to a question that is another one
    by then is none. `on_recorded` is called once it is durable.
    """

    question: Question
    verdict: Verdict
    taken: RequestTaken
    on_recorded: Callable[[], None]


class GivenAnswers:
    """Those whose questions have not come up yet, by call."""

    def __init__(self) -> None:
        self._answers: dict[str, GivenAnswer] = {}

    def put(self, given: GivenAnswer) -> None:
        """Keep it until its question comes up."""
        self._answers[given.question.call.id] = given

    def pop(
        self, question: Question, fill_scope: Callable[[Question], Question]
    ) -> GivenAnswer | None:
        """The answer to this question, as it is now; one to another about its call is dropped.

        `fill_scope` gives the question with what a yes to it covers.
        """
        given = self._answers.pop(question.call.id, None)
        return given if given is not None and given.question == fill_scope(question) else None
