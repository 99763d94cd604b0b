"""Why a text that was to be replaced is not in the file: the cause, and the lines that were meant.

Each cause is a mistake that models make. They are looked for in the order of `_CAUSES`: what names
the mistake for sure comes first, the line that differs last.
"""

from __future__ import annotations

import difflib
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from treadle.tools.shown_lines import LINE_COUNT_MAX, list_around, show_lines
from treadle.tools.white_space import PLACE_COUNT_MAX, SEARCH_SIZE_MAX, TextSpan, find_places

COMPARED_COUNT_MAX: Final = 2000
"""Lines compared to find the one that was meant; comparing so many takes up to half a second."""
COMPARED_SIZE_MAX: Final = 80
"""Characters of a line that are compared."""
QUOTED_SIZE_MAX: Final = 120
"""Characters quoted of a line that differs."""
TEXT_SIZE_MAX: Final = 200_000
"""Characters of a text whose cause is looked for."""

_NUMBERED: Final = re.compile(r"\s*\d+(?:\t|→|: ?| ?\| ?|-(?=\s))|\s*L\d+: ?|\s*\d+\Z")
_ELLIPSIS: Final = re.compile(
    r"\s*(?:#|//|/\*|<!--|--|;)?\s*(?:\[?(?:\.\.\.|…)\]?)[^\n]{0,80}\Z|"
    r"\s*(?:#|//|/\*|<!--)\s*[^\n]{0,40}(?:existing|rest of|unchanged|same as before)[^\n]{0,60}\Z",
    re.IGNORECASE,
)
_DIFFED: Final = re.compile(r"[-+ ]")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)\w*\s*\Z")
_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u2026": "...",
    }
)


class MissingCause(NamedTuple):
    """Why the text is not there, in words, and the numbers of the lines that were meant."""

    words: str
    numbers: Sequence[int] = ()


class Missing(NamedTuple):
    """A text that is not in a file: the file as it stands, and what was to be replaced by what.

    `new_name` is what the model calls the last.
    """

    text: str
    old: str
    new: str
    new_name: str = "new_str"


def find_cause(missing: Missing) -> MissingCause:
    """The cause that is named for it."""
    if not missing.text:
        return MissingCause("the file is empty")
    if len(missing.text) <= SEARCH_SIZE_MAX and len(missing.old) <= TEXT_SIZE_MAX:
        for look in _CAUSES:
            if (found := look(missing)) is not None:
                return found
    return MissingCause("nothing in it is like it")


def show_cause(missing: Missing, cause: MissingCause) -> str:
    """The lines that were meant, as the file has them."""
    return show_lines(missing.text.split("\n"), cause.numbers)


def locate(text: str, wanted: str) -> list[TextSpan]:
    """Where it stands: exactly, else but for its white space."""
    if not wanted.strip():
        return []
    if (at := text.find(wanted)) >= 0:
        return [TextSpan(at, at + len(wanted))]
    return find_places(text, wanted)


def _lines_at(text: str, places: Iterable[TextSpan]) -> list[int]:
    """The numbers of the lines of one place, or of the first lines of several."""
    found = [*places]
    first = [text.count("\n", 0, place.start) + 1 for place in found]
    if len(found) != 1:
        return first[:LINE_COUNT_MAX]
    count = text.count("\n", found[0].start, found[0].end) + 1
    return [*range(first[0], first[0] + min(count, LINE_COUNT_MAX))]


def _number(text: str, place: TextSpan) -> int:
    return text.count("\n", 0, place.start) + 1


# ---- what was written instead --------------------------------------------------------------------


def _undo_escapes(old: str) -> Iterator[tuple[str, str]]:
    """What was meant, if escapes were written twice, or not at all; and what is wrong then."""
    plain = re.sub(
        r"\\(n|t|r|\"|'|\\)",
        lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]),
        old,
    )
    if plain != old:
        named = [mark for mark in (r"\n", r"\t", r"\"", r"\'") if mark in old]
        words = f"it has {' and '.join(named)} as a backslash and a letter"
        is_double = r"\\" in old or not named
        yield plain, "it has backslashes twice" if is_double else f"{words}, not as the character"
    broken = re.sub(r"(?<=\S)\n(?=\S)", r"\\n", old)
    if broken != old:
        yield broken, r"it has a line break where the file has \n as a backslash and a letter"


def _strip_prefixes(old: str) -> Iterator[tuple[str, str]]:
    lines = old.split("\n")
    filled = [line for line in lines if line.strip()]
    if filled and all(map(_NUMBERED.match, filled)):
        plain = "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)
        yield plain, "its lines begin with line numbers, which are not in the file"
    if len(filled) > 1 and all(map(_FENCE.match, (filled[0], filled[-1]))):
        inner = "\n".join(lines).strip().split("\n")[1:-1]
        yield "\n".join(inner), "it stands in a Markdown fence, which is not in the file"
    if filled and all(map(_DIFFED.match, filled)) and re.search(r"^[-+]", old, re.MULTILINE):
        kept = [line[1:] for line in lines if not line.startswith("+")]
        yield "\n".join(kept), "its lines begin with the marks of a diff, which are not in the file"
    arrows = [line.lstrip().removeprefix(">").removeprefix("|") for line in lines]
    if filled and all(line.lstrip().startswith((">", "|")) for line in filled):
        yield (
            "\n".join(arrows),
            "its lines begin with marks of a quotation, which are not in the file",
        )


def _undo_entities(old: str) -> Iterator[tuple[str, str]]:
    plain = html.unescape(old)
    if plain != old:
        yield plain, "it has &lt;, &amp; and the like where the file has the characters"


_REWRITINGS: Final[Sequence[Callable[[str], Iterator[tuple[str, str]]]]] = (
    _undo_escapes,
    _strip_prefixes,
    _undo_entities,
)


def _name_rewriting(missing: Missing) -> MissingCause | None:
    for rewrite in _REWRITINGS:
        for plain, words in rewrite(missing.old):
            if places := locate(missing.text, plain):
                return MissingCause(words, _lines_at(missing.text, places))
    return None


# ---- what the file has instead -------------------------------------------------------------------


def _name_white_space(missing: Missing) -> MissingCause | None:
    places = find_places(missing.text, missing.old)
    if not places:
        return None
    numbers = _lines_at(missing.text, places)
    if len(places) > 1:
        more = ", ..." if len(places) >= PLACE_COUNT_MAX else ""
        named = ", ".join(str(_number(missing.text, one)) for one in places)
        return MissingCause(
            f"but for white space it stands there more than once (lines {named}{more}): copy the "
            "white space of the one that is meant, and lines around it",
            numbers,
        )
    kinds = _compare_indents(missing, places[0])
    return MissingCause(f"it differs in white space from {_name_lines(numbers)}{kinds}", numbers)


def _compare_indents(missing: Missing, place: TextSpan) -> str:
    start = missing.text.rfind("\n", 0, place.start) + 1
    there = missing.text[start : place.end]
    has_tabs = re.search(r"^ *\t", there, re.MULTILINE) is not None
    wrote_tabs = re.search(r"^ *\t", missing.old, re.MULTILINE) is not None
    if has_tabs != wrote_tabs:
        there, wrote = ("tabs", "spaces") if has_tabs else ("spaces", "tabs")
        return f", which have {there} where it has {wrote}"
    return ", and its indentation fits in more than one way: copy it from there"


def _name_done(missing: Missing) -> MissingCause | None:
    new = missing.new.strip("\n")
    if len(new.strip()) < 8 or new in missing.old:
        return None
    places = locate(missing.text, new)
    if len(places) != 1:
        return None
    numbers = _lines_at(missing.text, places)
    return MissingCause(
        f"{missing.new_name} stands there already ({_name_lines(numbers)}): the edit seems to be "
        "made",
        numbers,
    )


def _name_ellipsis(missing: Missing) -> MissingCause | None:
    text, lines = missing.text, missing.old.split("\n")
    for index, line in enumerate(lines):
        if _ELLIPSIS.match(line) is None or _stands(text, line):
            continue
        before, after = (
            "\n".join(part).strip("\n") for part in (lines[:index], lines[index + 1 :])
        )
        first = locate(text, before)[:1]
        end = first[0].end if first else 0
        rest = text[end:]
        second = [TextSpan(end + one.start, end + one.end) for one in locate(rest, after)[:1]]
        last = [_number(text, TextSpan(one.end - 1, one.end)) for one in first]
        next_ = [_number(text, one) for one in second]
        where = f": those between lines {last[0]} and {next_[0]}" if last and next_ else ""
        return MissingCause(
            f"line {index + 1} of it ({_quote(line)}) stands for lines that were left out{where}; "
            "write them as they are, or make two edits",
            [*(n for one in last for n in range(one, one + 3)), *(n for n in next_)],
        )
    return None


def _stands(text: str, line: str) -> bool:
    return re.search(rf"^\s*{re.escape(line.strip())}\s*$", text, re.MULTILINE) is not None


def _name_look_alike(missing: Missing) -> MissingCause | None:
    """Letters that look the same: quotes, dashes, spaces, wide forms; or their case."""
    text, old = _simplify(missing.text), _simplify(missing.old)
    for fold, words in (
        (str, "has other characters that look alike (quotes, dashes, spaces)"),
        (html.unescape, "has &lt;, &amp; and the like for the characters"),
        (str.lower, "writes letters in another case"),
    ):
        if places := locate(fold(text), fold(old)):
            numbers = _lines_at(text, places)
            return MissingCause(f"the file {words} in {_name_lines(numbers)}", numbers)
    return None


def _simplify(text: str) -> str:
    """The text with characters that look alike made one; its lines stay."""
    lines = unicodedata.normalize("NFKC", text.translate(_ALIKE)).split("\n")
    return "\n".join(lines)


def _name_difference(missing: Missing) -> MissingCause | None:
    """The first line that differs, in the part of the file that is most like the text."""
    wanted = [line for line in missing.old.split("\n") if line.strip()]
    there = missing.text.split("\n")
    filled = [number for number, line in enumerate(there, 1) if line.strip()]
    plain = [there[number - 1].strip() for number in filled]
    if not wanted:
        return None
    start = _find_likest(plain, [line.strip() for line in wanted])
    if start is None:
        return None
    for offset, line in enumerate(wanted):
        index = start + offset
        if not 0 <= index < len(plain):
            return MissingCause(
                f"line {offset + 1} of it ({_quote(line)}) would be beyond the file's end",
                filled[-LINE_COUNT_MAX:],
            )
        if plain[index] != line.strip():
            number = filled[index]
            which = "it" if len(wanted) == 1 else f"line {offset + 1} of it"
            return MissingCause(
                f"{which} differs from line {number}: {_explain(line.strip(), plain[index])}",
                [*list_around(number)],
            )
    return MissingCause(
        "its lines are there, with others between them", [*list_around(filled[start])]
    )


def _find_likest(plain: list[str], wanted: list[str]) -> int | None:
    """Where in the lines of the file the text would have to begin; `None` if nothing is like it.

    Lines that are the same in both vote for a place; else the line most like the longest one says.
    """
    at: dict[str, list[int]] = {}
    for index, line in enumerate(plain):
        at.setdefault(line, []).append(index)
    votes: dict[int, int] = {}
    for offset, line in enumerate(wanted):
        for index in at.get(line, ())[:50]:
            # A brace alone says little of where one is.
            votes[index - offset] = votes.get(index - offset, 0) + min(len(line), 40)
    if votes:
        best = max(votes, key=lambda place: (votes[place], -place))
        if votes[best] >= 8:
            return best
    for offset in sorted(range(len(wanted)), key=lambda one: -len(wanted[one]))[:2]:
        shown = [line[:COMPARED_SIZE_MAX] for line in plain[:COMPARED_COUNT_MAX]]
        near = difflib.get_close_matches(wanted[offset][:COMPARED_SIZE_MAX], shown, n=1)
        if near:
            return shown.index(near[0]) - offset
    return None


def _explain(wrote: str, there: str) -> str:
    """Where two lines begin to differ, quoted from there if they are long."""
    same = 0
    while same < min(len(wrote), len(there)) and wrote[same] == there[same]:
        same += 1
    start = max(0, same - QUOTED_SIZE_MAX // 3)
    return f"the file has {_quote(there, start)} where it has {_quote(wrote, start)}"


def _quote(line: str, start: int = 0) -> str:
    part = line.strip()[start : start + QUOTED_SIZE_MAX]
    left = "..." if start else ""
    right = "..." if len(line.strip()) > start + QUOTED_SIZE_MAX else ""
    return f"`{left}{part}{right}`"


def _name_lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {numbers[0]}-{numbers[-1]}"


_CAUSES: Final[Sequence[Callable[[Missing], MissingCause | None]]] = (
    _name_rewriting,
    _name_white_space,
    _name_done,
    _name_look_alike,
    _name_ellipsis,
    _name_difference,
)
