"""What a task did, step by step."""

from __future__ import annotations

from msgspec import Struct

from treadle.core.task.machine import TaskMachine
from treadle.core.task.trace import Trace
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore


class TaskTrace(Struct, frozen=True):
    """The trace of a task; `problem` says why that is not all of it, empty if it is."""

    trace: Trace
    problem: str = ""


def read_trace(store: LocalStore, thread: str) -> TaskTrace:
    """The trace of a task, by the beginning or the end of an id. The thread need not be free.

    Raises:
        UsageError: there is no such thread, or it is a conversation.
        StoreError: it cannot be read.
    """
    loaded = store.load(store.resolve(thread))
    machine = loaded.fold.machine
    if not isinstance(machine, TaskMachine):
        name = loaded.fold.header.thread
        raise UsageError(
            f"thread {name} is a conversation, which has no trace",
            hint=f"treadle replay {name} prints its transitions",
        )
    return TaskTrace(machine.memory.trace, loaded.problem)
