"""Custom graphs: what one adds to the default table, and what is refused before the first step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from treadle.core.task.events import WRITABLE, Graph
from treadle.core.task.table import (
    DEFAULT_ROWS,
    Event,
    State,
    TransitionTable,
    build_transition_table,
)
from treadle.errors import BuildError
from treadle.mermaid import Edge, draw_edges, escape_label


def build_graph_table(graph: Graph) -> TransitionTable:
    """The default rows and the graph's; a row of the graph for a default pair replaces it.

    What a custom handler raises becomes `FatalError`, so each state that the graph declares gets
    a row from there to `Error`, unless the graph says where that leads. Nothing is checked here.
    """
    stated = _build_stated_table(graph)
    fatal = [
        (state.name, Event.FATAL_ERROR, State.ERROR)
        for state in graph.states
        if (state.name, Event.FATAL_ERROR) not in stated and not stated.is_terminal(state.name)
    ]
    return TransitionTable([*stated.rows, *fatal], graph.terminal)


def check_graph(graph: Graph) -> TransitionTable:
    """The table of a graph that can run.

    Built-in states may be left unreachable and may get handlers of their own, but for `Done` and
    `Error`. A way out that only failing takes (the `FatalError` row of `build_graph_table`) does
    not save a state from being a dead end.

    Raises:
        BuildError: it cannot run; the message names the state, the hint draws the graph.
    """
    if graph == Graph():
        return build_transition_table()
    try:
        graph = msgspec.convert(msgspec.to_builtins(graph), Graph)
    except (msgspec.ValidationError, TypeError) as error:
        raise BuildError(
            f"the graph does not have the form of one: {error}",
            hint="states are CustomState(name, owns), rows are (state, event, next state)",
        ) from error
    table = build_graph_table(graph)
    for fault in _list_faults(graph, table):
        raise BuildError(fault, hint=f"this is the graph, for Mermaid:\n{draw_task_machine(table)}")
    return table


def draw_task_machine(table: TransitionTable) -> str:
    """The diagram of a task machine: the default one, or a custom graph's."""
    edges = [Edge(str(state), str(to), escape_label(event)) for state, event, to in table.rows]
    named = dict.fromkeys(name for edge in edges for name in edge[:2])
    unnamed = sorted(table.terminal - {*named, *State})
    return draw_edges(edges, str(State.IDLE), [*filter(table.is_terminal, named), *unnamed])


def _build_stated_table(graph: Graph) -> TransitionTable:
    return TransitionTable([*DEFAULT_ROWS, *graph.rows], graph.terminal)


def _list_faults(graph: Graph, table: TransitionTable) -> Iterator[str]:
    """What is wrong with the graph; each kind may rely on those before it not being there."""
    yield from _list_name_faults(graph)
    yield from _list_state_faults(graph, table)
    yield from _list_row_faults(graph, table)
    yield from _list_path_faults(graph, table)
    if graph.transitions_max < 1:
        yield f"a run of at most {graph.transitions_max} transitions does nothing"


def _list_name_faults(graph: Graph) -> Iterator[str]:
    declared = [*(state.name for state in graph.states), *graph.terminal]
    for name in (*declared, *(name for row in graph.rows for name in row)):
        if not name or not name.isprintable() or name != name.strip():
            yield (
                f"{name!r} cannot name a state or an event: a name is of printable characters, "
                "at least one, without space around them"
            )


def _list_state_faults(graph: Graph, table: TransitionTable) -> Iterator[str]:
    seen: set[str] = set()
    for state in graph.states:
        if state.name in seen:
            yield f"the state {state.name!r} is declared twice"
        seen.add(state.name)
        if table.is_terminal(state.name):
            yield f"the state {state.name!r} is terminal and cannot have a handler"
        for field in state.owns:
            if field not in WRITABLE:
                can = ", ".join(WRITABLE)
                yield f"the state {state.name!r} cannot own {field!r}; what it can own: {can}"


def _list_row_faults(graph: Graph, table: TransitionTable) -> Iterator[str]:
    declared = {state.name for state in graph.states}
    known = {*State, *table.terminal, *declared}
    for source, event, target in graph.rows:
        for name in (source, target):
            if name not in known:
                yield (
                    f"the state {name!r} has no handler, and the row ({source!r}, {event!r}, "
                    f"{target!r}) needs it; declare it as a state, or as terminal"
                )
        says = [said for state, said, _ in DEFAULT_ROWS if state == source]
        if says and source not in declared and event not in says:
            words = ", ".join(map(str, says))
            yield f"the built-in state {source!r} never says {event!r}; it says: {words}"
        if (other := table.target(source, event)) != target:
            yield f"the state {source!r} has two rows for {event!r}: to {target!r} and {other!r}"
    for source, event, target in table.rows:
        if table.is_terminal(source):
            way = f"to {str(target)!r}, on {str(event)!r}"
            yield f"the terminal state {str(source)!r} has a way out: {way}"


def _list_path_faults(graph: Graph, table: TransitionTable) -> Iterator[str]:
    arrows = [(source, target) for source, _, target in table.rows]
    reached = _find_reachable_states([State.IDLE], arrows)
    declared = [*(state.name for state in graph.states), *graph.terminal]
    named = [*declared, *(name for source, _, target in graph.rows for name in (source, target))]
    for name in dict.fromkeys(named):
        if name not in reached:
            yield f"no path from {str(State.IDLE)!r} reaches the state {name!r}"
    back = [(target, source) for source, _, target in _build_stated_table(graph).rows]
    dead = reached - _find_reachable_states(table.terminal, back)
    for name in dict.fromkeys(name for arrow in arrows for name in arrow):
        if name in dead:
            yield (
                f"the state {str(name)!r} is a dead end: from it no terminal state can be reached "
                "but by failing"
            )


def _find_reachable_states(starts: Iterable[str], arrows: Iterable[tuple[str, str]]) -> set[str]:
    """All states to which arrows lead, one after another, and those where they start."""
    heads: dict[str, list[str]] = {}
    for source, target in arrows:
        heads.setdefault(source, []).append(target)
    reached = set(starts)
    left = [*reached]
    while left:
        new = set(heads.get(left.pop(), ())) - reached
        reached |= new
        left += new
    return reached
