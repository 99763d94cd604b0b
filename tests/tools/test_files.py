"""A file is replaced whole or not at all (T7)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from treadle.core.tools import ToolErrorKind
from treadle.sandbox.repositories import is_layout
from treadle.tool_failure import ToolFailure
from treadle.tools import files
from treadle.tools.files import Written, content_of, overwrite, rewrite
from treadle.tools.paths import Root


@pytest.fixture
def root(folder: Path) -> Root:
    return Root(folder)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_missing_file_is_made_with_its_folders_and_the_usual_mode(
    root: Root, folder: Path
) -> None:
    asked = []
    written = rewrite(root, "a/b/c.txt", lambda old: asked.append(old) or b"new")  # type: ignore[func-returns-value]
    assert asked == [None]
    assert written == Written("a/b/c.txt", 3, None, "absent", digest(b"new"), None, b"new")
    assert (folder / "a/b/c.txt").read_bytes() == b"new"
    (folder / "beside.txt").touch()
    assert (folder / "a/b/c.txt").stat().st_mode == (folder / "beside.txt").stat().st_mode
    assert names(folder / "a/b") == ["c.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o700, 0o6755])
def test_the_mode_is_kept(root: Root, folder: Path, mode: int) -> None:
    file = folder / "run.sh"
    file.write_bytes(b"old")
    file.chmod(mode)
    written = rewrite(root, "run.sh", lambda _: b"newer")
    digests = digest(b"old"), digest(b"newer")
    assert written == Written("run.sh", 5, 3, *digests, b"old", b"newer")
    assert file.stat().st_mode & 0o7777 == mode
    written = overwrite(root, "run.sh", b"newest")
    digests = digest(b"newer"), content_of(root, "run.sh")
    assert written == Written("run.sh", 6, 5, *digests, b"newer", b"newest")
    assert file.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(root: Root, folder: Path) -> None:
    file = folder / "theirs.txt"
    file.write_bytes(b"old")
    os.chown(file, 12345, 54321)
    overwrite(root, "theirs.txt", b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


AS_NOBODY = """
import os, sys
from treadle.tool_failure import ToolFailure
from treadle.tools.files import overwrite
from treadle.tools.paths import Root
root = Root(sys.argv[1])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for name in ("read_only", "theirs"):
    try:
        overwrite(root, name, b"new")
    except ToolFailure as failure:
        print(name, failure.kind.value, failure.message)
    else:
        print(name, oct(os.stat(name, dir_fd=root._fd).st_mode))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_permissions_of_the_file_itself_are_respected(folder: Path) -> None:
    folder.chmod(0o777)
    for name, mode in (("read_only", 0o444), ("theirs", 0o4666)):
        (folder / name).write_bytes(b"old")
        (folder / name).chmod(mode)
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", AS_NOBODY, folder]
    printed = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert printed.stderr == ""
    assert printed.stdout.splitlines() == [
        "read_only IO error read_only: Permission denied",
        "theirs 0o100666",
    ], "and set-user-id does not pass to a new owner"
    assert names(folder) == ["read_only", "theirs"]


def test_a_second_name_keeps_the_old_content(root: Root, folder: Path) -> None:
    (folder / "a").write_bytes(b"old")
    os.link(folder / "a", folder / "b")
    overwrite(root, "a", b"new")
    assert (folder / "a").read_bytes() == b"new"
    assert (folder / "b").read_bytes() == b"old"


def test_a_link_stays_a_link_and_its_target_is_named(root: Root, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub/real.txt").write_bytes(b"old")
    (folder / "link.txt").symlink_to("sub/real.txt")
    assert overwrite(root, "link.txt", b"new").name == "sub/real.txt"
    assert (folder / "link.txt").is_symlink()
    assert (folder / "sub/real.txt").read_bytes() == b"new"


def test_no_order_of_writes_makes_a_folder_that_git_takes_for_a_repository(folder: Path) -> None:
    """Its settings would name programs for the `git status` of whoever works in it."""
    settings = "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ran; false\n"
    whole = {"HEAD": "ref: refs/heads/m\n", "config": settings, "objects/a": "", "refs/b/c": ""}
    beside = {"HEAD": "ref: refs/heads/m\n", "commondir": "../elsewhere\n"}
    orders = [order for parts in (whole, beside) for order in itertools.permutations(parts.items())]
    wrong = []
    for number, order in enumerate(orders):
        place = folder / str(number)
        place.mkdir()
        refused = [name for name, text in order if not is_written(folder, place / name, text)]
        git(place, "status")
        if len(refused) != 1 or (place / "ran").exists() or is_layout(names(place)):
            wrong.append((order, refused))
    assert wrong == []
    git(folder, "init", "-q", "--bare", "old.git")
    (folder / "link").symlink_to("old.git")
    inside = ("config", "hooks/post-update", "objects/info/alternates", "refs/heads/x/y")
    ways = [folder / way / name for way in ("old.git", "link") for name in inside]
    assert not [way for way in ways if is_written(folder, way, "x")]


def is_written(folder: Path, path: Path, text: str) -> bool:
    try:
        overwrite(Root(folder), str(path), text.encode())
    except ToolFailure:
        return False
    return True


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=folder, capture_output=True, check=False)


def test_a_change_that_fails_leaves_everything_as_it_was(root: Root, folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"old")

    def change(_: bytes | None) -> bytes:
        raise ZeroDivisionError

    for path in ("a.txt", "made/new.txt"):
        with pytest.raises(ZeroDivisionError):
            rewrite(root, path, change)
    assert (folder / "a.txt").read_bytes() == b"old"
    assert names(folder) == ["a.txt"]


@pytest.mark.parametrize("theirs", [b"theirs", b"", None])
def test_a_file_that_somebody_changed_meanwhile_is_left_alone(
    root: Root, folder: Path, theirs: bytes | None
) -> None:
    file = folder / "a.txt"
    file.write_bytes(b"old")

    def change(_: bytes | None) -> bytes:
        file.unlink()
        if theirs is not None:
            file.write_bytes(theirs)
        return b"mine"

    with pytest.raises(ToolFailure, match="changed by somebody else meanwhile") as caught:
        rewrite(root, "a.txt", change)
    assert caught.value.kind is ToolErrorKind.FAILED
    left = [path.read_bytes() for path in folder.iterdir()]
    assert left == ([] if theirs is None else [theirs])


def test_a_file_that_somebody_made_meanwhile_is_left_alone(root: Root, folder: Path) -> None:
    def change(_: bytes | None) -> bytes:
        (folder / "a.txt").write_bytes(b"theirs")
        return b"mine"

    with pytest.raises(ToolFailure, match="changed by somebody else meanwhile"):
        rewrite(root, "a.txt", change)
    assert (folder / "a.txt").read_bytes() == b"theirs"
    assert names(folder) == ["a.txt"]


def test_the_same_content_written_meanwhile_is_no_change(root: Root, folder: Path) -> None:
    def change(_: bytes | None) -> bytes:
        (folder / "a.txt").write_bytes(b"old")
        return b"mine"

    (folder / "a.txt").write_bytes(b"old")
    rewrite(root, "a.txt", change)
    assert (folder / "a.txt").read_bytes() == b"mine"


def test_writers_of_one_process_take_turns(root: Root, folder: Path) -> None:
    (folder / "count").write_bytes(b"0")

    def count() -> None:
        for _ in range(20):
            rewrite(root, "count", lambda old: b"%d" % (int(old or b"") + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (folder / "count").read_bytes() == b"80"
    assert names(folder) == ["count"]


FULL_DISK = """
import resource, signal, sys
from treadle.tool_failure import ToolFailure
from treadle.tools.files import overwrite
from treadle.tools.paths import Root
root = Root(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    overwrite(root, "a.txt", b"x" * 5000)
except ToolFailure as failure:
    print(failure.kind.value, failure.message)
"""


def test_a_write_that_the_disk_refuses_leaves_no_trace(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"old")
    argv = [sys.executable, "-c", FULL_DISK, folder]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.check_output(argv, env=env, text=True)
    assert printed == "IO error a.txt: File too large\n"
    assert (folder / "a.txt").read_bytes() == b"old"
    assert names(folder) == ["a.txt"]


def test_a_file_too_large_to_edit_is_said_to_be(root: Root, folder: Path) -> None:
    with (folder / "big").open("wb") as file:
        file.truncate(files.EDIT_SIZE_MAX)
    assert rewrite(root, "big", lambda old: old or b"").size == files.EDIT_SIZE_MAX
    with (folder / "big").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ToolFailure, match="is larger than 16777216 bytes"):
        rewrite(root, "big", lambda old: old or b"")
    assert overwrite(root, "big", b"small").size == 5


KILLED = """
import sys
from treadle.tools.files import overwrite
from treadle.tools.paths import Root
root = Root(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        overwrite(root, "file", letter * 100_000)
"""


def test_a_killed_writer_leaves_the_old_content_or_the_new(folder: Path) -> None:
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", KILLED, folder], stdout=-1) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            while not (folder / "file").exists():
                pass
            writer.kill()
        content = (folder / "file").read_bytes()
        assert content in (b"a" * 100_000, b"b" * 100_000)
