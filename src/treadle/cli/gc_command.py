"""`treadle gc`: remove for good what nothing needs, after saying what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.app.sync.remote_removal import States
    from treadle.store.upkeep.garbage import Leftover, Plan
    from treadle.store.upkeep.trash import TrashedThread
    from treadle.tools.sandbox.caches import OldCache


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Say what would be removed; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@click.option(
    "--older-than",
    "days_min",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Only threads that were trashed at least so long ago.",
)
@click.option(
    "--quarantine",
    "has_quarantine",
    is_flag=True,
    help="Also the torn ends of journals that are kept as evidence.",
)
@click.option("--json", "as_json", is_flag=True, help="What would be, or was, removed and kept.")
@click.pass_context
def command(
    ctx: click.Context,
    dry_run: bool,
    yes: bool,
    days_min: float,
    has_quarantine: bool,
    as_json: bool,
) -> None:
    """Remove for good: threads in the trash, large outputs that no thread names, leftover drafts.

    Also the caches of commands whose folder is gone, or where none ran for 30 days.

    \b
    treadle gc --dry-run              what would go, and how much room it takes
    treadle gc --older-than 30 --yes  what has been in the trash for a month

    It says what and how much, and asks. Nothing else is ever removed, and nothing by itself. A
    thread that a fork goes on from stays, and so does what is named anywhere. With a thread go the
    states of its files that are kept in its git repository, unless another copy of the thread has
    gone on there. What a server does not know yet to be in the trash stays: it would come back.
    """  # noqa: D301  click reads the backspace
    from datetime import datetime

    from msgspec.structs import replace

    from treadle.app.sizes import human_size
    from treadle.app.sync.remote_removal import LettingGo, unsynced
    from treadle.cli.ask import is_somebody_there
    from treadle.errors import UsageError
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.store.upkeep.garbage import Choice, Garbage
    from treadle.tools.sandbox.caches import find_old_caches, remove_old_caches

    store = LocalStore(Places.find(), program="treadle gc")
    garbage = Garbage(store, unsynced(store))
    choice = Choice(days_min, has_quarantine)
    caches, now_s = store.places.caches, datetime.fromisoformat(store.now()).timestamp()
    plan = replace(garbage.plan(choice), caches=_leftovers(find_old_caches(caches, now_s)))
    letting_go = LettingGo(store)
    planned = letting_go.look(plan.threads)
    if dry_run or plan.is_empty:
        _show(plan, planned, "would be removed", as_json=as_json)
        return
    if not yes:
        _tell(plan, planned, "would be removed", err=True)
        if as_json or not is_somebody_there():
            raise UsageError(
                "nothing was removed: nobody is here to be asked",
                hint="--yes removes what was listed; --dry-run lists it only",
            )
        question = f"Remove this for good, and free {human_size(plan.size)}?"
        if not click.confirm(question, err=True):
            click.echo("nothing was removed", err=True)
            ctx.exit(1)
    removed = garbage.remove(plan, choice, letting_go.drop)
    gone = remove_old_caches(caches, now_s, (one.path for one in plan.caches))
    removed = replace(removed, caches=_leftovers(gone))
    _show(removed, letting_go.done, "removed", as_json=as_json)


def _leftovers(caches: Sequence[OldCache]) -> tuple[Leftover, ...]:
    from treadle.store.upkeep.garbage import Leftover

    return tuple(Leftover(one.path, one.size) for one in caches)


def _show(plan: Plan, states: Sequence[States], what: str, *, as_json: bool) -> None:
    if not as_json:
        _tell(plan, states, what, err=False)
        return
    import msgspec

    fields = msgspec.to_builtins(plan)
    fields["file_states"] = msgspec.to_builtins([one for one in states if not one.why])
    fields["kept"] = [*plan.kept, *(one.why for one in states if one.why)]
    fields["size"] = plan.size
    fields["is_removed"] = what == "removed"
    from treadle.cli.json_output import print_json

    print_json(fields)


def _tell(plan: Plan, states: Sequence[States], what: str, *, err: bool) -> None:
    from treadle.app.sizes import human_size
    from treadle.cli.render import printable
    from treadle.cli.trash_command import describe

    for line in plan.threads:
        click.echo(describe(line), err=err)
    parts: tuple[tuple[str, Sequence[Leftover | TrashedThread]], ...] = (
        ("threads", plan.threads),
        ("large outputs", plan.blobs),
        ("drafts", plan.drafts),
        ("quarantined ends", plan.quarantine),
        ("caches", plan.caches),
    )
    for name, found in parts:
        if found:
            size = human_size(sum(one.size for one in found))
            click.echo(f"{name:<16}  {len(found):>6}  {size:>9}", err=err)
    for one in states:
        if not one.why:
            text = f"file states       of {one.thread} in {one.folder}"
            click.echo(printable(text), err=err)
    for why in (*plan.kept, *(one.why for one in states if one.why)):
        click.echo(printable(f"kept: {why}"), err=True)
    if plan.is_empty:
        click.echo("nothing to remove" if what != "removed" else "nothing was removed", err=True)
    else:
        click.echo(f"{what}: {human_size(plan.size)}", err=err)
