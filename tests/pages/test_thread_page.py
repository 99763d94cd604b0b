"""What a page of a thread shows, whatever the thread holds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.exchange.readable_thread import (
    ReadableCall,
    ReadableItem,
    ReadableMessage,
    ReadableNote,
    ReadableThread,
    ReadableTurn,
)
from treadle.pages.call_blocks import BlockKind, make_call_view
from treadle.pages.diff_runs import LineKind
from treadle.pages.ports import ShownThread
from treadle.pages.thread_page import ITEM_COUNT, TEXT_SIZE_MAX, make_thread_page
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, Thread

AT = "2026-11-27T00:00:00.000000Z"
DOCUMENT = Thread("T-1", 7, AT, AT, AT, ConversationSnapshot(()), AgentStateSnapshot("ready"))


def shown(*turns: tuple[ReadableItem, ...]) -> ShownThread:
    told = tuple(ReadableTurn(number, AT, items) for number, items in enumerate(turns, 1))
    return ShownThread(ReadableThread(DOCUMENT, told))


def call(name: str, **arguments: Any) -> ReadableCall:
    return ReadableCall(AT, "c", name, json.dumps(arguments), 0, "result")


def test_pages_have_every_item_once_and_links_lead_to_theirs() -> None:
    turns = [
        (
            ReadableNote(AT, "shown: a picture"),
            ReadableMessage(AT, "user", f"prompt {number}\nmore", number),
            *(ReadableMessage(AT, "assistant", f"answer {step}", 0) for step in range(7)),
        )
        for number in range(120)
    ]
    thread = shown(*turns)
    last = make_thread_page(thread, None)
    assert last is not None
    assert last.page == last.page_count == 6
    pages = [make_thread_page(thread, page) for page in range(1, 7)]
    items = [item for page in pages if page is not None for item in page.items]
    assert [item.number for item in items] == list(range(120 * 9))
    assert len(last.prompts) == 100
    for link in last.prompts:
        assert link.heading == f"prompt {link.turn - 1}"
        assert items[link.number].turn == link.turn
        assert link.number // ITEM_COUNT == link.page - 1
    assert make_thread_page(thread, 0) is make_thread_page(thread, 7) is None
    empty = make_thread_page(shown(), None)
    assert empty is not None
    assert (empty.page_count, empty.items) == (1, [])


def test_long_texts_are_cut_and_say_so() -> None:
    text = "x" * (TEXT_SIZE_MAX + 1)
    page = make_thread_page(
        shown(
            (
                ReadableMessage(AT, "user", text, 0),
                ReadableCall(AT, "c", "bash", "{}", 0, text),
            )
        ),
        1,
    )
    assert page is not None
    prompt, called = page.items
    assert (len(prompt.text), prompt.is_cut) == (TEXT_SIZE_MAX, True)
    assert (len(called.result or ""), called.is_cut) == (TEXT_SIZE_MAX, True)


def test_calls_are_laid_out_by_what_they_do() -> None:
    edit = [{"old_str": "a\nb\nc", "new_str": "a\nB\nc"}]
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n x\n-y\n+z\n*** End Patch"
    cases: list[tuple[ReadableCall, str, list[object]]] = [
        (call("bash", command="ls -l"), "$ ls -l", ["ls -l"]),
        (
            call("bash", command="make\nx", access="write"),
            "$ make x",
            ["make\nx", "access: write"],
        ),
        (call("read_file", path="a.py"), "read_file a.py", []),
        (
            call("read_file", path="a.py", start_line=3),
            "read_file a.py",
            ['{"path": "a.py", "start_line": 3}'],
        ),
        (call("edit_file", path="a.py", edits=edit), "edit_file a.py", [" a-b+B c"]),
        (call("write_file", path="a.py", content="1\n2"), "write_file a.py", ["+1+2"]),
        (
            call("edit_file", path="a.py", edits=3),
            "edit_file a.py",
            ['{"path": "a.py", "edits": 3}'],
        ),
        (
            call("apply_patch", input=patch),
            "apply_patch",
            ["p*** Begin Patchp*** Update File: a.pyp@@ x-y+zp*** End Patch"],
        ),
        (ReadableCall(AT, "c", "bash", "no {json", 0), "bash", ["no {json"]),
        (ReadableCall(AT, "c", "bash", "[1]", 0), "bash", ["[1]"]),
        (call("bash", command=["x"]), "bash", ['{"command": ["x"]}']),
        (call("mine", text="long " * 100), "mine " + "long " * 23, None),  # type: ignore[list-item]
    ]
    marks = {LineKind.ADDED: "+", LineKind.REMOVED: "-", LineKind.SAME: " ", LineKind.PLACE: "p"}
    missed = []
    for one, title, blocks in cases:
        view = make_call_view(one)
        told = [
            "".join(marks[kind] + line for kind, line in block.lines)
            if block.kind is BlockKind.DIFF
            else block.text
            for block in view.blocks
        ]
        if not view.title.startswith(title[:110]) or (blocks is not None and told != blocks):
            missed.append((title, view.title, told))
    assert missed == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(("bash", "edit_file", "write_file", "apply_patch", "replace", "shell", "x"))
ARGUMENTS = st.dictionaries(
    st.sampled_from(("path", "edits", "content", "command", "input", "old_str", "old_string")), JSON
)


@given(NAMES, ARGUMENTS | JSON)
def test_no_arguments_are_too_strange_to_be_shown(name: str, arguments: object) -> None:
    view = make_call_view(ReadableCall(AT, "c", name, json.dumps(arguments), 0))
    assert view.title
