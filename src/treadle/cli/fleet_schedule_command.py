"""`treadle fleet schedules`: tasks of a fleet that repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from treadle.fleet.port import TaskSchedule

_PROMPT_MAX: Final = 50


@click.group("schedules", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="As one JSON object.")
@click.pass_context
def schedules(context: click.Context, *, is_json: bool) -> None:
    """Show the tasks that repeat: when each is due, and what became of the last time.

    \b
    treadle fleet submit "Sum up the night." --every "0 7 * * *" --key morning
    treadle fleet schedules
    treadle fleet schedules pause morning
    treadle fleet schedules resume morning         from the next time on
    treadle fleet schedules remove morning         its tasks stay
    """  # noqa: D301  click reads the backspace
    if context.invoked_subcommand is not None:
        return
    from treadle.agent.fleet_file import use_fleet
    from treadle.cli.json_output import print_json

    found = use_fleet(context.obj, lambda fleet: fleet.schedules.list())
    if is_json:
        print_json({"schedules": found})
    else:
        for one in found:
            click.echo(_describe(one))


def _describe(one: TaskSchedule) -> str:
    from zoneinfo import ZoneInfo

    from treadle.thread.safe_text import sanitize_text

    next_at = one.next_at.astimezone(ZoneInfo(one.zone)).strftime("%Y-%m-%d %H:%M")
    due = "paused" if one.is_paused else f"next {next_at}"
    words = [one.agent, one.cron, one.zone, one.last_thread and f"last {one.last_thread}", one.note]
    about = ", ".join(word for word in words if word)
    prompt = one.prompt[:_PROMPT_MAX]
    return sanitize_text(f"{one.id}  {due}  {prompt}  ({about})")


@schedules.command("pause")
@click.argument("schedule_id", metavar="ID")
@click.pass_obj
def pause(place: str, schedule_id: str) -> None:
    """Have nothing submitted of it until it is resumed."""
    from treadle.agent.fleet_file import use_fleet

    use_fleet(place, lambda fleet: fleet.schedules.pause(schedule_id))
    click.echo("paused", err=True)


@schedules.command("resume")
@click.argument("schedule_id", metavar="ID")
@click.pass_obj
def resume(place: str, schedule_id: str) -> None:
    """Have tasks submitted again, from its next time on."""
    from treadle.agent.fleet_file import use_fleet

    use_fleet(place, lambda fleet: fleet.schedules.resume(schedule_id))
    click.echo("resumed", err=True)


@schedules.command("remove")
@click.argument("schedule_id", metavar="ID")
@click.pass_obj
def remove(place: str, schedule_id: str) -> None:
    """Remove it; what was submitted of it stays."""
    from treadle.agent.fleet_file import use_fleet

    use_fleet(place, lambda fleet: fleet.schedules.remove(schedule_id))
    click.echo("removed", err=True)
