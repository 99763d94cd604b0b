"""What the document tells of a machine beyond what conversations tell of theirs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.core.chat.machine import ConversationMachine
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import Status, ToolExecutionStatus
from treadle.thread.document import AgentStateSnapshot, PendingToolCall


def snapshot_task(machine: TaskMachine, kind: str) -> AgentStateSnapshot:
    """What went wrong last, and which calls are open or wait for a yes; `kind` is in snake case."""
    pending = [
        PendingToolCall(call.id, call.tool_name)
        for call, status in machine.round
        if not isinstance(status, ToolExecutionStatus.Completed)
    ]
    waiting = [PendingToolCall(one.call.id, one.call.tool_name) for one in machine.questions]
    return AgentStateSnapshot(
        kind,
        last_error=machine.suspension_error.text
        if machine.suspension_error
        else machine.memory.error,
        pending_tool_calls=(*pending, *waiting),
    )


def count_open_calls(round_: Iterable[tuple[ToolCall, Status]]) -> int:
    """How many calls of a round have no result yet."""
    return sum(not isinstance(status, ToolExecutionStatus.Completed) for _, status in round_)


def get_model_name(machine: ConversationMachine | TaskMachine, config: AgentConfig) -> str:
    """The model that answers with this configuration: a task may have one for its kind."""
    if isinstance(machine, TaskMachine):
        return machine.with_config(config).model_name
    return config.model_name
