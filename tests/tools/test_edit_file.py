"""Replacing text: once or not at all, and nothing besides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import GROWTH_MAX, growth
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.tool_failure import ToolFailure
from treadle.tools.edit_file import Edit, apply_edits

Kind = ToolErrorKind


def edit(old: str, new: str, **options: bool) -> dict[str, Any]:
    return {"old_str": old, "new_str": new, **options}


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        (b"one two", [edit("two", "three")], b"one three"),
        (b"one two", [edit("one ", "")], b"two"),
        (b"a", [edit("a", "b"), edit("b", "c")], b"c"),
        (b"x x x", [edit("x", "y", replace_all=True)], b"y y y"),
        (b"aaaa", [edit("aa", "b", replace_all=True)], b"bb"),
        (b"a.c abc", [edit("a.c", "$1\\1")], b"$1\\1 abc"),
        (b"", [edit("", "born")], b"born"),
        (None, [edit("", "a\r\nb"), edit("b", "c")], b"a\r\nc"),
        ("tö".encode(), [edit("ö", "ä€")], "tä€".encode()),
        # The line ends of the file are kept, whatever the model writes.
        (b"a\r\nb\r\n", [edit("a\nb", "a\nx\nb")], b"a\r\nx\r\nb\r\n"),
        (b"a\r\nb\r\n", [edit("a\r\nb", "c\r\nd\n")], b"c\r\nd\r\n\r\n"),
        (b"a\r\nb\r\n", [edit("b", "b\nc")], b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", [edit("\nb", "\nc")], b"a\r\nc\r\n"),
        (b"a\nb\n", [edit("a\r\nb", "a\r\nc")], b"a\nc\n"),
        (b"a\r\nb\nc\n", [edit("a\nb\nc", "x\ny")], b"x\ny\n"),
        (b"a\rb\rc", [edit("b", "x")], b"a\rx\rc"),
        # So is what is not text in the file's own encoding.
        (b"\xef\xbb\xbfa b", [edit("a", "c")], b"\xef\xbb\xbfc b"),
        (b"caf\xe9 old", [edit("old", "new")], b"caf\xe9 new"),
        (b"caf\xe9 old", [edit("caf\xe9 old", "d\xe9j\xe0")], b"d\xe9j\xe0"),
        (b"\x00\xff\xfe old", [edit("old", "new")], b"\x00\xff\xfe new"),
        (b"a\x0cb\x0bc\xe2\x80\xa8d", [edit("d", "e")], b"a\x0cb\x0bc\xe2\x80\xa8e"),
    ],
)
async def test_what_is_asked_for_is_replaced_and_nothing_else(
    call: Any, folder: Path, before: bytes | None, edits: list[dict[str, Any]], after: bytes
) -> None:
    if before is not None:
        (folder / "f").write_bytes(before)
    outcome = await call("edit_file", path="f", edits=edits)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    assert outcome.changed == ("f",)
    assert (folder / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "edits", "kind", "message"),
    [
        (None, [edit("a", "b")], Kind.FILE_NOT_FOUND, "f"),
        (
            b"",
            [edit("a", "b")],
            Kind.TARGET_NOT_FOUND,
            "edits[0].old_str does not occur in f: the file is empty",
        ),
        (
            b"x\n  def run(self):\n",
            [edit("def runs(self):", "y")],
            Kind.TARGET_NOT_FOUND,
            "edits[0].old_str does not occur in f: it differs from line 2: the file has "
            "`def run(self):` where it has `def runs(self):`",
        ),
        (
            b"one two",
            [edit("one", "1"), edit("three", "3")],
            Kind.TARGET_NOT_FOUND,
            "edits[1].old_str does not occur in f: nothing in it is like it",
        ),
        (
            b"one two",
            [edit("one", "1"), edit("one two", "3")],
            Kind.TARGET_NOT_FOUND,
            "edits[1].old_str does not occur in f any more: "
            "an edit before it in this call has changed that text",
        ),
        (
            b"x\nx\n x",
            [edit("x", "y")],
            Kind.FAILED,
            "edits[0].old_str occurs more than once in f (lines 1, 2, 3): "
            "give more lines around it, or set replace_all",
        ),
        (
            b"x\n" * 9,
            [edit("x", "y")],
            Kind.FAILED,
            "edits[0].old_str occurs more than once in f (lines 1, 2, 3, 4, 5, ...): "
            "give more lines around it, or set replace_all",
        ),
        (
            b"aaa",
            [edit("aa", "b")],
            Kind.FAILED,
            "edits[0].old_str occurs more than once in f (lines 1, 1): "
            "give more lines around it, or set replace_all",
        ),
        (
            b"text",
            [edit("", "more")],
            Kind.FAILED,
            "edits[0].old_str is empty, which makes new files; f has content",
        ),
        (
            b"a",
            [edit("a", "a")],
            Kind.INVALID_ARGUMENTS,
            "edits[0].old_str and new_str are the same",
        ),
        (
            b"caf\xe9",
            [edit("caf", "\r\n\u20ac")],
            Kind.INVALID_ARGUMENTS,
            "f is not UTF-8 and is edited as Latin-1, which has no '\u20ac'",
        ),
        (
            b"a" * 1_000_000,
            [edit("a", "b" * 1000, replace_all=True)],
            Kind.FAILED,
            "f would become too large to edit",
        ),
        (b"a", [], Kind.INVALID_ARGUMENTS, "Expected `array` of length >= 1 - at `$.edits`"),
    ],
)
async def test_an_edit_that_cannot_be_made_leaves_the_file_alone(
    fail: Any,
    folder: Path,
    before: bytes | None,
    edits: list[dict[str, Any]],
    kind: ToolErrorKind,
    message: str,
) -> None:
    if before is not None:
        (folder / "f").write_bytes(before)
    assert await fail("edit_file", path="f", edits=edits) == (kind, message)
    assert contents(folder) == ([] if before is None else [before])


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir()]


async def test_the_answer_says_what_was_done(succeed: Any) -> None:
    asked = {"path": "a/new.txt", "edits": [edit("", "one\n")]}
    assert await succeed("edit_file", **asked) == "created a/new.txt, 4 bytes"
    asked["edits"] = [edit("one", "two")]
    assert await succeed("edit_file", **asked) == "edited a/new.txt: 1 replacement, 4 -> 4 bytes"
    asked["edits"] = [edit("two", "2"), edit("\n", "\n\n"), edit("\n", "", replace_all=True)]
    assert await succeed("edit_file", **asked) == "edited a/new.txt: 4 replacements, 4 -> 1 bytes"


async def test_two_calls_of_one_round_on_one_file_both_count(succeed: Any, folder: Path) -> None:
    (folder / "f").write_text("one two")
    await asyncio.gather(
        succeed("edit_file", path="f", edits=[edit("one", "1")]),
        succeed("edit_file", path="f", edits=[edit("two", "2")]),
    )
    assert (folder / "f").read_text() == "1 2"


NEEDLE = "<needle\nin it>"
latin = st.text(st.characters(max_codepoint=255), max_size=20)


@settings(max_examples=300, deadline=None)
@given(before=st.binary(max_size=60), after=st.binary(max_size=60), new=latin)
def test_every_byte_outside_the_replaced_text_is_kept(
    before: bytes, after: bytes, new: str
) -> None:
    content = before + NEEDLE.encode() + after
    result, count, _ = apply_edits(content, [Edit(NEEDLE, new)], "f")
    assert count == 1
    assert result.startswith(before)
    assert result[len(before) :].endswith(after)
    middle = result[len(before) : len(result) - len(after)]
    encoding = "utf-8" if is_utf8(content) else "latin-1"
    plain = new.replace("\r\n", "\n").encode(encoding)
    assert middle in (plain, plain.replace(b"\n", b"\r\n"))


lines = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=5), max_size=5
)


@settings(max_examples=200, deadline=None)
@given(before=lines, old=lines, new=lines, after=lines)
def test_a_file_with_crlf_is_edited_as_if_it_had_lf(
    before: list[str], old: list[str], new: list[str], after: list[str]
) -> None:
    text = "\n".join([*before, "<<", *old, ">>", *after, ""])
    asked = [Edit("\n".join(["<<", *old, ">>"]), "\n".join(["<", *new, ">"]))]
    try:
        expected = apply_edits(text.encode(), asked, "f").content
    except ToolFailure:
        expected = b""
    try:
        found = apply_edits(text.replace("\n", "\r\n").encode(), asked, "f").content
    except ToolFailure:
        found = b""
    assert found == expected.replace(b"\n", b"\r\n")


@for_every_row("unit", [b"\n", b"\r\n", b"a", b"line\n"])
def test_a_file_of_repetitions_is_searched_in_the_time_of_its_length(unit: bytes) -> None:
    def search(size: int) -> None:
        old = (unit * (size // 100 // len(unit))).decode() + "end"
        with pytest.raises(ToolFailure):
            apply_edits(unit * (size // len(unit)), [Edit(old, "x")], "f")

    # Text and file grow together, so that who compares them at each place is dear.
    assert growth(lambda: search(400_000), lambda: search(100_000)) <= GROWTH_MAX


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
