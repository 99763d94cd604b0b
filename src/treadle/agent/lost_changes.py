"""What a task is told whose files are not as its journal says: changes that went with a machine.

Between machines travels what was committed and pushed. A worker that dies in a round takes the
changes of that round with it, though results of calls say that they were made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import pairwise
from typing import Final

from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, names_of
from treadle.core.tools import Access
from treadle.thread.codec import Entry, decode_entry
from treadle.thread.facts import GitObserved
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Record

_CHANGING: Final = names_of(
    ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH, ToolKind.RUN, ToolKind.DELEGATE
)
_ARGUMENTS_MAX: Final = 120
"""Characters of a call's arguments by which it is told."""
_CALL_COUNT_MAX: Final = 30
"""So many calls are told, the newest ones."""


async def describe_lost_changes(
    fold: ThreadFold,
    records: Iterable[Record],
    commit: str,
    committed: int,
    is_there: Callable[[str], Awaitable[bool]],
) -> str:
    """What the model is to be told of changes that are gone; empty if none are.

    Args:
        fold: the thread.
        records: all of its records.
        commit: the one at which the files are.
        committed: up to which version a commit that is there has the thread's changes; 0 if none
            says so. (Who has pushed it may have died before that was recorded.)
        is_there: whether the files have a commit, by its full hash, behind them.
    """
    entries = [(one.seq, decode_entry(one.event)) for one in records]
    kept = max(committed, await _find_kept_version(entries, is_there))
    begun = [
        entry.call_id
        for seq, entry in entries
        if seq > kept and isinstance(entry, ToolStarted) and entry.access is not Access.READ
    ]
    calls = [call for call in _list_calls(fold, {*begun}) if call.tool_name in _CHANGING]
    if not calls:
        return ""
    more = (
        f"\n- {len(calls) - _CALL_COUNT_MAX} before these" if len(calls) > _CALL_COUNT_MAX else ""
    )
    return (
        "Another machine goes on with this task. The files of the repository are as they were in "
        f"commit {commit[:12]}; what these calls have changed in files since then is lost, "
        "whatever their results say. Make it again where it is needed. Anything else that they "
        "did is done.\n" + "\n".join(map(_describe, calls[-_CALL_COUNT_MAX:])) + more
    )


async def _find_kept_version(
    entries: Iterable[tuple[int, Entry]], is_there: Callable[[str], Awaitable[bool]]
) -> int:
    """Up to which version the files have what was changed: that of a hook, if its HEAD is there."""
    hooks: list[tuple[int, str]] = []
    head = ""
    for (seq, entry), (_, after) in pairwise([*entries, (0, None)]):
        if isinstance(entry, GitObserved):
            head = entry.head or ""
        elif isinstance(entry, PostToolsHookCompleted):
            # Where it has left HEAD stands behind it, if that is news.
            left = (after.head or "") if isinstance(after, GitObserved) else head
            hooks.append((seq, left))
    known: dict[str, bool] = {"": False}
    for seq, left in reversed(hooks):
        if left not in known:
            known[left] = await is_there(left)
        if known[left]:
            return seq
    return 0


def _list_calls(fold: ThreadFold, wanted: set[str]) -> list[ToolCall]:
    """The calls of these ids, in the order in which the model made them."""
    found: dict[str, ToolCall] = {}
    for message in fold.machine.conversation:
        found.update((call.id, call) for call in message.tool_calls if call.id in wanted)
    found.update((call.id, call) for call, _ in fold.machine.round if call.id in wanted)
    return [*found.values()]


def _describe(call: ToolCall) -> str:
    arguments = " ".join(call.arguments_json.split())
    if len(arguments) > _ARGUMENTS_MAX:
        arguments = arguments[:_ARGUMENTS_MAX] + "..."
    return f"- {call.tool_name} {arguments}"
