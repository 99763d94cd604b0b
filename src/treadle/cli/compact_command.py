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
    treadle compact 7c1e93f0                           at the next limit anyway; now, if you like
    treadle compact 7c1e93f0 --focus "the API of v2"   what must not be forgotten

    No message is deleted: `treadle show` has all of them. Long conversations are compacted by
    themselves when they get near what the model can read. What the thread's last process left
    unfinished is finished first.
    """  # noqa: D301  click reads the backspace
    ctx.exit(_compact_thread(thread, **given))


def _compact_thread(thread: str, *, focus: str, model: str | None) -> int:
    from treadle.app.sessions.compaction import check_compaction, compact
    from treadle.app.sessions.open_threads import open_conversation
    from treadle.app.sessions.setup import RunChoice
    from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
    from treadle.cli.busy_threads import run_or_watch
    from treadle.cli.host import make_host, open_command_store
    from treadle.cli.renderers import TextRenderer
    from treadle.cli.thread_runner import run_thread

    setup = make_setup(
        open_command_store(), RunChoice(model), ThreadTarget(thread=thread), make_host()
    )
    check_compaction(setup)
    renderer = TextRenderer()
    return run_or_watch(
        setup.store,
        lambda: run_thread(
            setup,
            renderer,
            lambda: open_conversation(setup, renderer.show),
            lambda opened: compact(opened, focus),
        ),
    )
