"""What a thread has used, response by response and turn by turn: a fold of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from treadle.core.config import AgentConfig, choose_model
from treadle.core.events import (
    Compacted,
    CompactionFailed,
    LlmEvent,
    PostToolsHookCompleted,
    ToolCompleted,
    UserInput,
)
from treadle.core.llm import Usage
from treadle.core.task.events import StateCompleted, StateFailed, TaskGiven
from treadle.thread.branches import decode_merged_entries
from treadle.thread.codec import Entry, get_usage
from treadle.thread.facts import Configured, Merged, Renamed

MERGED: Final = "merged"
"""The purpose of what was used on another machine, in turns that are not counted here."""

SUB_AGENT: Final = "sub-agent"
"""The purpose of what a sub-agent used, which stands in its own thread too."""

_PURPOSES: Final[Mapping[type, str]] = MappingProxyType(
    {
        LlmEvent.Completed: "answer",
        LlmEvent.Error: "failed request",
        PostToolsHookCompleted: "commit message",
        Compacted: "summary",
        CompactionFailed: "failed summary",
        ToolCompleted: SUB_AGENT,
        StateCompleted: "custom state",
        StateFailed: "failed custom state",
        Renamed: "title",
        Merged: MERGED,
    }
)


class UsageEntry(Struct, frozen=True):
    """What one request to a model used, or all those of a branch that was merged.

    `seq` and `at` are those of the record, `turn` counts from 1, `purpose` says what for, `model`
    who was asked; empty for what was merged.
    """

    seq: int
    at: str
    turn: int
    purpose: str
    model: str
    usage: Usage


def list_usage(entries: Iterable[tuple[int, str, Entry]]) -> Iterator[UsageEntry]:
    """Each use of a model, in order.

    Args:
        entries: sequence number, time and content of each record, from the first one on.
    """
    state = UsageState()
    for seq, at, entry in entries:
        if (found := state.read_entry(seq, at, entry)) is not None:
            yield found


class UsageState:
    """Who is asked, and in which turn, as the records so far have it.

    Args:
        model: who is asked before a record has said so.
    """

    def __init__(self, model: str = "") -> None:
        self._turn = 0
        self._settings = AgentConfig(model_name=model)
        self._task = TaskGiven("")

    def read_entry(self, seq: int, at: str, entry: Entry) -> UsageEntry | None:
        """What the next record says was used, if anything."""
        if isinstance(entry, UserInput | TaskGiven):
            self._turn += 1
            self._task = entry if isinstance(entry, TaskGiven) else self._task
            return None
        if isinstance(entry, Configured):
            self._settings = entry.config
            return None
        is_merged = isinstance(entry, Merged)
        usage = _sum_merged_usage(entry) if isinstance(entry, Merged) else get_usage(entry)
        if usage is None:
            return None
        task = self._task
        chosen = choose_model(task.config.models, task.task_type) or self._settings.model_name
        by = getattr(entry, "model", "") or ("" if is_merged else chosen)
        return UsageEntry(seq, at, self._turn, _find_purpose(entry), by, usage)


def _sum_merged_usage(entry: Merged) -> Usage | None:
    """All that was used on the other branch, titles too; `None` if nothing was."""
    used = sum((get_usage(one) or Usage() for one in decode_merged_entries(entry)), Usage())
    return None if used == Usage() else used


def _find_purpose(entry: Entry) -> str:
    for kind, purpose in _PURPOSES.items():
        if isinstance(entry, kind):
            return purpose
    return ""


def sum_usage_by_turn(spent: Iterable[UsageEntry]) -> dict[int, Usage]:
    """The sum of each turn that used something, without what was merged: no turn used it."""
    sums: dict[int, Usage] = {}
    for one in spent:
        if one.purpose == MERGED:
            continue
        sums[one.turn] = sums.get(one.turn, Usage()) + one.usage
    return sums
