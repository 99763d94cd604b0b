"""`treadle worker`: a process that works on the tasks of a fleet."""

from __future__ import annotations

import click


@click.command("worker")
@click.argument("place", metavar="FILE.py:NAME")
@click.option("--queues", default="default", show_default=True, help="Whose tasks, with commas.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Tasks at a time.",
)
@click.option(
    "--health",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=None,
    help="Answer there how it is: 200, and 503 while it hands over. 0 takes any port.",
)
def command(place: str, queues: str, concurrency: int, health: int | None) -> None:
    """Work on the tasks that programs submit to a fleet.

    NAME is a `treadle.Fleet` in your own program, with your agents and their tools. Start any
    number, on any machines. SIGTERM and Ctrl-C finish the steps at work and hand the tasks over;
    of what dies, others go on.

    \b
    treadle worker my_agents.py:fleet
    treadle worker my_agents.py:fleet --queues default,slow --concurrency 8 --health 8081
    """  # noqa: D301  click reads the backspace
    from treadle.agent.worker_process import run_worker

    def started(port: int | None) -> None:
        at = "" if port is None else f", health on port {port}"
        click.echo(f"a worker of {place}: {queues}, {concurrency} at a time{at}", err=True)

    names = [one.strip() for one in queues.split(",") if one.strip()]
    run_worker(place, names, concurrency, health, started)
