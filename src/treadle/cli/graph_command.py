"""`treadle graph`: a transition table as a diagram, built in or of a graph somebody wrote."""

from __future__ import annotations

import click


@click.command("graph")
@click.argument("custom", metavar="[FILE.py:NAME]", required=False)
@click.option(
    "--machine",
    type=click.Choice(["conversation", "task"]),
    help="Which built-in machine: a person talks (default), or a task runs by itself.",
)
@click.option(
    "--check",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Compare with FILE instead of printing; fail if FILE is stale.",
)
def command(custom: str | None, machine: str | None, check: str | None) -> None:
    """Print a machine's transition table as a Mermaid diagram.

    \b
    treadle graph
    treadle graph --machine task
    treadle graph agent.py:builder

    FILE.py:NAME is a custom graph, and is checked: NAME is a Graph, a TransitionTable, something
    with a .graph, or a function without parameters that returns one of these. FILE.py is run.
    """  # noqa: D301  click reads the backspace
    from treadle.errors import TreadleError

    if custom is not None and machine is not None:
        raise click.UsageError("--machine is for the built-in machines, not for FILE.py:NAME")
    if custom is None:
        drawn = _draw_built_in(machine)
    else:
        from treadle.app.graph_files import draw_graph_of_file

        drawn = draw_graph_of_file(custom)
    if check is None:
        click.echo(drawn, nl=False)
    elif click.open_file(check, encoding="utf-8", errors="replace").read() != drawn:
        again = f"`treadle graph {custom} > {check}`" if custom is not None else "`make fmt`"
        raise TreadleError(f"{check} is not what the table says", hint=f"run {again}")


def _draw_built_in(machine: str | None) -> str:
    if machine == "task":
        from treadle.core.task.graph import draw_task_machine
        from treadle.core.task.table import build_transition_table

        return draw_task_machine(build_transition_table())
    from treadle.core.chat.table import TRANSITIONS, draw_conversation_machine

    return draw_conversation_machine(TRANSITIONS)
