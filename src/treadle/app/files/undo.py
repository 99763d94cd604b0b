"""Taking back the last turn with its files, and having it again."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from treadle.app.files.rewind import RewindRequest, RewindResult, rewind_thread
from treadle.app.notices import Notify, ignore_notice
from treadle.app.threads.thread_search import find_turns
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore


class UndoneTurn(Struct, frozen=True):
    """A turn that was taken back: what the person had said in it, and what went back.

    `left` are the versions at which the turns begin that are still in view.
    """

    prompt: str
    result: RewindResult
    left: tuple[int, ...]


async def undo_turn(
    store: LocalStore, thread_id: str, *, notify: Notify = ignore_notice
) -> UndoneTurn:
    """Take back the last turn in view, and the files that the agent changed in it.

    Args:
        store: where the thread is.
        thread_id: its id; nobody has it open.
        notify: see `Notify`.

    Raises:
        UsageError: there is none, or its files cannot be put back; nothing was changed then.
        StoreError: as `rewind_thread`.
    """
    turns = await asyncio.to_thread(find_turns, store, thread_id)
    if not turns:
        raise UsageError("there is nothing to take back yet")
    request = RewindRequest(wants_files=True)
    result = await rewind_thread(store, thread_id, request, notify=notify)
    left = await _list_turns(store, thread_id)
    return UndoneTurn(turns[-1].prompt, result, left)


async def redo_turn(
    store: LocalStore, undone: UndoneTurn, *, notify: Notify = ignore_notice
) -> RewindResult:
    """Have a turn again that was taken back, and its files.

    Args:
        store: where the thread is; nobody has it open.
        undone: of `undo_turn`.
        notify: see `Notify`.

    Raises:
        UsageError: something was said since, which would be gone from view; or as `undo_turn`.
        StoreError: as `rewind_thread`.
    """
    thread_id, back = undone.result.thread, undone.result.back
    if await _list_turns(store, thread_id) != undone.left:
        raise UsageError(
            "something else was said since the last turn was taken back",
            hint=f"treadle rewind {thread_id} --version {back} --files  goes back there all the "
            "same, once nobody has the thread open",
        )
    request = RewindRequest(version=back, wants_files=True)
    return await rewind_thread(store, thread_id, request, notify=notify)


async def _list_turns(store: LocalStore, thread_id: str) -> tuple[int, ...]:
    turns = await asyncio.to_thread(find_turns, store, thread_id)
    return tuple(turn.version for turn in turns)
