"""The diagram shows the table: every row of it, nothing else, the same text every time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain, pairwise

from case_tables import for_every_row
from treadle.core.chat.states import STATES
from treadle.core.chat.table import TRANSITIONS, Row, draw_conversation_machine
from treadle.mermaid import Edge, draw_edges, escape_label

_ARROW = re.compile(r"    (\S+) --> (\S+) : (.+)")
_BOX = re.compile(r'    state "(.+)" as (\S+)')


def drawn(text: str) -> list[tuple[str, str, str]]:
    """(state left, state entered, label) of every row in the picture."""
    boxes = {box: label.split("<br/>")[1:] for label, box in _BOX.findall(text)}
    return [
        (state, target, label)
        for source, target, labels in _ARROW.findall(text)
        for label in labels.split("<br/>")
        for state in boxes.get(source, [source])
    ]


def expected(row: Row) -> tuple[str, str, str]:
    parts = [
        row.event.__qualname__ if row.event else "",
        f"[{row.guard.value}]" if row.guard else "",
        f"/ {row.action.__name__}" if row.action else "/ (internal)",
    ]
    return row.state.__name__, row.to.__name__, " ".join(filter(None, parts))


def test_every_row_of_the_table_is_drawn_once_and_nothing_else_is() -> None:
    assert sorted(drawn(draw_conversation_machine(TRANSITIONS))) == sorted(
        map(expected, TRANSITIONS)
    )


def test_two_rows_that_differ_in_their_guard_alone_are_both_drawn() -> None:
    for row in TRANSITIONS:
        others = tuple(other for other in TRANSITIONS if other != row)
        assert expected(row) not in drawn(draw_conversation_machine(others))


def test_no_two_arrows_lie_over_each_other() -> None:
    ends = [
        (source, target)
        for source, target, _ in _ARROW.findall(draw_conversation_machine(TRANSITIONS))
    ]
    assert len(set(ends)) == len(ends)


def test_cancelling_and_shutting_down_are_one_arrow_each() -> None:
    text = draw_conversation_machine(TRANSITIONS)
    assert text.count(": ShutdownRequested") == 1
    assert text.count(": CancelRequested") == 1
    assert "in any state<br/>" in text


def test_it_begins_where_a_machine_begins_and_ends_where_nothing_leads_out() -> None:
    lines = draw_conversation_machine(TRANSITIONS).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert [line.strip() for line in lines if "[*]" in line] == [
        "[*] --> WaitingForUserInput",
        "ShuttingDown --> [*]",
    ]


def test_arrows_stand_in_the_order_of_the_table() -> None:
    order = [expected(row) for row in TRANSITIONS]
    firsts = [
        order.index(row)
        for row in drawn(draw_conversation_machine(TRANSITIONS))
        if row[2] in _first_labels()
    ]
    assert firsts == sorted(firsts)


def _first_labels() -> set[str]:
    """Labels of rows whose arrow no other row shares."""
    arrows = _ARROW.findall(draw_conversation_machine(TRANSITIONS))
    return {labels for _, _, labels in arrows if "<br/>" not in labels}


def test_labels_hold_nothing_that_ends_a_label_in_mermaid() -> None:
    labels = [label for _, _, label in drawn(draw_conversation_machine(TRANSITIONS))]
    assert not set(":;%#\"'") & set(chain.from_iterable(labels))


def test_states_are_named_as_in_the_code() -> None:
    names = {name for row in drawn(draw_conversation_machine(TRANSITIONS)) for name in row[:2]}
    assert names == {state.__name__ for state in STATES}


def test_the_text_is_the_same_in_every_process() -> None:
    program = (
        "from treadle.core.chat.table import TRANSITIONS\n"
        "from treadle.core.chat.table import draw_conversation_machine\n"
        "print(draw_conversation_machine(TRANSITIONS), end='')\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert texts == {draw_conversation_machine(TRANSITIONS)}


def _chain(*names: str) -> str:
    """A machine that goes through these states and ends in the last."""
    edges = [Edge(a, b, "Next") for a, b in pairwise(names)]
    return draw_edges(edges, names[0], [names[-1]])


@for_every_row(
    "name, label",
    [
        ("Needs review", "Needs review"),
        ('say "hi"; bye', "say #34;hi#34;#59; bye"),
        ("a:b{c}%%", "a#58;b#123;c#125;#37;#37;"),
        ("x <<choice>>", "x #60;#60;choice#62;#62;"),
        ("direction LR", "direction#32;LR"),
        ("needs-review", "needs-review"),
        ("Prüfung", "Prüfung"),
        ("__proto__", "__proto__"),
        ("Note", "Note"),
        ("DEFAULT", "DEFAULT"),
        ("root_start", "root_start"),
        ("", "(no name)"),
    ],
)
def test_a_name_that_mermaid_would_misread_gets_an_id(name: str, label: str) -> None:
    assert _chain("Idle", name, "Done").splitlines()[2:] == [
        f'    state "{label}" as State1',
        "    [*] --> Idle",
        "    Idle --> State1 : Next",
        "    State1 --> Done : Next",
        "    Done --> [*]",
    ]


def test_made_ids_are_not_names_that_are_there() -> None:
    text = _chain("State1", "a b", "Shared1", "c d")
    assert [line for line in text.splitlines() if '"' in line] == [
        '    state "a b" as State2',
        '    state "c d" as State3',
    ]
    shared = draw_edges(
        [Edge(name, "Shared1", "x") for name in ("A", "B", "C C")], "A", ["Shared1"]
    )
    assert '"in any state<br/>A<br/>B<br/>C C" as Shared2' in shared
    assert "Shared2 --> Shared1 : x" in shared


def test_what_an_escaped_name_shows_is_the_name() -> None:
    name = "".join(map(chr, range(32, 0x250)))
    assert re.sub(r"#(\d+);", lambda found: chr(int(found[1])), escape_label(name)) == name
    assert not set(':"{}%<>') & set(escape_label(name))
