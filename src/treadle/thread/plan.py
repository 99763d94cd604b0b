"""The plan of an agent: the steps it has told with its newest call of the tool `plan`. Pure.

A plan is no record of its own. It is what the conversation says, so a resumed thread and a fork
have it, and going back brings back the one that held then.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall, is_by_person
from treadle.core.tool_families import ToolKind, find_shape
from treadle.core.tools import FAILURE_HEAD

STEP_COUNT_MAX: Final = 50
STEP_LENGTH_MAX: Final = 300
"""Characters of a step."""

_OTHER_WORDS: Final = {
    **dict.fromkeys(("completed", "complete", "finished"), "done"),
    **dict.fromkeys(("in progress", "in-progress", "active", "doing"), "in_progress"),
    **dict.fromkeys(("todo", "not_started", "not started"), "pending"),
}
"""What models write that have learned the words of another agent."""


class StepStatus(Enum):
    """How far it is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"

    @classmethod
    def _missing_(cls, value: object) -> StepStatus | None:
        meant = _OTHER_WORDS.get(str(value).lower())
        return None if meant is None else cls(meant)


class PlanStep(Struct, frozen=True, forbid_unknown_fields=True):
    """A step."""

    step: Annotated[str, Meta(min_length=1, max_length=STEP_LENGTH_MAX)]
    status: StepStatus = StepStatus.PENDING


class AgentPlan(Struct, frozen=True):
    """The steps, in the order in which they are to be done. Their texts are a model's."""

    steps: Annotated[tuple[PlanStep, ...], Meta(max_length=STEP_COUNT_MAX)]

    @property
    def done_count(self) -> int:
        """How many steps are done."""
        return sum(one.status is StepStatus.DONE for one in self.steps)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.done_count == len(self.steps)

    @property
    def summary(self) -> str:
        """How far it is, in a few words: `2 of 5 done, now: change the parser`."""
        if not self.steps:
            return "no steps"
        now = next((s.step for s in self.steps if s.status is StepStatus.IN_PROGRESS), "")
        return f"{self.done_count} of {len(self.steps)} done" + (f", now: {now}" if now else "")


def read_plan_call(call: ToolCall) -> AgentPlan | None:
    """The plan that a call tells; `None` if it is a call of something else, or no plan."""
    shape = find_shape(call.tool_name)
    if shape is None or shape.kind is not ToolKind.PLAN:
        return None
    try:
        given = msgspec.json.decode(call.arguments_json, type=dict[str, Any])
        given = shape.restore(given)
        if isinstance(given.get("steps"), str):  # the tool takes it so, too
            given["steps"] = msgspec.json.decode(given["steps"])
        return msgspec.convert(given, AgentPlan)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def find_plan(messages: Sequence[Message], *, in_last_turn: bool = False) -> AgentPlan | None:
    """The plan that holds; `None` without one. Costs time in proportion to what came after it.

    Args:
        messages: of a `Conversation` those count that a rewind has not hidden. Those before a
            compaction count: they are shown to people.
        in_last_turn: whether one counts only if it was told since the person's last words.
    """
    hidden = messages.hidden if isinstance(messages, Conversation) else ()
    failed: set[str | None] = set()
    for index in range(len(messages) - 1, -1, -1):
        if any(start <= index < end for start, end in hidden):
            continue
        message = messages[index]
        if message.role == "tool" and message.content.startswith(FAILURE_HEAD):
            failed.add(message.tool_call_id)
        if in_last_turn and is_by_person(message):
            return None
        for call in reversed(message.tool_calls):
            plan = None if call.id in failed else read_plan_call(call)
            if plan is not None:
                return plan if plan.steps else None
    return None


def append_forgotten_plan(conversation: Conversation, through: int, summary: str) -> str:
    """A summary of the first `through` messages, with the plan that was told in them.

    The steps are the model's own, word for word: no summary has to be trusted to keep them. One
    that was told since stands in what is shown, and what is all done is not needed any more.
    """
    plan = find_plan(conversation)
    if plan is None or plan.is_done or find_plan(conversation[through:]) is not None:
        return summary
    steps = "".join(f"\n- {one.status.value}: {one.step}" for one in plan.steps)
    return f"{summary}\n\nThe plan, as it was told last:{steps}"


def find_proposed_plan(conversation: Conversation) -> AgentPlan | None:
    """The plan with which an agent has ended a turn; `None` without one, or if it is all done.

    It was told since the person's last words, and the turn has ended with an answer.
    """
    shown = conversation.in_view
    last = shown[-1] if shown else None
    if last is None or last.role != "assistant" or last.tool_calls or last.interrupted:
        return None
    plan = find_plan(conversation, in_last_turn=True)
    return None if plan is None or plan.is_done else plan
