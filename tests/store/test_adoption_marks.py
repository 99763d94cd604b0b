"""Whose a thread is that was made elsewhere: what a server brings makes nobody trust a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.store.adoption_marks import AdoptionMarks
from treadle.store.disk import PosixDisk
from treadle.store.folders import StoreFolders
from treadle.store.paths import Places

THREAD = "T-0190a000-0000-7000-8000-000000000001"


@pytest.fixture
def adopted(tmp_path: Path) -> AdoptionMarks:
    folders = StoreFolders(PosixDisk(), Places(tmp_path, tmp_path, tmp_path))
    folders.disk.make_folder(folders.threads)
    return AdoptionMarks(folders)


def test_what_was_never_taken_in_is_nobody_elses(adopted: AdoptionMarks) -> None:
    assert not adopted.is_foreign(THREAD)
    assert not adopted.is_mine(THREAD)


@pytest.mark.parametrize("is_mine", [False, True])
def test_a_mark_says_who_has_brought_the_thread(adopted: AdoptionMarks, is_mine: bool) -> None:
    adopted.mark(THREAD, is_mine=is_mine)
    assert adopted.is_foreign(THREAD)
    assert adopted.is_mine(THREAD) is is_mine


def test_a_thread_of_ones_own_that_has_grown_elsewhere_is_ones_own_there(
    adopted: AdoptionMarks,
) -> None:
    adopted.mark_updated(THREAD)
    assert adopted.is_foreign(THREAD)
    assert adopted.is_mine(THREAD)
    adopted.mark_updated(THREAD)
    assert adopted.is_mine(THREAD)


def test_a_thread_that_somebodys_file_has_brought_stays_that_when_it_grows(
    adopted: AdoptionMarks,
) -> None:
    adopted.mark(THREAD)
    adopted.mark_updated(THREAD)
    assert not adopted.is_mine(THREAD)


def test_a_thread_that_was_made_ones_own_is_ones_own_when_it_grows(adopted: AdoptionMarks) -> None:
    adopted.mark(THREAD)
    adopted.mark_own(THREAD, 7)
    assert not adopted.is_foreign(THREAD, 7)
    assert adopted.is_foreign(THREAD, 6)
    adopted.mark_updated(THREAD)
    assert adopted.is_foreign(THREAD)
    assert adopted.is_mine(THREAD)
