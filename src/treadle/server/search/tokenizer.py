"""What the words of a text are, for the index and for who looks something up. Pure.

Neither database takes texts apart itself: each has its own idea of letters, and of which Unicode.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, TypeAlias

from treadle.store.index.schema import UNSPACED

WORD_LENGTH_MAX: Final = 64
"""A longer run of letters and digits is known by its beginning."""

COMMIT_SIGN: Final = "\ue000"
"""Stands before the hash of a commit among the words of the index. No word of a text holds it."""

Word: TypeAlias = tuple[str, int, int]
"""A word as it is compared, and where it stands in its text: its beginning and its end."""

_ASCII_WORD: Final = re.compile("[0-9a-z]+")
_ASCII_GAP: Final = "".join(sign for sign in map(chr, range(128)) if not sign.isalnum())
_UNSPACED_CHARACTER: Final = re.compile(rf"{UNSPACED}[\u3099\u309a]?")
_CONTROL_CHARACTER: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@cache
def _make_word_pattern() -> re.Pattern[str]:
    """Letters and digits of any script, and the signs that stand on or beside them.

    Made when a text first needs it: it takes a look at all of Unicode.
    """
    signs = [
        chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code))[0] == "M"
    ]
    return re.compile(rf"(?:[^\W_]|[{''.join(signs)}])+")


def clean_text(text: str) -> str:
    """The text as it is kept: composed, without control characters and lone surrogates."""
    text = text.encode("utf-8", "replace").decode()
    return _CONTROL_CHARACTER.sub(" ", unicodedata.normalize("NFC", text))


def split_plain_words(text: str) -> tuple[list[str], int, int] | None:
    """What `split_words` gives for a text of ASCII without very long words: most texts are so.

    It is ten times as fast, because no word is looked at by itself.

    Returns:
        The words, where the first of them begins and where the last one ends; `None` for a text
        that needs `split_words`.
    """
    if not text.isascii():
        return None
    lower = text.lower()
    words = _ASCII_WORD.findall(lower)
    if words and len(max(words, key=len)) > WORD_LENGTH_MAX:
        return None
    start = len(lower) - len(lower.lstrip(_ASCII_GAP))
    return words, start, len(lower.rstrip(_ASCII_GAP))


def split_words(text: str) -> Iterator[Word]:
    """The words of a cleaned text, in order.

    A word is a run of letters and digits; case, accents and the other forms that a letter may have
    make no difference. A character of a script that is written without spaces is a word by itself,
    so that any part of its texts is found as a phrase.
    """
    if text.isascii():
        for found in _ASCII_WORD.finditer(text.lower()):
            end = min(found.end(), found.start() + WORD_LENGTH_MAX)
            yield text[found.start() : end].lower(), found.start(), end
        return
    for found in _make_word_pattern().finditer(text):
        start, run_end = found.span()
        if found[0].isascii():
            yield from _make_word(text, start, run_end)
            continue
        for one in _UNSPACED_CHARACTER.finditer(text, start, run_end):
            yield from _make_word(text, start, one.start())
            yield unicodedata.normalize("NFKC", one[0]).casefold(), one.start(), one.end()
            start = one.end()
        yield from _make_word(text, start, run_end)


def _make_word(text: str, start: int, end: int) -> Iterator[Word]:
    end = min(end, start + WORD_LENGTH_MAX)
    folded = _normalize_run(text[start:end])
    if folded:
        yield folded[:WORD_LENGTH_MAX], start, end


def _normalize_run(run: str) -> str:
    """The run in the one form that all its forms share. What stands on a letter has a class."""
    if run.isascii():
        return run.lower()
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", run).casefold())
    return "".join(
        character
        for character in plain
        if not unicodedata.combining(character) and unicodedata.category(character)[0] in "LMN"
    )
