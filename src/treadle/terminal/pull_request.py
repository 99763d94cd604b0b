"""Asks whether what was committed is to be proposed to the forge, and with which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.terminal.notices import styled_text
from treadle.terminal.ports import DialogChoice

if TYPE_CHECKING:
    from treadle.app.files.pull_requests import PullRequestPlan
    from treadle.app.sessions.pull_request_text import PullRequestText
    from treadle.terminal.chat import Chat

COMMITS_SHOWN_MAX: Final = 20
_CHOICES: Final = (
    DialogChoice("y", "yes, push it and open the page"),
    DialogChoice("e", "edit title and description first"),
    DialogChoice("n", "no, nothing happens"),
)


async def ask_for_pull_request(chat: Chat, base: str) -> None:
    """Have the model write a title and a description, ask, push, and open the forge's page.

    Args:
        chat: whose thread it is.
        base: the branch of the remote that it is for; empty for the remote's own.

    Raises:
        UsageError: there is nothing to propose, or git or the remote refuses.
    """
    from treadle.app.files.pull_requests import describe_page, open_page, push_branch
    from treadle.app.sessions.pull_request_text import parse_text, write_proposal

    await chat.sessions.ensure_prepared()
    setup = chat.sessions.setup
    assert setup is not None
    chat.notify(f"{chat.sessions.model} writes a description")
    plan, text = await write_proposal(
        setup,
        chat.sessions.thread_id,
        base,
        model=chat.sessions.model,
        notify=chat.notify,
    )
    while True:
        answer = await chat.terminal.choose(styled_text(_describe(plan, text)), _CHOICES)
        if answer != "e":
            break
        label = "the first line is the title"
        edited = await chat.terminal.enter(label, text.whole, is_long=True)
        text = text if edited is None else parse_text(edited)
    if answer != "y":
        return
    await push_branch(plan)
    chat.notify(f"pushed {plan.branch} to {plan.remote}", "good")
    page = await open_page(plan, text.title, text.body)
    for line in (*describe_page(page), *filter(None, [page.url])):
        chat.notify(line)
    chat.refresh_status()


def _describe(plan: PullRequestPlan, text: PullRequestText) -> str:
    from treadle.app.files.pull_requests import describe_uncommitted

    new = " (new, not checked out)" if plan.is_new else ""
    lines = [f"{one.sha[:8]} {one.subject}" for one in plan.commits[:COMMITS_SHOWN_MAX]]
    if (more := len(plan.commits) - COMMITS_SHOWN_MAX) > 0:
        lines.append(f"and {more} more commits")
    lines += filter(None, [describe_uncommitted(plan)])
    told = "\n".join(f"  {line}" for line in lines)
    return f"{plan.branch}{new} to {plan.remote}, for {plan.base}:\n{told}\n\n{text.whole}"
