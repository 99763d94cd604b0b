"""The quick way through plain texts finds the words that the slow one finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.server.search import text_index
from treadle.server.search.text_index import PART_WORDS_MAX, REPEATS_MAX, split_text
from treadle.server.search.tokenizer import WORD_LENGTH_MAX, split_plain_words, split_words
from treadle.thread.search_texts import SearchTextKind

ascii_texts = st.text(st.characters(max_codepoint=127)) | st.lists(
    st.sampled_from(["Loom", "x", "_", "a1", "-", "\n", "word " * 40, "y" * WORD_LENGTH_MAX])
).map(" ".join)


@given(ascii_texts)
@example("")
@example("...")
@example("y" * WORD_LENGTH_MAX)
@example("y" * (WORD_LENGTH_MAX + 1))
def test_plain_words_are_the_words(text: str) -> None:
    slow = list(split_words(text))
    quick = split_plain_words(text)
    if any(len(run) > WORD_LENGTH_MAX for run in text.replace("_", " ").split()):
        return  # a long run may be one long word, which is cut
    assert quick is not None
    assert quick[0] == [word for word, _, _ in slow]
    if slow:
        assert quick[1:] == (slow[0][1], slow[-1][2])


def test_long_words_and_other_letters_are_left_to_the_slow_way() -> None:
    assert split_plain_words("a " + "y" * (WORD_LENGTH_MAX + 1)) is None
    assert split_plain_words("naïve") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "  (one) ",
        "w " * REPEATS_MAX,
        "w " * (REPEATS_MAX + 1),
        " ".join(f"w{n}" for n in range(PART_WORDS_MAX)),
        " ".join(f"w{n}" for n in range(PART_WORDS_MAX + 1)),
        "x " * 40_000,
    ],
    ids=range(8),
)
def test_a_text_has_the_same_parts_either_way(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = list(split_text(7, SearchTextKind.OUTPUT, text))
    monkeypatch.setattr(text_index, "split_plain_words", lambda _: None)
    assert quick == list(split_text(7, SearchTextKind.OUTPUT, text))
