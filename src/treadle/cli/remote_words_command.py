"""`treadle remote answer`, `say`, `interrupt`, `withdraw`: what is said to another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.remote.remote_answers import RemoteWord

WAIT_S = 20.0
"""Seconds for which a command waits for what the machine does."""


@click.command("answer")
@click.argument("thread", metavar="ID")
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--yes", is_flag=True, help="Run it.")
@click.option("--always", is_flag=True, help="With --yes: and calls of its kinds from now on.")
@click.option("--args", "arguments", metavar="JSON", help="With --yes: run it with these instead.")
@click.option("--no", "reason", metavar="REASON", help="Do not run it; the agent reads REASON.")
@click.option("--machine", metavar="NAME", default="", help="Which of several paired machines.")
def answer(
    thread: str,
    call: str | None,
    reason: str | None,
    arguments: str | None,
    machine: str,
    *,
    yes: bool,
    always: bool,
) -> None:
    """Answer the question that waits in a thread on another machine; without an answer, show it.

    The thread must have been synced to this device: `treadle sync`. What is signed is the answer
    to the question as it is shown here; if it has changed there, the machine refuses it.
    """
    from treadle.app.remote.remote_answers import RemoteWord, find_question
    from treadle.app.stores import open_store
    from treadle.cli.question_output import show_question

    if yes and reason is not None:
        raise click.UsageError("--yes and --no answer differently: give one of them")
    if (always or arguments is not None) and not yes:
        raise click.UsageError("--always and --args go with --yes")
    if always and arguments is not None:
        raise click.UsageError("a call that was changed is allowed once: leave --always out")
    if not yes and reason is None:
        _, question = find_question(open_store(), thread, call or "")
        show_question(question, err=False, is_whole=True)
        return
    if reason is not None:
        word = RemoteWord("reject", reason, call or "", machine)
    elif arguments is not None:
        word = RemoteWord("change", arguments, call or "", machine)
    else:
        word = RemoteWord("always" if always else "approve", "", call or "", machine)
    _say(thread, word)


@click.command("say")
@click.argument("thread", metavar="ID")
@click.argument("text")
@click.option("--steer", is_flag=True, help="Into the turn that runs, not behind it.")
@click.option("--machine", metavar="NAME", default="", help="Which of several paired machines.")
def say(thread: str, text: str, machine: str, *, steer: bool) -> None:
    """Say something to the agent of a thread on another machine."""
    from treadle.app.remote.remote_answers import RemoteWord

    _say(thread, RemoteWord("steer" if steer else "prompt", text, machine=machine))


@click.command("interrupt")
@click.argument("thread", metavar="ID")
@click.option("--machine", metavar="NAME", default="", help="Which of several paired machines.")
def interrupt(thread: str, machine: str) -> None:
    """Stop the turn of a thread on another machine."""
    from treadle.app.remote.remote_answers import RemoteWord

    _say(thread, RemoteWord("interrupt", machine=machine))


@click.command("withdraw")
@click.argument("request")
def withdraw(request: str) -> None:
    """Take back what the machine has not taken yet."""
    from treadle.app.remote.remote_answers import take_back
    from treadle.app.stores import open_store

    if not take_back(open_store(), request):
        raise click.ClickException("it is too late: the machine has it, or it is over")
    print_line("taken back", err=True)


def _say(thread: str, word: RemoteWord) -> None:
    from treadle.app.remote.remote_answers import say_remotely, wait_for_outcome
    from treadle.app.stores import open_store

    store = open_store()
    left = say_remotely(store, thread, word)
    outcome = wait_for_outcome(store, left.id, WAIT_S)
    if outcome.state == "done":
        print_line("done", err=True)
    elif outcome.state in ("waiting", "taken"):
        text = f"{outcome.state}; to take it back: treadle remote withdraw {left.id}"
        print_line(sanitize_text(text), err=True)
    else:
        raise click.ClickException(f"{outcome.state}: {outcome.why}")
