"""A text that differs in white space alone is found, and its replacement fits in."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.tools.white_space import find_places, fit_replacement

GO = "func run() {\n\tif ready {\n\t\tstart(now)\n\t}\n}\n"
PY = (
    "class Job:\n    def run(self):\n        if self.ready:\n            start(self)\n"
    "        return True\n"
)


@for_every_row(
    "text, old, new, after",
    [
        # Spaces for tabs, and a line deeper than all that were there.
        (
            GO,
            "    if ready {\n        start(now)\n    }",
            "    if ready {\n        if late {\n            wait()\n        }\n    }",
            "func run() {\n\tif ready {\n\t\tif late {\n\t\t\twait()\n\t\t}\n\t}\n}\n",
        ),
        # Two spaces a level for four; one level that is less deep.
        (
            PY,
            "    if self.ready:\n      start(self)\n",
            "    if self.late:\n      stop(self)\n  else:\n",
            PY.replace("        if self.ready:", "        if self.late:").replace(
                "            start(self)\n", "            stop(self)\n    else:\n"
            ),
        ),
        # A block without its indentation.
        (
            PY,
            "if self.ready:\n    start(self)\nreturn True",
            "if not self.ready:\n    return False\nstart(self)\nreturn True",
            PY.replace("        if self.ready:", "        if not self.ready:").replace(
                "            start(self)", "            return False\n        start(self)"
            ),
        ),
        # The first line alone without it.
        (
            PY,
            "if self.ready:\n            start(self)  \n",
            "if self.ready():\n            start(self)\n",
            PY.replace("self.ready:", "self.ready():"),
        ),
        # Spaces at the ends of lines, between words and signs, an empty line more or less.
        ("a = 1 + 2  \nb = long_name( 3 )\n", "a = 1+2\nb = long_name(3)\n", "c = 4\n", "c = 4\n"),
        ("one line\n\n\nand another\n", "one line\n\nand another", "just one", "just one\n"),
        ("x\n  key:  value here\ny\n", "key: value here", "key: 1", "x\n  key: 1\ny\n"),
        ("a\u00a0nonbreaking space\n", "a nonbreaking space", "plain", "plain\n"),
    ],
)
def test_the_replacement_is_indented_as_what_it_replaces(
    text: str, old: str, new: str, after: str
) -> None:
    fit = fit_replacement(text, old, new)
    assert fit is not None
    (start, end), fitted = fit
    assert text[:start] + fitted + text[end:] == after


@for_every_row(
    "text, old",
    [
        # Twice: which one is meant, nobody can tell.
        ("\tstart(now)\n\t\tstart(now)\n", "start(now) "),
        # Two indentations for one that was written: it would change what belongs to what.
        (PY, "if self.ready:\n  start(self)\n  return True"),
        # One for two.
        (PY, "        if self.ready:\n                start(self)\n            return True"),
        # Words apart, or lines, are not white space alone.
        ("return not_found(now)\n", "return not found(now)"),
        ("first(one)\nsecond(two)\n", "first(one) second(two)"),
        ("first(one) second(two)\n", "first(one)\nsecond(two)"),
        # Too little to know it by, or nothing.
        ("  )\n", ")"),
        ("a\n\n\nb", "\n\n "),
        ("", "some text that is not there"),
    ],
)
def test_nothing_is_guessed(text: str, old: str) -> None:
    assert fit_replacement(text, old, "x") is None


lines = st.lists(
    st.sampled_from(["alpha(1)", "beta = 2", "if gamma:", "return 'd  e'"]), min_size=1, max_size=6
)
depths = st.lists(st.integers(0, 3), min_size=6, max_size=6)
WRITINGS: list[Callable[[str], str]] = [
    lambda text: text.replace("\t", "    "),
    lambda text: text.replace("\t", "  "),
    lambda text: textwrap.indent(text.replace("\t", "    "), "    "),
    lambda text: "\n".join(line + "  " for line in text.split("\n")),
]


@settings(max_examples=200, deadline=None)
@given(lines, lines, depths, depths, st.sampled_from(WRITINGS))
def test_however_a_block_is_written_the_file_becomes_what_it_would_have_become(
    old: list[str],
    new: list[str],
    old_depths: list[int],
    new_depths: list[int],
    write: Callable[[str], str],
) -> None:
    """The model writes both texts alike, so that what it means is what it would have meant."""

    def block(parts: list[str], levels: list[int], first: int) -> str:
        return "\n".join(
            "\t" * (first + level) + part for part, level in zip(parts, levels, strict=False)
        )

    there, meant = block(old, old_depths, 1), block(new, new_depths, 1)
    text = f"before\n{there}\nunique_end(9)\n"
    asked = write(f"{there}\n\tunique_end(9)".replace("\tunique_end", "unique_end"))
    given_new = write(f"{meant}\nunique_end(9)")
    fit = fit_replacement(text, asked, given_new)
    if fit is None:
        return  # it may be ambiguous, and then it is told
    (start, end), fitted = fit
    after = text[:start] + fitted + text[end:]
    assert after.startswith("before\n")
    assert [line.strip() for line in after.split("\n")] == [
        "before",
        *(line.strip() for line in meant.split("\n")),
        "unique_end(9)",
        "",
    ]


@settings(max_examples=300, deadline=None)
@given(st.text("ab( \t\n.\u00a0\x1c", max_size=60), st.text("ab( \t\n.", max_size=20))
def test_what_is_found_is_what_was_asked_for_but_for_white_space(text: str, wanted: str) -> None:
    for start, end in find_places(text, wanted):
        assert "".join(text[start:end].split()) == "".join(wanted.split())
        assert text[start:end] == text[start:end].strip()
    fit_replacement(text, wanted, "new\n\ttext")
