"""What a thread has used, response by response and turn by turn: a fold of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from treadle.core.events import LlmEvent, PostToolsHookCompleted, UserInput
from treadle.core.llm import Usage
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured


class Spent(Struct, frozen=True):
    """What one request to a model used.

    `seq` and `at` are those of the record, `turn` counts from 1, `purpose` is `answer`,
    `failed request` or `commit message`, `model` who was asked.
    """

    seq: int
    at: str
    turn: int
    purpose: str
    model: str
    usage: Usage


def spending(entries: Iterable[tuple[int, str, Entry]]) -> Iterator[Spent]:
    """Each use of a model, in order.

    Args:
        entries: sequence number, time and content of each record, from the first one on.
    """
    turn, model = 0, ""
    for seq, at, entry in entries:
        if isinstance(entry, UserInput):
            turn += 1
        elif isinstance(entry, Configured):
            model = entry.config.model_name
        else:
            purpose, usage = _use(entry)
            by = (isinstance(entry, PostToolsHookCompleted) and entry.model) or model
            if usage is not None:
                yield Spent(seq, at, turn, purpose, by, usage)


def _use(entry: Entry) -> tuple[str, Usage | None]:
    if isinstance(entry, LlmEvent.Completed):
        return "answer", entry.response.usage
    if isinstance(entry, LlmEvent.Error):
        return "failed request", entry.error.usage
    if isinstance(entry, PostToolsHookCompleted):
        return "commit message", entry.usage
    return "", None


def by_turn(spent: Iterable[Spent]) -> dict[int, Usage]:
    """The sum of each turn that used something."""
    sums: dict[int, Usage] = {}
    for one in spent:
        sums[one.turn] = sums.get(one.turn, Usage()) + one.usage
    return sums
