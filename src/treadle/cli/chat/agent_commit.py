"""Commits, on a person's word, what the agent has changed in the thread and is not committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from treadle.cli.chat.notices import words
from treadle.cli.chat.ports import Choice

if TYPE_CHECKING:
    from treadle.cli.chat.chat import Chat
    from treadle.store.local import LocalStore

NAMES_COUNT_MAX: Final = 20
"""Names of files that are shown of what would be committed."""


async def commit(chat: Chat, message: str) -> None:
    """Show what would be committed, ask, and commit it.

    Files that the person had changed before the agent touched them hold both: they are committed
    whole, which is why they are shown first.

    Args:
        chat: whose thread it is.
        message: the message; empty for one that names the files.

    Raises:
        UsageError: it is not known what the agent changed.
    """
    from treadle.app.sessions.confined_hooks import confined_by
    from treadle.workspace.commit import HOOK_S_MAX
    from treadle.workspace.git import Absent, Repository
    from treadle.workspace.message import plain_message
    from treadle.workspace.safe_commit import Refused, commit_only, find_obstacle

    setup, thread_id = chat.sessions.setup, chat.sessions.thread_id
    if setup is None or thread_id is None:
        chat.tell("the agent has changed nothing yet", "warn")
        return
    repository = Repository(chat.sessions.folder)
    status = await repository.status()
    if isinstance(status, Absent):
        chat.tell(status.text, "warn")
        return
    names = await _changed_by_agent(setup.store, thread_id)
    mine = [change for name, change in sorted(status.inside.items()) if name in names]
    if not mine:
        chat.tell("all that the agent has changed is committed")
        return
    if obstacle := await find_obstacle(repository, status):
        chat.tell(f"not committed: {obstacle}", "warn")
        return
    text = message or plain_message(mine)
    lines = [f"  {change.name}" for change in mine[:NAMES_COUNT_MAX]]
    if len(mine) > NAMES_COUNT_MAX:
        lines.append(f"  and {len(mine) - NAMES_COUNT_MAX} more")
    question = words("\n".join([f"commit “{text}”:", *lines]))
    if await chat.terminal.choose(question, [Choice("y", "yes"), Choice("n", "no")]) != "y":
        return
    confined = confined_by(setup.sandbox(chat.sessions.folder))
    made = await commit_only(
        repository, status, mine, text, timeout_s=HOOK_S_MAX, confined=confined
    )
    if isinstance(made, Refused):
        chat.tell(f"not committed: {made.reason}", "warn")
    else:
        chat.tell(f"committed {made.head[:7]} {text.splitlines()[0]}", "good")
        for note in made.notes:
            chat.tell(f"after its hooks {note}", "warn")
        if made.doubt:
            chat.tell(f"a power cut may undo it: {made.doubt}", "warn")
    chat.show_facts()


async def _changed_by_agent(store: LocalStore, thread_id: str) -> set[str]:
    """The files that the agent has changed in the thread, relative to the workspace."""
    from treadle.app.files.file_history import between, open_states, saved_states, steps_of
    from treadle.workspace.files.entries import touched

    fold = (await asyncio.to_thread(store.load, thread_id)).fold
    states = await asyncio.to_thread(saved_states, store, thread_id)
    if not states:
        return set()
    steps = await steps_of(open_states(fold), between(states, 0, fold.version))
    return {one.change.name for one in touched(steps).values()}
