"""`treadle verify`: what is not as it must be is found and named, and nothing is changed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cli.conftest import Run
from core.samples import ended
from store.shelf import TURN, fill
from treadle.app.upkeep.thread_scrub import sign_text
from treadle.core.tools import ToolExecutionOutcome
from treadle.store.blobs import Blobs
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.upkeep.interrupted_operations import mark_scrub
from treadle.store.upkeep.scrub import scrub
from treadle.thread.facts import Annotated, Trashed


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """The threads of the commands' home."""
    home = tmp_path / "home"
    return LocalStore(Places(home / "data", home / "state", home / "config"))


def make(store: LocalStore, *, blob: bytes = b"") -> str:
    """A thread with a turn; with an output kept beside it."""
    writer = store.create("treadle/0", workspace="/w")
    fill(writer, *TURN[:2])
    ref = Blobs(store.folders).keep(blob) if blob else None
    fill(writer, (ended("a", ToolExecutionOutcome.Success("a", "cut", blob=ref)),))
    writer.close()
    return writer.thread_id


def journal(store: LocalStore, thread: str) -> Path:
    return Path(store.folders.threads) / f"{thread}.jsonl"


def files(store: LocalStore) -> dict[str, bytes]:
    """All files but the index, which is a cache, and locks."""
    return {
        str(path): path.read_bytes()
        for path in store.places.data.rglob("*")
        if path.is_file() and "index.sqlite" not in path.name and path.suffix != ".lock"
    }


def test_a_fork_is_verified_with_what_it_goes_on_from(treadle: Run, store: LocalStore) -> None:
    base = make(store)
    writer = store.fork(base, creator="treadle/0")
    fill(writer, (Annotated("own"),))
    writer.close()
    done = treadle("verify", "--json")
    assert done.returncode == 0, done.stdout
    assert {one["thread"] for one in json.loads(done.stdout)} == {base, writer.thread_id}
    replayed = treadle("replay", writer.thread_id)
    assert replayed.returncode == 0
    assert "2 records folded" in replayed.stdout
    path = journal(store, base)
    path.write_bytes(path.read_bytes().replace(b"mend it", b"mend XX"))
    done = treadle("verify", writer.thread_id)
    assert done.returncode == 1
    assert base in done.stdout


@pytest.mark.parametrize("damage", ["gone", "changed", "cut"])
def test_an_output_that_is_gone_or_damaged_is_found(
    treadle: Run, store: LocalStore, damage: str
) -> None:
    thread = make(store, blob=b"much output")
    assert treadle("verify").returncode == 0
    (blob,) = (path for path in (store.places.data / "blobs").iterdir() if path.is_file())
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(b"other words" if damage == "changed" else b"much")
    done = treadle("verify", "--all")
    assert done.returncode == 1
    assert f"{thread}  incomplete" in done.stdout
    assert blob.name in done.stdout


def test_threads_in_the_trash_are_verified_with_all_of_them(
    treadle: Run, store: LocalStore
) -> None:
    kept, trashed = make(store), make(store)
    Path(store.folders.trash).mkdir()
    for path in Path(store.folders.threads).glob(f"{trashed}.json*"):
        path.rename(Path(store.folders.trash) / path.name)
    assert [one["thread"] for one in json.loads(treadle("verify", "--json").stdout)] == [kept]
    done = treadle("verify", "--all", "--json")
    assert {one["thread"] for one in json.loads(done.stdout)} == {kept, trashed}
    assert done.returncode == 0
    assert treadle("verify", trashed).returncode == 0


def test_files_that_are_not_the_stores_are_named_and_left_alone(
    treadle: Run, store: LocalStore
) -> None:
    thread = make(store, blob=b"x")
    foreign = [
        Path(store.folders.threads) / "notes.txt",
        Path(store.folders.threads) / f"{thread} (copy).jsonl",
        Path(store.folders.blobs) / "short",
        store.places.data / "index.sqlite.bak",
    ]
    for path in foreign:
        path.write_text("mine")
    done = treadle("verify", "--all")
    assert done.returncode == 0, done.stdout
    named = [line for line in done.stderr.splitlines() if line.startswith("not Treadle's")]
    assert sorted(line.rpartition(": ")[2] for line in named) == sorted(map(str, foreign))
    assert all(path.read_text() == "mine" for path in foreign)


def test_an_index_that_says_otherwise_is_found(treadle: Run, store: LocalStore) -> None:
    thread = make(store)
    treadle("list")
    database = sqlite3.connect(store.places.data / "index.sqlite")
    (text,) = database.execute("SELECT summary FROM threads").fetchone()
    version = store.load(thread).fold.version
    said = text.replace(b'"version":%d' % version, b'"version":%d' % (version + 1))
    assert said != text
    database.execute("UPDATE threads SET summary = ?", (said,))
    database.commit()
    database.close()
    done = treadle("verify")
    assert done.returncode == 1
    assert f"the index has version {version + 1}" in done.stdout


def test_salvage_prints_the_new_thread_and_says_where_the_rest_is(
    treadle: Run, store: LocalStore
) -> None:
    thread = make(store)
    path = journal(store, thread)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:-9] + b"\n", *lines[3:]]))
    before = files(store)
    done = treadle("verify", thread, "--salvage")
    assert done.returncode == 0, done.stderr
    new = done.stdout.strip()
    assert treadle("verify", new).returncode == 0
    (kept,) = (p for p in (store.places.data / "quarantine").iterdir() if p.is_file())
    assert str(kept) in done.stderr
    assert kept.read_bytes() == b"".join(lines[3:])
    after = files(store)
    assert {name: after[name] for name in before} == before


def test_wrong_ways_to_ask_are_usage_errors(treadle: Run, store: LocalStore) -> None:
    thread = make(store)
    for arguments in ([thread, "--all"], ["--salvage"], [thread, "--salvage"]):
        assert treadle("verify", *arguments).returncode == 2


def test_a_turn_of_a_real_model_verifies(
    treadle: Run, script: Callable[[str], str], store: LocalStore
) -> None:
    treadle("-p", "x", "-m", script('[[replies]]\ntext = "Hello."\n'))
    done = treadle("verify", "--all")
    assert done.returncode == 0, done.stdout
    assert "clean" in done.stdout


@pytest.mark.parametrize("has_index", [True, False])
def test_a_thread_that_is_damaged_under_its_snapshot_is_listed_as_damaged(
    treadle: Run, store: LocalStore, has_index: bool
) -> None:
    thread = make(store)
    other = make(store)
    path = journal(store, thread)
    if has_index:
        assert len(json.loads(treadle("list", "--json").stdout)) == 2
    before = path.stat()
    data = path.read_bytes()
    place = data.index(b"mend it")
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"rend it")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert treadle("verify", "--all").returncode == 1
    for _ in range(2):
        (line,) = json.loads(treadle("list", "--state", "damaged", "--json").stdout)
        assert (line["id"], "is damaged" in line["problem"]) == (thread, True)
    path.write_bytes(data)
    assert json.loads(treadle("list", "--state", "damaged", "--json").stdout) == []
    assert {line["id"] for line in json.loads(treadle("list", "--json").stdout)} == {thread, other}


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_of_a_fork_on_a_damaged_base_everything_that_is_intact_can_be_had(
    treadle: Run, store: LocalStore, has_snapshot: bool
) -> None:
    base = make(store)
    writer = store.fork(base, creator="treadle/0")
    fill(writer, (Annotated("my own"),))
    writer.close()
    fork = writer.thread_id
    snapshot = Path(store.folders.threads) / f"{fork}.json"
    if not has_snapshot:
        snapshot.unlink()
    path = journal(store, base)
    path.write_bytes(path.read_bytes().replace(b"mended", b"bended", 1).replace(b"cut", b"cot", 1))
    shown = treadle("show", fork)
    assert shown.returncode == 0
    assert "mend it" in shown.stdout
    if not has_snapshot:
        assert f"shown is what is intact of {base}" in shown.stderr
        assert f"treadle verify {fork} --salvage" in shown.stderr
    for command in (["export", fork], ["fork", fork]):
        done = treadle(*command)
        assert done.returncode == 1
        assert f"`treadle verify {fork} --salvage` writes the fork's own records" in done.stderr
    done = treadle("verify", fork, "--salvage", "--json")
    saved = json.loads(done.stdout)
    assert (saved["fork"], saved["count"]) == (None, 2)
    assert Path(saved["path"]).read_bytes() == journal(store, fork).read_bytes()
    journal(store, base).unlink()
    (Path(store.folders.threads) / f"{base}.json").unlink()
    gone = treadle("show", fork)
    assert gone.returncode == (0 if has_snapshot else 1)
    assert has_snapshot or f"treadle verify {fork} --salvage" in gone.stderr


def verdicts(treadle: Run) -> tuple[int, str, list[str]]:
    """The exit code and the words of `verify`, and the failures that `doctor` tells."""
    done, found = treadle("verify"), json.loads(treadle("doctor", "--json").stdout)
    names = ("threads", "scrub", "index")
    told = [one["text"] for one in found if one["name"] in names and one["status"] == "failure"]
    return done.returncode, done.stdout + done.stderr, told


@pytest.mark.parametrize("is_recorded", [False, True])
def test_what_a_crash_has_stopped_is_ended_by_whoever_looks_next(
    treadle: Run, store: LocalStore, is_recorded: bool
) -> None:
    kept, moved = make(store), make(store)
    if is_recorded:
        writer = store.open(moved)
        writer.stage(Trashed())
        writer.commit()
        writer.close()
    trash = Path(store.folders.trash)
    trash.mkdir(mode=0o700)
    os.link(journal(store, moved), trash / f"{moved}.jsonl")
    cut = journal(store, "T-01900000-0000-7000-8000-0000000000ff")
    cut.write_bytes(b'{"seq":1,"at":"2026' if is_recorded else b"")
    cut.chmod(0o600)
    status, said, failures = verdicts(treadle)
    assert (status, failures) == (0, []), said
    assert sorted(store.ids()) == sorted([kept] if is_recorded else [kept, moved])
    assert not cut.exists()
    assert len(list((store.places.data / "quarantine").glob("*"))) == is_recorded


def test_a_scrub_that_was_stopped_is_told_by_verify_and_doctor_until_it_is_run_again(
    treadle: Run, store: LocalStore
) -> None:
    thread, secret = make(store), "mend it"
    writer = store.open(thread)
    writer.close()
    own = Path(store.folders.threads) / f"{thread}.json"
    old = own.read_bytes()
    mark_scrub(store, [thread], partial(sign_text, f"\n{secret}"))
    scrub(store, [thread], lambda text: text.replace(secret, "[REDACTED:scrubbed]"))
    own.write_bytes(old)  # stopped before its turn came
    status, said, failures = verdicts(treadle)
    assert status == 1
    assert "run it again, with the same text and the same --kind" in said
    assert len(failures) == 1
    assert "run it again" in failures[0]
    again = treadle("scrub", thread, "-", "--yes", stdin=secret)
    assert again.returncode == 0, again.stderr
    assert verdicts(treadle)[::2] == (0, [])


def test_a_lock_that_the_disk_refuses_to_read_is_75(treadle: Run, tmp_path: Path) -> None:
    lock = tmp_path / "home/data/trash.lock"
    lock.parent.mkdir(parents=True)
    lock.symlink_to(lock)
    done = treadle("verify")
    assert (done.returncode, f"cannot read {lock}" in done.stderr) == (75, True)
