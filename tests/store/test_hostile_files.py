"""Whatever lies in the folders of a store: no code runs, nothing hangs, others are undisturbed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from case_tables import for_every_row
from core.samples import said
from store.hostile import Bench
from store.hostile_kinds import HOSTILE, NAMES
from store.shelf import Shelf, fill
from treadle.errors import TreadleError
from treadle.store.replay import verify_thread
from treadle.thread.ids import is_thread_id

CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

UNFINISHED: Final = {b"", b"{", bytes(4096)}
"""What the creation of a thread may leave when it is stopped: `verify` puts it in quarantine."""


def bench_in(shelf: Shelf, folder: Path, good: str) -> Bench:
    folder.mkdir(exist_ok=True)
    thread_id = shelf.next_id()
    canary = shelf.places.data.parent / "canary"
    return Bench(shelf, thread_id, folder / f"{thread_id}.jsonl", good, canary)


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every plain file and link below a folder, and what else there is."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file() and path.suffix == ".lock":
            found[name] = "a lock"
        elif path.is_file() and path.stat().st_size < 100_000_000:
            found[name] = path.read_bytes()
        elif path.is_file():
            found[name] = f"{path.stat().st_size} bytes"
        else:
            found[name] = "no plain file"
    return found


def asked(use: Callable[[str], object], thread_id: str) -> None:
    """Ask the store for it: an answer, or an error of ours in one line."""
    message = "an answer"
    try:
        use(thread_id)
    except TreadleError as error:
        message = error.message
    assert message.strip()
    assert "\n" not in message


def opened(shelf: Shelf) -> Callable[[str], object]:
    def use(thread_id: str) -> None:
        writer = shelf.store.open(thread_id)
        fill(writer, (said("go on"),))
        writer.close()

    return use


def others_are_well(bench: Bench) -> None:
    store = bench.shelf.store
    lines = {line.id: line for line in store.list()}
    assert lines[bench.good].problem == ""
    assert store.load(bench.good).problem == ""
    store.open(bench.good).close()


def only_its_own_files(before: dict[str, bytes | str], bench: Bench) -> None:
    """What was there is as it was, but for what a thread appends or loses as its torn end."""
    data = bench.shelf.places.data
    for name, content in contents(data.parent).items():
        old = before.get(name)
        if name.startswith("data/quarantine") or old == content:
            continue
        assert name.startswith("data/"), name
        if name.endswith((".json", "/tmp")):
            continue
        assert bench.thread_id in name or bench.good in name, name
        if isinstance(old, bytes):
            assert isinstance(content, bytes)
            kept = [path.read_bytes() for path in (data / "quarantine").glob("*")]
            assert content.startswith(old) or any(
                old.endswith(tail) and content.startswith(old.removesuffix(tail)) for tail in kept
            ), name
    assert set(before) <= set(contents(data.parent))


PARTS: Final = 8
"""Into so many tests the hostile threads are shared out: each has a time limit of its own."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_hostile_thread_harms_nothing_but_itself(tmp_path: Path, part: int) -> None:
    @for_every_row("name", [*HOSTILE][part::PARTS])
    def holds(name: str) -> None:
        check_beside_others(shelf_for(tmp_path, name), name)

    holds()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_hostile_thread_in_the_trash_harms_nothing(tmp_path: Path, part: int) -> None:
    @for_every_row("name", [name for name in HOSTILE if not name.startswith("lock")][part::PARTS])
    def holds(name: str) -> None:
        check_in_trash(shelf_for(tmp_path, name), name)

    holds()


def shelf_for(folder: Path, name: str) -> Shelf:
    """A shelf of its own for a kind of hostile thread."""
    place = folder / str([*HOSTILE].index(name))
    place.mkdir()
    return Shelf(place)


def check_beside_others(shelf: Shelf, name: str) -> None:
    bench = bench_in(shelf, shelf.threads, shelf.busy())
    HOSTILE[name](bench)
    before = contents(shelf.places.data.parent)
    store = shelf.store
    line = store.summary(bench.thread_id)
    assert line is None or line.id == bench.thread_id
    for use in (store.load, store.scan, store.load_initial_fold, store.list_rests, store.resolve):
        asked(use, bench.thread_id)
    verify_thread(store, bench.thread_id)
    others_are_well(bench)
    after_reading = contents(shelf.places.data.parent)
    assert {n: c for n, c in after_reading.items() if n in before} == before
    asked(opened(shelf), bench.thread_id)
    only_its_own_files(before, bench)
    others_are_well(bench)
    assert not bench.canary.exists()


def check_in_trash(shelf: Shelf, name: str) -> None:
    bench = bench_in(shelf, shelf.places.data / "trash", shelf.busy())
    HOSTILE[name](bench)
    before = contents(shelf.places.data.parent)
    for use in (shelf.store.load, shelf.store.scan, shelf.store.open, shelf.store.list_rests):
        asked(use, bench.thread_id)
    assert bench.thread_id not in shelf.store.ids()
    others_are_well(bench)
    left = contents(shelf.places.data / "trash")
    assert left == {
        name.removeprefix("data/trash/"): content
        for name, content in before.items()
        if name.startswith("data/trash/")
    }
    assert not bench.canary.exists()


def test_there_are_more_than_a_hundred_hostile_files() -> None:
    assert len(HOSTILE) > 150


def test_names_that_only_look_like_threads_are_passed_over(shelf: Shelf) -> None:
    good = shelf.busy()
    for name in NAMES:
        (shelf.threads / name.format(id=good)).write_bytes(b"x")
    assert shelf.store.ids() == [good]
    assert [line.id for line in shelf.store.list()] == [good]
    shelf.store.open(good).close()
    assert len(list(shelf.threads.iterdir())) >= len(NAMES) + 2


@pytest.fixture
def crowded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> tuple[Shelf, str]:
    """A store with all of them in it, and one good thread."""
    good = shelf.busy()
    for name, make in HOSTILE.items():
        bench = bench_in(shelf, shelf.threads, good)
        if "elsewhere" not in name:
            make(bench)
    for name in NAMES:
        (shelf.threads / name.format(id=good)).write_bytes(b"x")
    monkeypatch.setenv("TREADLE_HOME", str(shelf.places.data.parent))
    return shelf, good


def told(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the program says; it never shows a control character that it did not make."""
    ran = subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ran.stderr
    for text in (ran.stdout, ran.stderr):
        assert not CONTROL.search(text), CONTROL.search(text)
    return ran


def test_the_commands_stand_a_store_of_nothing_but_hostile_threads(
    crowded: tuple[Shelf, str],
) -> None:
    shelf, good = crowded
    before = contents(shelf.threads)
    unfinished = {
        name
        for name, content in before.items()
        if content in UNFINISHED
        and is_thread_id(name.removesuffix(".jsonl"))
        and name.removesuffix("l") not in before
    }
    assert len(unfinished) >= len(UNFINISHED)
    listed = told("list")
    assert listed.returncode == 0
    shown = told("show", good)
    assert shown.returncode == 0, shown.stderr
    assert "mend it" in shown.stdout
    verified = told("verify")
    assert verified.returncode != 0
    assert any(good in line for line in verified.stdout.splitlines())
    after = contents(shelf.threads)
    assert {name: after.get(name) for name in before} == before | dict.fromkeys(unfinished)
    assert {name for name in {*after} - {*before} if not name.endswith(".lock")} == set()
    quarantine = shelf.places.data / "quarantine"
    kept = sorted(path.read_bytes() for path in quarantine.iterdir())
    assert kept == sorted(UNFINISHED - {b""})
    assert not (shelf.places.data.parent / "canary").exists()
