"""A session as it is put together from the records of its file, one after the other."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.core.llm import Usage
from treadle.exchange.steps import Answered, Call, Kept, Step, Stood


class Telling:
    """The steps so far. An answer that comes in pieces is put together where it began."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.record_count = 0
        self.started_at = ""
        self.folder: str | None = None
        self.version = ""
        self._answers: dict[str, int] = {}
        self._branch: str | None = None

    def begin_record(self, at: str) -> None:
        """Another record belongs to the session."""
        self.record_count += 1
        self.started_at = self.started_at or at

    def add(self, step: Step) -> None:
        """Something happened."""
        self.steps.append(step)

    def keep(self, at: str, text: str) -> None:
        """A record, or a part of one, has no counterpart here."""
        self.steps.append(Kept(at, text))

    def stand(self, at: str, branch: str) -> None:
        """The session works on a branch; said when it is news."""
        if branch and branch != self._branch:
            self._branch = branch
            self.steps.append(Stood(at, branch))

    def answer(self, key: str, piece: Answered) -> None:
        """A piece of an answer.

        Args:
            key: the same for all pieces of one answer; empty if this is all of it.
            piece: its usage is that of the whole answer so far, and replaces what was said before.
        """
        index = self._answers.get(key) if key else None
        if index is None:
            if key:
                self._answers[key] = len(self.steps)
            self.steps.append(piece)
            return
        before = self.steps[index]
        assert isinstance(before, Answered)
        self.steps[index] = Answered(
            before.at,
            "\n\n".join(filter(None, (before.text, piece.text))),
            (*before.calls, *piece.calls),
            before.model or piece.model,
            piece.usage or before.usage,
        )

    def spend(self, key: str, usage: Usage) -> None:
        """What the answer of this key used besides; nothing if there is no such answer."""
        index = self._answers.get(key)
        if index is None:
            return
        before = self.steps[index]
        assert isinstance(before, Answered)
        used = usage if before.usage is None else before.usage + usage
        self.steps[index] = replace(before, usage=used)

    def calls_of(self, tool_names: frozenset[str]) -> list[Call]:
        """The calls of these tools."""
        answers = (step for step in self.steps if isinstance(step, Answered))
        return [call for step in answers for call in step.calls if call.tool_name in tool_names]
