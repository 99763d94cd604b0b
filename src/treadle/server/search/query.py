"""What a person types to find something, as a tree that knows no database. Pure.

The same language as `treadle search` has; any text is one, or holds nothing to look for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from treadle.api.error_codes import ErrorCode
from treadle.server.refusals import Refusal
from treadle.server.search.tokenizer import COMMIT_SIGN, clean_text, split_words
from treadle.store.index.search import HEX_DIGITS_MIN, ID_DIGITS_MIN, TERM_COUNT_MAX

TEXT_LENGTH_MAX: Final = 4096
PHRASE_LENGTH_MAX: Final = 64
"""Words in a phrase: texts are kept in parts that overlap by so many."""

_TERM: Final = re.compile(r'(-?)(?:"([^"]*)(?:"|\Z)|([^\s"]+))(\*?)')
_HEX: Final = re.compile(r"[0-9a-f]{%d,64}" % HEX_DIGITS_MIN, re.IGNORECASE | re.ASCII)  # noqa: UP031
_ID: Final = re.compile(r"(T-)?([0-9a-f][0-9a-f-]*)", re.IGNORECASE | re.ASCII)


class QueryPhrase(Struct, frozen=True):
    """Words that follow each other; the last may be only the beginning of one."""

    words: tuple[str, ...]
    is_prefix: bool = False


class QueryTerm(Struct, frozen=True):
    """One thing to look for; any of its `phrases` will do."""

    phrases: tuple[QueryPhrase, ...]


class Query(Struct, frozen=True):
    """What to look for.

    All `wanted` terms must stand in a text, and none of the `unwanted`. `thread` is the beginning
    of an id, if the text can be one, otherwise empty.
    """

    wanted: tuple[QueryTerm, ...]
    unwanted: tuple[QueryTerm, ...] = ()
    thread: str = ""


def parse_query(text: str) -> Query:
    """What a person typed: words, `"phrases"`, `prefix*`, `-excluded`.

    A word of four or more hex digits may be the beginning of a commit's hash too.

    Raises:
        Refusal: `bad_request`; there is nothing to look for, or too much.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"a search takes at most {TEXT_LENGTH_MAX} characters")
    wanted: list[QueryTerm] = []
    unwanted: list[QueryTerm] = []
    for minus, phrase, word, star in _TERM.findall(clean_text(text)):
        said = tuple(found for found, _, _ in split_words(phrase or word))
        if len(said) > PHRASE_LENGTH_MAX:
            raise Refusal(ErrorCode.BAD_REQUEST, f"a phrase has at most {PHRASE_LENGTH_MAX} words")
        if not said:
            continue
        phrases = [QueryPhrase(said, bool(star) or word.endswith("*"))]
        if not minus and _HEX.fullmatch(word):
            phrases.append(QueryPhrase((COMMIT_SIGN + word.lower(),), is_prefix=True))
        (unwanted if minus else wanted).append(QueryTerm(tuple(phrases)))
    if not wanted:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "there is no word to look for",
            hint="words are letters and digits of any language",
        )
    if len(wanted) + len(unwanted) > TERM_COUNT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"a search takes at most {TERM_COUNT_MAX} words")
    return Query(tuple(wanted), tuple(unwanted), _parse_thread_prefix(text.strip()))


def _parse_thread_prefix(text: str) -> str:
    found = _ID.fullmatch(text)
    if found is None or not (found[1] or len(found[2]) >= ID_DIGITS_MIN):
        return ""
    return f"T-{found[2].lower()}"


def to_fts5(query: Query) -> str:
    """The query in the language of FTS5."""
    expression = " AND ".join(
        _join_phrases(term, _format_fts5_phrase, " OR ") for term in query.wanted
    )
    if query.unwanted:
        excluded = " OR ".join(
            _join_phrases(term, _format_fts5_phrase, " OR ") for term in query.unwanted
        )
        expression = f"({expression}) NOT ({excluded})"
    return expression


def to_tsquery(query: Query) -> str:
    """The query as a `tsquery` of PostgreSQL is written."""
    wanted = [_join_phrases(term, _format_tsquery_phrase, " | ") for term in query.wanted]
    unwanted = [f"!{_join_phrases(term, _format_tsquery_phrase, ' | ')}" for term in query.unwanted]
    return " & ".join((*wanted, *unwanted))


def _join_phrases(term: QueryTerm, format_phrase: Callable[[QueryPhrase], str], or_: str) -> str:
    return f"({or_.join(map(format_phrase, term.phrases))})"


def _format_fts5_phrase(phrase: QueryPhrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.is_prefix else "")


def _format_tsquery_phrase(phrase: QueryPhrase) -> str:
    words = " <-> ".join(f"'{word}'" for word in phrase.words)
    return f"({words}{':*' if phrase.is_prefix else ''})"
