"""A host in memory: for tests of programs that call the application layer."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.answers import Answer, Verdict
from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.core.approval import Question, Rejected


class MemoryHost:
    """Gives prepared answers, and keeps what it was asked and told.

    Args:
        verdicts: what is said to calls that need a yes, in order; when they are used up, no.
        answers: what is said about calls that a crash left uncertain, in order.
    """

    def __init__(self, verdicts: Iterable[Verdict] = (), answers: Iterable[Answer] = ()) -> None:
        self.questions: list[Question] = []
        self.notices: list[str] = []
        self._verdicts = iter(verdicts)
        self._answers = iter(answers)

    @property
    def host(self) -> Host:
        """What `make_setup` takes."""
        return Host(PersonCallbacks(self._answer, self._approve), self.notices.append)

    async def _approve(self, question: Question) -> Verdict:
        self.questions.append(question)
        return next(self._verdicts, Verdict(Rejected("no answer is prepared")))

    async def _answer(self, question: Question) -> Answer:
        self.questions.append(question)
        return next(self._answers)
