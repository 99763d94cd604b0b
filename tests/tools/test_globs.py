"""Wildcards, and that no pattern makes matching slow."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from processor_time import slow
from treadle.tool_failure import ToolFailure
from treadle.tools.globs import compile_glob, expand_braces, make_filter


@for_every_row(
    "pattern, fits, fits_not",
    [
        ("*.py", ["a.py", "x/y/.b.py"], ["a.pyc", "a.py/b", "py"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "y/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.pyc"]),
        ("**", ["a", "a/b", "a/b/c"], [""]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa", "a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c/c"], ["a/c", "a/b", "a/xb/c"]),
        ("**/a/*/b", ["a/x/b", "a/a/x/b", "y/a/x/b"], ["a/b", "a/x/y/b"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("*a*b*", ["ab", "xaxbx", "aab"], ["ba"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[^a]", ["b"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[z-a]", [], ["a", "z", "-"]),
        ("[[:digit:]_]", ["7", "_"], ["a", ":"]),
        ("[+--]", ["+", ",", "-"], ["/", "."]),
        ("a[+-9]b", ["a.b", "a5b"], ["a/b"]),
        ("a[", [], ["a[", "a"]),
        (r"\*\[\?", ["*[?"], ["x[y"]),
        ("a.b+(c)$", ["a.b+(c)$"], ["axb+(c)$"]),
        ("line\nbreak", ["line\nbreak"], ["line"]),
    ],
)
def test_a_pattern_fits_what_git_says_it_fits(
    pattern: str, fits: list[str], fits_not: list[str]
) -> None:
    compiled = compile_glob(pattern)
    assert [path for path in fits if not compiled.match(path)] == []
    assert [path for path in fits_not if compiled.match(path)] == []


HOSTILE = (
    ("*a" * 60 + "b", "a" * 4000),
    ("**/a/" * 60 + "b", "a/" * 1900 + "c"),
    ("**/*a*a*a/" * 20 + "b", "aaaaaaaa/" * 400 + "c"),
    ("[a]*" * 60 + "b", "a" * 4000),
    ("?*" * 200 + "b", "a" * 4000),
)


def test_no_pattern_makes_matching_slow() -> None:
    """The naive translation takes longer than the universe."""
    assert [path for pattern, path in HOSTILE if compile_glob(pattern).match(path)] == []
    for pattern, path in HOSTILE:
        assert slow(compile_glob(pattern).match, {pattern: path}) == []


def test_braces_are_alternatives() -> None:
    assert sorted(expand_braces("{a,b{1,2}}.{c,d}")) == [
        "a.c",
        "a.d",
        "b1.c",
        "b1.d",
        "b2.c",
        "b2.d",
    ]
    assert expand_braces("{a}{") == ["{a}{"]
    with pytest.raises(ToolFailure, match="too many braces"):
        expand_braces("{a,b}" * 40)


def test_a_filter_is_relative_to_its_folder() -> None:
    fits = make_filter("src/app", "./*.{py,md}")
    assert fits("src/app/x/y.py")
    assert not fits("src/app/y.txt")
    fits = make_filter("src/app", "x/*")
    assert fits("src/app/x/y")
    assert not fits("x/y")
