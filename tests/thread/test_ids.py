"""Thread ids become file names; nothing else than an id may pass for one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from thread.journals import ID
from treadle.thread.ids import PREFIX, ShortIds, is_name_of, is_thread_id


def test_a_whole_id_is_one() -> None:
    assert is_thread_id(ID)
    assert ID.startswith(PREFIX)


@for_every_row(
    "text",
    [
        "",
        PREFIX,
        ID[:-1],
        ID + "0",
        ID + "\n",
        ID + "\0",
        "\n" + ID,
        ID.upper(),
        ID.removeprefix(PREFIX),
        ID.replace("-", "_"),
        ID.replace("a", "\uff41"),
        ID.replace("0", "\u0660"),
        "../../x",
        f"../{ID}",
        f"{ID}/../x",
        f"{ID}.jsonl",
        "T-" + "." * 36,
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_thread_id(text)


DIGITS = st.text("01a", min_size=32, max_size=32)


@given(st.sets(DIGITS.map(lambda digits: f"T-{UUID(digits)}"), min_size=1, max_size=30))
def test_a_short_id_means_one_thread_of_its_store(known: set[str]) -> None:
    short = ShortIds(known)
    for thread in known:
        shown = short.shorten(thread)
        assert [one for one in known if is_name_of(shown, one)] == [thread]


def test_of_ids_that_end_alike_more_is_shown() -> None:
    one, other, third = (
        f"T-01a218dc-ca63-732e-ad78-{end}"
        for end in ("0000aaaabbbb", "1111aaaabbbb", "22225555cccc")
    )
    short = ShortIds([one, other, third])
    assert [short.shorten(thread) for thread in (one, other, third)] == [
        "0000aaaabbbb", "1111aaaabbbb", "5555cccc",
    ]  # fmt: skip
    assert ShortIds([one]).shorten(other) == "1111aaaabbbb"
    # A beginning of another thread's id is taken for that one.
    assert ShortIds([third, "T-5555cccc-ca63-732e-ad78-000000000000"]).shorten(third) != "5555cccc"


def test_ids_among_words_are_short_and_those_in_paths_and_quotes_whole() -> None:
    thread = "T-01a218dc-ca63-732e-ad78-0000aaaabbbb"
    for text in (f"thread {thread}", f"{thread}: held", f"`treadle show {thread}`.", f"({thread})"):
        assert ShortIds().shorten_in(text) == text.replace(thread, "aaaabbbb")
    for text in (f"/data/{thread}.jsonl", f"{thread}@5", f"no thread '{thread}'", f"x-{thread}"):
        assert ShortIds().shorten_in(text) == text
