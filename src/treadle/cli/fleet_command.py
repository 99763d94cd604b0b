"""`treadle fleet`: how a fleet stands; tasks for it, and what becomes of them."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli import options
from treadle.cli.fleet_limit_command import limit, limits
from treadle.cli.fleet_schedule_command import schedules
from treadle.cli.fleet_task_command import approve, cancel, retry, watch

if TYPE_CHECKING:
    from treadle.agent.fleet import Fleet

AT_ONCE: Final = 16
"""Tasks that are submitted at a time: a database makes many durable at once."""


@click.group("fleet", invoke_without_command=True)
@click.option(
    "--in",
    "place",
    metavar="FILE.py:NAME",
    envvar="TREADLE_FLEET",
    required=True,
    help="The fleet; TREADLE_FLEET, if nothing is said.",
)
@click.option("--json", "is_json", is_flag=True, help="As one JSON object.")
@click.pass_context
def command(context: click.Context, place: str, *, is_json: bool) -> None:
    """Show how a fleet stands: workers, tasks that run, wait and have ended, what they cost.

    \b
    export TREADLE_FLEET=my_agents.py:fleet
    treadle fleet                                  how it stands
    treadle fleet submit --agent support "TASK"    a task for it
    treadle fleet cancel ID                        nobody works on it any more
    treadle fleet retry ID                         what was cancelled, or has failed
    treadle fleet approve ID --yes                 what a task asks a person
    treadle fleet schedules                        tasks that repeat
    treadle fleet limits                           how many are at work at a time
    """  # noqa: D301  click reads the backspace
    context.obj = place
    if context.invoked_subcommand is not None:
        return
    from treadle.agent.fleet_file import describe_fleet, use_fleet
    from treadle.cli.fleet_output import print_fleet
    from treadle.cli.json_output import print_json

    (print_json if is_json else print_fleet)(use_fleet(place, describe_fleet))


@command.command("submit")
@click.argument("task")
@click.option("--agent", help="Who works on it; without it, the only one of the fleet.")
@click.option("--key", default="", help="Your own name for it; once more, it is the same task.")
@click.option("--queue", default="default", show_default=True, help="Whose workers take it.")
@click.option("--priority", type=click.IntRange(-1000, 1000), default=0, help="Higher ones first.")
@click.option("--user", default="", help="For whom it is: users take turns.")
@click.option("--organization", default="", help="Of whom it is, where the store has no users.")
@click.option("--repo", default="", help="Where git gets what it works on.")
@click.option("--ref", default="HEAD", help="From where: a branch, a tag, a commit.")
@click.option("--at", type=click.DateTime(), help="Not before: 2027-01-31T08:00:00.")
@click.option("--every", metavar="CRON", help='Again and again: "30 8 * * mon-fri".')
@click.option("--zone", help="Whose clocks --every goes by, such as Europe/Vienna; else UTC.")
@click.option("--model", default="", help="Who answers, instead of the agent's own model.")
@options.budget_options("each task")
@click.pass_obj
def submit(place: str, /, task: str, **given: Any) -> None:
    """Submit a task; `-` reads one a line from stdin. Prints the ids of their threads, in order.

    A line of a file is plain words, or a JSON object with a task and what else is said of it.
    With --every it is a schedule, whose id is printed: workers submit a task at each of its times.

    \b
    treadle fleet submit --agent support "Where is order 7?"
    treadle fleet submit - --user ann --max-cost 2 < tasks.txt
    treadle fleet submit "Sum up the night." --every "0 7 * * *" --zone Europe/Vienna --key morning
    echo '{"task": "Mend it.", "model": "large", "max_cost": 5}' | treadle fleet submit -
    """  # noqa: D301  click reads the backspace
    from treadle.agent.fleet_file import use_fleet

    if (moment := given["at"]) is not None:
        given["at"] = moment.astimezone()  # by the clocks of this place
    lines = sys.stdin.read().splitlines() if task == "-" else None
    submitted: list[str] = []

    async def act(fleet: Fleet) -> None:
        from treadle.agent.fleet_file import check_submitted, choose_agent, submit_told
        from treadle.agent.task_lines import make_task, read_task_lines

        tasks = [make_task(task, given)] if lines is None else read_task_lines(lines, given)
        due = [(choose_agent(fleet, more.pop("agent", None)), one, more) for one, more in tasks]
        for agent, prompt, more in due:  # before the first is submitted
            check_submitted(fleet, agent, prompt, more)
        for start in range(0, len(due), AT_ONCE):
            some = [submit_told(fleet, *one) for one in due[start : start + AT_ONCE]]
            found = await asyncio.gather(*some, return_exceptions=True)
            submitted.extend(one for one in found if not isinstance(one, BaseException))
            for error in found:
                if isinstance(error, BaseException):
                    raise error

    try:
        use_fleet(place, act)
    finally:  # what comes before an error is there
        for thread_id in submitted:
            click.echo(thread_id)


for _part in (cancel, retry, approve, watch, schedules, limit, limits):
    command.add_command(_part)
