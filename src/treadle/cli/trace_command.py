"""`treadle trace`: what a task did, step by step."""

from __future__ import annotations

import click


@click.command("trace")
@click.argument("thread", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per entry.")
def command(thread: str, as_json: bool) -> None:
    """Print the trace of a task: each step, when, in which state, what happened and with what.

    \b
    treadle trace 7c1e93f0

    Needs neither its folder, nor a model, nor the thread to be free. The table shows the beginning
    of long data; --json has all of it.
    """  # noqa: D301  click reads the backspace
    from treadle.app.json_text import escape_json
    from treadle.app.stores import open_store
    from treadle.app.threads.task_trace import read_trace
    from treadle.cli.renderers import make_printable

    found = read_trace(open_store(), thread)
    if found.problem:
        click.echo(f"treadle: {found.problem}", err=True)
    trace = found.trace
    click.echo(escape_json(trace.to_json()) if as_json else make_printable(trace.to_table()))
