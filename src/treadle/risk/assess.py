"""What is said about a command before a person allows it, and what a grant would name. Pure.

It is advice: a program can do what no word of the command says. What bounds a command is the
sandbox. It never raises, and its time is linear in the length of the command.
"""

from __future__ import annotations

from treadle.core.tools import RiskLevel
from treadle.risk.advice import find_advice
from treadle.risk.assessment import Danger
from treadle.risk.grants import name_kinds


def assess(command: str, workspace: str = "") -> Danger:
    """How risky a command is, why, and its kinds.

    Args:
        command: for bash, as the model wrote it.
        workspace: the absolute path of the folder it runs in, by which a command may name it.
    """
    advice = find_advice(command, workspace)
    reasons = tuple(one.sentence for one in advice)
    if any(one.is_critical for one in advice):
        return Danger(RiskLevel.CRITICAL, reasons)
    kinds = name_kinds(command)
    files = {kind: paths for kind, paths in kinds.items() if paths}
    return Danger(RiskLevel.HIGH, reasons, tuple(kinds), files)
