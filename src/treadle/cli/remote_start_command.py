"""`treadle remote listen`, `start`: conversations that a device begins on another machine."""

from __future__ import annotations

from contextlib import suppress

import click

from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text


@click.command("listen")
@click.option(
    *("-C", "folders"),
    metavar="FOLDER",
    multiple=True,
    default=(".",),
    help="Where conversations begin; it may be given several times.",
)
def listen(folders: tuple[str, ...]) -> None:
    """Take what a paired device says where no session is open, until Ctrl-C.

    Answers and words go to their threads, which go on with them; nobody is asked here. Where
    remote = "start", a device may also begin a conversation, in FOLDER. What is at work when this
    ends is gone on with when it is begun again.
    """
    import asyncio
    import signal

    from treadle.app.sessions.machine_listener import open_listener
    from treadle.app.stores import open_store

    store = open_store("treadle remote listen")

    def print_safe(line: str) -> None:  # a device has named itself, and a server says why not
        print_line(sanitize_text(line), err=True)

    listener = open_listener(store, folders, print_safe)
    print_line(listener.describe(), err=True)

    async def run() -> None:
        # A service is stopped so: what is at work then was not cut off by a death.
        task = asyncio.ensure_future(listener.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())


@click.command("start")
@click.argument("prompt")
@click.option("--folder", metavar="NAME", default="", help="Which of several folders there.")
@click.option("--machine", metavar="NAME", default="", help="Which of several paired machines.")
def start(prompt: str, folder: str, machine: str) -> None:
    """Begin a conversation on a machine that listens, and print its id.

    It begins in the folder for which `treadle remote listen` runs there.
    """
    from treadle.app.remote.remote_answers import start_remotely, wait_for_outcome
    from treadle.app.stores import open_store
    from treadle.cli.remote_words_command import WAIT_S

    store = open_store()
    thread_id, left = start_remotely(store, prompt, machine=machine, folder=folder)
    outcome = wait_for_outcome(store, left.id, WAIT_S)
    if outcome.state in ("waiting", "taken", "done"):
        click.echo(thread_id)
    if outcome.state == "done":
        print_line("begun there; to see it here: treadle sync", err=True)
    elif outcome.state == "taken":
        print_line("the machine has taken it, and begins it", err=True)
    elif outcome.state == "waiting":
        text = (
            "no machine has taken it: is `treadle remote listen` running there? It waits until"
            f" {left.expires_at[11:16]} UTC; to take it back: treadle remote withdraw {left.id}"
        )
        print_line(sanitize_text(text), err=True)
    else:
        raise click.ClickException(f"{outcome.state}: {outcome.why}")
