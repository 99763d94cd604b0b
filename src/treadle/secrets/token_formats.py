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
_PARTS: Final = ("_", ".", ":", "-", "")
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


def find_shapes(
    text: str, values: Mapping[str, str] | None = None, *, has_rules: bool = True
) -> list[Shape]:
    """All tokens in a text that are known by their format, in order; they may overlap.

    What only stands for a token (`ghp_xxxx`, documentation) is none.

    Args:
        text: what is looked through.
        values: known secrets and their kinds; they too are found in what base64 and percent signs
            hide, and only there.
        has_rules: whether formats are looked for.
    """
    data = text.encode("utf-8", "surrogatepass")
    long_words = _LONG_WORD.findall(b" " + data.translate(_APART))
    words = b"".join(long_words)
    found: list[Shape] = []
    if has_rules:
        # In code most long words stand many times.
        different = long_words if len(long_words) < _FEW else list(dict.fromkeys(long_words))
        literals = _plain_literals(text, different, _names(data, words))
        found += _find(text, literals) if literals else ()
    hidden = glimpse(words, data)
    for decoded, views in zip((hidden.base64, hidden.percent, hidden.dumps), VIEWS, strict=True):
        if decoded:
            literals = [one for one in _LITERALS if one in decoded] if has_rules else []
            known = {one: kind for one, kind in (values or {}).items() if one in decoded}
            found += _find_hidden(text, views, literals, known) if literals or known else ()
    return sorted(set(found)) if found else found


def _plain_literals(text: str, long_words: Sequence[bytes], names: str) -> list[str]:
    """Which literals of the rules stand in a text as they are.

    Args:
        text: the text.
        long_words: its long words, each with a space before it.
        names: what stands before its values.
    """
    words = b"".join(long_words).decode("ascii")
    whole = b"".join([one for one in long_words if len(one) > WHOLE_LENGTH_MIN]).decode("ascii")
    plain = [
        one
        for where, by_part in ((text, _IN_TEXT_BY_PART), (words, _IN_WORD_BY_PART))
        for part, literals in by_part.items()
        if part in where
        for one in literals
        if one in where
    ]
    plain += [one for one in _IN_WHOLE_WORD if one in whole] if whole else ()
    return plain + [one for one in _IN_NAME if one in names] if names else plain


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
    text: str,
    views: Callable[[bytes], Iterator[DecodedText | Dump]],
    literals: Iterable[str],
    values: Mapping[str, str],
) -> Iterator[Shape]:
    """What stands in one of `VIEWS`: tokens, and known values with their kinds."""
    # One byte for each character: what is beyond ASCII stands in none of them.
    for view in views(text.encode("ascii", "replace")):
        here = [one for one in literals if one in view.text]
        for shape in _find(view.text, here) if here else ():
            yield Shape(*view.place(shape.start, shape.end), shape.kind)
        for value, kind in values.items():
            for found in re.finditer(re.escape(value), view.text):
                yield Shape(*view.place(*found.span()), kind)


def _find(text: str, literals: Iterable[str]) -> Iterator[Shape]:
    wanted = frozenset(literals)
    for rule in RULES:
        for literal in rule.literals:
            if literal in wanted:
                yield from _find_one(text, rule, literal)


def _find_one(text: str, rule: TokenRule, literal: str) -> Iterator[Shape]:
    """The tokens of a rule that have one of its literals."""
    tries = UNWRAPPED_COUNT_MAX if rule.can_wrap else 0
    place, line_end = text.find(literal), -1
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
        place = text.find(literal, max(place + 1, done, span[1] if span else 0))


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

    Args:
        text: where it stands.
        rule: whose it is.
        start: where it begins.
        literal_length: characters of the literal.
        span: what was found without leaving the line. What stands on the next one may be another
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
