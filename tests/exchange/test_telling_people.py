"""Threads told to people, as Markdown. What they hold may be hostile."""

from __future__ import annotations

import re
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from core.samples import CONFIG, answer, call, ended, failure, said, success
from store.shelf import Shelf
from thread.journals import HEADER, PLAIN, at, random_batches, write
from treadle.core.approval import Rejected
from treadle.core.config import AgentConfig
from treadle.core.conversation import View
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    Compacted,
    CompactionRequested,
    PostToolsHookCompleted,
    Rewound,
)
from treadle.core.llm import Usage
from treadle.exchange.fenced_code import make_code_block, split_fenced_code
from treadle.exchange.journal_files import join_journals, make_journal_part, split_journals
from treadle.exchange.markdown import quote_markdown, sanitize_markdown, to_markdown
from treadle.exchange.readable_thread import (
    ReadableNote,
    ReadableThread,
    ReadableThreadBuilder,
    make_readable_thread,
)
from treadle.models.prices.usage_text import describe_usage
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    CommandBegun,
    CommandShown,
    Configured,
    Foreign,
    Imported,
    Renamed,
)
from treadle.thread.record import encode_batch

HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='x",
    "</style></pre></details></article><h1>mine</h1>",
    "<!-- swallowed",
    "&lt;b&gt; &amp;amp; &#x3c;",
    "]]><![CDATA[",
    "a\0b\x1b[31mc\x7f\x85",
    "\u202egnp.exe\u2066\u200f",
    "שלום עולם مرحبا",
    "👩\u200d👩\u200d👧 \u200c",
    "```\n</code>",
    "~~~~\nopen",
    "``````",
    "| a | b |\n|---|---|",
    "# Turn 99",
    "\ud800",
)


def story_of(*batches: tuple[Entry, ...]) -> ReadableThread:
    return make_readable_thread([make_journal_part(write(batches)[0])])


def conversation(*texts: str) -> ReadableThread:
    """A thread that says each text in every place where one can stand."""
    batches: list[tuple[Entry, ...]] = [
        (HEADER, Configured(AgentConfig(), "scripted")),
        (Renamed(texts[0]), Imported(texts[0], texts[0], texts[0], (texts[0],), 1)),
    ]
    for number, text in enumerate(texts):
        name = f"c{number}"
        batches += [
            (said(f"{text} ."), Annotated(text)),
            (answer(text, call(name, text, text)),),
            (ended(name, success(name, text)),),
            (PostToolsHookCompleted(True, text, commit="c0ffee"),),
            (answer(f"{text} ."),),
        ]
    return story_of(*batches)


def test_of_a_command_that_began_its_end_is_told_or_that_it_is_not_known() -> None:
    story = story_of(
        (HEADER, CommandBegun("a", "make a", "/w")),
        (CommandShown("make a", "built", 0, "a"),),
        (CommandBegun("b", "make b", "/w"),),
    )
    assert [
        item.text for turn in story.turns for item in turn.items if isinstance(item, ReadableNote)
    ] == [
        "a person ran $ make a",
        "a person began $ make b in /w: its end is not recorded here, and it is not run again",
    ]


@for_every_row("text", HOSTILE)
def test_no_text_gets_out_of_its_place_in_markdown(text: str) -> None:
    told = to_markdown(conversation(text, "plain"), describe_usage)
    outside = [
        line for piece in split_fenced_code(told) if not piece.is_code for line in piece.lines
    ]
    assert outside.count("## Turn 2") == 1
    assert outside.count("**assistant**") >= 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told)
    for line in outside:
        assert "<script" not in re.sub(r"\\<", "", line)
        assert "<!--" not in re.sub(r"\\<", "", line)


@given(st.text(alphabet="`~ab\n ", max_size=60))
def test_a_fence_is_never_closed_by_what_stands_in_it(text: str) -> None:
    [piece] = split_fenced_code(make_code_block(text))
    assert piece.is_code
    assert "\n".join(piece.lines) == text


@given(st.text(alphabet="`~<a!\n ", max_size=60))
def test_text_of_others_ends_where_it_ends(text: str) -> None:
    for told in (sanitize_markdown(text), quote_markdown(text)):
        assert not list(split_fenced_code(f"{told}\n\nend"))[-1].is_code
    assert all(line.startswith(">") for line in quote_markdown(text).split("\n"))


def test_code_in_a_line_keeps_its_signs_and_other_tags_lose_theirs() -> None:
    assert sanitize_markdown("use `<b>` or <b> or a < b") == r"use `<b>` or \<b> or a < b"
    assert sanitize_markdown("```\n<b>\n```") == "```\n<b>\n```"
    assert sanitize_markdown("```\n<b>") == "```\n<b>\n```"
    assert sanitize_markdown("<" * 3 + "x" * 10_001).endswith("x")


# ---- what is told ------------------------------------------------------------------------------


def test_a_thread_is_told_with_its_approvals_commits_and_notes() -> None:
    refused = ApprovalDecided("b", Rejected("not today"), at(5))
    text = to_markdown(
        story_of(
            (HEADER, Configured(CONFIG, "scripted")),
            (said("go"),),
            (answer("", call("a", "edit"), call("b", "drop"), usage=Usage(9, 1)),),
            (refused,),
            (ended("a", success("a", "done")),),
            (PostToolsHookCompleted(True, "feat: it", commit="c0ffee" * 6),),
            (answer("so"), Annotated("remember"), Foreign("{}")),
        ),
        describe_usage,
    )
    for line in ("a person refused drop (b)", "not today", "committed c0ffeec", "feat: it"):
        assert line in text
    for line in ("*note*", "remember", "*Turn 1: 9 tokens in, 1 out*", "> go"):
        assert line in text
    assert text.index("not today") > text.index("**drop** `b`")


def test_what_was_gone_back_from_is_marked_and_what_was_summed_up_is_told() -> None:
    story = story_of(
        (HEADER, Configured(AgentConfig(), "")),
        (said("one"),),
        (answer("first"),),
        (said("two"),),
        (answer("second"),),
        (Rewound(4, View(2)),),
        (said("three"),),
        (answer("third"),),
        (CompactionRequested(),),
        (Compacted(6, "all of it"),),
    )
    text = to_markdown(story, describe_usage)
    assert "**assistant** (gone back from)\n\nsecond" in text
    assert "**assistant**\n\nfirst" in text
    assert "**user** (gone back from)\n\n> two" in text
    assert "**user**\n\n> three" in text
    assert "gone back to version 4" in text
    assert "a summary stands for the first 6 messages" in text
    assert "all of it" in text


def test_a_call_without_a_result_and_a_cut_answer_are_told_as_such() -> None:
    story = story_of(
        (HEADER, Configured(AgentConfig(), "")),
        (said("one"),),
        (CancelRequested("half an ans", "stop"),),
        (said("two"),),
        (answer("", call("a"), call("b")),),
        (ended("a", failure("a")),),
    )
    text = to_markdown(story, describe_usage)
    assert "**assistant** (interrupted)\n\nhalf an ans" in text
    assert text.count("*(no result)*") == 2


def test_a_record_of_a_newer_program_ends_the_story_and_is_told() -> None:
    data, head = write(PLAIN[:2])
    newer, _ = encode_batch(head, at(9), [b'{"type":"from_the_future"}'])
    story = make_readable_thread([make_journal_part(data + newer)])
    assert story.document.version == head.seq
    assert f"record {head.seq + 1} cannot be read by this version" in story.problem
    assert "| not told | record" in to_markdown(story, describe_usage)


def test_a_thread_told_record_by_record_is_at_each_what_it_is_told_as_a_whole() -> None:
    spans = (
        (HEADER, Configured(AgentConfig(), "")),
        (CommandBegun("a", "make", "/w"), CommandBegun("b", "make b", "/w")),
        (said("one"),),
        (answer("first"),),
        (Rewound(2, View(0)),),
        (CommandShown("make", "built", 0, "a"),),
        (said("two"),),
        (answer("second"),),
    )
    misses: list[str] = []
    for batches in (spans, PLAIN, *(random_batches(Random(seed), 40) for seed in range(20))):
        builder = ReadableThreadBuilder()
        part = make_journal_part(write(batches)[0])
        for count, record in enumerate(part.records, 1):
            builder.add_records([record], is_own=True)
            whole = make_readable_thread([replace(part, records=part.records[:count])])
            if builder.build() != whole:
                misses.append(f"{record.seq}: {record.event!r}")
    assert misses == []


# ---- journals ----------------------------------------------------------------------------------


def test_a_fork_is_told_from_its_beginning_and_its_journals_travel_together(
    shelf: Shelf, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parent = shelf.create(
        (Configured(AgentConfig(), ""), said("one")), (answer("first"),), (said("two"),)
    )
    fork = shelf.store.fork(parent, 4, creator="treadle/0.1.0", first=[Annotated("mine")])
    fork.close()
    base = make_journal_part(shelf.journal(parent).read_bytes(), 4)
    own = make_journal_part(shelf.journal(fork.thread_id).read_bytes())
    assert (base.head.seq, base.data.count(b"\n")) == (4, 4)
    assert shelf.journal(parent).read_bytes().startswith(base.data)
    story = make_readable_thread([base, own])
    assert (story.document.id, len(story.document.conversation.messages)) == (fork.thread_id, 2)
    assert "goes on from here" in to_markdown(story, describe_usage)
    data = join_journals([base, own])
    assert split_journals(data) == [base.data, own.data]
    other = Shelf(tmp_path_factory.mktemp("other"))
    assert [other.store.adopt(one).header.thread for one in split_journals(data)] == [
        parent,
        fork.thread_id,
    ]
    assert other.store.load(fork.thread_id).fold.conversation[0].content == "one"


def test_a_torn_end_is_left_out_and_told() -> None:
    data, _ = write(PLAIN)
    part = make_journal_part(data + b'{"seq":99')
    assert (part.data, part.condition.value) == (data, "torn")
    assert "unfinished write" in part.reason


def test_a_text_that_looks_like_a_journal_begins_none() -> None:
    data, _ = write([*PLAIN, (said('{"seq":1,"at":"x"}\n{"seq":1,'),)])
    assert split_journals(data) == [data]


@for_every_row(
    "text, told",
    [
        ("- x\n  ```\n<img src=x>", "- x\n  \\```\n\\<img src=x>"),
        ("`a <img>\n`<img>`", "`a \\<img>\n`\\<img>`"),
        ("\\`<b>`", "\\`\\<b>`"),
        ("| `a | <b>`", "| `a | \\<b>`"),
        ("\\<b> \\\\<b>", "\\<b> \\\\\\<b>"),
        ("![i](http://host/x.png)", "\\![i](http://host/x.png)"),
        ("```a|b\n---", "```a b\n---\n```"),
        ("fine!", "fine!"),
    ],
)
def test_what_looks_like_code_lets_no_tag_and_no_picture_out(text: str, told: str) -> None:
    assert sanitize_markdown(text) == told
