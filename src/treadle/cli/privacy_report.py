"""What `treadle private` tells: what stays here, what a server has of it, what may leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle import exit_codes
from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.sync.privacy import PrivateThread, ReleasePlan
    from treadle.app.sync.server_copies import CopyRemoval, ServerCopies
    from treadle.thread.facts import Visibility

_VISIBILITY_TEXTS: Final = {
    "organization": "everybody in your organization could read it",
    "private": "you alone could read it",
    "public": "everybody could read it",
}


def print_private(done: PrivateThread) -> None:
    """Say that a thread is private, and what else stays here."""
    words = "never leaves this machine from now on" if done.is_new else "is private"
    print_line(f"{done.thread_id}: {words}")
    if family := done.descendants:
        what = "thread hangs on it and stays" if len(family) == 1 else "threads hang on it and stay"
        print_line(f"  {len(family)} {what} here too: {' '.join(sorted(family))}", err=True)


def print_copies(copies: ServerCopies, visibility: Visibility) -> int:
    """Say where copies may be, and who could see them; the exit code if nothing more is done."""
    for where, count in copies.elsewhere.items():
        what = "a copy" if count == 1 else f"{count} copies"
        print_line(
            f"treadle: {where} has {what} too, and this machine is not logged in there: what is "
            "private is removed there by the first sync after a login",
            err=True,
        )
    if copies.problem:
        print_line(f"treadle: whether {copies.problem}", err=True)
    if copies.here:
        could = _VISIBILITY_TEXTS[visibility]
        print_line(
            f"copies had been sent to {copies.url}: {could}, and may have copied it", err=True
        )
    if copies.problem:
        return exit_codes.TRY_LATER
    return exit_codes.FAILED if copies.elsewhere else exit_codes.DONE


def print_removal(removal: CopyRemoval) -> int:
    """Say what was removed from the server, and what waits; the exit code."""
    if count := removal.done_count:
        print_line(f"removed from the server: {count} thread{'' if count == 1 else 's'}", err=True)
    if removal.is_complete:
        return exit_codes.DONE
    why = removal.why or "it waits"
    print_line(
        sanitize_text(f"treadle: not yet removed there: {why}; the next sync does it"),
        err=True,
    )
    return exit_codes.FAILED if removal.is_refused else exit_codes.TRY_LATER


def print_release(plan: ReleasePlan) -> None:
    """Say what would be sent, where, and who could see it."""
    where = plan.url or "a server, once this machine is logged in to one"
    who = _VISIBILITY_TEXTS[plan.visibility].replace("could", "can then")
    when = f"`treadle sync {plan.thread_id}`" if plan.needs_word else "the next sync"
    print_line(
        f"with {when} all of it goes to {where}: {plan.message_count} messages, all commands and "
        f"their outputs, names of files and folders; {who}",
        err=True,
    )
    if plan.descendants:
        print_line("and so do these, which hang on it, each as its own visibility says:", err=True)
    for one, line in reversed(list(plan.descendants.items())):
        what = "sub-agent" if line.parent is not None else "fork"
        title = f"  {line.title}" if line.title else ""
        print_line(sanitize_text(f"  {one}  {what}, {line.visibility}{title}"), err=True)
