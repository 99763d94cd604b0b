"""How a confined command has ended, and what was put right after it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.sandbox.launch import Prepared
from treadle.tool_failure import ToolFailure

_SHOWN_COUNT_MAX: Final = 3


class Held(Struct, frozen=True):
    """How a confined command ended, as `Ended` says it; `notes` are for who reads its output."""

    exit_code: int
    left_count: int
    notes: tuple[str, ...] = ()


class Launch:
    """A command about to run in the sandbox: what to start it with, and later how it went."""

    def __init__(
        self, prepared: Prepared, undone: list[str], put_aside: list[str], unseen: list[str]
    ) -> None:
        self.argv: Final = prepared.argv
        self.env: Final = prepared.env
        self.pass_fds: Final = prepared.pass_fds
        self._prepared: Final = prepared
        self._undone: Final = undone
        self._put_aside: Final = put_aside
        self._unseen: Final = unseen

    def describe_result(self, output: str) -> Held:
        """How it went, after it is over.

        Args:
            output: what it had written, for the error that it did not start.

        Raises:
            ToolFailure: it did not run.
        """
        report = self._prepared.report()
        if report.failed:
            raise ToolFailure(ToolErrorKind.IO, f"the command: {report.failed}")
        if not report.started:
            said = " ".join(output.split())[-500:]
            raise ToolFailure(ToolErrorKind.FAILED, f"the sandbox could not be set up: {said}")
        notes = []
        if report.limit == "processes":
            notes.append("ended by the sandbox: it had too many processes")
        elif report.limit == "memory":
            notes.append("ended by the sandbox: it used too much memory")
        elif report.limit == "disk":
            notes.append("ended by the sandbox: the disk has filled too much while it ran")
        code = -9 if report.code is None else report.code
        return Held(code, report.left, tuple(notes))

    def notes(self) -> tuple[str, ...]:
        """What was put right after it was over."""
        told = (
            ("put back, a command may not change it", self._undone),
            ("put aside, git would have run programs because of it", self._put_aside),
            ("not looked at, git may run programs because of it", self._unseen),
        )
        return tuple(f"{words}: {_listed(names)}" for words, names in told if names)


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_COUNT_MAX
    shown = ", ".join(sorted(names)[:_SHOWN_COUNT_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
