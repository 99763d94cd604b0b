"""`treadle pr`: propose a thread's commits to the forge of its repository."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.notices import print_notice
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.files.pull_requests import OpenedPage, PullRequestPlan
    from treadle.app.sessions.pull_request_text import PullRequestText
    from treadle.app.sessions.setup import Setup


@click.command("pr")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--base", metavar="NAME", default="", help="The branch of the remote that it is for.")
@options.model_option("Another model than the thread's writes the description.")
@click.option("-y", "--yes", is_flag=True, help="Push and open the page without a question.")
@options.folder_option
def command(thread: str | None, base: str, model: str | None, yes: bool, cwd: str | None) -> None:
    """Push what was committed, and open the forge's page for a pull request.

    \b
    treadle pr                       of this folder's last thread
    treadle pr 7c1e93f0 --base dev   of this one, for a branch of that name
    treadle pr --yes                 without a question

    The thread's model writes title and description, which you can edit; without a model they are
    made of the commits. Nothing is pushed before you say yes. On the branch that it is for, another
    one is made, which is not checked out; from any other branch, a worktree's too, that one is
    pushed. What is not committed stays as it is. `gh` or `glab` opens the page where it is
    installed; else its address is printed.
    """  # noqa: D301  click reads the backspace
    asyncio.run(_propose(_make_setup(thread, model, cwd), base, is_sure=yes))


def _make_setup(thread: str | None, model: str | None, folder: str | None) -> Setup:
    """The thread that is meant; a folder in which none has worked has commits all the same."""
    from treadle.app.sessions.setup import RunChoice
    from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
    from treadle.cli.host import make_host, open_command_store
    from treadle.errors import UsageError

    store, choice, host = open_command_store(), RunChoice(model), make_host()
    target = ThreadTarget(folder, thread, thread is None, is_for_fork=True)
    try:
        return make_setup(store, choice, target, host)
    except UsageError:
        if thread is not None:
            raise
        return make_setup(store, choice, ThreadTarget(folder), host)


async def _propose(setup: Setup, base: str, *, is_sure: bool) -> None:
    from treadle.app.files.pull_requests import open_page, push_branch
    from treadle.app.sessions.pull_request_text import write_proposal

    try:
        plan, text = await write_proposal(
            setup, setup.thread_id, base, model=setup.choice.model, notify=print_notice
        )
    finally:
        await setup.models.aclose()
    _show(plan, text)
    if not is_sure:
        edited = _ask(plan, text)
        if edited is None:
            print_notice("nothing was pushed")
            return
        text = edited
    await push_branch(plan)
    _tell(plan, await open_page(plan, text.title, text.body))


def _show(plan: PullRequestPlan, text: PullRequestText) -> None:
    from treadle.app.files.pull_requests import describe_uncommitted

    for one in plan.commits:
        print_notice(f"  {one.sha[:8]} {sanitize_text(one.subject)}")
    if left := describe_uncommitted(plan):
        print_notice(left)
    click.echo(sanitize_text(text.whole))


def _ask(plan: PullRequestPlan, text: PullRequestText) -> PullRequestText | None:
    """The text as it is to be proposed; `None` if nothing is to happen."""
    from treadle.app.sessions.pull_request_text import parse_text
    from treadle.terminal.editor import edit_text
    from treadle.terminal.keyboard_modes import asking_keyboard

    if not sys.stdin.isatty():
        print_notice("nobody can be asked here: --yes pushes it")
        return None
    what = f"{'the new branch ' * plan.is_new}{plan.branch} to {plan.remote}"
    question = f"push {what}, for {plan.base}? yes, edit, no"
    while True:
        with asking_keyboard():
            said = click.prompt(question, default="no", show_default=False, err=True)
        if (answer := said.strip().lower()) not in ("e", "edit"):
            return text if answer in ("y", "yes") else None
        text = parse_text(edit_text(text.whole))
        click.echo(sanitize_text(text.whole))


def _tell(plan: PullRequestPlan, page: OpenedPage) -> None:
    from treadle.app.files.pull_requests import describe_page

    print_notice(f"pushed {plan.branch} to {plan.remote}")
    for line in describe_page(page):
        print_notice(sanitize_text(line))
    if page.url:
        click.echo(page.url)
