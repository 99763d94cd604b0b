"""Crowds of files: taken in at once, and left out by whole folders where there are too many."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import FileStateError
from treadle.workspace.files import capture, pack_writer
from treadle.workspace.files.capture import Camera
from treadle.workspace.files.entries import NOT_KEPT
from treadle.workspace.files.large_folders import crowds_of
from treadle.workspace.files.objects import Objects, set_aside
from treadle.workspace.git import Repository
from workspace.files.messy import own, world
from workspace.files.test_states import output, saved, states_of
from workspace.repo import Repo

NAMES = (b'quoted"name', b"a\nline", b"caf\xe9", b" space ", b"-dash", "ä".encode())


def begun(tmp_path: Path, *options: str) -> Repo:
    """A repository with one commit."""
    repo = Repo(tmp_path / "r")
    repo.git("init", "--quiet", *options)
    repo.write("kept.txt", "kept\n")
    repo.git("add", "--all")
    repo.git("-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first")
    return repo


def crowd(folder: Path, count: int, *, seed: int = 0) -> dict[bytes, bytes]:
    """So many files of any bytes and odd names."""
    dice = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for number in range(count):
        name = b"%d%s" % (number, NAMES[number % len(NAMES)])
        made[name] = dice.randbytes(dice.choice((0, 1, 50, 3000))) + b"\r\n" * (number % 2)
        (folder / os.fsdecode(name)).write_bytes(made[name])
    return made


@pytest.mark.parametrize("form", ["sha1", "sha256"])
async def test_a_crowd_is_one_pack_that_holds_the_raw_bytes(tmp_path: Path, form: str) -> None:
    repo = begun(tmp_path, f"--object-format={form}")
    repo.git("config", "fastimport.unpackLimit", "100000")
    repo.git("config", "pack.packSizeLimit", "1m")
    made = crowd(repo.path / "new", pack_writer.COUNT_MIN)
    before, seen = own(repo.path), world(repo.path, with_times=True)
    state = await saved(states_of(repo))
    assert own(repo.path) == before
    assert world(repo.path, with_times=True) == seen
    entries = await states_of(repo).entries(state.commit)
    for name, content in made.items():
        assert output(repo, "cat-file", "blob", entries[b"new/" + name].oid) == content
    assert len(list((repo.path / ".git/objects/pack").glob("*.pack"))) == 1
    assert not list((repo.path / ".git").rglob("*.keep"))
    loose = list((repo.path / ".git/objects").glob("??/*"))
    assert len(loose) < pack_writer.COUNT_MIN
    repo.git("fsck", "--strict", "--no-dangling")


async def test_a_few_files_are_not_packed_so_that_each_can_be_removed(tmp_path: Path) -> None:
    repo = begun(tmp_path)
    crowd(repo.path / "new", pack_writer.COUNT_MIN - 1)
    await saved(states_of(repo))
    assert not list((repo.path / ".git/objects/pack").glob("*"))


async def test_a_pack_and_its_index_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = begun(tmp_path)
    crowd(repo.path / "new", pack_writer.COUNT_MIN)
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    await saved(states_of(repo))
    told = [json.loads(line) for line in trace.read_text().splitlines()]
    packers = {
        one["sid"] for one in told if one["event"] == "cmd_name" and "fast-import" in str(one)
    }
    flushed = [one for one in told if one.get("key") == "fsync/hardware-flush"]
    assert sum(int(one["value"]) for one in flushed if one["sid"] in packers) >= 2


async def test_looking_aside_at_a_crowd_leaves_nothing_in_the_repository(tmp_path: Path) -> None:
    repo = begun(tmp_path)
    made = crowd(repo.path / "new", pack_writer.COUNT_MIN)
    before = sorted((repo.path / ".git").rglob("*"))
    found = (await states_of(repo).look_aside()).entries
    assert {path for path in found if path.startswith(b"new/")} == {b"new/" + one for one in made}
    assert sorted((repo.path / ".git").rglob("*")) == before


async def test_groups_end_by_their_count_and_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = begun(tmp_path)
    made = crowd(tmp_path / "new", pack_writer.COUNT_MIN)
    paths = [str(tmp_path / "new" / os.fsdecode(name)) for name in made]
    objects = Objects(Repository(repo.path))
    with set_aside(objects) as aside:
        whole = await aside.hash_files(paths)
    for limit, value in (("GROUP_COUNT", 7), ("GROUP_SIZE", 4000)):
        monkeypatch.setattr(pack_writer, limit, value)
        assert pack_writer.read_batch(paths)[0] < 30
        with set_aside(objects) as aside:
            assert await aside.hash_files(paths) == whole


def test_only_files_are_taken_in(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with pytest.raises(FileStateError, match="no file any more"):
        pack_writer.read_batch([str(tmp_path / "pipe")])
    with pytest.raises(OSError, match="symbolic links"):
        pack_writer.read_batch([str(tmp_path / "link")])


async def test_what_was_read_before_git_failed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = begun(tmp_path)
    oids = []
    for number in range(12):
        path = repo.write(f"new/{number:02}", f"number {number}\n")
        oids.append(repo.git("hash-object", str(path)))
    monkeypatch.setattr(capture, "GROUP_COUNT", 5)
    monkeypatch.setattr(capture, "CLOCK_NS", -(10**12))  # they are new, and known all the same
    store = repo.path / ".git/objects"
    in_the_way = store / oids[-1][:2]
    assert oids[-1][:2] not in {one[:2] for one in oids[:-1]}
    in_the_way.write_text("no folder")
    camera = Camera(Objects(Repository(repo.path)))
    with pytest.raises(FileStateError, match="cannot be written"):
        await camera.capture()
    in_the_way.unlink()
    for oid in oids[:5]:
        (store / oid[:2] / oid[2:]).unlink()
    await camera.capture()
    there = [(store / oid[:2] / oid[2:]).exists() for oid in oids]
    assert there == [False] * 5 + [True] * 7


async def test_of_too_many_files_a_folder_stays_out_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = begun(tmp_path)
    monkeypatch.setattr(capture, "UNTRACKED_COUNT_MAX", 10)
    crowd(repo.path / "data/deep", 9)
    mine = crowd(repo.path / "src", 3)
    states = states_of(repo)
    first = await saved(states)
    assert first.skipped == ("data/deep/",)
    entries = await states.entries(first.commit)
    modes = {path: entry.mode for path, entry in entries.items()}
    assert {path for path, mode in modes.items() if mode == NOT_KEPT} == {
        b"data/deep/" + os.fsencode(path.name) for path in (repo.path / "data/deep").iterdir()
    }
    assert {path for path in modes if path.startswith(b"src/")} == {b"src/" + one for one in mine}
    changed = next((repo.path / "data/deep").iterdir())
    changed.write_bytes(b"changed")
    second = await saved(states, first)
    (change,) = await states.changes(first.commit, second.commit)
    assert not change.is_kept
    assert await states.restore([change._replace(old=change.new, new=change.old)]) == []
    assert changed.read_bytes() == b"changed"


PATHS = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4).map(b"/".join),
    max_size=30,
    unique=True,
)


@given(PATHS, st.integers(0, 12))
def test_no_more_than_the_wanted_number_of_files_is_left(paths: list[bytes], count: int) -> None:
    found = crowds_of(paths, count)
    assert len(paths) - len(found.paths) <= count
    inside = [path for path in paths if path.startswith(found.folders)]
    assert list(found.paths) == (paths if found.folders == (b"./",) else inside)
    assert bool(found.folders) == (len(paths) > count)


def test_the_folder_with_most_stays_out_and_not_what_is_beside_it() -> None:
    module = [b"a/lib/m%d/%d" % (one, two) for one in range(50) for two in range(2)]
    mine = [b"a/mine/%d" % one for one in range(20)] + [b"b/%d" % one for one in range(20)]
    assert crowds_of([*module, *mine], 140).folders == ()
    assert crowds_of([*module, *mine], 139).folders == (b"a/lib/",)
    assert crowds_of([*module, *mine], 39).folders == (b"a/",)
    assert crowds_of([*mine, b"top"], 40).folders == (b"a/",)
    assert crowds_of([*mine, b"top"], 1).folders == (b"a/", b"b/")
    assert crowds_of([*mine, b"top"], 0).folders == (b"./",)
