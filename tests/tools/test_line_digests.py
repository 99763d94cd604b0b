"""Which lines have changed, from a digest of a few hundred letters."""

from __future__ import annotations

import re
from itertools import count
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.tools.line_digests import GROUP_COUNT_MAX, digest_lines, find_changes

LINES = [f"line {number}" for number in range(1, 31)]


def text(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


@for_every_row(
    "changed, told",
    [
        (LINES, []),
        ([*LINES[:4], "other", *LINES[5:]], ["line 5"]),
        ([*LINES[:4], *LINES[6:]], ["before line 5 something is gone"]),
        ([*LINES[:4], "a", "b", *LINES[4:]], ["lines 5-6"]),
        (["new", *LINES[:-1], "last"], ["line 1", "line 31"]),
        ([], ["line 1"]),
    ],
)
def test_the_lines_that_differ_are_named_as_they_stand_now(
    changed: list[str], told: list[str]
) -> None:
    assert [str(one) for one in find_changes(digest_lines(text(LINES)), text(changed))] == told


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*"abcdef", "", "xx"]), max_size=60),
    st.lists(st.sampled_from([*"abcdef", "", "yy"]), max_size=60),
)
def test_what_is_not_named_is_as_it_was(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    digest = digest_lines(before.encode())
    changes = find_changes(digest, after.encode())
    assert re.fullmatch(r"\d+\.[\w-]*", digest)
    assert len(digest) <= 2 * GROUP_COUNT_MAX + 3
    now = after.split("\n")
    named = {n for one in changes for n in range(one.first, one.last + 1)}
    kept = [line for number, line in enumerate(now, 1) if number not in named]
    assert kept == _find_in_order(before.split("\n"), kept)
    if before == after:
        assert changes == []


def _find_in_order(lines: list[str], wanted: list[str]) -> list[str]:
    """As many of the wanted lines, in order, as the lines have."""
    rest, found = iter(lines), []
    for line in wanted:
        if line not in rest:
            break
        found.append(line)
    return found


def test_a_long_file_has_a_short_digest_and_a_change_in_it_is_near_where_it_is_told() -> None:
    lines = [f"{number * 7919}" for number in range(50_000)]
    digest = digest_lines(text(lines))
    assert len(digest) < 300
    lines[25_000] = "other"
    (change,) = find_changes(digest, text(lines))
    assert change.first <= 25_001 <= change.last
    assert change.last - change.first < 5_000


@for_every_row("digest", ["", "x", "0.A", "99.AA", "0.A?", "0.ÄÄ", "0." + "AA" * 10_000])
def test_what_is_no_digest_tells_nothing(digest: str) -> None:
    find_changes(digest, text(LINES))
    assert find_changes("", text(LINES)) == []


def test_a_file_that_became_something_else_is_not_compared() -> None:
    assert find_changes(digest_lines(b"a\nb"), b"x\n" * 5_000) == []


def test_a_file_that_repeats_a_line_has_a_digest_or_none_and_takes_no_time() -> None:
    def ends_every_group(number: int) -> bool:
        return crc32(b"%d\n" % number) >> 16 == 0

    worst = b"%d" % next(number for number in count() if ends_every_group(number))
    for line in (b"", b"x", b"}", worst):
        for often in (1, GROUP_COUNT_MAX, GROUP_COUNT_MAX + 1, 10_000):
            data = b"\n".join([line] * often)
            digest = digest_lines(data)
            assert find_changes(digest, data) == []
            assert bool(digest) == (line != worst or often <= GROUP_COUNT_MAX), (line, often)
