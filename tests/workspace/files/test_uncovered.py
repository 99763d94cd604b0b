"""What only came into view was there before: it is nobody's work, and is never removed."""

from __future__ import annotations

import shutil

import pytest

from case_tables import for_every_row
from treadle.thread.facts import FilesSaved
from treadle.workspace.files.capture import Capture
from treadle.workspace.files.entries import LINK, NOT_KEPT, FileEntry, Step, touched
from treadle.workspace.files.newly_visible_files import find_uncovered
from treadle.workspace.files.states import FileStates
from treadle.workspace.files.undo_plan import plan
from workspace.repo import Repo

ID = "T-01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def closed(repo: Repo) -> Repo:
    """A repository with ignored files, and with a repository in it."""
    exclude = repo.path / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("private/\n")
    repo.write("private/diary.txt", "mine\n")
    nested = Repo(repo.path / "vendor" / "lib")
    nested.git("init")
    nested.write("wip.c", "mine too\n")
    return repo


def uncover(repo: Repo) -> None:
    (repo.path / ".git" / "info" / "exclude").write_text("")
    shutil.rmtree(repo.path / "vendor" / "lib" / ".git")


async def saved(states: FileStates, previous: FilesSaved | None, *, is_after: bool) -> FilesSaved:
    made = await states.save("after" if is_after else "before", previous)
    assert made is not None, states.problem
    return made


async def undo(states: FileStates, steps: list[Step]) -> list[bytes]:
    """Undo what the agent did; the paths that were put back."""
    present = await states.capture()
    found = plan(touched(steps), present.entries)
    assert await states.restore(found.changes) == []
    return [one.path for one in found.changes]


async def test_files_that_a_round_only_uncovered_are_not_the_agents(closed: Repo) -> None:
    states = FileStates(closed.path, ID)
    before = await saved(states, None, is_after=False)
    closed.write("made.txt", "made\n")
    closed.write("vendor/lib/wip.c", "written\n")
    uncover(closed)
    after = await saved(states, before, is_after=True)
    closed.git("fsck", "--strict", "--no-dangling")
    assert await undo(states, await states.steps([before, after])) == [b"made.txt"]
    assert (closed.path / "private" / "diary.txt").read_text() == "mine\n"
    assert (closed.path / "vendor" / "lib" / "wip.c").read_text() == "written\n"
    assert not (closed.path / "made.txt").exists()


async def test_what_was_ignored_and_written_long_after_the_last_state_stays(closed: Repo) -> None:
    states = FileStates(closed.path, ID)
    first = await saved(states, None, is_after=False)
    closed.write("private/diary.txt", "a page more\n")
    assert await states.save("before", first) is None
    uncover(closed)
    after = await saved(states, first, is_after=True)
    assert await undo(states, await states.steps([first, after])) == []
    assert (closed.path / "private" / "diary.txt").read_text() == "a page more\n"


async def test_a_folder_that_the_agent_renamed_is_undone(repo: Repo) -> None:
    repo.write("old/deep/x.txt", "x\n")
    states = FileStates(repo.path, ID)
    before = await saved(states, None, is_after=False)
    (repo.path / "old").rename(repo.path / "new")
    after = await saved(states, before, is_after=True)
    await undo(states, await states.steps([before, after]))
    assert (repo.path / "old" / "deep" / "x.txt").read_text() == "x\n"
    assert not (repo.path / "new").exists()


async def test_a_file_that_came_into_view_and_was_changed_later_goes_back_to_how_it_was(
    closed: Repo,
) -> None:
    states = FileStates(closed.path, ID)
    before = await saved(states, None, is_after=False)
    uncover(closed)
    middle = await saved(states, before, is_after=True)
    assert await states.save("before", middle) is None
    closed.write("private/diary.txt", "edited by the agent\n")
    after = await saved(states, middle, is_after=True)
    steps = await states.steps([before, middle, after])
    assert await undo(states, steps) == [b"private/diary.txt"]
    assert (closed.path / "private" / "diary.txt").read_text() == "mine\n"


async def test_in_a_round_that_was_cut_short_nothing_uncovered_is_removed(closed: Repo) -> None:
    states = FileStates(closed.path, ID)
    before = await saved(states, None, is_after=False)
    uncover(closed)
    closed.write("made.txt", "made\n")
    again = FileStates(closed.path, ID)
    present = await again.capture()
    old = dict.fromkeys((b"private/diary.txt", b"vendor/lib/wip.c"), 1)
    present = present._replace(changed_ns={**present.changed_ns, **old})
    shown, *rest = await again.steps_since(before, present)
    assert [one.path for one in shown.changes] == sorted(old)
    assert not shown.is_agents
    assert [[one.path for one in step.changes] for step in rest] == [[b"made.txt"]] * 2


FILE = FileEntry("100644", "a" * 40)
OTHER = FileEntry("100644", "b" * 40)
CLOSED = FileEntry(NOT_KEPT, "c" * 40)


@for_every_row(
    "earlier, now, changed_ns, found",
    [
        ({}, {b"x": FILE}, 10, {b"x"}),
        ({}, {b"x": FILE}, 11, set()),
        ({}, {b"x": FileEntry(LINK, "a")}, 9, {b"x"}),
        ({b"x": OTHER}, {b"x": FILE}, 9, set()),
        ({b"a/x": FILE}, {b"b/x": FILE}, 9, set()),
        ({b"a/x": FILE}, {b"b/x": OTHER}, 9, {b"b/x"}),
        ({b"a/x": FILE}, {b"b/y": FILE}, 9, {b"b/y"}),
        ({b"a/x": FILE}, {b"a/x": FILE, b"b/x": FILE}, 9, {b"b/x"}),
        ({b"sub": CLOSED}, {b"sub/x": FILE}, 11, {b"sub/x"}),
        ({b"sub": CLOSED}, {b"sub2/x": FILE}, 11, set()),
        ({b"sub": CLOSED}, {b"sub": CLOSED, b"sub/x": FILE}, 11, set()),
    ],
)
def test_what_is_new_and_older_than_the_round_was_uncovered(
    earlier: dict[bytes, FileEntry],
    now: dict[bytes, FileEntry],
    changed_ns: int,
    found: set[bytes],
) -> None:
    later = Capture(now, (), dict.fromkeys(now, changed_ns), 20)
    assert find_uncovered(Capture(earlier, (), at_ns=10), later) == found


def test_a_large_file_in_whose_place_the_agent_made_a_folder_is_no_repository() -> None:
    earlier = Capture({b"big": CLOSED}, (), {b"big": 5}, 10)
    later = Capture({b"big/x": FILE}, (), {b"big/x": 11}, 20)
    assert find_uncovered(earlier, later) == set()


def test_the_repository_that_was_taken_apart_is_known_by_its_folder() -> None:
    earlier = Capture({}, (), at_ns=10, nested=frozenset({b"lib/", b"kept/"}))
    paths = (b"lib/x", b"kept/x", b"library/x")
    later = Capture(dict.fromkeys(paths, FILE), (), dict.fromkeys(paths, 11), 20)
    later = later._replace(nested=frozenset({b"kept/"}))
    assert find_uncovered(earlier, later) == {b"lib/x"}
