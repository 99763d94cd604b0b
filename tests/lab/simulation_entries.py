"""What is recorded in a simulation, and what must hold of a thread that was folded from it."""

from __future__ import annotations

from random import Random

from core.samples import answer
from treadle.core.approval import Rejected
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    Error,
    ExecutingTools,
    PostToolsHook,
    WaitingForApproval,
)
from treadle.core.conversation import Conversation
from treadle.core.events import (
    ApprovalDecided,
    Compacted,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolCompleted,
)
from treadle.core.messages import Message
from treadle.core.tools import ToolExecutionOutcome, ToolExecutionStatus
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    ContextObserved,
    ExtraSet,
    FilesSaved,
    GitObserved,
    InputQueued,
    Pinned,
    Recovered,
    Renamed,
    Tagged,
)
from treadle.thread.fold import ThreadFold


def fits(conversation: Conversation) -> bool:
    """Whether the hidden spans lie in order within the messages, after what is summed up."""
    view = conversation.view
    edges = [0, *(edge for span in view.hidden for edge in span), view.length]
    through = 0 if view.compaction is None else view.compaction.through
    return edges == sorted(edges) and 0 <= through <= view.length == len(conversation)


def all_of(fold: ThreadFold) -> tuple[object, ...]:
    """What two folds of the same records agree on."""
    return (
        fold.document(),
        fold.machine.config,
        fold.machine.obligations(),
        fold.queued,
        fold.turn_usage,
        fold.files,
        fold.context,
        fold.is_named_by_person,
    )


def random_fact(random: Random, number: int) -> Entry:
    moment = random.choice(("before", "after"))
    return random.choice(
        (
            GitObserved("main", random.choice((None, "c0ffee", "beef")), random.random() < 0.5),
            InputQueued(Message.user(f"later {number}")),
            Recovered("the process had died"),
            ContextObserved("treadle", "/w", workers=number % 3),
            FilesSaved(f"{number:040x}", "b" * 40, moment),  # type: ignore[arg-type]
            Renamed(random.choice(("", "a title")), random.choice(("person", "model"))),  # type: ignore[arg-type]
            Tagged((f"tag-{number % 7}",), (f"tag-{number % 5}",)),
            Pinned(random.random() < 0.5),
            Annotated("a note \u2028 of mine"),
            ExtraSet({f"key-{number % 3}": random.choice((None, number))}),
        )
    )


def way_out(state: AgentState) -> Entry:
    """What brings a conversation nearer to its rest."""
    if isinstance(state, CallingLlm):
        return answer("done")
    if isinstance(state, ExecutingTools):
        call_id = next(
            one.call_id
            for one in state.executions
            if not isinstance(one, ToolExecutionStatus.Completed)
        )
        return ToolCompleted(call_id, ToolExecutionOutcome.Success(call_id, "fine"))
    if isinstance(state, WaitingForApproval):
        return ApprovalDecided(state.questions[0].call.id, Rejected("the end"))
    if isinstance(state, PostToolsHook):
        return PostToolsHookCompleted(False)
    if isinstance(state, Compacting):
        return Compacted(state.through, "so it was")
    assert isinstance(state, Error), state
    return RetryTimeoutFired()
