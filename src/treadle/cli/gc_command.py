"""`treadle gc`: remove for good what nothing needs, after saying what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.app.upkeep.garbage_removal import GarbageRemoval


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

    Also the caches of commands whose folder is gone, or where none ran for 30 days, and what
    commands of a thread kept in its scratch folder, if the thread goes or none ran for 30 days.

    \b
    treadle gc --dry-run              what would go, and how much room it takes
    treadle gc --older-than 30 --yes  what has been in the trash for a month

    It says what and how much, and asks. Nothing else is ever removed, and nothing by itself. A
    thread that a fork goes on from stays, and so does what is named anywhere. With a thread go the
    states of its files that are kept in its git repository, unless another copy of the thread has
    gone on there. What a server does not know yet to be in the trash stays: it would come back.
    """  # noqa: D301  click reads the backspace
    from treadle.app.sizes import human_size
    from treadle.app.stores import open_store
    from treadle.app.upkeep.garbage_removal import plan_removal, remove_garbage
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError

    store = open_store("treadle gc")
    plan = plan_removal(store, days_min=days_min, has_quarantine=has_quarantine)
    if dry_run or plan.files.is_empty:
        _print_removal(plan, "would be removed", as_json=as_json)
        return
    if not yes:
        _print_as_text(plan, "would be removed", err=True)
        if as_json or not is_interactive():
            raise UsageError(
                "nothing was removed: nobody is here to be asked",
                hint="--yes removes what was listed; --dry-run lists it only",
            )
        question = f"Remove this for good, and free {human_size(plan.files.size)}?"
        if not click.confirm(question, err=True):
            click.echo("nothing was removed", err=True)
            ctx.exit(1)
    _print_removal(remove_garbage(store, plan), "removed", as_json=as_json)


def _print_removal(found: GarbageRemoval, what: str, *, as_json: bool) -> None:
    if not as_json:
        _print_as_text(found, what, err=False)
        return
    import msgspec

    from treadle.cli.json_output import print_json

    fields = msgspec.to_builtins(found.files)
    fields["file_states"] = found.dropped_states
    fields["kept"] = found.reasons_to_keep
    fields["size"] = found.files.size
    fields["is_removed"] = what == "removed"
    print_json(fields)


def _print_as_text(found: GarbageRemoval, what: str, *, err: bool) -> None:
    from treadle.app.sizes import human_size
    from treadle.app.upkeep.trash import describe_trashed_thread
    from treadle.cli.renderers import make_printable

    for line in found.files.threads:
        print_line(make_printable(describe_trashed_thread(line)), err=err)
    for one in found.shares:
        click.echo(f"{one.name:<16}  {one.count:>6}  {human_size(one.size):>9}", err=err)
    for states in found.dropped_states:
        text = f"file states       of {states.thread} in {states.folder}"
        print_line(make_printable(text), err=err)
    for why in found.reasons_to_keep:
        print_line(make_printable(f"kept: {why}"), err=True)
    if found.files.is_empty:
        click.echo("nothing to remove" if what != "removed" else "nothing was removed", err=True)
    else:
        click.echo(f"{what}: {human_size(found.files.size)}", err=err)
