"""Putting files back: exactly what was asked for, at once or not at all, and again if cut short."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.errors import FileStateError
from treadle.thread.facts import FilesSaved
from treadle.workspace.files import restore
from treadle.workspace.files.entries import (
    NOT_KEPT,
    FileChange,
    FileEntry,
    Step,
    Touched,
    compare,
    names,
    touched,
)
from treadle.workspace.files.states import FileStates
from treadle.workspace.files.undo_plan import plan
from workspace.files.messy import ACTIONS, at, files, make_messy, own, put, world
from workspace.repo import CONFIG, Repo

ID = "T-01890a5d-ac96-774b-bcce-b302099a8057"
IGNORED = {b"run.log", b"ignored/deep.txt"}
CLOSED = IGNORED | {b".gitignore"}


def open_paths(repo: Repo) -> list[bytes]:
    """The files that an agent may change, and that are kept."""
    return [
        path
        for path, found in world(repo.path).items()
        if found is not None and path not in CLOSED and not path.startswith(b"nested/")
    ]


async def saved(states: FileStates, previous: FilesSaved | None) -> FilesSaved:
    made = await states.save("after", previous)
    assert made is not None, states.problem
    return made


async def undo(states: FileStates, old: FilesSaved, new: FilesSaved) -> list[FileChange]:
    """Put back what differs between two states; the files are as in the second."""
    changes = await states.changes(new.commit, old.commit)
    return await states.restore(changes)


async def check_there_and_back(repo: Repo, change: Callable[[], None]) -> None:
    """What is changed is undone, the undoing is undone, and that is undone again."""
    states = FileStates(repo.path, ID)
    before, mine = files(repo.path), own(repo.path)
    first = await saved(states, None)
    change()
    changed = files(repo.path)
    second = await states.save("after", first)
    if second is None:
        return
    assert await undo(states, first, second) == []
    assert files(repo.path) == before
    assert await states.save("after", second) is not None
    assert await undo(states, second, first) == []
    assert files(repo.path) == changed
    assert await undo(states, first, second) == []
    assert files(repo.path) == before
    assert own(repo.path) == mine


@pytest.mark.parametrize("autocrlf", ["false", "true"])
@pytest.mark.parametrize("action", ACTIONS)
async def test_every_change_of_every_file_is_undone_and_done_again(
    tmp_path: Path, action: str, autocrlf: str
) -> None:
    repo = make_messy(tmp_path / "r", autocrlf=autocrlf)
    at(repo.path, b"private.txt").chmod(0o644)  # git forgets who may read a file that was away

    def change() -> None:
        for path in open_paths(repo):
            ACTIONS[action](at(repo.path, path))
        put(repo.path, b"made/by/agent.txt", b"made\r\n")

    await check_there_and_back(repo, change)


CHANGES = st.lists(st.tuples(st.integers(0, 99), st.sampled_from(sorted(ACTIONS))), max_size=8)


@settings(max_examples=15, deadline=None)
@given(CHANGES, st.sampled_from(["sha1", "sha256"]))
async def test_any_changes_of_any_files_are_undone(
    changes: list[tuple[int, str]], form: str
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        put(Path(folder), b"config", CONFIG.encode())
        config = Path(folder, "config")
        patch.setenv("GIT_CONFIG_GLOBAL", str(config))
        repo = make_messy(Path(folder, "r"), f"--object-format={form}")
        at(repo.path, b"private.txt").chmod(0o644)

        def change() -> None:
            for number, action in changes:
                paths = open_paths(repo)
                ACTIONS[action](at(repo.path, paths[number % len(paths)]))

        await check_there_and_back(repo, change)


async def test_what_is_not_asked_for_keeps_even_its_time(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    states = FileStates(repo.path, ID)
    first = await saved(states, None)
    put(repo.path, b"private.txt", b"changed\n")
    seen = world(repo.path, with_times=True)
    second = await saved(states, first)
    assert await undo(states, first, second) == []
    after = world(repo.path, with_times=True)
    assert {path for path in seen if seen[path] != after[path]} == {b"private.txt"}
    assert (repo.path / "private.txt").read_bytes() == b"mine alone\n"
    assert (repo.path / "private.txt").stat().st_mode & 0o777 == 0o600


async def test_ignored_files_that_the_agent_uncovered_are_not_removed(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    states = FileStates(repo.path, ID)
    first = await saved(states, None)
    before = files(repo.path)
    repo.write(".gitignore", "nothing\n")
    repo.write("made.txt", "made\n")
    second = await saved(states, first)
    left = await undo(states, first, second)
    assert {one.path for one in left} == IGNORED
    assert files(repo.path) == before


async def test_emptied_folders_go_but_never_the_workspace_itself(repo: Repo) -> None:
    repo.remove("docs/c.md")
    states = FileStates(repo.path / "docs", ID)
    first = await saved(states, None)
    repo.write("docs/new/deep/a.txt", "a")
    repo.write("docs/b.txt", "b")
    second = await saved(states, first)
    assert await undo(states, first, second) == []
    assert [path.name for path in repo.path.iterdir() if path.name == "docs"] == ["docs"]
    assert files(repo.path / "docs") == {}


def entry(content: bytes, mode: str = "100644") -> FileEntry:
    return FileEntry(mode, restore._digest(content, None))


def put_one(
    root: Path, path: bytes, old: bytes | None, new: bytes | None, prefix: str = ""
) -> list[FileChange]:
    sides = [None if one is None else entry(one) for one in (old, new)]
    change = FileChange(path, sides[0], sides[1])
    return restore.put_back(root, prefix, [restore.Put(change, new or b"")])


@pytest.mark.parametrize("new", [b"new\n", None])
@pytest.mark.parametrize(
    "path",
    [
        b"out/x",
        b".git/x",
        b".GIT/x",
        b"sub/.git/x",
        b"../x",
        b"a/../../x",
        b"a//x",
        b"./x",
        b"file/x",
    ],
)
def test_nothing_is_written_through_links_or_into_repositories_or_outside(
    tmp_path: Path, path: bytes, new: bytes | None
) -> None:
    root = tmp_path / "root"
    for folder in (tmp_path / "outside", root, root / ".git", root / ".GIT", root / "sub/.git"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x").write_bytes(b"old\n")
    (tmp_path / "x").write_bytes(b"old\n")
    (root / "file").write_bytes(b"old\n")
    (root / "out").symlink_to(tmp_path / "outside")
    before = world(tmp_path)
    assert [one.path for one in put_one(root, path, b"old\n", new)] == [path]
    assert world(tmp_path) == before


def test_nothing_beside_the_workspace_is_touched(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old\n")
    assert put_one(tmp_path, b"x", b"old\n", b"new\n", prefix="sub/")
    assert (tmp_path / "x").read_bytes() == b"old\n"


KINDS = {
    "absent": bool,
    "as said": lambda place: place.write_bytes(b"old\n"),
    "done": lambda place: place.write_bytes(b"new\n"),
    "changed": lambda place: place.write_bytes(b"mine\n"),
    "runnable": lambda place: (place.write_bytes(b"old\n"), place.chmod(0o755)),
    "link": lambda place: place.symlink_to("old"),
    "folder": lambda place: (place / "full").mkdir(parents=True),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new", [b"new\n", None])
@pytest.mark.parametrize("old", [b"old\n", None])
def test_only_a_file_that_is_as_it_was_said_to_be_is_changed(
    tmp_path: Path, kind: str, old: bytes | None, new: bytes | None
) -> None:
    place = tmp_path / "x"
    KINDS[kind](place)
    before = world(tmp_path)
    left = put_one(tmp_path, b"x", old, new)
    now = {"absent": None, "as said": b"old\n", "done": b"new\n"}.get(kind, b"other")
    if now in (old, new):
        assert left == []
        assert (place.read_bytes() if place.exists() else None) == new
    else:
        assert [one.path for one in left] == [b"x"]
        assert world(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"x"}


class Killed(BaseException):
    """The process is gone; nothing tidies up."""


STEPS = ("mkdir", "open", "unlink", "rename", "symlink", "rmdir", "fsync", "fchmod")


async def test_cut_short_at_any_step_each_file_is_old_or_new_and_doing_it_again_finishes(
    tmp_path: Path,
) -> None:
    repo = make_messy(tmp_path / "r")
    (repo.path / "private.txt").chmod(0o644)
    states = FileStates(repo.path, ID)
    wanted = files(repo.path)
    first = await saved(states, None)
    for path, action in (
        (b"clean.txt", "edit"),
        (b"sub/deep/file.txt", "delete with folder"),
        (b"tool.sh", "make a folder of"),
        (b"link", "edit"),
        (b"binary.bin", "flip the right to run"),
        (b"dangling", "delete"),
    ):
        ACTIONS[action](at(repo.path, path))
    put(repo.path, b"made/by/agent.txt", b"made\n")
    second = await saved(states, first)
    start = files(repo.path)
    changes = await states.changes(second.commit, first.commit)
    contents = await states._objects.contents(one.new.oid for one in changes if one.new is not None)
    puts = [restore.Put(one, b"" if one.new is None else contents[one.new.oid]) for one in changes]
    count = 0
    while True:
        is_whole = _put_until(repo.path, puts, count)
        found = files(repo.path)
        _check_old_or_new(found, start, wanted)
        rest = [one for one in puts if found.get(one.change.path) != wanted.get(one.change.path)]
        assert restore.put_back(repo.path, "", rest) == []
        assert _without_drafts(files(repo.path)) == wanted
        if is_whole:
            break
        back = [FileChange(one.path, one.new, one.old) for one in changes]
        assert await states.restore(back) == []
        assert _without_drafts(files(repo.path)) == start
        for draft in repo.path.rglob("*.treadle-tmp"):
            draft.unlink()
        count += 1
    assert count > 30


def _without_drafts(found: dict[bytes, object]) -> dict[bytes, object]:
    return {path: one for path, one in found.items() if not path.endswith(b".treadle-tmp")}


def _put_until(root: Path, puts: list[restore.Put], count: int) -> bool:
    """Put files back until so many calls of the system were made; whether that was enough."""
    left = count

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return call(*arguments, **more)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            return restore.put_back(root, "", puts) == []
        except Killed:
            return False


def _check_old_or_new(
    found: dict[bytes, object], start: dict[bytes, object], wanted: dict[bytes, object]
) -> None:
    for path, content in found.items():
        if content is not None and not path.endswith(b".treadle-tmp"):
            assert content in (start.get(path), wanted.get(path)), path


async def test_a_full_disk_is_told_with_the_file_and_what_to_do(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    states = FileStates(repo.path, ID)
    first = await saved(states, None)
    repo.write("a.py", "changed\n")
    second = await saved(states, first)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(FileStateError, match=r"a\.py cannot be put back: No space") as caught:
            await undo(states, first, second)
    assert "same command" in caught.value.hint
    assert repo.read("a.py") == "changed\n"
    assert sorted(path.name for path in repo.path.iterdir()) == [".git", "a.py", "b.py", "docs"]


# ---- what is to be done --------------------------------------------------------------------

A, B, C, D = (entry(letter) for letter in (b"a", b"b", b"c", b"d"))


def changed(old: FileEntry | None, new: FileEntry | None) -> FileChange:
    return FileChange(b"f", old, new)


def test_an_agents_changes_add_up_and_others_in_between_are_noticed() -> None:
    own_step, other = (
        lambda old, new: Step(is_agents=True, changes=(changed(old, new),)),
        lambda old, new: Step(is_agents=False, changes=(changed(old, new),)),
    )
    assert touched([]) == {}
    assert touched([other(A, B)]) == {}
    assert touched([own_step(A, B)]) == {b"f": Touched(changed(A, B), False)}
    assert touched([other(A, B), own_step(B, C)]) == {b"f": Touched(changed(B, C), False)}
    assert touched([own_step(A, B), own_step(B, C)]) == {b"f": Touched(changed(A, C), False)}
    assert touched([own_step(A, B), other(B, C)]) == {b"f": Touched(changed(A, B), True)}
    both = [own_step(A, B), other(B, C), own_step(C, D)]
    assert touched(both) == {b"f": Touched(changed(A, D), True)}


@for_every_row("by_others", [False, True])
@for_every_row("now", [None, A, B, C])
@for_every_row("new", [None, A, B])
@for_every_row("old", [None, A, B])
def test_a_plan_undoes_what_the_agent_did_and_names_what_others_did(
    old: FileEntry | None, new: FileEntry | None, now: FileEntry | None, by_others: bool
) -> None:
    present = {} if now is None else {b"f": now}
    found = plan({b"f": Touched(changed(old, new), by_others)}, {**present, b"other": D})
    if now == old:
        assert found.changes == ()
        assert found.is_half_done == (old != new)
        return
    assert found.changes == (changed(now, old),)
    assert found.conflicts == ((changed(now, old),) if by_others or now != new else ())


def test_a_plan_leaves_alone_what_was_not_saved() -> None:
    mark = FileEntry(NOT_KEPT, "0" * 39 + "1")
    for old, new, now in ((mark, A, A), (A, mark, mark)):
        found = plan({b"f": Touched(changed(old, new), False)}, {b"f": now})
        assert found.changes == ()
        assert found.unkept == (changed(now, old),)


def test_two_states_are_compared_by_path() -> None:
    found = compare({b"f": A, b"same": B, b"gone": C}, {b"f": B, b"same": B, b"new": D})
    assert [(one.path, one.status) for one in found] == [
        (b"f", "M"),
        (b"gone", "D"),
        (b"new", "A"),
    ]


def test_long_lists_of_names_are_cut_and_fit_to_be_stored() -> None:
    assert names([b"b", b"a"], 2) == ("a", "b")
    assert names([b"c", b"b", b"a"], 2) == ("a", "b", "and 1 more")
    assert names([b"\xff"], 1) == ("\\xff",)
