"""Reflecting: older history becomes a digest, so that requests stay short. Nothing is lost.

The newest entries stay word for word. The digest is made of the entries themselves, a line for each
call, or written by a model where that was asked for. The task stands in it, because the message
that gave it is then out of view. The messages themselves stay in the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle.core.actions import WAIT, AgentAction, Summarize
from treadle.core.compaction import build_summary_request
from treadle.core.conversation import Compaction, Conversation
from treadle.core.events import Compacted, CompactionFailed
from treadle.core.messages import ToolCall
from treadle.core.task.events import TimeRanOut
from treadle.core.task.handler import (
    Handler,
    HandlerContext,
    StateResult,
    add_usage,
    stop_over_budget,
)
from treadle.core.task.memory import SUMMARY, AgentMemory, History, HistoryEntry
from treadle.core.task.request import build_request, choose_task_model
from treadle.core.task.table import Event, State

_STATE: Final = State.REFLECTING

STEPS_KEPT: Final = 5
"""How many steps stay word for word where `reflect_every_n_steps` does not say it."""
ARGUMENTS_LENGTH_MAX: Final = 120
OBSERVATION_LENGTH_MAX: Final = 200
DIGEST_LENGTH_MAX: Final = 8000
"""Characters of the whole digest; beyond, the oldest lines are only counted."""

_HEAD: Final = "... "
_TAIL: Final = " earlier calls"

_HistoryCut: TypeAlias = tuple[Sequence[HistoryEntry], Sequence[HistoryEntry], int]
"""The entries that are old, those that stay, and how many messages go out of view."""


def enter_state(memory: AgentMemory, context: HandlerContext) -> StateResult:
    """Make the digest, or have a model write it."""
    memory = memory.log(_STATE, "COMPRESS_START", f"{len(memory.history)} entries")
    cut = _find_cut(memory, context)
    if cut is None:
        return memory.log(_STATE, "COMPRESS_DONE", "nothing is old enough"), Event.REFLECT_DONE
    if memory.config.model_written_reflection:
        if (stopped := stop_over_budget(memory, _STATE)) is not None:
            # History stays; the next planning step ends the run.
            return memory.log(_STATE, "COMPRESS_FAILED", stopped.error or ""), Event.REFLECT_DONE
        return memory, make_obligation(memory, context)
    return _compress_history(memory, cut, make_digest(cut[0])), Event.REFLECT_DONE


def make_obligation(memory: AgentMemory, context: HandlerContext) -> AgentAction:
    """The summary, if a model is to write it."""
    cut = _find_cut(memory, context)
    if cut is None:
        return WAIT
    settings = replace(context.settings, model_name=choose_task_model(memory, context.settings))
    focus = "what is needed to finish the task"
    due = build_request(memory, context.settings)
    request = build_summary_request(settings, memory.transcript, cut[2], focus, due)
    return Summarize(request, cut[2])


def handle_event(memory: AgentMemory, event: Any, context: HandlerContext) -> StateResult:
    """Take the model's summary; without one, history stays as it is."""
    if isinstance(event, Compacted):
        cut = _find_cut(memory, context)
        memory = add_usage(memory, event.usage)
        if cut is not None and event.through == cut[2] and event.summary.strip():
            return _compress_history(memory, cut, event.summary.strip()), Event.REFLECT_DONE
        return memory.log(_STATE, "COMPRESS_FAILED", "no summary"), Event.REFLECT_DONE
    if isinstance(event, CompactionFailed):
        memory = add_usage(memory, event.error.usage)
        return memory.log(_STATE, "COMPRESS_FAILED", event.error.text), Event.REFLECT_DONE
    if isinstance(event, TimeRanOut):
        return memory.log(_STATE, "COMPRESS_FAILED", "time ran out"), Event.REFLECT_DONE
    return memory, None


def _find_cut(memory: AgentMemory, context: HandlerContext) -> _HistoryCut | None:
    """Where to cut, at the end of the last old round; `None` if nothing is old enough.

    What follows that round stays in view with it, such as the note that sent the agent here.
    """
    steps = max(1, memory.config.reflect_every_n_steps or STEPS_KEPT)
    if context.settings.is_near_limit(memory.transcript):
        steps = max(1, steps // 2)  # what is kept word for word is what fills the context
    entries = tuple(memory.history)
    old = [entry for entry in entries if entry.step <= memory.step - steps]
    if not old or old[-1].tool.tool_name == SUMMARY:
        return None
    through = _find_end_of_round(memory.transcript, old[-1].tool.id)
    return None if through is None else (old, entries[len(old) :], through)


def _find_end_of_round(transcript: Conversation, call_id: str) -> int | None:
    """The index after the results of the round in which this call stands."""
    begin = 0 if transcript.compaction is None else transcript.compaction.through
    end = len(transcript)
    for index in range(len(transcript) - 1, begin - 1, -1):
        message = transcript[index]
        if any(call.id == call_id for call in message.tool_calls):
            return end
        if message.role != "tool":
            end = index
    return None


def _compress_history(memory: AgentMemory, cut: _HistoryCut, text: str) -> AgentMemory:
    old, kept, through = cut
    entry = HistoryEntry(old[-1].step, ToolCall("", SUMMARY), text, True)
    summary = f"Task: {memory.task}\n\nWhat was done so far:\n{text}"
    memory = replace(
        memory,
        history=History([entry, *kept]),
        transcript=memory.transcript.compact(Compaction(through, summary)),
    )
    return memory.log(_STATE, "COMPRESS_DONE", f"{len(old)} entries; {len(kept)} stay as they are")


def make_digest(entries: Sequence[HistoryEntry]) -> str:
    """A line for each entry, those of an earlier digest kept; bounded, the newest lines stay."""
    count, lines = 0, list[str]()
    for entry in entries:
        if entry.tool.tool_name != SUMMARY:
            lines.append(_format_entry(entry))
            continue
        earlier = entry.observation.split("\n")
        first = earlier[0].removeprefix(_HEAD).removesuffix(_TAIL)
        if earlier[0] == f"{_HEAD}{first}{_TAIL}" and first.isdecimal():
            count += int(first)
            del earlier[0]
        lines += earlier
    room = DIGEST_LENGTH_MAX - len(f"{_HEAD}{count + len(lines)}{_TAIL}")
    kept = 0
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    count += len(lines) - kept
    head = [f"{_HEAD}{count}{_TAIL}"] if count else []
    return "\n".join([*head, *lines[len(lines) - kept :]])


def _format_entry(entry: HistoryEntry) -> str:
    arguments = _shorten_line(entry.tool.arguments_json, ARGUMENTS_LENGTH_MAX)
    observation = _shorten_line(entry.observation, OBSERVATION_LENGTH_MAX)
    return f"step {entry.step}: {entry.tool.tool_name} {arguments} -> {observation}"


def _shorten_line(text: str, length_max: int) -> str:
    line = " ".join(text[: 4 * length_max].split())
    is_whole = len(line) <= length_max and len(text) <= 4 * length_max
    return line if is_whole else line[:length_max].rstrip() + "…"


REFLECTING: Final = Handler(enter_state, handle_event, make_obligation)
