"""`treadle gc`: remove for good what nothing needs, after saying what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.store.upkeep.garbage import Leftover, Plan
    from treadle.store.upkeep.trash import TrashedThread


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

    It says what and how much, and asks. Nothing else is ever removed, and nothing by itself. A
    thread that a fork goes on from stays, and so does what is named anywhere. With a thread go the
    states of its files that are kept in its git repository.
    """
    from treadle.cli.ask import is_somebody_there
    from treadle.cli.sizes import human_size
    from treadle.errors import UsageError
    from treadle.store.local import LocalStore
    from treadle.store.places import Places
    from treadle.store.upkeep.garbage import Choice, Garbage

    garbage = Garbage(LocalStore(Places.find()))
    choice = Choice(days_min, has_quarantine)
    plan = garbage.plan(choice)
    if dry_run or plan.is_empty:
        _show(plan, "would be removed", as_json=as_json)
        return
    if not yes:
        _tell(plan, "would be removed", err=True)
        if as_json or not is_somebody_there():
            raise UsageError(
                "nothing was removed: nobody is here to be asked",
                hint="--yes removes what was listed; --dry-run lists it only",
            )
        question = f"Remove this for good, and free {human_size(plan.size)}?"
        if not click.confirm(question, err=True):
            click.echo("nothing was removed", err=True)
            ctx.exit(1)
    _show(garbage.remove(plan, choice, _drop_file_states), "removed", as_json=as_json)


def _drop_file_states(line: TrashedThread) -> str:
    """Let go of the states of its files; why that failed, if it did.

    Where there is no repository any more there are no states either.
    """
    import asyncio

    from treadle.errors import TreadleError
    from treadle.workspace.files.states import FileStates
    from treadle.workspace.git import Absence, Absent, Repository

    async def drop(folder: str) -> str:
        layout = await Repository(folder).layout()
        if not isinstance(layout, Absent):
            await FileStates(folder, line.id).drop()
        elif layout.why not in (Absence.NO_FOLDER, Absence.NO_REPOSITORY):
            return f"the states of its files are in {folder}, and {layout.text}"
        return ""

    if line.workspace_root is None:
        return ""
    try:
        return asyncio.run(drop(line.workspace_root))
    except TreadleError as error:
        return f"the states of its files could not be let go of: {error.message}"


def _show(plan: Plan, what: str, *, as_json: bool) -> None:
    if not as_json:
        _tell(plan, what, err=False)
        return
    import msgspec

    fields = msgspec.to_builtins(plan)
    fields["size"] = plan.size
    fields["is_removed"] = what == "removed"
    click.echo(msgspec.json.format(msgspec.json.encode(fields), indent=2))


def _tell(plan: Plan, what: str, *, err: bool) -> None:
    from treadle.cli.render import printable
    from treadle.cli.sizes import human_size
    from treadle.cli.trash_command import describe

    for line in plan.threads:
        click.echo(describe(line), err=err)
    parts: tuple[tuple[str, Sequence[Leftover | TrashedThread]], ...] = (
        ("threads", plan.threads),
        ("large outputs", plan.blobs),
        ("drafts", plan.drafts),
        ("quarantined ends", plan.quarantine),
    )
    for name, found in parts:
        if found:
            size = human_size(sum(one.size for one in found))
            click.echo(f"{name:<16}  {len(found):>6}  {size:>9}", err=err)
    for why in plan.kept:
        click.echo(printable(f"kept: {why}"), err=True)
    if plan.is_empty:
        click.echo("nothing to remove" if what != "removed" else "nothing was removed", err=True)
    else:
        click.echo(f"{what}: {human_size(plan.size)}", err=err)
