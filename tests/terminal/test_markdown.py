"""Markdown cut into pieces while it is written: the pieces one by one are the whole."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import seconds
from treadle.terminal.markdown_splitter import PART_LINES_MAX, MarkdownSplitter, make_parser

ROOT: Final = Path(__file__).parents[2]

LINES: Final = (
    *("", "", "", "  ", "plain words", "more | words", "**bold** `code` <b>tag</b>", "    four"),
    *("- item", "* other", "+ third", "1. one", "2) two", "10. ten", "-", "1.", "  - nested"),
    *("    - deeper", "  continued", "   three in", "      six in", "\ttab", "- \tcode"),
    *("```", "````", "```py", "~~~", "~~~~ text", "  ```", "   ```", "    ```", "```a|b", "- ```"),
    *("\t```", "``` `x`", "# head", "## head", "   ### head", "    # no head", "#no", "# a|b"),
    *("===", "---", "- - -", "***", "--- |", "-|-", "|-|-|", "| a | b |", "> quote", ">", "> - in"),
    *("> ```", "<div>", "</div>", "<!--", "-->", "[ref]: /url", "[ref]:", "  /url", '"title"'),
    *("see [ref]", "![picture](x.png)", "\\", "text  ", "&amp;", "\N{NO-BREAK SPACE}", "1) a\\"),
)

DOCUMENTS: Final = (
    "para\nsecond line\n\nnext",
    "- a\n- b\n\n- c\n\n  in c\n\nafter",
    "1. a\n  ```\n\n  not in the list\n  ```\nafter\n\nend",
    "- ```\n  x\n  ```\ntext\n  ```\n\ncode\n  ```\nend",
    "~~~\n```\n\n~~~~\nafter",
    "````md\n```\n\n```\n````\nafter",
    "head\n====\nother\n---\ntext",
    "> quote\nlazy\n\n> other\n- list\nlazy\n\nend",
    "    code\n\n    more\n\ntext",
    "| a | b |\n|---|---|\n| 1 | 2 |\nlast | row\n\nend",
    "``` a|b\n-|-\n1|2\n\nend\n```",
    "# a|b\n-|-\n\nend",
    "```\n\t```\n\nstill code\n```\nend",
    "text:\n- a\n- b\n  ```\n  x\n\n  y\n  ```\n# head\nend",
    "2. x\n2. y\npara\n3. z\n\n\n\n4. w\nlazy\n    # no head\n\n     code\nend",
    "[a]: /b\n'title\nof it'\n\n[a]\n",
)


def split(text: str, sizes: Iterable[int]) -> list[str]:
    """The pieces of a text that comes in chunks of these sizes, over and over."""
    splitter, pieces, place = MarkdownSplitter(), [], 0
    steps = list(sizes) or [len(text)]
    while place < len(text):
        for size in steps:
            pieces += splitter.feed(text[place : place + size])
            place += size
    return [*pieces, *splitter.close()]


def blocks(pieces: Sequence[str]) -> list[Any]:
    parser = make_parser()
    return [
        (token.type, token.tag, token.level, token.hidden, token.content, token.info, token.attrs)
        for piece in pieces
        for token in parser.parse(piece)
    ]


@given(st.lists(st.sampled_from(LINES), max_size=24), st.lists(st.integers(1, 9), max_size=3))
@settings(max_examples=250, deadline=None)
def test_pieces_one_by_one_have_the_blocks_of_the_whole(lines: list[str], sizes: list[int]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    assert blocks(split(text, sizes)) == blocks([text])


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_pieces_of_what_is_hard_to_cut_have_the_blocks_of_the_whole(text: str, size: int) -> None:
    assert blocks(split(text, [size])) == blocks([f"{text}\n"])


@for_every_row("file", sorted(ROOT.glob("docs/*.md")))
def test_pieces_of_a_real_document_are_its_blocks(file: Path) -> None:
    text = file.read_text()
    pieces = split(text, [4])
    assert blocks(pieces) == blocks([text])
    outer = sum(t.level == 0 and t.nesting >= 0 for t in make_parser().parse(text))
    assert len(pieces) >= 0.8 * outer


@for_every_row(
    "text, given_away",
    [
        ("para\n\n", ["para"]),
        ("para\nmore", []),
        ("# head\n", ["# head"]),
        ("words:\n```py\nx = 1\n", ["words:"]),
        ("```py\nx = 1\n\ny = 2\n```\n", ["```py\nx = 1\n\ny = 2\n```"]),
        ("words:\n- a\n- b\n", ["words:"]),
        ("- a\n\n- b\n\nend\n", ["- a\n\n- b"]),
        ("- a\n# head\n", ["- a", "# head"]),
        ("|a|b|\n|-|-|\n|1|2|\n\n", ["|a|b|\n|-|-|\n|1|2|"]),
    ],
)
def test_a_block_is_given_away_as_soon_as_it_is_finished(text: str, given_away: list[str]) -> None:
    splitter = MarkdownSplitter()
    pieces = [piece for chunk in text for piece in splitter.feed(chunk)]
    assert [piece.rstrip("\n") for piece in pieces] == given_away


def test_line_ends_of_every_kind_are_one_kind_wherever_the_chunks_end() -> None:
    assert split("a\r\n\r\nb\r\n", [1]) == ["a\n\n", "b\n"]
    assert split("a\rb", [1]) == ["a\ufffdb\n"]


def test_what_steers_a_terminal_is_marked() -> None:
    assert split("a\x1b[2Jb\ud83d\u202ec\n", [3]) == ["a\ufffd[2Jb\ufffd\ufffdc\n"]


def test_the_tail_of_what_is_unfinished_is_its_end() -> None:
    splitter = MarkdownSplitter()
    list(splitter.feed("- one\n- two\n- thr"))
    assert splitter.tail(100) == "- one\n- two\n- thr"
    assert splitter.tail(6) == "- two\n- thr"
    assert splitter.tail(5) == "- thr"
    list(splitter.feed("\n"))
    assert splitter.tail(5) == "- thr\n"


@pytest.mark.parametrize("before", ["", "words\n", "w" * 500 + "\n"])
def test_the_tail_of_a_long_line_is_bounded_and_seldom_begins_elsewhere(before: str) -> None:
    splitter, tails = MarkdownSplitter(), list[str]()
    list(splitter.feed(before))
    text = "".join(f"{number} " for number in range(1000))
    for place in range(0, len(text), 3):
        list(splitter.feed(text[place : place + 3]))
        tails.append(splitter.tail(100))
        assert (before + text[: place + 3]).endswith(tails[-1])
    assert max(map(len, tails)) < 300
    assert min(map(len, tails[100:])) >= 100
    moves = sum(not new.startswith(old) for old, new in pairwise(tails))
    assert moves <= len(text) / 100 + 1


def cost(text: str) -> float:
    return seconds(lambda: split(text, [4]))


@for_every_row(
    "line",
    ["w", "- item\n", "item\n2. no\n", "- a\n\n  ~~~\n\n", "\n> q", "- ```\n\nx\n", "    code\n\n"],
)
def test_the_work_grows_with_the_length_only(line: str) -> None:
    cost(line * 100)
    short, long = (min(cost(line * (n // len(line))) for _ in range(2)) for n in (3000, 24_000))
    assert long < 8 * 3 * short + 0.05


@for_every_row("line", ["- a\n", "> a\n", "| a |\n|---|\n", "    a\n", "a\n", "```\na\n"])
def test_no_piece_has_more_lines_than_can_be_shown_at_once(line: str) -> None:
    text = line * 3000 + "# end\n"
    pieces = split(text, [4000])
    assert max(piece.count("\n") for piece in pieces) <= PART_LINES_MAX + 2
    if "`" not in line:
        assert "".join(pieces) == text


def test_random_bytes_are_cut_without_loss() -> None:
    chance = random.Random(7)
    for _ in range(200):
        text = "".join(chance.choice("-*>`~#|=+ \t\n1.ab[]:<>&\\") for _ in range(80))
        assert blocks(split(text, [3])) == blocks([f"{text}\n"])
