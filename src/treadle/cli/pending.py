"""What is unfinished in a folder: found, told, and offered to be gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct

from treadle.cli.ask import is_somebody_there
from treadle.cli.filters import local_time
from treadle.cli.render import printable
from treadle.errors import TreadleError
from treadle.store.index.filters import WAITING, Filters
from treadle.store.index.lookup import Index
from treadle.store.local import LocalStore
from treadle.thread.model import ThreadSummary

SHOWN_MAX: Final = 9
"""Threads that are told one by one."""

_TITLE_LENGTH_MAX: Final = 40


class Pending(Struct, frozen=True):
    """The threads of a folder that are not done, last changed first.

    On those that are `running` some process works at this moment; `left` are all others: work
    stopped in the middle, calls wait for a yes, or prompts were not delivered. `foreign` names
    those that were made elsewhere.
    """

    left: Sequence[ThreadSummary] = ()
    running: Sequence[ThreadSummary] = ()
    foreign: frozenset[str] = frozenset()


def find_pending(store: LocalStore, workspace: str) -> Pending:
    """What is not done in a folder. Raises `DiskError`.

    Sub-agents are left out: they go on with the thread they work for.
    """
    index = Index(store, _say)
    try:
        stopped = index.unfinished(workspace)
        waiting = index.threads(Filters(workspace=workspace, state=WAITING))
    finally:
        index.close()
    found = {line.id: line for line in (*stopped, *waiting) if _is_of(line, workspace)}
    lines = sorted(found.values(), key=lambda line: (line.updated_at, line.id), reverse=True)
    running = [line for line in lines if store.holder(line.id) is not None]
    foreign = frozenset(line.id for line in lines if store.adopted.is_foreign(line.id))
    return Pending([line for line in lines if line not in running], running, foreign)


def _is_of(line: ThreadSummary, workspace: str) -> bool:
    return line.workspace_root == workspace and line.parent is None and not line.problem


def _say(text: str) -> None:
    click.echo(text, err=True)


def describe(line: ThreadSummary, *, is_foreign: bool = False) -> str:
    """What is pending on a thread, counted, and whether it was made elsewhere."""
    counted = (
        (line.open_calls, "call not over", "calls not over"),
        (line.questions, "call waits for a yes", "calls wait for a yes"),
        (line.queued, "prompt not delivered", "prompts not delivered"),
    )
    words = [f"{count} {one if count == 1 else more}" for count, one, more in counted if count]
    told = ", ".join(words) or "stopped in the middle"
    return f"taken in from elsewhere, {told}" if is_foreign else told


def notice(store: LocalStore, workspace: str) -> str | None:
    """A line for whoever begins a new thread here; `None` if nothing is left, or nobody can tell.

    A store that cannot be read is told of by what reads it next.
    """
    try:
        pending = find_pending(store, workspace)
    except (TreadleError, OSError):
        return None
    left = pending.left
    if not left:
        return None
    if len(left) == 1:
        words = f"{left[0].id} is unfinished here ({_describe(left[0], pending)})"
        return f"{words}; to go on with it: treadle resume {left[0].id}"
    return f"{len(left)} threads are unfinished here; `treadle` shows them"


def offer(workspace: str) -> str | None:
    """Tell what is not done in a folder; in a terminal, ask which of it to go on with.

    Returns:
        The thread that was chosen.

    Raises:
        TreadleError: the threads of this machine cannot be read.
        click.Abort: nobody answers any more.
    """
    from treadle.store.places import Places

    store = LocalStore(Places.find())
    pending = find_pending(store, workspace)
    for line in pending.running:
        click.echo(
            f"\nat work here now: {_row(line, pending)}\n  treadle watch {line.id}", err=True
        )
    if not pending.left:
        return None
    click.echo("\nunfinished here:", err=True)
    shown = pending.left[:SHOWN_MAX]
    is_asked = is_somebody_there()
    for number, line in enumerate(shown, 1):
        click.echo(f"  {number}  {_row(line, pending)}", err=True)
        if not is_asked:
            click.echo(f"     treadle resume {line.id}", err=True)
    if len(pending.left) > len(shown):
        click.echo(f"  and {len(pending.left) - len(shown)} more: treadle list", err=True)
    return _choose(shown) if is_asked else None


def _describe(line: ThreadSummary, pending: Pending) -> str:
    return describe(line, is_foreign=line.id in pending.foreign)


def _row(line: ThreadSummary, pending: Pending) -> str:
    title = line.title or "(nothing said yet)"
    if len(title) > _TITLE_LENGTH_MAX:
        title = title[: _TITLE_LENGTH_MAX - 1] + "…"
    return (
        f"{line.id}  {local_time(line.updated_at)}  {printable(title)}: {_describe(line, pending)}"
    )


def _choose(lines: Sequence[ThreadSummary]) -> str | None:
    """The thread of the number that is typed; none for an empty line."""
    numbers = {str(number): line.id for number, line in enumerate(lines, 1)}
    while True:
        words = "Go on with one of them? Its number, or Enter for none"
        answer = click.prompt(words, default="", show_default=False, err=True).strip()
        if not answer:
            return None
        if answer in numbers:
            return numbers[answer]
        click.echo(f"one of: {', '.join(numbers)}", err=True)
