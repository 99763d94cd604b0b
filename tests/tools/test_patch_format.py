"""Patches as OpenAI's models write them, well and badly."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.patch_format import (
    FILE_COUNT_MAX,
    Operation,
    PatchChunk,
    PatchSection,
    list_patch_paths,
    parse_patch,
)

ADD, DELETE, UPDATE = Operation


def wrap(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def chunk(*lines: str, contexts: tuple[str, ...] = (), at_end: bool = False) -> PatchChunk:
    return PatchChunk(contexts, tuple((line[0], line[1:]) for line in lines), at_end)


def update(*chunks: PatchChunk, path: str = "a.py", move_to: str = "") -> PatchSection:
    return PatchSection(UPDATE, path, move_to, chunks=chunks)


@for_every_row(
    "text, sections",
    [
        # Those of the tests of the parser that these models know.
        (
            wrap(
                *("*** Add File: path/add.py", "+abc", "+def", "*** Delete File: path/delete.py"),
                *("*** Update File: path/update.py", "*** Move to: path/update2.py"),
                *("@@ def f():", "-    pass", "+    return 123"),
            ),
            [
                PatchSection(ADD, "path/add.py", content="abc\ndef\n"),
                PatchSection(DELETE, "path/delete.py"),
                update(
                    chunk("-    pass", "+    return 123", contexts=("def f():",)),
                    path="path/update.py",
                    move_to="path/update2.py",
                ),
            ],
        ),
        (
            wrap("*** Update File: a.py", "@@", "+line", "*** Add File: b.py", "+content"),
            [update(chunk("+line")), PatchSection(ADD, "b.py", content="content\n")],
        ),
        (wrap("*** Update File: a.py", " import x", "+bar"), [update(chunk(" import x", "+bar"))]),
        (
            "*** Begin Patch \n*** Add File: foo\n+hi\n *** End Patch",
            [PatchSection(ADD, "foo", content="hi\n")],
        ),
        (
            f"<<'EOF'\n{wrap('*** Delete File: a.py')}\nEOF\n",
            [PatchSection(DELETE, "a.py")],
        ),
        (f"<<EOF\n{wrap('*** Delete File: a.py')}\nEOF", [PatchSection(DELETE, "a.py")]),
        # What models write besides.
        (
            f"apply_patch <<'PATCH'\n{wrap('*** Delete File: a.py')}\nPATCH",
            [PatchSection(DELETE, "a.py")],
        ),
        (wrap("*** Delete File: a.py").replace("\n", "\r\n"), [PatchSection(DELETE, "a.py")]),
        (wrap("*** Add File: empty"), [PatchSection(ADD, "empty")]),
        (wrap("*** Add File: a b.md", "+", "+x"), [PatchSection(ADD, "a b.md", content="\nx\n")]),
        (wrap("  *** Delete File:  a.py  "), [PatchSection(DELETE, "a.py")]),
        (
            wrap("*** Update File: a.py", "@@ class A:", "@@     def f(self):", "-x", "+y"),
            [update(chunk("-x", "+y", contexts=("class A:", "    def f(self):")))],
        ),
        (wrap("*** Update File: a.py", "@@ -1,3 +1,4 @@", "-x"), [update(chunk("-x"))]),
        (wrap("*** Update File: a.py", "@@ -1 +1 @@ def f():", "-x"), [update(chunk("-x"))]),
        (wrap("*** Update File: a.py", "@@ ", "-x"), [update(chunk("-x"))]),
        (
            wrap("*** Update File: a.py", "@@", "-a", "", "+b", "", "@@", "-c", "+d"),
            [update(chunk("-a", " ", "+b", " "), chunk("-c", "+d"))],
        ),
        (
            wrap("*** Update File: a.py", "@@", "-a", "*** End of File", "", "@@", "-b"),
            [update(chunk("-a", at_end=True), chunk("-b"))],
        ),
        (wrap("*** Update File: a", "*** Move to: b"), [update(path="a", move_to="b")]),
        (
            wrap("*** Delete File: a", "", "*** Delete File: b"),
            [PatchSection(DELETE, "a"), PatchSection(DELETE, "b")],
        ),
    ],
)
def test_a_patch_is_read_as_it_is_meant(text: str, sections: list[PatchSection]) -> None:
    assert [*parse_patch(text)] == sections


@for_every_row(
    "text, words",
    [
        ("bad", "line 1 of the patch: the first line of a patch is `*** Begin Patch`, not `bad`"),
        ("", "the first line of a patch is `*** Begin Patch`, not ``"),
        (
            "*** Begin Patch\nbad",
            "line 2 of the patch: the last line of a patch is `*** End Patch`",
        ),
        ("*** Begin Patch", "the last line of a patch is `*** End Patch`, not `*** Begin Patch`"),
        (wrap(), "the patch changes no file"),
        (
            wrap("*** Update File: test.py"),
            "line 2 of the patch: the update of test.py has no lines",
        ),
        (
            wrap("*** Update File: a", "@@"),
            "line 4 of the patch: this piece of an update has no lines",
        ),
        (
            wrap("*** Update File: a", "@@", "*** End of File"),
            "this piece of an update has no lines",
        ),
        (wrap("*** Update File: a", "@@", "bad"), "`bad` begins with none of a space, `-` and `+`"),
        (wrap("*** Update File: a", "@@", "-x", "bad"), "begins with `@@`, not with `bad`"),
        (wrap("*** Frobnicate File: foo"), "`*** Frobnicate File: foo` is no header; there are"),
        (
            wrap("*** Add File: a", "+x", "y"),
            "`y` belongs to no file: all lines of a new file begin",
        ),
        (wrap("--- a/x", "+++ b/x"), "`--- a/x` belongs to no file"),
        (wrap("*** Delete File: a", "-x"), "`-x` belongs to no file"),
        (wrap("*** Add File:", "+x"), "`*** Add File:` names no file"),
        (wrap("*** Update File: a", "*** Move to:", "@@", "-x"), "line 3 of the patch: `*** Move"),
        (wrap("*** Update File: a", "@@", "-x", "*** Move to: b"), "`*** Move to: b` is no header"),
        (wrap(*["*** Delete File: a"] * (FILE_COUNT_MAX + 1)), "at most 100 sections"),
    ],
)
def test_what_is_no_patch_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        parse_patch(text)
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS
    assert words in caught.value.message


def test_all_paths_are_listed_once_and_those_of_moves_too() -> None:
    text = wrap(
        *("*** Add File: n", "*** Update File: a", "*** Move to: b", "*** Update File: b"),
        *("@@", "-x", "*** Delete File: n"),
    )
    assert list_patch_paths(parse_patch(text)) == ["n", "a", "b"]
