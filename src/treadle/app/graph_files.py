"""Graphs that somebody wrote, read from the file they are in."""

from __future__ import annotations

from inspect import iscoroutinefunction

from treadle.app.python_files import use_name_in_file
from treadle.core.task.events import Graph
from treadle.core.task.graph import check_graph, draw_task_machine
from treadle.core.task.table import TransitionTable
from treadle.errors import UsageError


def draw_graph_of_file(place: str) -> str:
    """A custom graph as a Mermaid diagram, checked. Its file is run.

    Args:
        place: `FILE.py:NAME`. The name is a `Graph`, a `TransitionTable`, something with a
            `.graph`, or a function without parameters that returns one of these.

    Raises:
        UsageError: there is no such file or name, it is no graph, or the file raised something.
        BuildError: the graph cannot run.
    """
    table, kind = use_name_in_file(
        place, "graph", lambda found: (_resolve_table(found), type(found).__name__)
    )
    if table is None:
        file, _, name = place.rpartition(":")
        raise UsageError(
            f"{name} in {file} is not a graph, but of type {kind}",
            hint="it can be a Graph, a TransitionTable, something with a .graph, or a function "
            "without parameters that returns one of these",
        )
    return draw_task_machine(table)


def _resolve_table(found: object) -> TransitionTable | None:
    """The table that somebody's object stands for; `None` if it stands for none.

    Raises:
        BuildError: its graph cannot run.
    """
    is_maker = isinstance(found, type) or not hasattr(found, "graph")
    if is_maker and callable(found) and not iscoroutinefunction(found):
        found = found()
    if hasattr(found, "graph"):
        inner = found.graph() if callable(found.graph) else found.graph
        found = Graph() if inner is None else inner  # an agent without a graph has the default
    if isinstance(found, Graph):
        return check_graph(found)
    return found if isinstance(found, TransitionTable) else None
