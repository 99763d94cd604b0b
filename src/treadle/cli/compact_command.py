"""`treadle compact`: have a summary stand for a conversation so far."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli import options


@click.command("compact")
@click.argument("thread", metavar="ID")
@click.option("--focus", metavar="TEXT", default="", help="What must not be forgotten, in words.")
@options.model_option("Go on with another model, which writes the summary.")
@click.pass_context
def command(ctx: click.Context, /, thread: str, **given: Any) -> None:
    """Have the model write a summary that it is shown in place of the conversation so far.

    \b
    treadle compact 0190                         at the next limit anyway; now, if you like
    treadle compact 0190 --focus "the API of v2"  what must not be forgotten

    No message is deleted: `treadle show` has all of them. Long conversations are compacted by
    themselves when they get near what the model can read. What the thread's last process left
    unfinished is finished first.
    """  # noqa: D301  click reads the backspace
    ctx.exit(_compact(thread, **given))


def _compact(thread: str, *, focus: str, model: str | None) -> int:
    from msgspec.structs import replace

    from treadle.cli.busy_threads import or_watch
    from treadle.cli.command_setup import make_setup
    from treadle.cli.render import TextRenderer
    from treadle.cli.setup import Choice
    from treadle.cli.threads import Opened, open_conversation
    from treadle.cli.work_loop import drive
    from treadle.core.conversation import Conversation
    from treadle.errors import UsageError
    from treadle.runtime.outputs import TurnFinished, TurnOutcome
    from treadle.runtime.session import Session

    setup = make_setup(Choice(model), thread=thread)
    assert setup.thread is not None
    if setup.is_task:
        why = f"thread {setup.thread_id} is a task, which reflects by itself"
        raise UsageError(why, hint="only conversations are compacted")
    if setup.thread.machine.questions:
        raise UsageError(
            f"thread {setup.thread_id} waits for approval",
            hint=f"answer first: treadle approve {setup.thread_id}",
        )
    renderer = TextRenderer()

    async def work(opened: Opened) -> TurnFinished:
        assert isinstance(opened, Session)
        finished = await opened.compact(focus)
        if finished.outcome is not TurnOutcome.DONE:
            return finished
        said = opened.conversation
        assert isinstance(said, Conversation)
        through = 0 if said.compaction is None else said.compaction.through
        answer = f"{through} of {len(said)} messages are no longer in view: a summary stands there"
        return replace(finished, answer=answer)

    def compact() -> int:
        return drive(setup, renderer, lambda: open_conversation(setup, renderer.show), work)

    return or_watch(setup.store, compact)
