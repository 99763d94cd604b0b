r"""What else a pattern or a glob may have been meant as, if it finds nothing as it stands. Pure.

Models write the patterns of grep (`A\|B`), of editors (over several lines), and plain code with
brackets in it. "No matches" would be true of the words and false of what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

SHOWN_SIZE: Final = 200
"""Characters of a pattern that a remark repeats."""

_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|(?P<members>\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\])|(?P<other>.)", re.DOTALL
)
_POSIX: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:blank:]": r" \t",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:punct:]": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
}
_SWAPPED: Final = frozenset("|(){}+?")
"""What grep takes for itself without a backslash, and for an operator with one."""
_META: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")
_LINE_END: Final = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?[a-zA-Z]*s|\[\\[sdw]\\[SDW]\]")
_SEPARATOR: Final = re.compile(r"[,;|\s]+(?![^{]*\})")


class Variant(Struct, frozen=True):
    """A reading of a pattern.

    `name` says in a few words which, empty for the pattern as it stands. With `spans_lines` it is
    matched with whole files and not with single lines.
    """

    pattern: str
    name: str = ""
    spans_lines: bool = False


def list_variants(pattern: str) -> Iterator[Variant]:
    """The pattern as it stands, then what else it may mean, the likeliest first."""
    yield Variant(pattern)
    if _LINE_END.search(pattern):
        yield Variant(pattern, "over several lines", spans_lines=True)
    seen = {pattern}
    # `def f\(\|class A` has escaped what grep does not want escaped; `\(a\|b\)` is grep's own.
    readings = [_read_loosely(pattern), _read_as_grep(pattern)]
    for one in reversed(readings) if r"\(" in pattern else readings:
        if one not in seen:
            seen.add(one)
            yield Variant(one, f"read as grep reads it: {shorten(one)}")
    if _META.search(pattern):
        yield Variant(escape_text(pattern), "as plain text")


def compile_pattern(pattern: str) -> re.Pattern[str] | str:
    """The regular expression, or why it is none."""
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)


def escape_text(text: str) -> str:
    """A pattern for this very text, in the syntax of Python and of ripgrep."""
    return _META.sub(r"\\\1", text)


def shorten(text: str) -> str:
    """The text on one line, cut if it is long."""
    line = text.replace("\n", r"\n")
    return line if len(line) <= SHOWN_SIZE else f"{line[:SHOWN_SIZE]}..."


def list_globs(glob: str, start: str) -> Iterator[str]:
    """What else a glob may mean that fits no file.

    Several in one (`*.py,*.md`), braces around one (`*.{py}`), and one that is relative to the
    workspace although it is for a folder in it.

    Args:
        glob: as it was given.
        start: the folder to which it is relative.
    """
    parts = [part for part in _SEPARATOR.split(glob.strip()) if part]
    if len(parts) > 1:
        yield f"{{{','.join(parts)}}}"
    elif only := re.fullmatch(r"([^{}]*)\{([^{},]+)\}([^{}]*)", glob):
        yield "".join(only.groups())
    if glob.removeprefix("./").startswith(f"{start}/"):
        yield glob.removeprefix("./").removeprefix(f"{start}/")


def _read_loosely(pattern: str) -> str:
    r"""Python's syntax with grep's `\|`, `\<`, `\>` and classes such as `[[:space:]]`."""
    return "".join(
        _loose(token["escaped"], token["members"], token.group())
        for token in _TOKEN.finditer(pattern)
    )


def _loose(escaped: str | None, members: str | None, whole: str) -> str:
    if escaped == "|":
        return "|"
    if escaped in ("<", ">"):
        return r"\b"
    if members is not None:
        for name, meaning in _POSIX.items():
            whole = whole.replace(name, meaning)
    return whole


def _read_as_grep(pattern: str) -> str:
    r"""The pattern as grep has it without options; itself without a `\|`, which shows that."""
    tokens = [*_TOKEN.finditer(pattern)]
    if not any(token["escaped"] == "|" for token in tokens):
        return pattern
    found = []
    for token in tokens:
        if token["escaped"] in _SWAPPED:
            found.append(token["escaped"])
        elif token["other"] in _SWAPPED:
            found.append(rf"\{token['other']}")
        else:
            found.append(_loose(token["escaped"], token["members"], token.group()))
    return "".join(found)
