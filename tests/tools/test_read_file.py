"""Reading: what is there, and plain words where something is not shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from media_samples import PDF, attachment, png
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.tools.read_file import OUTPUT_SIZE_MAX, PIECE_SIZE, SNIFF_SIZE


@for_every_row(
    "content, options, shown",
    [
        (b"", {}, "[empty file]"),
        (b"one", {}, "one"),
        (b"one\ntwo\n", {}, "one\ntwo\n"),
        (b"one\r\ntwo\r\n", {}, "one\r\ntwo\r\n"),
        (b"\n", {}, "\n"),
        (b"one\ntwo\nthree\n", {"start_line": 2}, "two\nthree\n"),
        (b"one\ntwo\nthree", {"start_line": 3}, "three"),
        (b"one\ntwo\nthree\n", {"start_line": 2, "end_line": 3}, "two\nthree\n"),
        (b"one\ntwo\nthree\n", {"end_line": 2}, "one\ntwo\n[the file goes on after line 2]"),
        (b"1\n2\n3\n4", {"start_line": 2, "end_line": 3}, "2\n3\n[the file goes on after line 3]"),
        (b"one\ntwo\n", {"end_line": 99}, "one\ntwo\n"),
        ("\ufeffäöü €\u2028".encode(), {}, "äöü €\u2028"),
        (b"caf\xe9\n", {}, "caf\ufffd\n[not valid UTF-8: some bytes are shown as \ufffd]"),
        (b"caf\xe9", {}, "caf\ufffd\n[not valid UTF-8: some bytes are shown as \ufffd]"),
        (b"\x7fELF\x00\x01", {}, "[binary file, 6 bytes; not shown]"),
        (b"x" * SNIFF_SIZE + b"\0", {"end_line": 1}, "x" * SNIFF_SIZE + "\0"),
    ],
)
async def test_the_lines_asked_for_are_shown(
    succeed: Any, folder: Path, content: bytes, options: dict[str, int], shown: str
) -> None:
    (folder / "f").write_bytes(content)
    assert await succeed("read_file", path="f", **options) == shown


@for_every_row(
    "content, start_line, line_count",
    [(b"", 2, 0), (b"one\n", 2, 1), (b"one\ntwo", 3, 2), (b"one\ntwo\n", 99, 2), (b"\n\n", 3, 2)],
)
async def test_a_line_beyond_the_end_is_answered_with_the_number_of_lines(
    fail: Any, folder: Path, content: bytes, start_line: int, line_count: int
) -> None:
    (folder / "f").write_bytes(content)
    message = f"start_line {start_line} is beyond the end: the file has {line_count} lines"
    expected = (ToolErrorKind.INVALID_ARGUMENTS, message)
    assert await fail("read_file", path="f", start_line=start_line) == expected


async def test_lines_in_the_wrong_order_are_refused(fail: Any, folder: Path) -> None:
    expected = (ToolErrorKind.INVALID_ARGUMENTS, "end_line 2 is before start_line 3")
    assert await fail("read_file", path="f", start_line=3, end_line=2) == expected


async def test_a_long_file_is_cut_between_lines_and_can_be_read_on(
    succeed: Any, folder: Path
) -> None:
    lines = [f"line {number} " + "ä" * 50 for number in range(1, 1001)]
    (folder / "f").write_text("\n".join(lines))
    found: list[str] = []
    while True:
        shown = await succeed("read_file", path="f", start_line=len(found) + 1)
        assert len(shown.encode()) < OUTPUT_SIZE_MAX + 200
        *some, remark = shown.split("\n")
        found += some
        if not remark.startswith("["):
            found.append(remark)
            break
        assert remark == (
            f"[cut after line {len(found)}: {OUTPUT_SIZE_MAX} bytes is the most at once; "
            f"read on with start_line={len(found) + 1}]"
        )
    assert found == lines


@pytest.mark.parametrize("extra", [0, 1])
async def test_a_file_of_exactly_the_limit_is_not_cut(
    succeed: Any, folder: Path, extra: int
) -> None:
    (folder / "f").write_bytes(b"x" * (OUTPUT_SIZE_MAX - 1 + extra) + b"\n")
    shown = await succeed("read_file", path="f")
    assert shown.endswith("]") == bool(extra)


async def test_a_line_too_long_is_cut_without_half_a_character(succeed: Any, folder: Path) -> None:
    (folder / "f").write_text("first\n" + "x" + "ä" * PIECE_SIZE + "\nlast\n")
    shown = await succeed("read_file", path="f", start_line=2)
    text, remark = shown.split("\n")
    assert set(text) == {"x", "ä"}
    assert remark == (
        f"[line 2 is longer than {OUTPUT_SIZE_MAX} bytes: its rest is not shown; "
        "read on with start_line=3]"
    )
    assert await succeed("read_file", path="f", start_line=3) == "last\n"


async def test_a_huge_file_is_read_no_further_than_needed(succeed: Any, folder: Path) -> None:
    with (folder / "f").open("wb") as file:
        file.write(b"start\n" * 10_000)
        file.truncate(1 << 40)
    shown = await succeed("read_file", path="f", end_line=1)
    assert shown == "start\n[the file goes on after line 1]"


async def test_a_picture_is_shown_and_one_that_no_model_takes_is_explained(
    call: Any, folder: Path
) -> None:
    for name, data, said in (
        ("shot.png", png(), f"[image/png, 3x2 pixels, {len(png())} bytes: shown with this result]"),
        ("paper", PDF, f"[application/pdf, {len(PDF)} bytes: shown with this result]"),
        ("cut.png", png()[:-3], "[not shown: the PNG is damaged or cut; save it again]"),
    ):
        (folder / name).write_bytes(data)
        outcome = await call("read_file", path=name)
        assert isinstance(outcome, ToolExecutionOutcome.Success)
        assert outcome.output == said
        shown = () if "not shown" in said else (attachment(data, name),)
        assert outcome.attachments == shown
        assert outcome.contents == {one.blob.sha256: data for one in shown}


async def test_a_text_that_begins_like_a_picture_or_a_document_is_a_text(
    succeed: Any, folder: Path
) -> None:
    for text in ("GIF89a is how a GIF begins\n", "%PDF-1.4 héader\n" + "line\n" * 3000):
        (folder / "f").write_text(text)
        assert await succeed("read_file", path="f", end_line=1) == (
            text.partition("\n")[0] + "\n" + "[the file goes on after line 1]" * ("line" in text)
        )


async def test_a_picture_or_document_too_large_to_be_read_says_so(
    succeed: Any, folder: Path
) -> None:
    for name, data in (("a.png", png()), ("a.pdf", PDF)):
        with (folder / name).open("wb") as file:
            file.write(data)
            file.truncate(50_000_000)
        said = await succeed("read_file", path=name)
        assert re.fullmatch(r"\[not shown: the \w+ has 50000000 bytes, and at most .*\]", said), (
            said
        )
