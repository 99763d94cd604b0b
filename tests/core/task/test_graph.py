"""Custom graphs: what can run is accepted, what cannot is refused by name and with a drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.task.events import WRITABLE, CustomState, Graph
from treadle.core.task.graph import build_graph_table, check_graph, draw_task_machine
from treadle.core.task.table import (
    DEFAULT_ROWS,
    Event,
    State,
    TransitionTable,
    build_transition_table,
)
from treadle.errors import BuildError

Rows = tuple[tuple[str, str, str], ...]

REVIEW: Rows = (
    ("Planning", "LlmFinalAnswer", "Review"),
    ("Review", "Accepted", "Done"),
    ("Review", "Refused", "Planning"),
)
"""Answers are looked at before they are given."""


def graph(*states: str, rows: Rows = (), terminal: tuple[str, ...] = (), **more: Any) -> Graph:
    declared = tuple(CustomState(name) for name in states)
    return Graph(states=declared, rows=rows, terminal=terminal, **more)


def refused(given: Graph) -> BuildError:
    with pytest.raises(BuildError) as caught:
        check_graph(given)
    return caught.value


def test_an_empty_graph_is_the_default_table() -> None:
    assert dict(check_graph(Graph())) == dict(build_transition_table())
    assert check_graph(Graph()).terminal == {"Done", "Error"}


def test_a_row_replaces_the_target_of_a_default_pair_and_all_others_stay() -> None:
    table = check_graph(graph("Review", rows=REVIEW))
    assert table.target("Planning", "LlmFinalAnswer") == "Review"
    assert table.target("Review", "Refused") == "Planning"
    replaced = {("Planning", "LlmFinalAnswer")}
    for state, event, to in DEFAULT_ROWS:
        assert (state, event) in replaced or table.target(state, event) == to
    assert table == build_graph_table(graph("Review", rows=REVIEW))


def test_a_custom_state_that_raises_leads_to_error_unless_the_graph_says_where() -> None:
    assert check_graph(graph("Review", rows=REVIEW)).target("Review", "FatalError") == "Error"
    rows = (*REVIEW, ("Review", "FatalError", "Planning"))
    assert check_graph(graph("Review", rows=rows)).target("Review", "FatalError") == "Planning"


def test_a_built_in_state_may_get_a_handler_of_its_own() -> None:
    table = check_graph(graph("Observing", "Idle"))
    assert table.target("Observing", "FatalError") == "Error"
    assert table.target("Idle", "FatalError") == "Error"
    assert table.target("Observing", "Continue") == "Planning"


def test_built_in_states_may_be_left_behind() -> None:
    rows = (("Idle", "Start", "Mine"), ("Mine", "Over", "Archived"))
    table = check_graph(graph("Mine", rows=rows, terminal=("Archived",)))
    assert table.is_terminal("Archived")
    assert "Archived --> [*]" in draw_task_machine(table)


def test_a_state_may_end_by_failing_if_the_graph_says_so() -> None:
    rows = (("Planning", "MaxSteps", "GiveUp"), ("GiveUp", "FatalError", "Error"))
    assert check_graph(graph("GiveUp", rows=rows)).target("GiveUp", "FatalError") == "Error"


_TO_A = ("Planning", "LlmFinalAnswer", "A")
_OUT: Rows = (_TO_A, ("A", "x", "Done"))
FAULTY: dict[str, tuple[Graph, str]] = {
    "nobody leads to a declared state": (
        graph("A", "Lost", rows=(*_OUT, ("Lost", "x", "Done"))),
        "no path from 'Idle' reaches the state 'Lost'",
    ),
    "two states lead only to one another": (
        graph("A", "B", rows=(("A", "x", "B"), ("B", "x", "A"), ("B", "y", "Done"))),
        "no path from 'Idle' reaches the state 'A'",
    ),
    "nobody leads to a terminal state": (
        graph("A", rows=_OUT, terminal=("Archived",)),
        "no path from 'Idle' reaches the state 'Archived'",
    ),
    "a replaced built-in state cannot be reached": (
        graph("A", "Planning", rows=(("Idle", "Start", "A"), ("A", "x", "Done"))),
        "no path from 'Idle' reaches the state 'Planning'",
    ),
    "a row leaves a built-in state that cannot be reached": (
        graph(
            "A", rows=(("Idle", "Start", "A"), ("A", "x", "Done"), ("Acting", "ToolSuccess", "A"))
        ),
        "no path from 'Idle' reaches the state 'Acting'",
    ),
    "a row waits for what a built-in state never says": (
        graph(rows=(("Planning", "LlmFinalAnswr", "Done"),)),
        "the built-in state 'Planning' never says 'LlmFinalAnswr'; it says: LlmToolCall, ",
    ),
    "a row leads to nothing": (
        graph("A", rows=(_TO_A, ("A", "x", "Ghost"))),
        "the state 'Ghost' has no handler, and the row ('A', 'x', 'Ghost') needs it",
    ),
    "a row comes from nothing": (
        graph("A", rows=(*_OUT, ("Ghost", "x", "A"))),
        "the state 'Ghost' has no handler",
    ),
    "a row leaves Done": (
        graph("A", rows=(*_OUT, ("Done", "again", "Planning"))),
        "the terminal state 'Done' has a way out: to 'Planning', on 'again'",
    ),
    "a row leaves Error": (
        graph(rows=(("Error", "again", "Error"),)),
        "the terminal state 'Error' has a way out",
    ),
    "a row leaves a declared terminal state": (
        graph("A", rows=(_TO_A, ("A", "x", "End"), ("End", "x", "A")), terminal=("End",)),
        "the terminal state 'End' has a way out",
    ),
    "a built-in state cannot become terminal": (
        graph(terminal=("Reflecting",)),
        "the terminal state 'Reflecting' has a way out",
    ),
    "no row leaves a declared state": (
        graph("A", rows=(_TO_A,)),
        "the state 'A' is a dead end",
    ),
    "a cycle has no exit": (
        graph("A", "B", rows=(_TO_A, ("A", "x", "B"), ("B", "x", "A"))),
        "the state 'A' is a dead end",
    ),
    "a built-in state is made to run in a circle": (
        graph(rows=(("Reflecting", "ReflectDone", "Reflecting"),)),
        "the state 'Reflecting' is a dead end",
    ),
    "a name is empty": (graph("", rows=()), "'' cannot name a state or an event"),
    "a name holds a line break": (graph("a\nb"), r"'a\nb' cannot name a state or an event"),
    "a name holds half a character": (graph("\ud800"), r"'\ud800' cannot name"),
    "a name has space around it": (graph("Planning "), "'Planning ' cannot name a state"),
    "an event has no name": (graph("A", rows=(_TO_A, ("A", "", "Done"))), "'' cannot name"),
    "a terminal state has no name": (graph(terminal=("",)), "'' cannot name"),
    "a state is declared twice": (
        graph("A", "A", rows=_OUT),
        "the state 'A' is declared twice",
    ),
    "a terminal state has a handler": (
        graph("A", rows=(_TO_A,), terminal=("A",)),
        "the state 'A' is terminal and cannot have a handler",
    ),
    "Done has a handler": (graph("Done"), "the state 'Done' is terminal and cannot have a handler"),
    "Error has a handler": (graph("Error"), "the state 'Error' is terminal and cannot"),
    "a state owns what it cannot": (
        Graph(states=(CustomState("A", owns=("step", "history")),), rows=_OUT),
        "the state 'A' cannot own 'history'; what it can own: step, retry_count",
    ),
    "a pair leads to two states": (
        graph("A", rows=(*_OUT, ("A", "x", "Planning"))),
        "the state 'A' has two rows for 'x': to 'Done' and 'Planning'",
    ),
    "no transition is allowed": (
        graph(transitions_max=0),
        "a run of at most 0 transitions does nothing",
    ),
}


@for_every_row("given, message", FAULTY.values())
def test_what_cannot_run_is_refused_by_name_and_drawn(given: Graph, message: str) -> None:
    error = refused(given)
    assert message in error.message
    assert "\n" not in error.message
    head, _, drawn = error.hint.partition("\n")
    assert head == "this is the graph, for Mermaid:"
    assert drawn == draw_task_machine(build_graph_table(given))
    assert drawn.startswith("stateDiagram-v2\n")


MALFORMED: list[Any] = [
    Graph(rows=(("A", "x"),)),  # type: ignore[arg-type]
    Graph(rows=(("A", 1, "B"),)),  # type: ignore[arg-type]
    Graph(states=("A",)),  # type: ignore[arg-type]
    Graph(states=(CustomState(None),)),  # type: ignore[arg-type]
    Graph(states=(CustomState("A", owns="step"),)),  # type: ignore[arg-type]
    Graph(terminal="Done"),  # type: ignore[arg-type]
    Graph(transitions_max=...),  # type: ignore[arg-type]
    Graph(transitions_max=True),
    None,
]


@for_every_row("given", MALFORMED)
def test_what_does_not_have_the_form_of_a_graph_is_refused(given: Any) -> None:
    error = refused(given)
    assert "does not have the form" in error.message
    assert "(state, event, next state)" in error.hint


def test_everything_that_can_be_owned_may_be_declared() -> None:
    check_graph(Graph(states=(CustomState("A", owns=WRITABLE),), rows=_OUT))


def test_the_members_of_an_enumeration_are_names_too() -> None:
    rows = ((State.PLANNING, Event.LLM_FINAL_ANSWER, "A"), ("A", "x", State.DONE))
    assert dict(check_graph(graph("A", rows=rows))) == dict(check_graph(graph("A", rows=_OUT)))


def test_a_built_in_handlers_event_never_loses_its_row() -> None:
    table = check_graph(graph("Review", rows=REVIEW))
    assert {(state, event) for state, event, _ in DEFAULT_ROWS} <= set(table)


def pictured(text: str) -> set[tuple[str, str, str]]:
    boxes = {
        box: label.split("<br/>")[1:] if "<br/>" in label else [label]
        for label, box in re.findall(r'    state "(.+)" as (\S+)', text)
    }
    return {
        (source, event, boxes.get(target, [target])[0])
        for box, target, events in re.findall(r"    (\S+) --> (\S+) : (.+)", text)
        for source in boxes.get(box, [box])
        for event in events.split("<br/>")
    }


def test_every_row_of_a_task_table_is_drawn_once_and_nothing_else_is() -> None:
    named = graph("Needs review", rows=tuple((a, e, b) for a, e, b in _named_review()))
    for table in (build_transition_table(), check_graph(named)):
        assert pictured(draw_task_machine(table)) == set(table.rows)


def _named_review() -> Iterator[tuple[str, str, str]]:
    for source, event, target in REVIEW:
        yield (
            source.replace("Review", "Needs review"),
            event,
            target.replace("Review", "Needs review"),
        )


def test_a_task_machine_is_drawn_from_idle_to_its_terminal_states() -> None:
    lines = draw_task_machine(build_transition_table()).splitlines()
    assert [line.strip() for line in lines if "[*]" in line] == [
        "[*] --> Idle",
        "Done --> [*]",
        "Error --> [*]",
    ]


def test_even_a_table_without_rows_can_be_drawn() -> None:
    assert "[*] --> Idle" in draw_task_machine(TransitionTable([]))


NAMES = st.sampled_from(
    (*"AABBCC", "Idle", "Planning", "Observing", "Reflecting", "End", "Done", "Error")
)
EVENTS = st.sampled_from(("x", "y", "z", "Start", "LlmFinalAnswer", "ReflectDone", "FatalError"))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A line of states from `Planning` to `Done`, and a few rows that may spoil it."""
    line = draw(st.lists(st.sampled_from((*"ABC", "Observing")), unique=True))
    ways = zip(("Planning", *line), (*line, "Done"), strict=True)
    rows = {(a, "LlmFinalAnswer" if a == "Planning" else "x"): b for a, b in ways}
    rows |= draw(st.dictionaries(st.tuples(NAMES, EVENTS), NAMES, max_size=4))
    declared = [*line, *draw(st.lists(st.sampled_from(("A", "Planning")), max_size=1))]
    return Graph(
        states=tuple(map(CustomState, dict.fromkeys(declared))),
        rows=tuple((state, event, to) for (state, event), to in rows.items()),
        terminal=draw(st.sampled_from(((), (), ("End",)))),
    )


def can_run(given: Graph) -> bool:
    """The same question, answered slowly: which states lead to which, by any number of rows."""
    stated = {row[:2]: row[2] for row in [*DEFAULT_ROWS, *given.rows]}
    defaults = {row[:2] for row in DEFAULT_ROWS}
    declared = {state.name for state in given.states}
    terminal = {"Done", "Error", *given.terminal}
    mentioned = {name for row in given.rows for name in (row[0], row[2])}
    every = {*map(str, State), *declared, *terminal, *mentioned}
    leads = {(name, name) for name in every} | {(pair[0], to) for pair, to in stated.items()}
    for middle in every:
        leads |= {
            (a, b) for a in every for b in every if (a, middle) in leads and (middle, b) in leads
        }
    reached = {name for name in every if ("Idle", name) in leads}
    return (
        mentioned <= {*map(str, State), *declared, *terminal}
        and not declared & terminal
        and not any(source in terminal for source, _ in stated)
        and all(
            row[0] in declared or row[0] not in set(map(str, State)) or row[:2] in defaults
            for row in given.rows
        )
        and declared | mentioned | set(given.terminal) <= reached
        and all(any((name, end) in leads for end in terminal) for name in reached)
    )


@given(graphs())
def test_a_graph_is_accepted_exactly_if_every_state_is_reached_and_ends(given: Graph) -> None:
    if not can_run(given):
        refused(given)
        return
    table = check_graph(given)
    for state in given.states:
        assert (state.name, "FatalError") in table


def test_the_random_graphs_are_of_both_kinds() -> None:
    hypothesis.find(graphs(), lambda given: len(given.states) > 1 and can_run(given))
    hypothesis.find(graphs(), lambda given: len(given.states) > 1 and not can_run(given))
