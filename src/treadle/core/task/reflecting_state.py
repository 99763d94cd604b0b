"""Reflecting: older history becomes a digest, so that requests stay short. Nothing is lost.

The newest entries stay word for word. The digest is made of the messages themselves (`digest.py`),
or written by a model where that was asked for. The task stands in it, because the message
that gave it is then out of view. The messages themselves stay in the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle.core.actions import WAIT, AgentAction, Summarize
from treadle.core.budget import CHARACTERS_PER_TOKEN
from treadle.core.compaction import build_summary_request
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, Conversation
from treadle.core.events import Compacted, CompactionFailed
from treadle.core.messages import ToolCall
from treadle.core.task.digest import make_digest, make_line_digest
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
    digest = _make_digest(memory, cut, context.settings)
    return _compress_history(memory, cut, digest), Event.REFLECT_DONE


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


def _make_digest(memory: AgentMemory, cut: _HistoryCut, settings: AgentConfig) -> str:
    old, _, through = cut
    tokens = memory.config.digest_tokens_max
    if not tokens:
        return make_line_digest(old)
    tokens = min(filter(None, (tokens, settings.context_tokens_max // 8)))
    return make_digest(memory.transcript[:through], tokens * CHARACTERS_PER_TOKEN)


REFLECTING: Final = Handler(enter_state, handle_event, make_obligation)
