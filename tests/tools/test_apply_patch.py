"""Patches of several files: what they make of them, all or none, and what a yes to one covers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from case_tables import for_every_row
from tools.calls_in_thread import CallsInThread, answer_of
from tools.test_patch_format import wrap
from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, RiskLevel, ToolExecutionOutcome
from treadle.tools.apply_patch import apply_patch
from treadle.tools.registry import Registry

Files = dict[str, str | None]


def make(folder: Path, files: Files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text.encode())
    return folder


def files_of(folder: Path) -> Files:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in found}


def call_of(text: str) -> ToolCall:
    return ToolCall("c1", "apply_patch", json.dumps({"input": text}))


def patch(folder: Path, *lines: str) -> Outcome:
    registry = Registry([apply_patch], workspace=folder)
    work = registry.execute(call_of(wrap(*lines)), key="", progress=lambda _: None)
    return asyncio.run(work)


def is_made(outcome: Outcome) -> bool:
    return isinstance(outcome, ToolExecutionOutcome.Success)


SCENARIOS: list[tuple[str, Files, Sequence[str], Files | None]] = [
    ("add", {}, ["*** Add File: bar.md", "+text"], {"bar.md": "text\n"}),
    (
        "several operations",
        {"modify.txt": "line1\nline2\n", "delete.txt": "obsolete\n"},
        [
            "*** Add File: nested/new.txt",
            "+created",
            "*** Delete File: delete.txt",
            "*** Update File: modify.txt",
            "@@",
            "-line2",
            "+changed",
        ],
        {"modify.txt": "line1\nchanged\n", "nested/new.txt": "created\n"},
    ),
    (
        "several pieces",
        {"multi.txt": "line1\nline2\nline3\nline4\n"},
        ["*** Update File: multi.txt", "@@", "-line2", "+changed2", "@@", "-line4", "+changed4"],
        {"multi.txt": "line1\nchanged2\nline3\nchanged4\n"},
    ),
    (
        "move to a new folder",
        {"old/name.txt": "old content\n", "old/other.txt": "x\n"},
        [
            "*** Update File: old/name.txt",
            "*** Move to: renamed/dir/name.txt",
            "@@",
            "-old content",
            "+new content",
        ],
        {"renamed/dir/name.txt": "new content\n", "old/other.txt": "x\n"},
    ),
    ("an empty patch", {"foo.txt": "stable\n"}, [], None),
    (
        "missing context",
        {"modify.txt": "line1\nline2\n"},
        ["*** Update File: modify.txt", "@@", "-missing", "+changed"],
        None,
    ),
    ("delete what is not there", {"foo.txt": "x\n"}, ["*** Delete File: missing.txt"], None),
    ("an update without lines", {"foo.txt": "x\n"}, ["*** Update File: foo.txt"], None),
    ("update what is not there", {}, ["*** Update File: no.txt", "@@", "-old", "+new"], None),
    (
        "a move over another file",
        {"old/name.txt": "from\n", "renamed/dir/name.txt": "existing\n"},
        [
            "*** Update File: old/name.txt",
            "*** Move to: renamed/dir/name.txt",
            "@@",
            "-from",
            "+new",
        ],
        {"renamed/dir/name.txt": "new\n"},
    ),
    (
        "add what is there",
        {"duplicate.txt": "old content\n"},
        ["*** Add File: duplicate.txt", "+new content"],
        {"duplicate.txt": "new content\n"},
    ),
    ("delete a folder", {"dir/foo.txt": "stable\n"}, ["*** Delete File: dir"], None),
    ("an invalid header", {"foo.txt": "stable\n"}, ["*** Frobnicate File: foo"], None),
    (
        "a last line without an end",
        {"no_newline.txt": "no newline at end"},
        ["*** Update File: no_newline.txt", "@@", "-no newline at end", "+first", "+second"],
        {"no_newline.txt": "first\nsecond\n"},
    ),
    # There, the first file stays; here it is all or nothing.
    (
        "a failure after a success",
        {},
        ["*** Add File: created.txt", "+hello", "*** Update File: missing.txt", "@@", "-o", "+n"],
        None,
    ),
    (
        "lines that are only added",
        {"input.txt": "line1\nline2\n"},
        ["*** Update File: input.txt", "@@", "+added 1", "+added 2"],
        {"input.txt": "line1\nline2\nadded 1\nadded 2\n"},
    ),
    (
        "blanks before a header",
        {"foo.txt": "old\n"},
        ["  *** Update File: foo.txt", "@@", "-old", "+new"],
        {"foo.txt": "new\n"},
    ),
    (
        "letters that look alike",
        {"foo.txt": "# dash \u2014 and quote \u2019\nnext\n"},
        ["*** Update File: foo.txt", "@@", " # dash - and quote '", "-next", "+after"],
        {"foo.txt": "# dash \u2014 and quote \u2019\nafter\n"},
    ),
    (
        "letters of all kinds",
        {"foo.txt": "naïve\ncafé ☕\n"},
        ["*** Update File: foo.txt", "@@", " naïve", "-café ☕", "+thé 🍵"],
        {"foo.txt": "naïve\nthé 🍵\n"},
    ),
    (
        "delete",
        {"keep.txt": "keep\n", "obsolete.txt": "x\n"},
        ["*** Delete File: obsolete.txt"],
        {"keep.txt": "keep\n"},
    ),
    (
        "lines that only go",
        {"lines.txt": "line1\nline2\nline3\n"},
        ["*** Update File: lines.txt", "@@", " line1", "-line2", " line3"],
        {"lines.txt": "line1\nline3\n"},
    ),
    (
        "the end of the file",
        {"tail.txt": "same\nfirst\nsame\n"},
        ["*** Update File: tail.txt", "@@", "-same", "+end", "*** End of File"],
        {"tail.txt": "same\nfirst\nend\n"},
    ),
    # From its units.
    (
        "pieces far from each other",
        {"f": "a\nb\nc\nd\ne\nf\n"},
        [
            "*** Update File: f",
            "@@",
            " a",
            "-b",
            "+B",
            "@@",
            " c",
            " d",
            "-e",
            "+E",
            "@@",
            " f",
            "+g",
            "*** End of File",
        ],
        {"f": "a\nB\nc\nd\nE\nf\ng\n"},
    ),
    (
        "an addition and then a removal",
        {"f": "line1\nline2\nline3\n"},
        [
            "*** Update File: f",
            "@@",
            "+after-context",
            "+second",
            "@@",
            " line1",
            "-line2",
            "-line3",
            "+line2-replacement",
        ],
        {"f": "line1\nline2-replacement\nafter-context\nsecond\n"},
    ),
    (
        "behind a context",
        {"f": "def a():\n    x = 1\n\ndef b():\n    x = 1\n"},
        ["*** Update File: f", "@@ def b():", "-    x = 1", "+    x = 2"],
        {"f": "def a():\n    x = 1\n\ndef b():\n    x = 2\n"},
    ),
    (
        "one that sees another",
        {"f": "a\n"},
        ["*** Update File: f", "@@", "-a", "+b", "*** Update File: f", "@@", "-b", "+c"],
        {"f": "c\n"},
    ),
    # What is done better here: bytes that the patch does not name stay as they are.
    (
        "line ends stay",
        {"f": "a\r\nb\r\nc"},
        ["*** Update File: f", "@@", "-b", "+B", "+BB"],
        {"f": "a\r\nB\r\nBB\r\nc"},
    ),
    (
        "the mark of UTF-8 stays, and nobody needs to name it",
        {"f": "\ufeffa\nb\n"},
        ["*** Update File: f", "@@", "-a", "+A", " b"],
        {"f": "\ufeffA\nb\n"},
    ),
    (
        "who names the mark of UTF-8 may",
        {"f": "\ufeffa\nb\n"},
        ["*** Update File: f", "@@", "-\ufeffa", "+\ufeffA", " b"],
        {"f": "\ufeffA\nb\n"},
    ),
    (
        "lines that stay keep their blanks",
        {"f": "\tif x:\n\t\treturn 1\nend\n"},
        ["*** Update File: f", "@@", " if x:", "-    return 1", "+    return 2", "+    # two"],
        {"f": "\tif x:\n\t\treturn 2\n\t\t# two\nend\n"},
    ),
    (
        "added behind a context",
        {"f": "class A:\n    pass\nend\n"},
        ["*** Update File: f", "@@ class A:", "+    x = 1"],
        {"f": "class A:\n    x = 1\n    pass\nend\n"},
    ),
    (
        "classes and methods",
        {"f": "class A:\n  def f():\n    1\nclass B:\n  def f():\n    1\n"},
        ["*** Update File: f", "@@ class B:", "@@   def f():", "-    1", "+    2"],
        {"f": "class A:\n  def f():\n    1\nclass B:\n  def f():\n    2\n"},
    ),
    (
        "only a move",
        {"a": "x\n"},
        ["*** Update File: a", "*** Move to: b"],
        {"b": "x\n"},
    ),
    (
        "an empty line at the end of a piece",
        {"f": "a\nb\n"},
        ["*** Update File: f", "@@", "-b", "+c", ""],
        {"f": "a\nc\n"},
    ),
]


@for_every_row("name, before, lines, after", SCENARIOS)
def test_a_patch_makes_of_the_files_what_it_says(
    tmp_path: Path, name: str, before: Files, lines: Sequence[str], after: Files | None
) -> None:
    folder = make(tmp_path / name.replace(" ", "-"), before)
    outcome = patch(folder, *lines)
    assert is_made(outcome) == (after is not None), outcome
    assert files_of(folder) == (before if after is None else after)
    assert not [*folder.rglob("*.treadle-tmp")]


# ---- what is told of it ------------------------------------------------------------------------


@for_every_row(
    "lines, why",
    (
        (["*** Delete File: l"], "l is a link to b"),
        (["*** Update File: l", "*** Move to: c"], "l is a link to b"),
        (["*** Add File: .git/hooks/pre-commit", "+x"], "files in .git are not written by tools"),
        (["*** Add File: ../x", "+x"], "../x"),
    ),
)
def test_who_is_refused_reads_that_no_file_was_changed(
    tmp_path: Path, lines: Sequence[str], why: str
) -> None:
    files: Files = {"a": "a\n", "b": "b\n", ".git/config": ""}
    folder = make(tmp_path / str(len(lines)) / why[:4], files)
    (folder / "l").symlink_to("b")
    outcome = patch(folder, "*** Update File: a", "@@", "-a", "+A", *lines)
    assert why in answer_of(outcome)
    assert answer_of(outcome).endswith("; no file was changed")
    assert files_of(folder) == {**files, "l": "b\n"}


def test_what_is_told_names_each_file_and_what_does_not_parse(tmp_path: Path) -> None:
    folder = make(tmp_path / "ws", {"a.py": "x = 1\n", "b": "b\n", "c": "c\n", "d": "d\n"})
    outcome = patch(
        folder,
        *("*** Update File: a.py", "@@", "-x = 1", "+x = (1", "*** Add File: n", "+n"),
        *("*** Update File: b", "*** Move to: m", "@@", "-b", "+m", "*** Delete File: c"),
    )
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    lines = outcome.output.splitlines()
    assert lines[:5] == [
        "Success. Updated the following files:",
        *("M a.py", "A n", "M m (moved from b)", "D c"),
    ]
    assert lines[5].startswith("[syntax: a.py does not parse any more as Python")
    assert outcome.changed == ("a.py", "n", "b", "m", "c")
    assert {one.name for one in outcome.rewritten} == {one.name for one in outcome.seen}


@for_every_row(
    "lines, words",
    [
        (
            ["*** Update File: a.py", "@@", "-x = 1 ", "-y = 3", "+x = 3"],
            "piece 1 of a.py is not in the file: line 2 of it differs from line 2: the file has "
            "`y = 2` where it has `y = 3`; no file was changed",
        ),
        (
            ["*** Update File: a.py", "@@ def g():", "-x = 1", "+x = 3"],
            "`@@ def g():`, piece 1 of a.py, is not in the file",
        ),
        (
            ["*** Update File: a.py", "@@", "-y = 2", "+y = 3", "@@", "-x = 1", "+x = 2"],
            "piece 2 of a.py is out of order: it stands in line 1, before what the patch names",
        ),
        (["*** Update File: A.py", "@@", "-x = 1"], "A.py; there is a.py; no file was changed"),
        (["*** Update File: a.py", "@@", " x = 1"], "the patch leaves all files as they are"),
        (["*** Add File: ../out", "+x"], "Path outside workspace: ../out"),
        (["*** Add File: .git/hooks/x", "+x"], ".git/hooks: files in .git are not written"),
        (["*** Add File: a.py/b", "+x"], "a part of the path is not a folder"),
        (["*** Add File: n", "+x", "*** Delete File: .."], "Failed: .."),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(
    tmp_path: Path, lines: Sequence[str], words: str
) -> None:
    before: Files = {"a.py": "x = 1\ny = 2\n", ".git/config": ""}
    folder = make(tmp_path / str(abs(hash(words))), before)
    answer = answer_of(patch(folder, *lines))
    assert words in answer, answer
    assert files_of(folder) == before


async def test_what_the_model_has_not_seen_is_refused_once_for_all_files(tmp_path: Path) -> None:
    folder = make(tmp_path / "ws", {"a": "a\n", "b": "b\n", "c": "c\n"})
    thread = CallsInThread(folder, "openai")
    text = wrap(
        *("*** Update File: a", "@@", "-a", "+A", "*** Delete File: b"),
        *("*** Add File: c", "+C"),
    )
    answer = answer_of(await thread.call("apply_patch", {"input": text}))
    assert "b exists and holds 2 bytes, and you have not read it" in answer
    assert "c exists and holds 2 bytes, and you have not read it" in answer
    assert (folder / "a").read_text() == "a\n"
    assert "D b" in answer_of(await thread.call("apply_patch", {"input": text}))
    (folder / "a").write_text("a\nother\n")
    again = wrap("*** Update File: a", "@@", "-a", "+A")
    assert "a has changed since you last wrote it" in answer_of(
        await thread.call("apply_patch", {"input": again})
    )


def scope_of(folder: Path, *lines: str) -> Scope:
    scope = Registry([apply_patch], workspace=folder).scope_of(call_of(wrap(*lines)))
    assert scope is not None
    return scope


def test_a_yes_covers_all_files_as_they_are(tmp_path: Path) -> None:
    folder = make(tmp_path / "ws", {"src/a": "a\n", "b": "b\n"})
    lines = ["*** Update File: src/a", "*** Move to: lib/c", "@@", "-a", "+b", "*** Delete File: b"]
    scope = scope_of(folder, *lines)
    assert scope.kinds == ("src/", "lib/", "b")
    assert scope.files == ("src/a", "lib/c", "b") == scope.written
    assert len(scope.content.split(" ")) == 3
    for name in scope.files:
        make(folder, {name: "another\n"})
        changed = scope_of(folder, *lines)
        assert changed.binding != scope.binding, name
        scope = changed
    assert scope_of(folder, "*** Add File: n", "+x").file == "n"


@for_every_row(
    "lines, risk, reason",
    [
        (["*** Add File: a.py", "+x"], None, ""),
        (["*** Add File: a.py", "+x", "*** Add File: .envrc", "+x"], RiskLevel.HIGH, ".envrc"),
        (["*** Update File: a", "*** Move to: .vscode/tasks.json"], RiskLevel.HIGH, ".vscode"),
        (["*** Delete File: Makefile"], None, ""),
    ],
)
def test_the_risk_is_that_of_its_riskiest_file(
    tmp_path: Path, lines: Sequence[str], risk: RiskLevel | None, reason: str
) -> None:
    registry = Registry([apply_patch], workspace=tmp_path)
    assert registry.risk_of(call_of(wrap(*lines))) == risk
    scope = scope_of(tmp_path, *lines)
    assert reason in "".join(scope.reasons)
    assert bool(scope.kinds) == (not risk)


def test_a_patch_that_cannot_be_read_asks_nobody_in_vain(tmp_path: Path) -> None:
    registry = Registry([apply_patch], workspace=tmp_path)
    assert registry.risk_of(call_of("nonsense")) is None
    scope = registry.scope_of(call_of("nonsense"))
    assert scope is not None
    assert scope.reasons == ("it does not fit its tool, which will refuse it",)
