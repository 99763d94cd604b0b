"""States of files: raw, complete, durable, and not felt by anything a person sees of git."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from treadle.errors import FileStateError
from treadle.thread.facts import FilesSaved
from treadle.workspace.files import capture, git_index
from treadle.workspace.files.capture import Camera
from treadle.workspace.files.entries import (
    NOT_KEPT,
    FileEntry,
    Indexed,
    parse_index,
    parse_plain_index,
)
from treadle.workspace.files.objects import Objects
from treadle.workspace.files.states import FileStates
from treadle.workspace.git import Repository
from workspace.files.messy import ACTIONS, at, make_messy, own, put, world
from workspace.repo import Repo

ID = "T-01890a5d-ac96-774b-bcce-b302099a8057"
REF = f"refs/treadle/{ID}"
IGNORED = {b"run.log", b"ignored/deep.txt"}


def states_of(repo: Repo, folder: str = "", **options: int) -> FileStates:
    return FileStates(repo.path / folder, ID, **options)


async def saved(states: FileStates, previous: FilesSaved | None = None) -> FilesSaved:
    made = await states.save("before", previous)
    assert made is not None, states.problem
    return made


def output(repo: Repo, *arguments: str) -> bytes:
    done = subprocess.run(("git", *arguments), cwd=repo.path, capture_output=True, check=True)
    return done.stdout


async def check_is_whole(repo: Repo, made: FilesSaved, *, prefix: bytes = b"") -> None:
    """Every file that is not ignored stands in the state as the disk has it."""
    entries = await states_of(repo).entries(made.commit)
    on_disk = {
        path: found
        for path, found in world(repo.path).items()
        if found is not None
        and path not in IGNORED
        and path.startswith(prefix)
        and not path.startswith((b"nested/",))
    }
    assert set(entries) == set(on_disk)
    for path, (mode, content) in on_disk.items():  # type: ignore[misc]
        kind = "120000" if mode & 0o170000 == 0o120000 else "100755" if mode & 0o100 else "100644"
        assert entries[path].mode == kind, path
        assert output(repo, "cat-file", "blob", entries[path].oid) == content, path


@pytest.mark.parametrize("autocrlf", ["false", "true", "input"])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
async def test_a_state_holds_raw_bytes_and_nothing_of_the_person_changes(
    tmp_path: Path, autocrlf: str, form: str
) -> None:
    repo = make_messy(tmp_path / "r", f"--object-format={form}", autocrlf=autocrlf)
    before, seen = own(repo.path), world(repo.path, with_times=True)
    made = await saved(states_of(repo))
    assert own(repo.path) == before
    assert world(repo.path, with_times=True) == seen
    await check_is_whole(repo, made)
    assert repo.git("rev-parse", REF) == made.commit
    assert repo.git("rev-parse", f"{REF}^{{tree}}") == made.tree
    assert repo.git("rev-parse", f"{REF}^") == repo.head
    assert f"Treadle-Thread: {ID}" in repo.git("log", "-1", "--format=%B", REF)
    repo.git("fsck", "--strict", "--no-dangling")


async def test_a_filter_that_the_repository_names_is_not_run(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    mark = tmp_path / "ran"
    for what in ("clean", "smudge", "process"):
        repo.git("config", f"filter.up.{what}", f"sh -c 'touch {mark}; cat'")
    repo.git("config", "filter.up.required", "true")
    repo.git("config", "core.fsmonitor", f"touch {mark}")
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", f"touch {mark}")
    for hook in ("reference-transaction", "post-index-change", "pre-commit", "post-commit"):
        repo.hook(hook, f"touch {mark}")
    put(repo.path, b"smudged.up", b"other\n")
    states = states_of(repo)
    first = await saved(states)
    put(repo.path, b"smudged.up", b"third\n")
    change = await states.changes(first.commit, (await saved(states, first)).commit)
    await states.diff_of(change)
    await states.restore([one._replace(old=one.new, new=one.old) for one in change])
    assert repo.read("smudged.up") == "other\n"
    assert not mark.exists()


async def test_what_is_unchanged_makes_no_new_state_and_what_is_changed_hangs_on_the_last(
    tmp_path: Path,
) -> None:
    repo = make_messy(tmp_path / "r")
    states = states_of(repo)
    first = await saved(states)
    assert await states.save("after", first) is None
    assert await states_of(repo).save("after", first) is None
    put(repo.path, b"untracked.txt", b"changed\n")
    second = await states.save("after", first)
    assert second is not None
    assert second.moment == "after"
    assert repo.git("rev-parse", f"{second.commit}^") == first.commit
    (change,) = await states.changes(first.commit, second.commit)
    assert (change.path, change.status) == (b"untracked.txt", "M")
    assert own(repo.path) == own(repo.path)


@pytest.mark.parametrize("action", ACTIONS)
async def test_every_change_of_every_file_is_seen_by_a_warm_and_by_a_cold_look(
    tmp_path: Path, action: str
) -> None:
    repo = make_messy(tmp_path / "r")
    warm = states_of(repo)
    previous = await saved(warm)
    paths = [
        path
        for path, found in world(repo.path).items()
        if found is not None and path not in IGNORED and not path.startswith(b"nested/")
    ]
    for path in paths:
        if path != b".gitignore":
            ACTIONS[action](at(repo.path, path))
    after = await saved(warm, previous)
    await check_is_whole(repo, after)
    cold = await states_of(repo).save("before", None)
    assert cold is not None
    assert cold.tree == after.tree


async def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    states = states_of(repo)
    first = await saved(states)
    place = repo.path / "clean.txt"
    info = place.stat()
    place.write_text("nailc\n")
    os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns))
    second = await saved(states, first)
    assert [one.path for one in await states.changes(first.tree, second.tree)] == [b"clean.txt"]


async def test_only_the_workspace_is_kept_of_a_larger_repository(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    states = states_of(repo, "sub")
    made = await saved(states)
    await check_is_whole(repo, made, prefix=b"sub/")


@pytest.mark.parametrize("place", ["unborn", "detached", "worktree", "conflict"])
async def test_repositories_in_odd_conditions_are_kept_as_well(repo: Repo, place: str) -> None:
    if place == "unborn":
        repo = Repo(repo.path.parent / "unborn")
        repo.git("init")
        repo.write("x.txt", "x\n")
    elif place == "detached":
        repo.git("checkout", "--detach")
    elif place == "worktree":
        repo.git("worktree", "add", "../other")
        repo = Repo(repo.path.parent / "other")
    else:
        repo.make_conflict()
    repo.write("new.txt", "new\n")
    made = await saved(states_of(repo))
    await check_is_whole(repo, made)


async def test_a_sparse_checkout_is_kept_as_the_disk_has_it(repo: Repo) -> None:
    repo.git("sparse-checkout", "set", "--sparse-index", "docs")
    made = await saved(states_of(repo))
    await check_is_whole(repo, made)


async def test_a_link_in_the_place_of_a_folder_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "c.md").write_text("secret\n")
    repo.remove("docs/c.md")
    (repo.path / "docs").rmdir()
    (repo.path / "docs").symlink_to(tmp_path / "outside")
    made = await saved(states_of(repo))
    await check_is_whole(repo, made)
    entries = await states_of(repo).entries(made.commit)
    assert entries[b"docs"].mode == "120000"
    assert b"docs/c.md" not in entries


async def test_large_files_are_named_marked_and_never_taken_for_absent(repo: Repo) -> None:
    states = states_of(repo, file_size_max=100)
    repo.write("large.txt", "x" * 101)
    first = await saved(states)
    assert first.skipped == ("large.txt",)
    assert (await states.entries(first.commit))[b"large.txt"].mode == NOT_KEPT
    repo.write("large.txt", "small")
    second = await saved(states, first)
    (change,) = await states.changes(first.commit, second.commit)
    assert not change.is_kept
    back = change._replace(old=change.new, new=change.old)
    assert await states.restore([back]) == []
    assert repo.read("large.txt") == "small"
    for number in range(9):
        repo.write(f"large{number}.txt", "x" * 101)
    third = await saved(states, second)
    assert third.skipped[-1] == "and 4 more"


async def test_a_submodule_stays_what_the_index_says_it_is(repo: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    other.git("init")
    other.write("x.txt", "x")
    other.git("add", ".")
    other.git("commit", "-m", "x")
    repo.git("submodule", "add", str(other.path), "module")
    states = states_of(repo)
    first = await saved(states)
    entries = await states.entries(first.commit)
    assert entries[b"module"] == (NOT_KEPT, other.head)
    repo.write("module/x.txt", "changed")
    assert await states.save("after", first) is None


async def test_where_nothing_can_be_kept_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = FileStates(tmp_path / "gone", ID)
    assert await gone.save("before", None) is None
    assert gone.problem == "the folder is gone"
    (tmp_path / "plain").mkdir()
    plain = FileStates(tmp_path / "plain", ID)
    assert await plain.save("before", None) is None
    assert plain.problem == "the folder is in no git repository"
    Repo(tmp_path / "plain").git("init", "--bare", ".git")
    assert await plain.save("before", None) is None
    assert plain.problem
    repo = make_messy(tmp_path / "r")
    monkeypatch.setenv("PATH", str(tmp_path))
    states = states_of(repo)
    assert await states.save("before", None) is None
    assert states.problem == "git is not installed"


async def test_a_repository_without_room_is_given_up_after_two_attempts(repo: Repo) -> None:
    states = states_of(repo)
    objects = repo.path / ".git" / "objects"
    repo.git("gc", "--quiet")
    for place in objects.iterdir():
        if len(place.name) == 2:
            place.rmdir()
    repo.write("new.txt", "new\n")
    oid = repo.git("hash-object", "new.txt")
    (objects / oid[:2]).write_text("in the way")
    assert await states.save("before", None) is None
    assert "an object cannot be written" in states.problem
    assert await states.save("before", None) is None
    (objects / oid[:2]).unlink()
    assert await states.save("before", None) is None
    assert await states_of(repo).save("before", None) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_repository_of_somebody_else_is_left_alone(repo: Repo) -> None:
    os.chown(repo.path, 12345, 12345)
    os.chown(repo.path / ".git", 12345, 12345)
    states = states_of(repo)
    assert await states.save("before", None) is None
    assert "another user" in states.problem


async def test_a_lock_that_a_dead_git_left_is_removed_and_a_fresh_one_is_not(repo: Repo) -> None:
    states = states_of(repo)
    first = await saved(states)
    lock = repo.path / ".git" / f"{REF}.lock"
    lock.touch()
    repo.write("a.py", "x\n")
    assert await states.save("after", first) is None
    assert "update-ref" in states.problem
    os.utime(lock, ns=(10**18, 10**18))
    second = await saved(states_of(repo), first)
    assert repo.git("rev-parse", REF) == second.commit
    assert not lock.exists()


async def test_a_lock_that_a_dead_process_of_ours_left_is_in_nobodys_way(repo: Repo) -> None:
    """It had made the lock of its ref and died before it gave the ref its new contents."""
    states = states_of(repo)
    first = await saved(states)
    lock = repo.path / ".git" / f"{REF}.lock"
    draft = repo.path / ".git" / f"treadle-{REF.replace('/', '-')}"
    repo.write("a.py", "x\n")
    for leave in ("both", "draft", "after the rename"):
        draft.write_text(f"{'0' * 40}\n")
        if leave == "both":
            lock.hardlink_to(draft)
        elif leave == "after the rename":
            draft.unlink()
            draft.hardlink_to(repo.path / ".git" / REF)
        repo.write("a.py", f"{leave}\n")
        first = await saved(states_of(repo), first)
        assert repo.git("rev-parse", REF) == first.commit
        assert not lock.exists()
        assert not draft.exists()
    draft.write_text("")
    lock.hardlink_to(draft)
    await states_of(repo).drop()
    assert repo.git("for-each-ref", REF) == ""


async def test_states_are_dropped_and_then_they_are_gone(repo: Repo) -> None:
    states = states_of(repo)
    repo.write("new.txt", "new\n")
    made = await saved(states)
    assert await states.exists(made.commit)
    repo.git("gc", "--prune=now", "--quiet")
    assert await states.exists(made.commit)
    await states.drop()
    repo.git("gc", "--prune=now", "--quiet")
    assert not await states.exists(made.commit)
    with pytest.raises(FileStateError, match="not in the repository any more"):
        await states.changes(made.commit, made.tree)
    again = await saved(states_of(repo), made)
    assert repo.git("rev-parse", f"{again.commit}^") == repo.head


async def test_a_fork_keeps_the_state_of_its_base_by_a_ref_of_its_own(repo: Repo) -> None:
    made = await saved(states_of(repo))
    fork = FileStates(repo.path, "T-fork")
    assert await fork.save("before", made) is None
    assert repo.git("rev-parse", "refs/treadle/T-fork") == made.commit
    await fork.drop(ID)
    repo.git("gc", "--prune=now", "--quiet")
    assert await fork.exists(made.commit)


async def test_the_diff_is_what_git_would_say_and_applies(tmp_path: Path) -> None:
    repo = make_messy(tmp_path / "r")
    states = states_of(repo)
    first = await saved(states)
    put(repo.path, b"clean.txt", b"changed\n")
    put(repo.path, b"line\nbreak.txt", b"changed\n")
    put(repo.path, b"binary.bin", b"\0\1")
    (repo.path / "tool.sh").unlink()
    second = await saved(states, first)
    out = await states.diff(first.commit, second.commit)
    plain = output(repo, "diff", "--no-renames", "--full-index", first.commit, second.commit)
    assert out == plain
    part = await states.diff(first.commit, second.commit, [b"clean.txt"])
    assert part.count(b"diff --git") == 1
    assert b"+changed" in part
    count = len(list((repo.path / ".git" / "objects").rglob("*")))
    await states.diff(first.commit, second.commit, [b"clean.txt"], is_stat=True)
    assert len(list((repo.path / ".git" / "objects").rglob("*"))) == count


async def test_many_pairs_are_told_apart_even_with_names_that_look_like_headers(
    repo: Repo,
) -> None:
    states = states_of(repo)
    made = [await saved(states)]
    for number in range(3):
        repo.write(f"{made[-1].tree} {made[-1].tree}\n", str(number))
        repo.write(f"f{number}", "x")
        made.append(await saved(states, made[-1]))
    pairs = [(a.commit, b.commit) for a in made for b in made]
    together = await states.differences(pairs)
    assert together == [await states.changes(*pair) for pair in pairs]
    assert [] in together


def test_another_form_of_gits_listing_is_noticed() -> None:
    listed = b"100644 " + b"a" * 40 + b" 0\tx\0"
    assert parse_index(listed) is None
    assert parse_index(listed + b"  ctime: later\n") is None
    assert parse_index(b"") == {}
    (one,) = parse_plain_index(listed).values()
    assert one.seen is None


async def test_a_look_aside_leaves_no_object_behind(repo: Repo) -> None:
    repo.write("new.txt", "never seen\n")
    objects = repo.path / ".git" / "objects"
    before = sorted(objects.rglob("*"))
    entries = (await states_of(repo).look_aside()).entries
    assert sorted(objects.rglob("*")) == before
    assert entries[b"new.txt"].oid == repo.git("hash-object", "new.txt")


async def test_contents_are_there_after_a_look_whatever_was_remembered(repo: Repo) -> None:
    objects = Objects(Repository(repo.path))
    camera = Camera(objects)
    repo.write("new.txt", "new\n")
    oids = set()
    for _ in range(3):
        found = await camera.capture()
        oids.add(found.entries[b"new.txt"].oid)
    (oid,) = oids
    assert (await objects.contents([oid]))[oid] == b"new\n"


class AddsMeanwhile(Objects):
    """Somebody adds a file just before the index is read for what it knows of the files."""

    repo: Repo

    async def out(self, *arguments: str, **more: Any) -> bytes:
        if "--debug" in arguments and self.repo.git("ls-files", "mine.txt") == "":
            await asyncio.to_thread(self.repo.git, "add", "mine.txt")
        return await super().out(*arguments, **more)


async def test_a_file_that_somebody_adds_during_a_look_is_kept_as_it_is(repo: Repo) -> None:
    objects = AddsMeanwhile(Repository(repo.path))
    objects.repo = repo
    camera = Camera(objects)
    names = [f"many/{number}.txt" for number in range(capture.READ_COUNT_MAX)]
    for name in (*names, "mine.txt"):
        repo.write(name, "one\n")
    repo.git("add", ".")
    await camera.capture()
    repo.git("rm", "--quiet", "--cached", "mine.txt")
    for name in (*names, "mine.txt"):
        repo.write(name, f"two of {name}\n")
    repo.git("add", "many")
    for name in (*names, "mine.txt"):
        os.utime(repo.path / name, (10**9, 10**9))
    repo.git("add", "many")
    found = await camera.capture()
    assert repo.git("ls-files", "mine.txt") == "mine.txt"
    oids = {name: found.entries[name.encode()].oid for name in (*names, "mine.txt")}
    wrong = {name for name, oid in oids.items() if repo.git("hash-object", name) != oid}
    assert wrong == set()


@for_every_row("written_ns, is_clean", [(10, False), (11, True), (9, False)])
def test_what_was_written_in_the_moment_of_the_index_is_read_again(
    written_ns: int, is_clean: bool
) -> None:
    seen = (10, 10, 7, 3)
    indexed = {b"f": Indexed(FileEntry("100644", "a" * 40), seen)}
    files = {b"f": git_index.DiskFile("100644", 3, seen)}
    assert git_index._find_clean(indexed, files, written_ns) == ({b"f"} if is_clean else set())
    for place in range(4):
        other = tuple(one + (at == place) for at, one in enumerate(seen))
        changed = {b"f": git_index.DiskFile("100644", 3, other)}  # type: ignore[arg-type]
        assert git_index._find_clean(indexed, changed, written_ns + 99) == set()


@pytest.mark.parametrize(
    "name", ["HEAD", "HEAD\nHEAD", "--all", "", "main", ID, REF, "a" * 39, "A" * 40, "x y", "é"]
)
async def test_what_is_recorded_and_no_id_is_no_state(tmp_path: Path, name: str) -> None:
    repo = make_messy(tmp_path / "r")
    states = states_of(repo)
    real = await saved(states)
    gift = FilesSaved(name, name, "before")
    assert not await states.exists(name)
    with pytest.raises(FileStateError, match="any more"):
        await states.changes(real.commit, name)
    with pytest.raises(FileStateError, match="any more"):
        await states.entries(name)
    with pytest.raises(FileStateError, match="any more"):
        await states.steps([real, gift])
    put(repo.path, b"untracked.txt", b"changed\n")
    made = await saved(states, gift)
    assert repo.git("rev-parse", f"{made.commit}^") == repo.head
    rewritten = await states.rewrite([name], lambda content: content)
    assert name not in rewritten.commits
