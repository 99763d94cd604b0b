"""Searching: the same answer with ripgrep and without, and always an end."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from runtime.clock import use_up
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.process import program as process
from treadle.process.program import Ended
from treadle.tools import search_files
from treadle.tools.grep import LINE_SIZE_MAX, MATCH_COUNT_MAX, Request, find_lines
from treadle.tools.search_files import SEARCH_S_MAX

ENDLESS = "^(a+)+(?=b)b"
"""Takes Python 2**60 steps on sixty a's; ripgrep, which would take sixty, cannot look ahead."""


IGNORED = (
    "; not searched, because .gitignore leaves it out: build/ (name it as `path` to search it)"
)


@pytest.fixture(autouse=True)
def tree(folder: Path) -> None:
    (folder / "src/deep").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / ".git").mkdir()
    (folder / "README.md").write_text("# Hello\n\nhello world")
    (folder / "src/a.py").write_text("def hello():\r\n    return 'hellö'\r\n")
    (folder / "src/deep/b.py").write_bytes(b"caf\xe9 hello\n")
    (folder / "src/binary").write_bytes(b"hello\0")
    (folder / "build/c.py").write_text("hello")
    (folder / ".git/config").write_text("hello")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "link.py").symlink_to("src/a.py")
    (folder / "out.py").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            {"pattern": "hello"},
            [
                "README.md:3: hello world",
                "src/a.py:1: def hello():",
                "src/deep/b.py:1: caf\ufffd hello",
            ],
        ),
        ({"pattern": "(?i)^#.*HELLO$"}, ["README.md:1: # Hello"]),
        ({"pattern": r"hell\w'$"}, ["src/a.py:2:     return 'hellö'"]),
        (
            {"pattern": "hello", "path": "src"},
            ["src/a.py:1: def hello():", "src/deep/b.py:1: caf\ufffd hello"],
        ),
        ({"pattern": "hello", "path": "src", "glob": "/*.py"}, ["src/a.py:1: def hello():"]),
        ({"pattern": "hello", "glob": "*.{md,rst}"}, ["README.md:3: hello world"]),
        ({"pattern": "hello", "path": "src/a.py"}, ["src/a.py:1: def hello():"]),
        ({"pattern": "hello", "path": "build"}, ["build/c.py:1: hello"]),
        ({"pattern": r"(?<=f )hel{2}o(?!w)", "glob": "*.py"}, ["src/a.py:1: def hello():"]),
        ({"pattern": "root"}, [f"[no matches in 5 files{IGNORED}]"]),
        ({"pattern": "--version"}, [f"[no matches in 5 files{IGNORED}]"]),
        ({"pattern": "root", "path": "src"}, ["[no matches in 3 files in src]"]),
        (
            {"pattern": "hello("},
            [
                "src/a.py:1: def hello():",
                "[no regular expression (missing ), unterminated subpattern at position 5); these "
                "lines match it as plain text]",
            ],
        ),
    ],
)
async def test_lines_that_match_are_shown(
    succeed: Any, options: dict[str, str], lines: list[str]
) -> None:
    assert await succeed("search_files", **options) == "\n".join(lines)


@for_every_row(
    "options, kind, message",
    [
        ({"pattern": "(("}, ToolErrorKind.INVALID_ARGUMENTS, "pattern: missing )"),
        ({"pattern": "a{99999999999}"}, ToolErrorKind.INVALID_ARGUMENTS, "pattern: "),
        ({"pattern": "(" * 5000}, ToolErrorKind.INVALID_ARGUMENTS, "pattern: "),
        ({"pattern": "a", "glob": "{a,b}" * 9}, ToolErrorKind.INVALID_ARGUMENTS, "the pattern has"),
        ({"pattern": "a", "path": "no"}, ToolErrorKind.FILE_NOT_FOUND, "no"),
        ({"pattern": "a", "path": ".."}, ToolErrorKind.PATH_OUTSIDE_WORKSPACE, ".."),
        ({"pattern": "a", "path": "out.py"}, ToolErrorKind.PATH_OUTSIDE_WORKSPACE, "out.py"),
        ({"pattern": "x" * 200_000}, ToolErrorKind.IO, "the search: Argument list too long"),
    ],
)
async def test_a_search_that_cannot_be_made_says_why(
    fail: Any, options: dict[str, str], kind: ToolErrorKind, message: str
) -> None:
    found = await fail("search_files", **options)
    assert found[0] is kind
    assert found[1].startswith(message)


async def test_many_matches_are_cut_and_said_to_be(succeed: Any, folder: Path) -> None:
    (folder / "many").write_text("hit\n" * MATCH_COUNT_MAX)
    lines = (await succeed("search_files", pattern="hit", path="many")).split("\n")
    assert lines == [f"many:{number}: hit" for number in range(1, MATCH_COUNT_MAX + 1)]
    (folder / "more").write_text("hit\n")
    lines = (await succeed("search_files", pattern="hit")).split("\n")
    assert lines[-1] == f"[stopped after {MATCH_COUNT_MAX} lines: there are more]"


async def test_a_very_long_line_is_shown_around_the_match(succeed: Any, folder: Path) -> None:
    (folder / "min.js").write_text("a" * 5000 + "HIT" + "b" * 5000)
    line = await succeed("search_files", pattern="HIT")
    assert line == f"min.js:1: {'a' * 100}HIT{'b' * (LINE_SIZE_MAX - 103)}"


async def test_a_pattern_that_never_ends_is_ended(
    succeed: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over when it has said what it finds in the file before."""
    heard = asyncio.Event()

    async def listen(argv: Sequence[str], sink: Callable[[bytes], None], **how: Any) -> Ended:
        def hear(data: bytes) -> None:
            sink(data)
            heard.set()

        return await process.run(argv, sink=hear, **how)

    monkeypatch.setattr(search_files, "run", listen)
    (folder / "early").write_text("aab")
    (folder / "evil").write_text("a" * 60 + "!")
    search = asyncio.ensure_future(succeed("search_files", pattern=ENDLESS, glob="e*"))
    await heard.wait()
    await use_up(SEARCH_S_MAX)
    remark = "[stopped after 20 s: simplify the pattern, or search less]"
    assert await search == f"early:1: aab\n{remark}"


async def test_a_cancelled_search_is_ended(call: Any, folder: Path) -> None:
    (folder / "evil").write_text("a" * 60 + "!")
    task = asyncio.ensure_future(call("search_files", pattern=ENDLESS))
    asyncio.get_running_loop().call_later(0.2, task.cancel)
    outcome = await task
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.CANCELLED


async def test_a_module_in_the_workspace_is_not_imported(
    succeed: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for name in ("re.py", "os.py", "msgspec.py", "treadle.py"):
        (folder / name).write_text("raise SystemExit('hijacked')")
    assert await succeed("search_files", pattern="Hello") == "README.md:1: # Hello"


@pytest.mark.skipif(not shutil.which("rg"), reason="there is no ripgrep to compare with")
def test_ripgrep_changes_nothing_but_the_time(folder: Path) -> None:
    names = ["a.py", "b.txt", ".hidden", "x/c.py", "x/y/d.py", "x/.e", "x/z/f.log", "build/g.py"]
    rules = ["*.log", "!f.log", "x/y/", "b.*", "/x", "**/z", ".*", "!.e", "build"]
    patterns = ["a", "^b.c$", r"\bab?c\b", "(?i)AB", r"(?<=a)b", r"[^\s]c$", "é+", "$", r"\d{2}"]
    wrong = []
    for seed in range(15):
        choose = random.Random(seed)
        root = folder / str(seed)
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            content = "".join(choose.choices([*"aabbcc Aé1\n\n", "\r\n"], k=40))
            (root / name).write_text(content, newline="")
        (root / ".gitignore").write_text("\n".join(choose.sample(rules, 3)))
        (root / "x/.gitignore").write_text("\n".join(choose.sample(rules, 2)))
        (root / ".ignore").write_text("a.py")
        for pattern in patterns:
            start = choose.choice([".", "x"])
            with_rg, without = (
                list(find_lines(Request(str(root), pattern, start, rg=rg), re.compile(pattern)))
                for rg in (shutil.which("rg"), None)
            )
            if with_rg != without:
                wrong.append((seed, pattern, start, with_rg, without))
    assert wrong == []
