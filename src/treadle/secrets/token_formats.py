"""The second net: tokens that nobody told this machine of, known by their format alone.

A text is looked at in two steps. The first costs little and finds nothing in almost every text: its
long words are looked through for the literals of all rules, as they stand and as base64 and percent
signs hide them. Only where literals stand, the patterns of their rules are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from treadle.secrets.byte_dumps import Dump
from treadle.secrets.encoded_secrets import (
    VIEWS,
    WRAPPED_LENGTH_MAX,
    DecodedText,
    glimpse,
    unwrapped,
)
from treadle.secrets.placeholders import is_placeholder, is_sample
from treadle.secrets.token_rules import NAME_DISTANCE_MAX, RULES, TokenRule, is_mixed, may_begin

WORD_LENGTH_MIN: Final = 16
"""Characters of a word that may hold a token, or the first line of one that was cut."""

WHOLE_LENGTH_MIN: Final = 32
"""Characters of a token that no line end stands in, where it is not known by a name before it."""

VALUE_LENGTH_MIN: Final = 27
"""Characters, in one piece, of a value that is known by its name."""

UNWRAPPED_COUNT_MAX: Final = 1_000
"""So often in a text it is tried whether a token was cut into lines."""

_FEW: Final = 100
"""Words; to see which of them are different costs more than it saves then."""

_IN_WORDS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=~:$%"
_APART: Final = bytes(one if one in _IN_WORDS else 32 for one in range(256))
_LITERALS: Final = tuple(dict.fromkeys(one for rule in RULES for one in rule.literals))
_IN_TEXT: Final = frozenset(one for rule in RULES if rule.is_whole for one in rule.literals)
_IN_NAME: Final = tuple(
    dict.fromkeys(one for rule in RULES if rule.is_named for one in rule.literals)
)


def _by_part(literals: Iterable[str], parts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Literals by the first of some parts that they have: what lacks a part has none of them."""
    return {
        part: found
        for part in parts
        if (
            found := tuple(
                one for one in literals if next(each for each in parts if each in one) == part
            )
        )
    }


_IN_TEXT_BY_PART: Final = _by_part(_IN_TEXT, ("://", ":\\/", ":\\\\/", ""))
_IN_PIECES: Final = frozenset(one for rule in RULES if rule.can_wrap for one in rule.literals)
_IN_WORD: Final = tuple(one for one in _LITERALS if one not in _IN_TEXT and one not in _IN_NAME)
_PARTS: Final = ("sk-", "xox", "gl", "k_", "shp", "fig", "gh", "tr", "dp.", "_", ".", ":", "-", "")
_IN_WORD_BY_PART: Final = _by_part([one for one in _IN_WORD if one in _IN_PIECES], _PARTS)
_IN_WHOLE_WORD: Final = tuple(one for one in _IN_WORD if one not in _IN_PIECES)
# To begin with a space makes it twice as fast: of a short word no other character is tried.
_LONG_WORD: Final = re.compile(rb" [^ ]{%d,}+" % WORD_LENGTH_MIN)
_VALUE: Final = re.compile(rb"[A-Za-z0-9+/_-]{%d,}+" % VALUE_LENGTH_MIN)


class Shape(Struct, frozen=True, order=True):
    """A secret in a text: from `start` to `end`, both in characters, and its kind."""

    start: int
    end: int
    kind: str


class LongWords(Struct, frozen=True):
    """The words of a text that are long enough for a secret: what both nets look at first.

    `data` and `ascii` have `?` for each character of the text beyond ASCII. `words` have a space
    before each, and are in order; `different` has each of them once at least.
    """

    data: bytes
    ascii: str
    words: list[bytes]
    different: str


def find_long_words(text: str) -> LongWords:
    """Its runs of `WORD_LENGTH_MIN` characters and more that `is_in_words` is true of."""
    data = text.encode("ascii", "replace")
    words = _LONG_WORD.findall(b" " + data.translate(_APART))
    # In code most long words stand many times.
    different = b"".join(words if len(words) < _FEW else dict.fromkeys(words))
    # A text with other characters takes two or four bytes for each, and as much longer to read.
    ascii_text = text if text.isascii() else data.decode("ascii")
    return LongWords(data, ascii_text, words, different.decode("ascii"))


def is_in_words(value: str) -> bool:
    """Whether a value can stand only in the long words of a text: one without spaces or quotes."""
    return (
        len(value) >= WORD_LENGTH_MIN
        and value.isascii()
        and not value.encode("ascii").translate(None, _IN_WORDS)
    )


def find_shapes(
    text: str,
    values: Mapping[str, str] | None = None,
    *,
    has_rules: bool = True,
    long_words: LongWords | None = None,
) -> list[Shape]:
    """All tokens in a text that are known by their format, in order; they may overlap.

    What only stands for a token (`ghp_xxxx`, documentation) is none.

    Args:
        text: what is looked through.
        values: known secrets and their kinds; they too are found in what base64 and percent signs
            hide, and only there.
        has_rules: whether formats are looked for.
        long_words: those of the text, if they are known already.
    """
    found_words = find_long_words(text) if long_words is None else long_words
    data, plain, words = found_words.data, found_words.ascii, b"".join(found_words.words)
    found: list[Shape] = []
    if has_rules:
        whole = b"".join([one for one in found_words.words if len(one) > WHOLE_LENGTH_MIN])
        names = _names(data, words)
        in_text, in_words, in_whole = _plain_literals(plain, found_words.different, whole, names)
        found += _find(text, plain, in_text, [(0, len(text))]) if in_text else ()
        for literals, some in ((in_words, words), (in_whole, whole)):
            shapes = _find(text, plain, literals, _spans(data, some, literals)) if literals else ()
            if any(shapes):  # beside a token another one may stand whose first line is short
                found += _find(text, plain, literals, [(0, len(text))])
    hidden = glimpse(words, found_words.different, data)
    for decoded, views in zip((hidden.base64, hidden.percent, hidden.dumps), VIEWS, strict=True):
        if decoded:
            literals = [one for one in _LITERALS if one in decoded] if has_rules else []
            known = {one: kind for one, kind in (values or {}).items() if one in decoded}
            found += _find_hidden(data, views, literals, known) if literals or known else ()
    return sorted(set(found)) if found else found


def _spans(data: bytes, words: bytes, literals: Iterable[str]) -> list[tuple[int, int]]:
    """From where to where those of some words stand in their text that have one of some literals.

    Args:
        data: the text.
        words: its long words, all or the longest of them, each with a space before it.
        literals: what stands in at least one of them.
    """
    places: set[tuple[int, int]] = set()
    for literal in literals:
        wanted = literal.encode("ascii")
        place = words.find(wanted)
        while place >= 0:
            end = words.find(b" ", place)
            end = len(words) if end < 0 else end
            places.add((words.rfind(b" ", 0, place) + 1, end))
            place = words.find(wanted, end)
    found: list[tuple[int, int]] = []
    end = 0
    for first, last in sorted(places):
        # A longer word with this one in it has the literal as well: none is passed over.
        start = data.find(words[first:last], end)
        end = start + last - first
        found.append((start, end))
    return found


def _plain_literals(
    text: str, words: str, whole: bytes, names: str
) -> tuple[list[str], list[str], list[str]]:
    """Which literals of the rules stand in a text or `names`, in its long words, in the longest."""
    in_text = _list_literals(text, _IN_TEXT_BY_PART)
    in_text += [one for one in _IN_NAME if one in names] if names else ()
    in_words = _list_literals(words, _IN_WORD_BY_PART) if words else []
    longest = whole.decode("ascii")
    return in_text, in_words, [one for one in _IN_WHOLE_WORD if one in longest] if longest else []


def _list_literals(text: str, by_part: Mapping[str, Sequence[str]]) -> list[str]:
    """Which of some literals, as `_by_part` has them, stand in a text."""
    return [
        one for part, literals in by_part.items() if part in text for one in literals if one in text
    ]


def _names(data: bytes, words: bytes) -> str:
    """What stands before the values in a text that may be secrets if their names say so."""
    found: list[bytes] = []
    place = 0
    for value in _VALUE.findall(words):
        if not value.isalpha() and not value.isdigit():
            place = data.find(value, place)
            found.append(data[max(0, place - NAME_DISTANCE_MAX) : place])
            place += len(value)
    return b"\0".join(found).decode("latin-1")


def _find_hidden(
    data: bytes,
    views: Callable[[bytes], Iterator[DecodedText | Dump]],
    literals: Iterable[str],
    values: Mapping[str, str],
) -> Iterator[Shape]:
    """What stands in one of `VIEWS`: tokens, and known values with their kinds."""
    # What is beyond ASCII stands in none of them.
    for view in views(data):
        here = [one for one in literals if one in view.text]
        for shape in _find(view.text, view.text, here, [(0, len(view.text))]) if here else ():
            yield Shape(*view.place(shape.start, shape.end), shape.kind)
        for value, kind in values.items():
            for found in re.finditer(re.escape(value), view.text):
                yield Shape(*view.place(*found.span()), kind)


def _find(
    text: str, plain: str, literals: Iterable[str], spans: Sequence[tuple[int, int]]
) -> Iterator[Shape]:
    """The tokens that have one of some literals in some spans, in order; `plain` as `ascii` is."""
    wanted = frozenset(literals)
    for rule in RULES:
        for literal in rule.literals:
            if literal in wanted:
                yield from _find_one(text, plain, (rule, literal), spans)


def _find_one(
    text: str, plain: str, wanted: tuple[TokenRule, str], spans: Sequence[tuple[int, int]]
) -> Iterator[Shape]:
    """The tokens of a rule that have one of its literals."""
    rule, literal = wanted
    tries = UNWRAPPED_COUNT_MAX if rule.can_wrap else 0
    next_place, line_end = 0, -1
    for first, last in spans:
        place = plain.find(literal, max(first, next_place), last)
        while place >= 0:
            start = _start(text, rule, place)
            done, span = _match(text, rule, start, len(literal))
            if tries and line_end < done:
                line_end = _line_end(text, done)
            # It may end in the token, or right behind it.
            if tries and line_end <= (done if span else start + WRAPPED_LENGTH_MAX):
                tries -= 1
                span = _match_unwrapped(text, rule, start, len(literal), span)
            if span is not None:
                yield Shape(*span, rule.kind)
            next_place = max(place + 1, done, span[1] if span else 0)
            place = plain.find(literal, next_place, last)


def _start(text: str, rule: TokenRule, place: int) -> int:
    """Where the token begins that has a literal of the rule at this place."""
    start, floor = place, max(0, place - rule.head_length_max)
    head = rule.head_characters
    while start > floor and text[start - 1] in head:
        start -= 1
    return start


def _line_end(text: str, start: int) -> int:
    """The next place where a line may end, as an escape too; what is far away is only so far."""
    end = start + 2 * WRAPPED_LENGTH_MAX
    plain, escaped = text.find("\n", start, end), text.find("\\", start, end)
    return min(plain if plain >= 0 else end, escaped if escaped >= 0 else end)


def _match(
    text: str, rule: TokenRule, start: int, literal_length: int
) -> tuple[int, tuple[int, int] | None]:
    """How far the rule has looked, and where the secret stands that it finds, if it finds one."""
    found = rule.pattern.match(text, start)
    if found is None:
        return start, None
    group = "s" if "s" in found.re.groupindex else 0
    secret = found[group]
    body = secret if group else secret[literal_length:]
    is_token = rule.is_right(secret) and not is_sample(secret)
    if not is_token or (not rule.is_long and is_placeholder(body)):
        return found.end(), None
    return found.end(), found.span(group)


def _match_unwrapped(
    text: str, rule: TokenRule, start: int, literal_length: int, span: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The same for a token that has line ends in it, which are not its own.

    `span` is what was found without leaving the line. What stands on the next one may be another
    thing then: it must look like more of a token.
    """
    view = unwrapped(text, start)
    # What stands before it decides as ever whether it may begin here.
    if view is None or (span is None and not may_begin(text, start)):
        return span
    _, longer = _match(view.text, rule, 0, literal_length)
    if longer is None:
        return span
    if span is not None:
        added, after = view.text[span[1] - start : longer[1]], view.text[longer[1] : longer[1] + 1]
        if not is_mixed(added) or after in ("=", ":"):
            return span
    return view.place(*longer)
