"""`treadle private`: a thread never leaves this machine, or may do so again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle import exit_codes
from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.app.sync.privacy import ReleasePlan


@click.command("private")
@click.argument("thread", metavar="ID")
@click.option("--off", is_flag=True, help="It may leave this machine again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, thread: str, off: bool, yes: bool) -> None:
    """Keep a thread on this machine from now on, with its sub-agents' threads and its forks.

    \b
    treadle private 7c1e93f0         it stays on this machine, and leaves the server
    treadle private 7c1e93f0 --off   it may be sent again; says what goes with it

    What of it was sent before is removed from the server: now, or as soon as that can be reached
    (exit code 75 until then). Copies that people or other machines have made stay theirs.

    With --off it is sent with the next sync; what that will be is told, and asked about.

    Commits of a private thread do not name it. The model's provider sees prompts, as ever.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.sync.privacy import keep_private, plan_release, release
    from treadle.app.sync.server_copies import find_copies, remove_copies
    from treadle.app.threads.thread_lookup import resolve_anywhere
    from treadle.cli.privacy_report import print_copies, print_private, print_removal
    from treadle.errors import TreadleError

    store = open_store("treadle private")
    thread_id = resolve_anywhere(store, thread)
    if off:
        plan = plan_release(store, thread_id)
        code = _confirm_release(plan, yes=yes)
        if code is None:
            release(store, plan)
            print_line(f"{thread_id}: may leave this machine")
        ctx.exit(code or exit_codes.DONE)
    done = keep_private(store, thread_id)
    print_private(done)
    try:
        copies = find_copies(store, [thread_id, *done.descendants])
    except TreadleError as error:
        # It is private already; what was sent is found again by the next sync.
        print_line(f"treadle: what was sent before is not removed: {error.message}", err=True)
        ctx.exit(exit_codes.TRY_LATER)
    code = print_copies(copies, done.visibility)
    if copies.here:
        code = print_removal(remove_copies(store, copies.here)) or code
    ctx.exit(code)


def _confirm_release(plan: ReleasePlan, *, yes: bool) -> int | None:
    """Say what would be sent, and ask; the exit code, or `None` if it is to be done.

    Raises:
        UsageError: nobody can be asked.
    """
    from treadle.cli.privacy_report import print_release
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError
    from treadle.terminal.keyboard_modes import asking_keyboard

    if not plan.is_private:
        print_line(f"{plan.thread_id}: is not private", err=True)
        return exit_codes.DONE
    print_release(plan)
    if yes:
        return None
    if not is_interactive():
        raise UsageError("nobody can be asked whether this is meant", hint="add --yes")
    with asking_keyboard():
        is_meant = click.confirm("May it leave this machine?", err=True)
    if not is_meant:
        print_line("it stays private", err=True)
        return exit_codes.FAILED
    return None
