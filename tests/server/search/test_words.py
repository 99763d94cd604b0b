"""What counts as a word is the same for who writes and who searches, in every script."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.server.search.query import PHRASE_LENGTH_MAX
from treadle.server.search.text_index import (
    PART_LENGTH_MAX,
    PART_WORDS_MAX,
    REPEATS_MAX,
    format_tsvector,
    split_text,
)
from treadle.server.search.tokenizer import COMMIT_SIGN, WORD_LENGTH_MAX, clean_text, split_words
from treadle.thread.search_texts import SearchTextKind


def said(text: str) -> list[str]:
    return [word for word, _, _ in split_words(clean_text(text))]


@for_every_row(
    "text, words",
    [
        ("foo_bar.baz-qux/x", ["foo", "bar", "baz", "qux", "x"]),
        ("bug.", ["bug"]),
        ("github.com/o/r", ["github", "com", "o", "r"]),
        ("Ünïcode NAÏVE", ["unicode", "naive"]),
        ("straße STRASSE", ["strasse", "strasse"]),
        ("İstanbul", ["istanbul"]),
        ("ﬁne ①② Ⅳ", ["fine", "12", "iv"]),
        ("日本語", ["日", "本", "語"]),
        ("テスト", ["テ", "ス", "ト"]),
        ("한국어", ["한", "국", "어"]),
        ("v2と3", ["v2", "と", "3"]),
        ("e\u0301te\u0301", ["ete"]),
        ("ｶ", ["カ"]),
        ("\U0001f9f5 ... \0 \u2028", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_in_one_form(text: str, words: list[str]) -> None:
    assert said(text) == words


def test_composed_and_decomposed_texts_have_the_same_words() -> None:
    for text in ("がぎぐ", "한국어", "Ünïcode", "हिन्दी", "Việt"):
        assert said(unicodedata.normalize("NFD", text)) == said(unicodedata.normalize("NFC", text))


def test_a_word_of_any_character_holds_nothing_that_a_database_would_take_apart() -> None:
    """Every character there is, each between two letters; ideographs stand for each other."""
    characters = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) not in ("Cn", "Co")
        and (code % 100 == 0 or not _IDEOGRAPH.match(unicodedata.name(chr(code), "")))
    ]
    assert len(characters) > 30_000
    found = {
        sign
        for start in range(0, len(characters), 1000)
        for word in said(" ".join(f"a{one}b" for one in characters[start : start + 1000]))
        for sign in word or COMMIT_SIGN
    }
    assert {unicodedata.category(sign)[0] for sign in found} == {*"LMN"}
    assert COMMIT_SIGN not in found


_IDEOGRAPH = re.compile("CJK UNIFIED|HANGUL SYLLABLE|TANGUT|CUNEIFORM|EGYPTIAN")


@given(st.text(max_size=200))
def test_a_word_stands_where_it_is_said_to_stand(text: str) -> None:
    clean = clean_text(text)
    end = 0
    for word, start, stop in split_words(clean):
        assert end <= start < stop <= len(clean)
        assert len(word) <= WORD_LENGTH_MAX
        assert said(clean[start:stop]) == [word]
        end = stop


def test_ascii_is_the_same_whether_or_not_something_else_stands_in_the_text() -> None:
    text = "The quick, brown_fox " + "x" * 100 + " c0ffee-1"
    assert said(text) == said(text + " ü")[:-1]


@for_every_row(
    "text",
    [
        "a" * 10_000_000,
        "ab " * 20_000,
        " ".join(f"w{number}" for number in range(20_000)),
        " ".join(f"w{number}" + " " * 2000 for number in range(500)),
        "a" + " " * 200_000 + "b",
        "語" * 9000,
    ],
)
def test_a_text_of_any_length_is_kept_in_bounded_parts_that_overlap(text: str) -> None:
    parts = list(split_text(1, SearchTextKind.OUTPUT, text))
    for part in parts:
        assert len(part.words) <= PART_WORDS_MAX
        assert len(part.text) <= PART_LENGTH_MAX
        assert max(Counter(part.words).values()) <= REPEATS_MAX
        assert len(format_tsvector(part.words).encode()) < 1 << 20
        assert tuple(said(part.text)) == part.words
    words, seen = said(text), 0
    for part in parts:
        # Each part begins at most so many words before the end of the one before.
        overlap = next(
            back
            for back in range(min(seen, PHRASE_LENGTH_MAX - 1), -1, -1)
            if tuple(words[seen - back : seen - back + len(part.words)]) == part.words
        )
        seen += len(part.words) - overlap
    assert seen == len(words)


def test_what_is_found_as_a_commit_is_its_hash_alone() -> None:
    assert [part.words for part in split_text(1, SearchTextKind.COMMIT, " C0FFEE ")] == [
        (COMMIT_SIGN + "c0ffee",)
    ]
    assert list(split_text(1, SearchTextKind.COMMIT, "' | x")) == []
