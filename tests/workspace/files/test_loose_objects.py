"""Objects that are written without git are those that git would have written, and as durable."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import FileStateError
from treadle.workspace.files.entries import FileEntry
from treadle.workspace.files.loose_objects import LooseObjects, format_trees
from treadle.workspace.files.objects import Objects
from treadle.workspace.files.states import FileStates
from treadle.workspace.git import Repository
from workspace.repo import Repo

NAMES = st.sampled_from([b"a", b"a.b", b"a-b", b"a0", b"ab", b"A", b"\xff", b"a b", b"z", b"."])
PATHS = st.lists(NAMES.filter(lambda name: name != b"."), min_size=1, max_size=3).map(b"/".join)
KINDS = st.sampled_from(["100644", "100755", "120000"])


def folders_of(path: bytes) -> list[bytes]:
    return [path[:at] for at, byte in enumerate(path) if byte == ord("/")]


@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_trees_are_named_and_written_as_git_does(tmp_path: Path, digest: str) -> None:
    repo = Repo(tmp_path / "r")
    repo.git("init", "--quiet", f"--object-format={digest}")
    objects = LooseObjects(repo.path / ".git/objects", digest)
    blobs = [objects.write("blob", content) for content in (b"", b"one\n", bytes(range(256)) * 40)]

    @settings(max_examples=30)
    @given(st.dictionaries(PATHS, st.tuples(KINDS, st.sampled_from(blobs)), max_size=8))
    def check(files: dict[bytes, tuple[str, str]]) -> None:
        taken = {folder for path in files for folder in folders_of(path)}
        entries = {
            path: FileEntry(mode, oid) for path, (mode, oid) in files.items() if path not in taken
        }
        trees = format_trees(entries, objects)
        for content in trees.values():
            objects.write("tree", content)
        lines = b"".join(
            f"{one.mode} {one.oid}\t".encode() + path + b"\0" for path, one in entries.items()
        )
        environment = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index")}
        run = {"cwd": repo.path, "env": environment, "check": True, "capture_output": True}
        (tmp_path / "index").unlink(missing_ok=True)
        subprocess.run(["git", "update-index", "-z", "--index-info"], input=lines, **run)
        made = subprocess.run(["git", "write-tree"], **run).stdout.decode().strip()
        assert list(trees)[-1] == made

    check()
    repo.git("fsck", "--strict", "--no-dangling")


MESSAGE = "wörds\n\nTreadle-Moment: before\n"
DATES = {"author": "1700000000 +0100", "committer": "1700000001 -0230"}


async def test_a_commit_is_what_git_makes_of_the_same(repo: Repo) -> None:
    head, tree = repo.git("rev-parse", "HEAD"), repo.git("rev-parse", "HEAD^{tree}")
    made = await Objects(Repository(repo.path)).commit(tree, [head], MESSAGE, DATES)
    assert made == commit_by_git(repo, tree, head)


def commit_by_git(repo: Repo, tree: str, parent: str) -> str:
    who = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "Treadle"), ("EMAIL", "treadle@localhost"))
    }
    who |= {f"GIT_{role.upper()}_DATE": f"@{date}" for role, date in DATES.items()}
    command = ["git", "commit-tree", tree, "-p", parent]
    environment = {**os.environ, **who}
    done = subprocess.run(
        command, cwd=repo.path, env=environment, input=MESSAGE.encode(), capture_output=True
    )
    return done.stdout.decode().strip()


async def test_a_tree_of_contents_that_are_not_there_is_not_written(repo: Repo) -> None:
    objects = Objects(Repository(repo.path))
    entries = await objects.read_tree(repo.git("rev-parse", "HEAD"))
    lost = {**entries, b"lost": FileEntry("100644", "1" * 40)}
    with pytest.raises(FileStateError, match="1111 is missing from the repository"):
        await objects.write_tree(lost)
    assert await objects.write_tree(lost, {b"lost": lost[b"lost"]})


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o700])
def test_who_may_read_the_folder_of_objects_may_read_an_object(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    folder.chmod(mode)
    oid = LooseObjects(folder, "sha1").write("blob", b"text")
    path = folder / oid[:2] / oid[2:]
    assert stat.S_IMODE(path.parent.stat().st_mode) == mode
    assert stat.S_IMODE(path.stat().st_mode) == 0o444 & mode
    assert [one.name for one in path.parent.iterdir()] == [oid[2:]]


async def test_all_that_a_state_leads_to_is_durable_before_its_ref_is(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what was there already: a `git add` writes objects that nobody syncs."""
    states = FileStates(repo.path, "T-01890a5d-ac96-774b-bcce-b302099a8057")
    first = await states.save("before", None)
    assert first is not None, states.problem
    ref = repo.path / ".git" / states.ref
    repo.write("new/deep/mine.py", "mine\n")
    repo.write("new/staged.py", "staged\n")
    repo.git("add", "new/staged.py")
    synced: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        real_sync(handle)
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    def replace(path: Path, target: Path) -> Path:
        if target == ref:
            synced.append("the ref moves")
        elif str(path) in synced:  # it is the same file by its name
            synced.append(str(target))
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    for number in range(2):
        if number:
            repo.write("new/deep/mine.py", "mine, changed\n")
        second = await states.save("after", first)
        assert second is not None, states.problem
        listed = repo.git("rev-list", "--objects", second.commit, f"^{first.commit}")
        oids = [line.split(" ")[0] for line in listed.splitlines()]
        assert len(oids) >= 5 - number
        places = [repo.path / ".git/objects" / oid[:2] / oid[2:] for oid in oids]
        before = synced[: synced.index("the ref moves")]
        late = [str(place) for place in places if str(place) not in before]
        late += [str(place.parent) for place in places if str(place.parent) not in before]
        assert late == []
        assert str(ref.parent) in synced[synced.index("the ref moves") :]
        first = second
        synced.clear()


async def test_no_object_and_no_ref_has_its_name_before_it_is_durable(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that finds an object believes it, and may move a branch to it at once."""
    synced: set[int] = set()
    early: list[Path] = []
    named: list[Path] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        real_sync(handle)
        synced.add(os.fstat(handle).st_ino)

    def replace(path: Path, target: Path) -> Path:
        named.append(target)
        early.extend([] if path.stat().st_ino in synced else [target])
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    states = FileStates(repo.path, "T-01890a5d-ac96-774b-bcce-b302099a8057")
    repo.write("new.py", "new\n")
    assert await states.save("before", None) is not None, states.problem
    assert len(named) == 4  # a blob, a tree, a commit, the ref
    assert early == []


async def test_a_ref_may_be_written_by_those_who_share_the_repository(repo: Repo) -> None:
    """The first to keep a state makes the folder of all: another one's would be refused there."""
    repo.git("config", "core.sharedRepository", "group")
    refs = repo.path / ".git/refs"
    refs.chmod(0o2775)
    states = FileStates(repo.path, "T-01890a5d-ac96-774b-bcce-b302099a8057")
    assert await states.save("before", None) is not None, states.problem
    path = repo.path / ".git" / states.ref
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o2775
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
