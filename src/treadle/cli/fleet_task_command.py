"""`treadle fleet cancel`, `retry`, `approve` and `watch`: what is done with a task of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.agent.fleet import Fleet
    from treadle.core.approval import Question


@click.command("cancel")
@click.argument("thread_id", metavar="ID")
@click.pass_obj
def cancel(place: str, thread_id: str) -> None:
    """Have nobody work on a task any more; what runs of it ends."""
    from treadle.agent.fleet_file import find_task, use_fleet

    async def act(fleet: Fleet) -> None:
        was_there = await fleet.cancel(await find_task(fleet, thread_id))
        click.echo("cancelled" if was_there else "it is over already", err=True)

    use_fleet(place, act)


@click.command("retry")
@click.argument("thread_id", metavar="ID")
@click.pass_obj
def retry(place: str, thread_id: str) -> None:
    """Put a task into the queue again that was cancelled, or that nobody could work on."""
    from treadle.agent.fleet_file import find_task, use_fleet

    async def act(fleet: Fleet) -> None:
        await fleet.retry(await find_task(fleet, thread_id))
        click.echo("queued", err=True)

    use_fleet(place, act)


@click.command("approve")
@click.argument("thread_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Allow the calls that wait.")
@click.option("--no", "reason", metavar="REASON", help="Refuse them; the model is told why.")
@click.pass_obj
def approve(place: str, thread_id: str, *, yes: bool, reason: str | None) -> None:
    """Show what a task asks a person, or answer it; a worker goes on then.

    \b
    treadle fleet approve 8341060b
    treadle fleet approve 8341060b --yes
    treadle fleet approve 8341060b --no "Not in this month."
    """  # noqa: D301  click reads the backspace
    from treadle.agent.fleet_file import find_task, use_fleet
    from treadle.cli.question_output import show_question
    from treadle.errors import UsageError

    if yes and reason is not None:
        raise UsageError("--yes and --no say two things")

    questions: list[Question] = []

    async def act(fleet: Fleet) -> None:
        task = fleet.submitted(await find_task(fleet, thread_id))
        if yes:
            await task.approve()
        elif reason is not None:
            await task.reject(reason=reason)
        else:
            questions.extend(await task.find_questions())

    use_fleet(place, act)
    for question in questions:
        show_question(question, err=False, is_whole=True)
    if not questions:
        click.echo("queued" if yes or reason is not None else "it asks nothing", err=True)


@click.command("watch")
@click.argument("thread_id", metavar="ID")
@click.pass_obj
def watch(place: str, thread_id: str) -> None:
    """Follow a task, whoever works on it: each record as a line of JSON, until it is over.

    Why nobody works on it stands on stderr. It is an error if nobody will.
    """
    import asyncio
    import sys

    from treadle.agent.fleet_file import find_task, note_waits, use_fleet
    from treadle.app.json_text import escape_json

    out = sys.stdout  # which is another one while the file's own code runs

    def note(text: str) -> None:
        click.echo(f"{thread_id}: {text}", err=True)

    async def act(fleet: Fleet) -> None:
        found = await find_task(fleet, thread_id)
        noting = asyncio.create_task(note_waits(fleet, found, note))
        try:
            async for record in fleet.submitted(found).follow():
                click.echo(escape_json(bytes(record.event).decode()), file=out)
        finally:
            noting.cancel()

    use_fleet(place, act)
