"""Records that name the record before them, so that a session is a tree: what was taken back in it.

Who goes back and says something else begins a branch: the new prompt names the record that the old
one named. The branch that the last record is on is the conversation; the others were left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from treadle.exchange.session_steps import (
    SessionAnswer,
    SessionCallResult,
    SessionFailure,
    SessionPrompt,
    SessionRewind,
    SessionStep,
    SessionStop,
    SessionSummary,
)

_CONVERSATION_STEPS = (
    SessionPrompt
    | SessionAnswer
    | SessionFailure
    | SessionCallResult
    | SessionStop
    | SessionSummary
)


def add_rewinds(
    steps: Sequence[SessionStep], owners: Sequence[str], parents: Mapping[str, str], last: str
) -> list[SessionStep]:
    """The steps, and behind those of each branch that was left, that a person went back.

    Results of parallel calls branch too; only what begins with a prompt counts as left.

    Args:
        steps: what happened, in the order of the file.
        owners: for each step the record that it is from; may be empty.
        parents: for each record the one before it, in the order of the file.
        last: the record that the conversation ends with.
    """
    prompts = {
        own for step, own in zip(steps, owners, strict=True) if isinstance(step, SessionPrompt)
    }
    branch_of = _find_branches(parents, prompts, _find_path(parents, last))
    found: list[SessionStep] = []
    present, first = "", None
    for step, owner in zip(steps, owners, strict=True):
        if isinstance(step, _CONVERSATION_STEPS):
            branch = branch_of.get(owner, "")
            if branch != present:
                if first is not None:
                    found.append(SessionRewind(step.at, first))
                present, first = branch, None
            if branch and first is None and isinstance(step, SessionPrompt):
                first = step
        found.append(step)
    return found


def _find_path(parents: Mapping[str, str], last: str) -> set[str]:
    """The records from the last one back to the first."""
    path: set[str] = set()
    while last in parents and last not in path:
        path.add(last)
        last = parents[last]
    return path


def _find_branches(
    parents: Mapping[str, str], prompts: Iterable[str], path: set[str]
) -> dict[str, str]:
    """For each record that was left, the prompt that its branch began with.

    What hangs on no record of the path is left alone: nobody knows that it was taken back.
    """
    said = set(prompts)
    hangs: set[str] = set(path)
    found: dict[str, str] = {}
    for record, parent in parents.items():
        if record in path or parent not in hangs:
            continue
        hangs.add(record)
        if parent in found:
            found[record] = found[parent]
        elif record in said:
            found[record] = record
    return found
