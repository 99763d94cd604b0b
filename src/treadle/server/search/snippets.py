"""What a hit shows: some words around what was found, and which of them it was. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from treadle.server.search.query import Query, QueryPhrase
from treadle.server.search.tokenizer import COMMIT_SIGN, Word, split_words

SNIPPET_WORDS: Final = 20
WORDS_BEFORE: Final = 5
SNIPPET_LENGTH_MAX: Final = 400
"""Characters: words may have very much between them that is none."""

Range: TypeAlias = tuple[int, int]


def make_snippet(content: str, query: Query) -> tuple[str, tuple[Range, ...]]:
    """The best place of a text that fits a query, on one line, and the ranges that were found.

    That is where most of the query's terms stand close together; of equals the first.

    Args:
        content: a part as it is stored (`SearchTextPart`).
        query: what was looked for.

    Returns:
        The words, with `…` where something is left out, and beginnings and ends in them, in
        characters, in order; ranges do not touch.
    """
    words = list(split_words(content))
    found = sorted(
        (first, last, number)
        for number, term in enumerate(query.wanted)
        for phrase in term.phrases
        for first, last in _find_matches(words, content, phrase)
    )
    if not found:
        return _format_snippet(content, 0, min(len(content), SNIPPET_LENGTH_MAX), [])
    first = _find_best_start(found)
    begin = max(0, first - WORDS_BEFORE)
    end = min(len(words), begin + SNIPPET_WORDS)
    start = max(words[begin][1], words[first][1] - SNIPPET_LENGTH_MAX // 4)
    stop = min(words[end - 1][2], start + SNIPPET_LENGTH_MAX)
    spans = [(words[one][1], words[other][2]) for one, other, _ in found]
    return _format_snippet(content, start, stop, spans)


def _find_matches(
    words: Sequence[Word], content: str, phrase: QueryPhrase
) -> Iterator[tuple[int, int]]:
    """Where a phrase stands: its first word and its last."""
    if phrase.words[0].startswith(COMMIT_SIGN):
        if len(words) == 1 and content.startswith(phrase.words[0][1:]):
            yield 0, 0
        return
    *whole, last = phrase.words
    length = len(whole)
    for first in range(len(words) - length):
        said = words[first + length][0]
        if (said.startswith(last) if phrase.is_prefix else said == last) and all(
            words[first + nth][0] == word for nth, word in enumerate(whole)
        ):
            yield first, first + length


def _find_best_start(matches: Sequence[tuple[int, int, int]]) -> int:
    """The word at which the snippet with most terms begins."""
    best, most, ahead = matches[0][0], 0, 0
    terms: dict[int, int] = {}
    for first, _, number in matches:
        while ahead < len(matches) and matches[ahead][1] < first - WORDS_BEFORE + SNIPPET_WORDS:
            terms[matches[ahead][2]] = terms.get(matches[ahead][2], 0) + 1
            ahead += 1
        if len(terms) > most:
            best, most = first, len(terms)
        if number in terms:
            terms[number] -= 1
            if not terms[number]:
                del terms[number]
    return best


def _format_snippet(
    content: str, start: int, stop: int, spans: Iterable[Range]
) -> tuple[str, tuple[Range, ...]]:
    """A piece of the text, its white space as single spaces, and the spans that begin in it."""
    pieces, length = ["…"] if start else [], 1 if start else 0
    place = start
    ranges: list[Range] = []
    for first, last in _merge_ranges(spans):
        if start <= first < stop:
            before = _collapse_spaces(content[place:first])
            inner = _collapse_spaces(content[first : min(last, stop)])
            length += len(before)
            ranges.append((length, length + len(inner)))
            length += len(inner)
            pieces += before, inner
            place = min(last, stop)
    pieces.append(_collapse_spaces(content[place:stop]).rstrip())
    return "".join(pieces) + ("…" if stop < len(content) else ""), tuple(ranges)


def _collapse_spaces(piece: str) -> str:
    """With single spaces for white space, also at the ends."""
    if not piece:
        return ""
    inner = " ".join(piece.split())
    if not inner:
        return " "
    return f"{' ' if piece[0].isspace() else ''}{inner}{' ' if piece[-1].isspace() else ''}"


def _merge_ranges(spans: Iterable[Range]) -> list[Range]:
    """Ranges that touch are one: the characters of an unspaced script are words of their own."""
    found: list[Range] = []
    for start, end in sorted(spans):
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
