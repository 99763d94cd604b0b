"""Unfinished threads of a folder, with the command that resumes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.app.notices import Notify, ignore_notice
from treadle.app.threads.short_ids import list_short_ids
from treadle.app.threads.thread_lists import PendingThreads, find_pending
from treadle.app.threads.times import local_time
from treadle.errors import TreadleError
from treadle.pages.thread_cells import format_title
from treadle.thread.document import ThreadSummary

if TYPE_CHECKING:
    from treadle.store.local_store import LocalStore

SHOWN_MAX: Final = 9
"""Threads that are lines one by one."""

_TITLE_LENGTH_MAX: Final = 40


def describe_pending_work(line: ThreadSummary, *, is_foreign: bool = False) -> str:
    """What is pending on a thread, counted, and whether it was made elsewhere."""
    counted = (
        (line.open_calls, "call not over", "calls not over"),
        (line.questions, "call waits for a yes", "calls wait for a yes"),
        (line.queued, "prompt not delivered", "prompts not delivered"),
    )
    words = [f"{count} {one if count == 1 else more}" for count, one, more in counted if count]
    lines = ", ".join(words) or "stopped in the middle"
    return f"taken in from elsewhere, {lines}" if is_foreign else lines


def make_pending_notice(
    store: LocalStore, workspace: str, notify: Notify = ignore_notice
) -> str | None:
    """A line for whoever begins a new thread here; `None` if nothing is left, or nobody can tell.

    A store that cannot be read is lines of by what reads it next.
    """
    try:
        pending = find_pending(store, workspace, notify=notify)
    except (TreadleError, OSError):
        return None
    left = pending.left
    if not left:
        return None
    if len(left) == 1:
        words = f"{left[0].id} is unfinished here ({_describe_thread(left[0], pending)})"
        return f"{words}; to go on with it: treadle resume {left[0].id}"
    return f"{len(left)} threads are unfinished here; `treadle` shows them"


def count_pending(store: LocalStore, workspace: str, notify: Notify = ignore_notice) -> str:
    """What is not done in a folder, in one line for a chat; empty if all is done.

    Raises:
        DiskError: the threads of this machine cannot be read.
    """
    pending = find_pending(store, workspace, notify=notify)
    parts = [f"{len(pending.left)} unfinished: /resume"] * bool(pending.left)
    if pending.running:
        first = list_short_ids(store).shorten(pending.running[0].id)
        parts.append(f"{len(pending.running)} at work now: treadle watch {first}")
    return " · ".join(parts)


def describe_pending(
    store: LocalStore, workspace: str, go_on: str, notify: Notify = ignore_notice
) -> list[str]:
    """What is not done in a folder, in lines; none if all is done.

    Args:
        store: the threads.
        workspace: the folder.
        go_on: the command that goes on with a thread, without its id.
        notify: takes what the index says while it is brought up to date.

    Raises:
        DiskError: the threads of this machine cannot be read.
    """
    pending = find_pending(store, workspace, notify=notify)
    lines = []
    for line in pending.running:
        lines += [
            "",
            f"at work here now: {_format_row(line, pending)}",
            f"  treadle watch {line.id}",
        ]
    if not pending.left:
        return lines
    lines += ["", "unfinished here:"]
    for number, line in enumerate(pending.left[:SHOWN_MAX], 1):
        lines += [f"  {number}  {_format_row(line, pending)}", f"     {go_on} {line.id}"]
    if len(pending.left) > SHOWN_MAX:
        lines.append(f"  and {len(pending.left) - SHOWN_MAX} more: treadle list")
    return lines


def _describe_thread(line: ThreadSummary, pending: PendingThreads) -> str:
    return describe_pending_work(line, is_foreign=line.id in pending.foreign)


def _format_row(line: ThreadSummary, pending: PendingThreads) -> str:
    words = f"{format_title(line, _TITLE_LENGTH_MAX)}: {_describe_thread(line, pending)}"
    return f"{words}  {local_time(line.updated_at)}  {line.id}"
