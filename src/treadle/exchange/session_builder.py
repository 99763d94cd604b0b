"""A session as it is put together from the records of its file, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from treadle.core.llm import Usage
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionForeignRecord,
    SessionGitState,
    SessionParent,
    SessionStep,
)

KEPT_COUNT_MAX: Final = 10_000
"""Records of a session that are kept as they are: each costs a record here, however short it is."""

CALL_COUNT_MAX: Final = 1_000
"""Calls of one answer: no model makes as many, and each is held against all others."""


class SessionBuilder:
    """The steps so far. An answer that comes in pieces is put together where it began."""

    def __init__(self) -> None:
        self.steps: list[SessionStep] = []
        self.record_count = 0
        self.started_at = ""
        self.folder: str | None = None
        self.version = ""
        self._answers: dict[str, int] = {}
        self._pieces: dict[int, list[SessionAnswer]] = {}
        self._call_counts: Counter[int] = Counter()
        self._spent: dict[int, Usage] = {}
        self._branch: str | None = None
        self._kept_count = 0
        self._left_out: Counter[str] = Counter()

    def begin_record(self, at: str) -> None:
        """Another record belongs to the session."""
        self.record_count += 1
        self.started_at = self.started_at or at

    def add_step(self, step: SessionStep) -> None:
        """Something happened."""
        self.steps.append(step)

    def add_foreign(self, at: str, text: str) -> None:
        """A record, or a part of one, has no counterpart here; left out if there are too many."""
        if self._kept_count == KEPT_COUNT_MAX:
            self._left_out[f"records left out, as {KEPT_COUNT_MAX} are kept as they were"] += 1
            return
        self._kept_count += 1
        self.steps.append(SessionForeignRecord(at, text))

    def set_branch(self, at: str, branch: str) -> None:
        """The session works on a branch; said when it is news."""
        if branch and branch != self._branch:
            self._branch = branch
            self.steps.append(SessionGitState(at, branch))

    def add_answer(self, key: str, piece: SessionAnswer) -> None:
        """A piece of an answer.

        Args:
            key: the same for all pieces of one answer; empty if this is all of it.
            piece: its usage is that of the whole answer so far, and replaces what was said before.
        """
        index = self._answers.get(key, len(self.steps)) if key else len(self.steps)
        if index == len(self.steps):
            self.steps.append(piece)
            if key:
                self._answers[key] = index
        room = CALL_COUNT_MAX - self._call_counts[index]
        self._call_counts[index] += min(room, len(piece.calls))
        if len(piece.calls) > room:
            too_many = f"calls left out, as an answer has up to {CALL_COUNT_MAX}"
            self._left_out[too_many] += len(piece.calls) - room
            piece = SessionAnswer(
                piece.at, piece.text, piece.calls[:room], piece.model, piece.usage
            )
        self._pieces.setdefault(index, []).append(piece)

    def add_usage(self, key: str, usage: Usage) -> None:
        """What the answer of this key used besides; nothing if there is no such answer."""
        index = self._answers.get(key)
        if index is not None:
            before = self._spent.get(index)
            self._spent[index] = usage if before is None else before + usage

    def join_answers(self) -> None:
        """Put the pieces of the answers together, when all have come."""
        for index, pieces in self._pieces.items():
            used = next((one.usage for one in reversed(pieces) if one.usage is not None), None)
            spent = self._spent.get(index)
            self.steps[index] = SessionAnswer(
                pieces[0].at,
                "\n\n".join(filter(None, (one.text for one in pieces))),
                tuple(call for one in pieces for call in one.calls),
                next(filter(None, (one.model for one in pieces)), ""),
                used if spent is None else spent if used is None else used + spent,
            )

    def build(
        self,
        source: str,
        name: str,
        provider: str,
        problems: Iterable[str],
        parent: SessionParent | None = None,
    ) -> ImportedSession:
        """All of it, after `finish`; what the arguments mean stands at `ImportedSession`."""
        return ImportedSession(
            source,
            name,
            self.version,
            provider,
            self.folder,
            self.started_at,
            tuple(self.steps),
            self.record_count,
            (*problems, *self.problems),
            parent,
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What was left out, in words."""
        return tuple(f"{what}: {count}" for what, count in sorted(self._left_out.items()))
