"""Asks whether what the agent has changed is to be committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.terminal.notices import styled_text
from treadle.terminal.ports import DialogChoice

if TYPE_CHECKING:
    from treadle.terminal.chat import Chat

NAMES_COUNT_MAX: Final = 20
"""Names of files that are shown of what would be committed."""


async def ask_to_commit(chat: Chat, message: str) -> None:
    """Show what would be committed, ask, and commit it.

    Args:
        chat: whose thread it is.
        message: the message; empty for one that names the files.

    Raises:
        UsageError: it is not known what the agent changed.
    """
    from treadle.app.sessions.agent_commit import NoCommit, commit_agent_changes, plan_agent_commit

    setup, thread_id, folder = chat.sessions.setup, chat.sessions.thread_id, chat.sessions.folder
    if setup is None or thread_id is None:
        chat.notify("the agent has changed nothing yet", "warn")
        return
    plan = await plan_agent_commit(setup.store, thread_id, folder, message)
    if isinstance(plan, NoCommit):
        chat.notify(plan.why, *([] if plan.is_done else ["warn"]))
        return
    lines = [f"  {name}" for name in plan.names[:NAMES_COUNT_MAX]]
    if len(plan.names) > NAMES_COUNT_MAX:
        lines.append(f"  and {len(plan.names) - NAMES_COUNT_MAX} more")
    question = styled_text("\n".join([f"commit “{plan.message}”:", *lines]))
    if (
        await chat.terminal.choose(question, [DialogChoice("y", "yes"), DialogChoice("n", "no")])
        != "y"
    ):
        return
    made = await commit_agent_changes(plan, setup, folder)
    if isinstance(made, NoCommit):
        chat.notify(made.why, "warn")
        return
    chat.notify(f"committed {made.commit} {plan.message.splitlines()[0]}", "good")
    for note in made.notes:
        chat.notify(f"after its hooks {note}", "warn")
    if made.doubt:
        chat.notify(f"a power cut may undo it: {made.doubt}", "warn")
    chat.refresh_status()
