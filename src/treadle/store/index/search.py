"""What a person types to find something, and what is found."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from msgspec import Struct

from treadle.errors import UsageError
from treadle.store.index.schema import SEPARATOR, make_searchable
from treadle.thread.document import ThreadSummary
from treadle.thread.search_texts import SearchTextKind

TERM_COUNT_MAX: Final = 64
HEX_DIGITS_MIN: Final = 4
"""So many digits of a hash are enough to look for commits; git asks for as many."""
ID_DIGITS_MIN: Final = 8
"""Ids begin with their time: all of a week share fewer digits."""

WEIGHTS: Final = (
    (SearchTextKind.TITLE, 8.0),
    (SearchTextKind.TAG, 8.0),
    (SearchTextKind.NOTE, 6.0),
    (SearchTextKind.PROMPT, 4.0),
    (SearchTextKind.COMMIT, 4.0),
    (SearchTextKind.PLACE, 2.0),
    (SearchTextKind.ANSWER, 2.0),
    (SearchTextKind.CALL, 1.2),
    (SearchTextKind.OTHER, 0.5),
)
"""What people say counts for more than what tools print, which is 1."""

SNIPPET_WORDS: Final = 20
MARK_START: Final = "\x02"
MARK_END: Final = "\x03"
"""Around what was found, within SQL. No text in the index holds them."""

_TERM: Final = re.compile(r'(-?)(?:"([^"]*)(?:"|\Z)|([^\s"]+))(\*?)')
_HEX: Final = re.compile(r"[0-9a-f]+", re.IGNORECASE | re.ASCII)
_ID: Final = re.compile(r"(T-)?([0-9a-f][0-9a-f-]*)", re.IGNORECASE | re.ASCII)
_MARKS: Final = re.compile(f"[{MARK_START}{MARK_END}]")


class IndexQuery(Struct, frozen=True):
    """What to look for.

    `expression` is in the language of FTS5; `thread` is the beginning of an id, if the text can be
    one, otherwise empty.
    """

    expression: str
    thread: str = ""


class Hit(Struct, frozen=True):
    """A thread in which something was found, and the best place in it.

    `version` is the record that says it, `kind` what it is: `title`, `tag`, `note`, `prompt`,
    `answer`, `call`, `output`, `place`, `commit`, `other`, or `id`. `ranges` are the words that
    were looked for, as beginnings and ends in `snippet`, in characters. `count` is how many texts
    of the thread have all of them; a higher `score` is a better hit of the same search.
    """

    thread: ThreadSummary
    version: int
    kind: str
    snippet: str
    ranges: tuple[tuple[int, int], ...]
    count: int
    score: float


def parse_query(text: str) -> IndexQuery:
    """What a person typed: words, `"phrases"`, `prefix*`, `-excluded`.

    All words must stand in one text: a message, a title, a result. A word of at least
    `HEX_DIGITS_MIN` hex digits may be the beginning of a commit's hash too.

    Raises:
        UsageError: there is nothing to look for.
    """
    wanted: list[str] = []
    unwanted: list[str] = []
    for minus, phrase, word, star in _TERM.findall(text):
        said = make_searchable(phrase or word)
        is_prefix = bool(star) or word.endswith("*")
        if not any(map(_is_word_character, said)):
            continue
        term = _quote(said) + (" *" if is_prefix else "")
        if _HEX.fullmatch(word) and len(word) >= HEX_DIGITS_MIN and not minus:
            term = f"({term} OR {{sha}} : {_quote(word)} *)"
        (unwanted if minus else wanted).append(term)
    if not wanted:
        raise UsageError(
            "there is no word to look for", hint="words are letters and digits of any language"
        )
    if len(wanted) + len(unwanted) > TERM_COUNT_MAX:
        raise UsageError(f"a search takes at most {TERM_COUNT_MAX} words")
    expression = " AND ".join(wanted)
    if unwanted:
        expression = f"({expression}) NOT ({' OR '.join(unwanted)})"
    return IndexQuery(expression, _parse_thread_prefix(text.strip()))


def _parse_thread_prefix(text: str) -> str:
    found = _ID.fullmatch(text)
    if found is None or not (found[1] or len(found[2]) >= ID_DIGITS_MIN):
        return ""
    return f"T-{found[2].lower()}"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _is_word_character(character: str) -> bool:
    """As `unicode61` has it."""
    category = unicodedata.category(character)
    return category[0] in "LN" or category == "Co"


def extract_marks(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A snippet on one line without its marks, and where they stood."""
    text = " ".join(text.replace(SEPARATOR, "").split())
    ranges: list[tuple[int, int]] = []
    pieces: list[str] = []
    length = start = 0
    for piece in _MARKS.split(text):
        pieces.append(piece)
        if len(pieces) % 2 == 0:  # what stands between a start and an end
            start = length
            ranges.append((start, start + len(piece)))
        length += len(piece)
    return "".join(pieces), _merge_ranges(ranges)


def _merge_ranges(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges that touch are one: the characters of an unspaced script are words of their own."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return tuple(found)
