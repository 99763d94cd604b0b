"""Have a summary stand for a conversation so far."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.app.sessions.open_threads import OpenThread
from treadle.app.sessions.setup import Setup
from treadle.core.conversation import Conversation
from treadle.errors import UsageError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session


def check_compaction(setup: Setup) -> None:
    """Refuse what cannot be compacted, before anything is recorded.

    Raises:
        UsageError: the thread is a task, or waits for approval.
    """
    assert setup.thread is not None
    if setup.is_task:
        why = f"thread {setup.thread_id} is a task, which reflects by itself"
        raise UsageError(why, hint="only conversations are compacted")
    if setup.thread.machine.questions:
        raise UsageError(
            f"thread {setup.thread_id} waits for approval",
            hint=f"answer first: treadle approve {setup.thread_id}",
        )


async def compact(opened: OpenThread, focus: str) -> TurnFinished:
    """Have the model write the summary; the answer says how much it stands for.

    Args:
        opened: a conversation.
        focus: what must not be forgotten, in words; may be empty.
    """
    assert isinstance(opened, Session)
    finished = await opened.compact(focus)
    if finished.outcome is not TurnOutcome.DONE:
        return finished
    conversation = opened.conversation
    assert isinstance(conversation, Conversation)
    through = 0 if conversation.compaction is None else conversation.compaction.through
    count = len(conversation)
    answer = f"{through} of {count} messages are no longer in view: a summary stands there"
    return replace(finished, answer=answer)
