"""Blame does not depend on what is configured for people, nor on how long a file is."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import UsageError
from treadle.workspace.blame import _cut_out, blame
from workspace.repo import Repo
from workspace.test_blame import THREAD, commit, save, write


async def test_a_file_of_very_many_lines_is_asked_for_in_parts(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(repo, "log", *map(str, range(1, 21)))
    monkeypatch.setattr("treadle.workspace.blame.LINE_COUNT_MAX", 7)
    for first, last in ((1, None), (3, 10), (13, None)):
        with pytest.raises(UsageError, match="has 20 lines, too many") as refused:
            await blame(path, first, last)
        assert refused.value.hint.endswith("log:1-7")
    for first, last in ((1, 7), (14, 20), (14, None), (5, 5), (20, 20)):
        found = await blame(path, first, last)
        assert found.text == tuple(map(str, range(first, (last or 20) + 1)))


@given(st.lists(st.sampled_from(["", "a", "ä", "\r", "x\r"]), max_size=8), st.booleans())
def test_lines_are_cut_out_as_by_taking_the_text_apart(lines: list[str], is_ended: bool) -> None:
    text = "\n".join(lines) + "\n" * is_ended
    apart = text.split("\n")
    if not apart[-1]:
        apart.pop()
    for first, last in combinations(range(len(apart) + 1), 2):
        cut = _cut_out(text.encode(), first + 1, last)
        assert cut == tuple(apart[first:last])


CONFIGURED = (
    ("i18n.logOutputEncoding", "UTF-16"),
    ("i18n.commitEncoding", "UTF-16"),
    ("grep.patternType", "fixed"),
    ("grep.patternType", "perl"),
    ("grep.extendedRegexp", "true"),
    ("blame.showRoot", "true"),
    ("blame.blankBoundary", "true"),
    ("blame.date", "relative"),
    ("blame.coloring", "highlightRecent"),
    ("color.ui", "always"),
    ("log.showSignature", "true"),
    ("log.date", "relative"),
    ("log.follow", "true"),
    ("diff.algorithm", "histogram"),
    ("core.abbrev", "5"),
)


@pytest.mark.parametrize(("key", "value"), CONFIGURED)
async def test_what_is_configured_for_people_changes_nothing(
    repo: Repo, key: str, value: str
) -> None:
    path = write(repo, "x", "one", "two")
    commit(repo, "person\u00e4")
    save(repo, THREAD, "before")
    write(repo, "x", "one", "zwei", "three")
    save(repo, THREAD, "after")
    before = await blame(path)
    assert [run.saved is None for run in before.runs] == [True, False]
    repo.git("config", key, value)
    assert await blame(path) == before
