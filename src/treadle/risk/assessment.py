"""What is said of a command."""

from __future__ import annotations

from msgspec import Struct

from treadle.core.tools import RiskLevel


class Danger(Struct, frozen=True):
    """How risky a command is, why, and what narrow grants would name.

    `risk` is high for an ordinary command, critical for one that should not pass with others.
    `reasons` are sentences for the person who is asked, the worst first; empty for an ordinary one.
    `kinds` are the beginnings of all commands in it (`git status`), each of which a grant can
    allow; empty if the command is such that no grant of another can stand for it. `files` are, by
    kind, the paths of files that commands of it may run, from the folder where the command begins.
    """

    risk: RiskLevel
    reasons: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    files: dict[str, tuple[str, ...]] = {}
