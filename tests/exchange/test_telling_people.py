"""Threads told to people: as Markdown and as a page. What they hold may be hostile."""

from __future__ import annotations

import re
from html import escape, unescape
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.samples import CONFIG, answer, call, ended, failure, said, success
from store.shelf import Shelf
from thread.journals import HEADER, PLAIN, at, write
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
from treadle.exchange.html_page import POLICY, to_html
from treadle.exchange.journal_files import join_journals, make_journal_part, split_journals
from treadle.exchange.markdown import quote_markdown, sanitize_markdown, to_markdown
from treadle.exchange.markdown_html import render_markdown
from treadle.exchange.readable_thread import ReadableNote, ReadableThread, make_readable_thread
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
from treadle.thread.safe_text import sanitize_text

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


class Strict(HTMLParser):
    """Reads a page and refuses what does not fit together."""

    VOID: Final = frozenset({"meta", "br", "hr"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            assert value is not None
            if name == "id":
                self.ids.append(value)
            if name == "href":
                self.links.add(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_entityref(self, name: str) -> None:
        assert name in ("lt", "gt", "amp", "quot")
        self.text.append(unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        assert name == "x27"
        self.text.append("'")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


TAGS: Final = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "bdi", "table", "tr"),
    *("th", "td", "nav", "ol", "li", "a", "main", "section", "time", "article", "div", "details"),
    *("summary", "b", "pre", "p"),
    *("ul", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "blockquote", "thead", "tbody"),
    *("br", "hr"),
}
ATTRIBUTES: Final = {
    *("lang", "charset", "http-equiv", "content", "name", "scope", "href", "id", "class", "dir"),
    *("aria-label", "rel", "start", "style"),
}


def read(page: str) -> Strict:
    parser = Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert parser.tags <= TAGS
    assert parser.attributes <= ATTRIBUTES
    assert len(parser.ids) == len(set(parser.ids))
    inner = {link for link in parser.links if not link.startswith(("https://", "mailto:"))}
    assert {link.removeprefix("#") for link in inner} <= set(parser.ids)
    return parser


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_gets_out_of_its_place_on_a_page(text: str) -> None:
    page = to_html(conversation(text), describe_usage)
    parser = read(page)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page
    )
    shown = "".join(parser.text)
    wanted = sanitize_text(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    assert shown.count(wanted) >= 4
    assert escape(wanted, quote=True) in page
    page.encode()


ANSWER: Final = """\
# What is new

- a **bold** word, `code` and [a page](https://example.org/?q="><script>)
- [bad](javascript:alert(1)) [file](file:///etc/passwd) ![p](https://example.org/p.png)

| a | b |
|---|--:|
| 1 | <b onclick="x()">2</b> |

```py
if a < b: pass
```
"""


def test_markdown_of_an_answer_is_laid_out_and_tags_in_it_are_text() -> None:
    page = to_html(conversation(ANSWER), describe_usage)
    parser = read(page)
    for piece in (
        "<h3>What is new</h3>",
        "<strong>bold</strong>",
        '<td style="text-align:right">&lt;b onclick=&quot;x()&quot;&gt;2&lt;/b&gt;</td>',
        '<pre><code class="language-py">if a &lt; b: pass\n</code></pre>',
        ">[picture: p]</a>",
        "[bad](javascript:alert(1)) [file](file:///etc/passwd)",
    ):
        assert piece in page, piece
    outer = {link for link in parser.links if not link.startswith("#")}
    assert outer == {"https://example.org/?q=%22%3E%3Cscript%3E", "https://example.org/p.png"}
    assert "img" not in parser.tags


@pytest.mark.parametrize(
    "text", ["word " * 30_000, "*a " * 30_000, "> " * 17 + "deep", "- " * 17 + "deep"]
)
def test_what_no_reader_of_markdown_should_take_stays_as_it_was_written(text: str) -> None:
    assert render_markdown(text) is None
    assert f'<div class="text" dir="auto">{escape(text.strip())}' in to_html(
        conversation(text), describe_usage
    )


MARKS: Final = ("*", "_", "`", "~", "[", "](", ")", "!", "|", "\n", "> ", "- ", "1. ", "<", "&#0;")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from((*MARKS, *HOSTILE, "a", " ")), max_size=40).map("".join))
def test_no_markdown_breaks_a_page(text: str) -> None:
    read(to_html(conversation(text or "."), describe_usage))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=12) | st.sampled_from(HOSTILE), min_size=1, max_size=3))
def test_a_page_is_well_formed_whatever_the_thread_holds(texts: list[str]) -> None:
    read(to_html(conversation(*texts), describe_usage))


def test_a_page_asks_nobody_for_anything_and_runs_nothing() -> None:
    page = to_html(conversation("hello", "more"), describe_usage)
    assert f'content="{POLICY}"' in page
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'"
    assert "http" not in page.replace('http-equiv="Content', "")
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page


def test_a_page_has_an_anchor_for_each_turn_and_a_list_of_them() -> None:
    parser = read(to_html(conversation("hello", "more"), describe_usage))
    assert [name for name in parser.ids if name != "turn-0"] == ["turn-1", "turn-2"]
    assert parser.links == {"#turn-1", "#turn-2"}


@pytest.mark.parametrize("text", HOSTILE)
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
    read(to_html(story, describe_usage))


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
    assert "(no result)" in to_html(story, describe_usage)


def test_a_record_of_a_newer_program_ends_the_story_and_is_told() -> None:
    data, head = write(PLAIN[:2])
    newer, _ = encode_batch(head, at(9), [b'{"type":"from_the_future"}'])
    story = make_readable_thread([make_journal_part(data + newer)])
    assert story.document.version == head.seq
    assert f"record {head.seq + 1} cannot be read by this version" in story.problem
    assert "| not told | record" in to_markdown(story, describe_usage)


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


@pytest.mark.parametrize(
    ("text", "told"),
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
