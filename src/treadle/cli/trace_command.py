"""`treadle trace`: what a task did, step by step."""

from __future__ import annotations

import click


@click.command("trace")
@click.argument("thread", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per entry.")
def command(thread: str, as_json: bool) -> None:
    """Print the trace of a task: each step, when, in which state, what happened and with what.

    \b
    treadle trace 0190

    Needs neither its folder, nor a model, nor the thread to be free. The table shows the beginning
    of long data; --json has all of it.
    """  # noqa: D301  click reads the backspace
    from treadle.app.json_text import escape_json
    from treadle.cli.render import printable
    from treadle.core.task.machine import TaskMachine
    from treadle.errors import UsageError
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    store = LocalStore(Places.find())
    loaded = store.load(store.resolve(thread))
    machine = loaded.fold.machine
    if not isinstance(machine, TaskMachine):
        name = loaded.fold.header.thread
        raise UsageError(
            f"thread {name} is a conversation, which has no trace",
            hint=f"treadle replay {name} prints its transitions",
        )
    if loaded.problem:
        click.echo(f"treadle: {loaded.problem}", err=True)
    trace = machine.memory.trace
    click.echo(escape_json(trace.to_json()) if as_json else printable(trace.to_table()))
