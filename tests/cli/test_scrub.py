"""`treadle scrub`: after it no byte on this machine that is Treadle's holds the text."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.conftest import Run
from cli.test_ask import Terminal
from core.samples import answer, call, ended, said, success
from store.shelf import fill
from treadle.core.events import ToolStarted
from treadle.runtime.calls import cut_middle
from treadle.store.blobs import Blobs
from treadle.store.file_replacement import replace_file
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.codec import decode_entry
from treadle.thread.facts import Annotated, FilesSaved, Trashed
from treadle.workspace.files.states import FileStates

SECRET = 'hunter2/"swordfish'
FORMS = (SECRET, json.dumps(SECRET)[1:-1], SECRET.encode().hex(), "hunter2%2F%22swordfish")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """The threads of the commands' home."""
    home = tmp_path / "home"
    return LocalStore(Places(home / "data", home / "state", home / "config"))


def holding(folder: Path) -> list[str]:
    """The files below a folder that hold the text."""
    needles = [word for form in FORMS for word in (form.encode(), json.dumps(form)[1:-1].encode())]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def leak(store: LocalStore, workspace: str = "/w") -> str:
    """A thread that holds the text wherever a thread can."""
    ref = Blobs(store.folders).keep(f"whole {SECRET}".encode())
    writer = store.create("treadle/0", workspace=workspace)
    arguments = json.dumps({"key": SECRET, "hex": SECRET.encode().hex()})
    fill(
        writer,
        (said(f"use {SECRET}"),),
        (answer("", call("a", "edit", arguments)), ToolStarted("a", "")),
        (ended("a", success("a", f"GET /?k={FORMS[3]}")),),
    )
    writer.stage(Annotated(f"kept as {ref.sha256}"))
    writer.commit()
    writer.close()
    folders = store.folders
    folders.disk.make_folder(folders.quarantine)
    name = f"{writer.thread_id}.jsonl.1.aa"
    replace_file(folders.disk, f"{folders.quarantine}/{name}", SECRET.encode())
    return writer.thread_id


def test_no_byte_of_the_data_folder_holds_the_text_afterwards(
    treadle: Run, store: LocalStore
) -> None:
    thread = leak(store)
    fork = store.fork(thread, creator="treadle/0")
    fork.close()
    assert "hunter2" in treadle("search", "hunter2").stdout
    data = store.places.data
    held = holding(data)
    assert f"threads/{thread}.jsonl" in held
    assert any(name.startswith("index.sqlite") for name in held)
    done = treadle("scrub", thread, "-", "--yes", "--kind", "deploy key", stdin=SECRET + "\n")
    assert done.returncode == 0, done.stderr
    assert f"{thread}  3 records changed" in done.stdout
    assert fork.thread_id not in done.stdout  # it goes on from the record by its first hash
    assert "still holds it" not in done.stderr
    assert "provider" in done.stderr
    assert holding(data) == []
    assert SECRET not in done.stdout + done.stderr
    assert treadle("search", "hunter2").stdout == ""
    assert "[REDACTED:deploy_key]" in treadle("search", "deploy_key").stdout
    assert treadle("verify", "--all").returncode == 0
    again = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    assert (again.returncode, again.stdout) == (1, "")
    assert "found nowhere" in again.stderr


def test_a_rehearsal_names_what_holds_it_and_changes_nothing(
    treadle: Run, store: LocalStore
) -> None:
    thread, other = leak(store), leak(store)
    before = {p: p.read_bytes() for p in store.places.data.rglob("*") if p.is_file()}
    done = treadle("scrub", thread, "-", "--dry-run", stdin=SECRET)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{thread}  3 records hold it\n")
    assert other not in done.stdout
    assert f"holds it: {store.folders.threads}/{other}.jsonl" in done.stderr
    after = {p: p.read_bytes() for p in store.places.data.rglob("*") if p.is_file()}
    assert after == before


def test_what_other_threads_hold_is_told_and_all_threads_takes_it_out(
    treadle: Run, store: LocalStore
) -> None:
    thread, other = leak(store), leak(store)
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    assert f"still holds it: {store.folders.threads}/{other}.jsonl" in done.stderr
    assert "--all-threads" in done.stderr
    writer = store.open(other)
    fill(writer, (Trashed(),))
    writer.close()
    Path(store.folders.trash).mkdir(exist_ok=True)
    for path in Path(store.folders.threads).glob(f"{other}.json*"):
        path.rename(Path(store.folders.trash) / path.name)
    done = treadle("scrub", "--all-threads", "-", "--yes", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    assert holding(store.places.data) == []


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_with_all_threads_one_that_cannot_be_done_is_named_and_all_others_are_done(
    treadle: Run, store: LocalStore, is_rehearsal: bool
) -> None:
    ids: list[str] = []
    for tool in ("edit", "editor"):
        writer = store.create("treadle/0", workspace="/w")
        fill(writer, (said("open the editor"),), (answer("", call("a", tool)),))
        writer.close()
        ids.append(writer.thread_id)
    how = "--dry-run" if is_rehearsal else "--yes"
    done = treadle("scrub", "--all-threads", "-", how, stdin="editor")
    assert done.returncode == 2
    verb = "would be" if is_rehearsal else "is"
    assert f"thread {ids[1]} {verb} left as it is" in done.stderr
    assert f"record 3 of thread {ids[1]}" in done.stderr
    assert done.stdout.split()[0] == ids[0]
    threads = Path(store.folders.threads)
    assert ("editor" in (threads / f"{ids[0]}.jsonl").read_text()) == is_rehearsal
    assert treadle("verify", "--all").returncode == 0


def test_no_piece_of_the_text_is_left_where_an_output_was_cut(
    treadle: Run, store: LocalStore
) -> None:
    secret = "SEKRIT-xyloqzph-73"
    whole = secret * 9000
    for shift in range(len(secret)):
        writer = store.create("treadle/0", workspace="/w")
        ref = Blobs(store.folders).keep(whole.encode())
        fill(
            writer,
            (said("go"),),
            (answer("", call("a", "edit")), ToolStarted("a", "")),
            (ended("a", replace(success("a", cut_middle("x" * shift + whole)), blob=ref)),),
        )
        writer.close()
    done = treadle("scrub", "--all-threads", "-", "--yes", stdin=secret)
    assert done.returncode == 0, done.stderr
    pieces = {secret[n : n + 4].encode() for n in range(len(secret) - 3)}
    for path in (path for path in store.places.data.rglob("*") if path.is_file()):
        data = path.read_bytes()
        assert [piece for piece in pieces if piece in data] == [], path
    assert treadle("verify", "--all").returncode == 0


def test_a_reader_of_the_index_is_waited_for_no_longer_than_is_said(
    treadle: Run, store: LocalStore
) -> None:
    thread = leak(store)
    assert "hunter2" in treadle("search", "hunter2").stdout
    reader = sqlite3.connect(store.places.data / "index.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM threads").fetchone()
    bound = {"treadle.store.index.index_update.PURGE_WAIT_S": 1}
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET, constants=bound)
    assert done.returncode == 0, done.stderr
    assert "waiting up to 1 s for another process that reads the index" in done.stderr
    assert "cleaned by whoever reads it next" in done.stderr
    reader.close()
    treadle("list")
    assert holding(store.places.data) == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ((), None, "which thread"),
        (("ID", "-", "--yes"), "abc \n", "less than 4"),
        (("ID", "-", "--yes"), "", "less than 4"),
        (("ID", "-"), SECRET, "--yes"),
        (("ID",), None, "--yes"),
        (("ID", "--yes"), None, "stdin"),
        (("ID", "-", "--yes"), "REDACTED", "--kind"),
        (("ID", "-", "--yes"), "assistant", "how threads are written"),
        (("nobody", "-", "--yes"), SECRET, "no thread"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_changed(
    treadle: Run, store: LocalStore, arguments: tuple[str, ...], stdin: str | None, words: str
) -> None:
    thread = leak(store)
    before = Path(store.folders.threads, f"{thread}.jsonl").read_bytes()
    given = [thread if word == "ID" else word for word in arguments]
    done = treadle("scrub", *given, stdin=stdin)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert Path(store.folders.threads, f"{thread}.jsonl").read_bytes() == before


def test_a_thread_that_is_open_is_to_be_tried_again_later(treadle: Run, store: LocalStore) -> None:
    thread = leak(store)
    writer = store.open(thread)
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    writer.close()
    assert done.returncode == 75
    assert treadle("scrub", thread, "-", "--yes", stdin=SECRET).returncode == 0


def test_on_a_terminal_the_text_is_asked_for_and_not_shown(
    environment: dict[str, str], repository: Path, store: LocalStore
) -> None:
    thread = leak(store)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "treadle", "scrub", thread],
        cwd=repository,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = _until(ours, b"take out: ")
    os.write(ours, SECRET.encode() + b"\n")
    shown += _until(ours, b"undone. [y/N]: ")
    os.write(ours, b"y\n")
    shown += _until(ours, b"Change the secret.")
    assert child.wait(timeout=60) == 0
    os.close(ours)
    assert SECRET.encode() not in shown
    assert holding(store.places.data) == []


def test_on_a_terminal_nobody_is_asked_about_a_text_that_is_nowhere(
    environment: dict[str, str], repository: Path, store: LocalStore
) -> None:
    terminal = Terminal(
        "", repository, environment, [sys.executable, "-m", "treadle", "scrub", leak(store)]
    )
    terminal.read_until("take out: ")
    terminal.type("nowhere at all\n")
    assert "found nowhere" in terminal.read_to_the_end()
    assert terminal.process.wait() == 1


def _until(handle: int, words: bytes) -> bytes:
    """What a terminal shows, up to some words."""
    shown = b""
    while words not in shown:
        shown += os.read(handle, 4096)
    return shown


# ---- the saved states of files -------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout


def objects_holding(folder: Path) -> list[str]:
    """The objects in a repository that hold the text, reachable or not."""
    listed = git(folder, "cat-file", "--batch-all-objects", "--batch-check").decode().split("\n")
    names = [line.split(" ")[:2] for line in listed if line]
    return [name for name, kind in names if SECRET.encode() in git(folder, "cat-file", kind, name)]


async def save_files(store: LocalStore, repository: Path) -> tuple[str, str]:
    """A thread with states of the files that held the text, and a fork with one of its own."""
    thread = leak(store, str(repository))
    states, previous = FileStates(repository, thread), None
    for number, text in enumerate(("nothing", f"key = {SECRET}", "nothing again")):
        (repository / "key.txt").write_text(f"{text}\n")
        saved = await states.save("after" if number % 2 else "before", previous)
        assert saved is not None, states.problem
        previous = saved
        writer = store.open(thread)
        fill(writer, (saved,))
        writer.close()
    fork = store.fork(thread, creator="treadle/0")
    own = await FileStates(repository, fork.thread_id).save("before", previous)
    (repository / "key.txt").write_text("of the fork\n")
    own = await FileStates(repository, fork.thread_id).save("after", previous)
    assert own is not None
    fill(fork, (own,))
    fork.close()
    return thread, fork.thread_id


def states_of(store: LocalStore, thread: str) -> list[FilesSaved]:
    entries = [decode_entry(record.event) for record in store.scan(thread).records]
    return [entry for entry in entries if isinstance(entry, FilesSaved)]


async def test_no_object_of_the_repository_holds_the_text_afterwards(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    thread, fork = await save_files(store, repository)
    head, index = git(repository, "rev-parse", "HEAD"), (repository / ".git/index").read_bytes()
    before = [states_of(store, one) for one in (thread, fork)]
    assert len(objects_holding(repository)) == 1
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    assert "not reached" not in done.stderr
    assert objects_holding(repository) == []
    assert holding(store.places.data) == []
    after = [states_of(store, one) for one in (thread, fork)]
    assert [len(one) for one in after] == [len(one) for one in before] == [3, 1]
    for old, new in zip(chain(*before), chain(*after), strict=True):
        assert git(repository, "rev-parse", f"{new.commit}^{{tree}}").decode().strip() == new.tree
        assert old.moment == new.moment
    kept = git(repository, "show", f"{after[0][1].commit}:key.txt").decode()
    assert kept == "key = [REDACTED:scrubbed]\n"
    assert git(repository, "rev-parse", "HEAD") == head
    assert (repository / ".git/index").read_bytes() == index
    refs = git(repository, "for-each-ref", "--format=%(refname)").decode().split()
    assert sorted(refs) == sorted(
        ["refs/heads/main", f"refs/treadle/{thread}", f"refs/treadle/{fork}"]
    )
    assert treadle("verify", "--all").returncode == 0


async def test_a_text_on_a_branch_is_told_and_left_to_its_owner(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    thread, _ = await save_files(store, repository)
    (repository / "key.txt").write_text(f"key = {SECRET}\n")
    git(repository, "add", "key.txt")
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0
    assert "not reached: 1 contents" in done.stderr
    assert len(objects_holding(repository)) == 1
    assert holding(store.places.data) == []


async def test_without_its_repository_a_thread_is_scrubbed_and_that_is_told(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    thread, _ = await save_files(store, repository)
    (repository / ".git").rename(repository / "moved")
    done = treadle("scrub", thread, "-", "--yes", stdin=SECRET)
    assert done.returncode == 0
    assert "not reached: the saved files" in done.stderr
    assert holding(store.places.data) == []


KILLED = (
    "import os, signal, subprocess, sys\n"
    "left = int(sys.argv.pop(1))\n"
    "def counted(call):\n"
    "    def wrapped(*a, **k):\n"
    "        global left\n"
    "        left -= 1\n"
    "        if not left: os.kill(os.getpid(), signal.SIGKILL)\n"
    "        return call(*a, **k)\n"
    "    return wrapped\n"
    "os.rename, os.unlink = counted(os.rename), counted(os.unlink)\n"
    "subprocess.Popen.__init__ = counted(subprocess.Popen.__init__)\n"
    "from treadle.cli.main import main\n"
    "main()\n"
)
"""The command, killed before one of its renames, removals and commands of git."""


def test_killed_anywhere_a_scrub_is_finished_by_the_same_again(
    environment: dict[str, str], store: LocalStore, repository: Path, tmp_path: Path
) -> None:
    threads = asyncio.run(save_files(store, repository))
    whole = tmp_path / "whole"
    for folder in (store.places.data, repository):
        shutil.copytree(folder, whole / folder.name)

    def killed(at: int) -> int:
        words = ["scrub", threads[0], "-", "--yes"]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(at), *words],
            cwd=repository,
            env=environment,
            input=SECRET,
            text=True,
            capture_output=True,
        )
        for one in threads:
            assert store.scan(one).condition.value == "clean"
        return done.returncode

    kills, at = 0, 2
    while killed(at) == -9:
        kills += 1
        assert killed(0) in (0, 1), at
        assert holding(store.places.data) == [], at
        assert objects_holding(repository) == [], at
        assert [len(states_of(store, one)) for one in threads] == [3, 1]
        for state in (*states_of(store, threads[0]), *states_of(store, threads[1])):
            assert git(repository, "cat-file", "-t", state.commit) == b"commit\n"
            assert store.load(threads[1]).problem == ""
        at += 11
        for folder in (store.places.data, repository):
            shutil.rmtree(folder)
            shutil.copytree(whole / folder.name, folder)
    assert kills > 4
