"""The whole output of a call, of which the thread's message may hold only head and tail."""

from __future__ import annotations

from treadle.core.events import ToolCompleted
from treadle.core.tools import ToolExecutionOutcome
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import BackgroundEnded


def read_output(store: LocalStore, thread_id: str, call_id: str) -> str:
    """What a call has put out, as it was recorded: secrets replaced.

    Args:
        store: where the thread is.
        thread_id: the thread; what a fork has from its base is asked of the base.
        call_id: the call, or the beginning of its id.

    Raises:
        UsageError: no call that has ended is named like that, or several are.
        MissingBlobError: the message has only head and tail, and the rest is gone.
    """
    found: dict[str, ToolCompleted | BackgroundEnded] = {}
    for record in store.scan(thread_id).records:
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            break
        # Of a command in the background there are both; the end, which comes later, has all of it.
        if not isinstance(entry, ToolCompleted | BackgroundEnded):
            continue
        if entry.call_id.startswith(call_id):
            found[entry.call_id] = entry
    ended = found.get(call_id) or (found.popitem()[1] if len(found) == 1 else None)
    if ended is None:
        known = f"several begin like that: {', '.join(found)}" if found else "none that has ended"
        raise UsageError(
            f"thread {thread_id} has no call {call_id!r}: {known}",
            hint="`treadle show ID --json` has the ids of the calls",
        )
    if isinstance(ended, BackgroundEnded):
        whole = None if ended.blob is None else store.read_blob(ended.blob)
        return ended.output if whole is None else whole.decode("utf-8", "replace")
    outcome = ended.outcome
    if outcome.blob is not None:
        return store.read_blob(outcome.blob).decode("utf-8", "replace")
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return outcome.error.text
