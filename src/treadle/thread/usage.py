"""What a thread has used, response by response and turn by turn: a fold of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from treadle.core.config import choose_model
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
from treadle.core.task.machine import TaskMachine
from treadle.thread.branches import decode_merged_entries
from treadle.thread.codec import Entry, get_usage
from treadle.thread.facts import Configured, Merged, Renamed
from treadle.thread.fold import ThreadFold

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


class AskedModel(Struct, frozen=True):
    """Who is asked: the model that a task has for its kind, else that of the settings."""

    of_settings: str = ""
    of_task: str = ""

    @property
    def name(self) -> str:
        """The model; empty if no record has said so."""
        return self.of_task or self.of_settings


NOT_SAID: Final = AskedModel()


def find_asked_model(fold: ThreadFold) -> AskedModel:
    """Who is asked as a thread stands; before its own records, a fork asks whom its base asked."""
    machine, of_task = fold.machine, ""
    if isinstance(machine, TaskMachine):
        memory = machine.state.memory
        of_task = choose_model(memory.config.models, memory.task_type)
    return AskedModel(machine.config.model_name, of_task)


def list_usage(
    entries: Iterable[tuple[int, str, Entry]], asked: AskedModel = NOT_SAID
) -> Iterator[UsageEntry]:
    """Each use of a model, in order.

    Args:
        entries: sequence number, time and content of each record, from the first one on.
        asked: who is asked before a record says so.
    """
    state = UsageState(asked)
    for seq, at, entry in entries:
        if (found := state.read_entry(seq, at, entry)) is not None:
            yield found


class UsageState:
    """Who is asked, and in which turn, as the records so far have it.

    Args:
        asked: who is asked before a record says so.
    """

    def __init__(self, asked: AskedModel = NOT_SAID) -> None:
        self._turn = 0
        self.asked = asked

    def read_entry(self, seq: int, at: str, entry: Entry) -> UsageEntry | None:
        """What the next record says was used, if anything."""
        if isinstance(entry, UserInput | TaskGiven):
            self._turn += 1
            if isinstance(entry, TaskGiven):
                of_task = choose_model(entry.config.models, entry.task_type)
                self.asked = AskedModel(self.asked.of_settings, of_task)
            return None
        if isinstance(entry, Configured):
            self.asked = AskedModel(entry.config.model_name, self.asked.of_task)
            return None
        asked = "" if isinstance(entry, Merged) else self.asked.name
        usage = _sum_merged_usage(entry) if isinstance(entry, Merged) else get_usage(entry)
        if usage is None:
            return None
        by = getattr(entry, "model", "") or asked
        purpose = _PURPOSES.get(type(entry), "")
        return UsageEntry(seq, at, self._turn, purpose, by, usage)


def _sum_merged_usage(entry: Merged) -> Usage | None:
    """All that was used on the other branch, titles too; `None` if nothing was."""
    used = sum((get_usage(one) or Usage() for one in decode_merged_entries(entry)), Usage())
    return None if used == Usage() else used


def sum_usage_by_turn(spent: Iterable[UsageEntry]) -> dict[int, Usage]:
    """The sum of each turn that used something, without what was merged: no turn used it."""
    sums: dict[int, Usage] = {}
    for one in spent:
        add_usage_to_turn(sums, one)
    return sums


def add_usage_to_turn(sums: dict[int, Usage], one: UsageEntry) -> None:
    """Count what was used to the sum of its turn; what was merged no turn used."""
    if one.purpose != MERGED:
        sums[one.turn] = sums.get(one.turn, Usage()) + one.usage
