"""`trash`, `restore`, `gc`, `du`: nothing goes unasked, and everything comes back till then."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from cli.test_ask import Terminal
from treadle.app.sizes import human_size
from treadle.sandbox.caches import make_cache
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

Script = Callable[[str], str]

LONG = """
[[replies]]
when.step = 0
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "seq 1 20000; echo new > made.txt" }

[[replies]]
text = "Counted."
"""
UNKNOWN = "T-01900000-0000-7000-8000-00000000ffff"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data"


@pytest.fixture
def store(data: Path) -> LocalStore:
    return LocalStore(Places(data, data, data))


@pytest.fixture
def thread(treadle: Run, script: Script, once: Once[str]) -> str:
    """A thread with a long output, and states of its files."""

    def make() -> str:
        done = treadle("-p", "count", "-m", script(LONG), "--approval-mode", "auto")
        assert done.returncode == 0, done.stderr
        return newest(treadle)

    return once(make)


@pytest.fixture
def other(treadle: Run, script: Script, thread: str, once: Once[str]) -> str:
    """A thread that has nothing to do with it."""

    def make() -> str:
        treadle("-p", "another", "-m", script('[[replies]]\ntext = "Yes."\n'))
        return next(one["id"] for one in listed(treadle) if one["id"] != thread)

    return once(make)


def listed(treadle: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(treadle("list", "--json").stdout)
    return found


def newest(treadle: Run) -> str:
    return str(listed(treadle)[0]["id"])


def trashed(treadle: Run) -> list[str]:
    return [line["id"] for line in json.loads(treadle("trash", "--json").stdout)]


def age(data: Path) -> None:
    """All files are from long ago."""
    for path in data.rglob("*"):
        os.utime(path, (1, 1))


def refs(repository: Path, environment: dict[str, str]) -> str:
    """The private refs of threads."""
    command = ["git", "for-each-ref", "--format=%(refname)", "refs/treadle/"]
    done = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_thread_goes_to_the_trash_and_comes_back_as_it_was(
    treadle: Run, thread: str, other: str
) -> None:
    before = json.loads(treadle("show", thread, "--json").stdout)
    done = treadle("trash", thread[:20])
    assert (done.returncode, done.stdout) == (0, "")
    assert f"treadle restore {thread}" in done.stderr
    assert [one["id"] for one in listed(treadle)] == [other]
    (line,) = json.loads(treadle("trash", "--json").stdout)
    assert (line["id"], line["title"]) == (thread, "count")
    shown = treadle("trash").stdout
    assert shown.startswith(f"{thread}  {line['trashed_at'][:10]}")
    assert shown.endswith("count\n")
    for command in (("resume", thread, "-p", "more"), ("trash", thread)):
        refused = treadle(*command)
        assert refused.returncode != 0
        assert "treadle restore" in refused.stderr
    assert treadle("restore", thread[:20]).returncode == 0
    assert trashed(treadle) == []
    after = json.loads(treadle("show", thread, "--json").stdout)
    assert after["conversation"] == before["conversation"]
    assert treadle("resume", thread, "-p", "more").returncode == 0


def test_several_threads_go_and_come_back_at_once_or_none_does(
    treadle: Run, thread: str, other: str
) -> None:
    done = treadle("trash", thread, UNKNOWN, other)
    assert done.returncode == 2
    assert trashed(treadle) == []
    assert treadle("trash", thread, other, thread).returncode == 0
    assert set(trashed(treadle)) == {thread, other}
    assert listed(treadle) == []
    assert treadle("restore", other, thread).returncode == 0
    assert {one["id"] for one in listed(treadle)} == {thread, other}
    assert treadle("restore", other).returncode == 2


def test_a_thread_that_is_open_elsewhere_is_not_moved(
    treadle: Run, thread: str, store: LocalStore
) -> None:
    writer = store.open(thread)
    done = treadle("trash", thread)
    assert done.returncode == 75
    assert "open in another process" in done.stderr
    writer.close()
    assert trashed(treadle) == []


def test_a_damaged_thread_is_moved_too_and_what_it_holds_cannot_steer_a_terminal(
    treadle: Run, thread: str, script: Script, data: Path
) -> None:
    for path in (data / "threads").glob(f"{thread}.json*"):
        path.unlink()
    (data / "threads" / f"{thread}.jsonl").write_bytes(b"\x1b[2Jnot a journal\n")
    done = treadle("trash", thread)
    assert done.returncode == 0
    assert "nothing is recorded" in done.stderr
    treadle("-p", "a \x1b[31mred\x07 title", "-m", script('[[replies]]\ntext = "Yes."\n'))
    shown = done.stderr + treadle("du").stdout
    treadle("trash", newest(treadle))
    shown += treadle("trash").stdout + treadle("gc", "--dry-run").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count("red") == 3


def test_gc_says_what_would_go_and_removes_nothing_unasked(
    treadle: Run, thread: str, other: str, data: Path
) -> None:
    treadle("trash", thread)
    age(data)
    before = {path: path.read_bytes() for path in data.rglob("T-*") if path.is_file()}
    plan = json.loads(treadle("gc", "--dry-run", "--json").stdout)
    assert [line["id"] for line in plan["threads"]] == [thread]
    assert len(plan["blobs"]) == 1
    assert plan["is_removed"] is False
    dry = treadle("gc", "--dry-run")
    assert dry.returncode == 0
    assert human_size(plan["size"]) in dry.stdout
    for arguments in ((), ("--json",)):
        refused = treadle("gc", *arguments)
        assert refused.returncode == 2
        assert "--yes" in refused.stderr
        assert thread in refused.stderr
    assert {path: path.read_bytes() for path in data.rglob("T-*") if path.is_file()} == before


def test_gc_removes_the_thread_its_outputs_and_the_states_of_its_files(
    treadle: Run, thread: str, data: Path, repository: Path, environment: dict[str, str]
) -> None:
    assert thread in refs(repository, environment)
    head = (repository / ".git" / "HEAD").read_bytes()
    treadle("trash", thread)
    age(data)
    plan = json.loads(treadle("gc", "--dry-run", "--json").stdout)
    done = treadle("gc", "--yes", "--json")
    removed = json.loads(done.stdout)
    assert removed == {**plan, "is_removed": True}
    assert trashed(treadle) == []
    assert refs(repository, environment) == ""
    assert (repository / ".git" / "HEAD").read_bytes() == head
    assert (repository / "made.txt").read_text() == "new\n"
    left = [path.name for path in data.rglob("*") if path.is_file()]
    assert not [name for name in left if name.startswith(thread) and not name.endswith(".lock")]
    assert f"{thread}.lock" in left
    again = treadle("gc", "--yes")
    assert again.returncode == 0
    assert "nothing" in again.stderr


def test_gc_keeps_a_thread_whose_states_cannot_be_let_go_of(
    treadle: Run, thread: str, repository: Path
) -> None:
    treadle("trash", thread)
    (repository / ".git" / "refs" / "treadle" / f"{thread}.lock").write_text("held")
    kept = treadle("gc", "--yes")
    assert "could not be let go of" in kept.stderr
    assert trashed(treadle) == [thread]
    (repository / ".git" / "refs" / "treadle" / f"{thread}.lock").unlink()
    treadle("gc", "--yes")
    assert trashed(treadle) == []


@pytest.mark.parametrize("way", ["no folder", "no repository"])
def test_gc_removes_a_thread_whose_repository_is_gone(
    treadle: Run, thread: str, repository: Path, tmp_path: Path, way: str
) -> None:
    treadle("trash", thread)
    if way == "no folder":
        repository.rename(tmp_path / "elsewhere")
    else:
        (repository / ".git").rename(tmp_path / "git")
    assert treadle("gc", "--yes", cwd=tmp_path).returncode == 0
    assert json.loads(treadle("trash", "--json", cwd=tmp_path).stdout) == []


def test_gc_removes_the_caches_of_commands_that_nobody_needs(
    treadle: Run, environment: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    base = Path(environment["TREADLE_HOME"]) / "cache/commands"
    kept = Path(make_cache(str(base), str(repository)))
    gone = Path(make_cache(str(base), str(tmp_path / "gone")))
    (gone / "pip/wheel").write_text("12345")
    plan = json.loads(treadle("gc", "--dry-run", "--json").stdout)
    assert plan["caches"] == [{"path": str(gone), "size": 5}]
    assert gone.exists()
    done = treadle("gc", "--yes")
    assert "caches" in done.stdout
    assert (gone.exists(), kept.exists()) == (False, True)
    assert treadle("gc", "--yes").stderr.endswith("nothing to remove\n")


def test_gc_removes_what_commands_kept_for_a_thread_with_the_thread(
    treadle: Run, thread: str, environment: dict[str, str], tmp_path: Path
) -> None:
    base = Path(environment["TREADLE_HOME"]) / "cache/scratch"
    gone = "T-01a0aab2-bd2c-7ace-9c62-6563802125d0"
    for name in (thread, gone):
        (base / name).mkdir(parents=True, exist_ok=True)
        (base / name / "debug.log").write_text("12345")
    plan = json.loads(treadle("gc", "--dry-run", "--json").stdout)
    assert plan["scratch"] == [{"path": str(base / gone), "size": 5}]
    treadle("trash", thread)
    assert "scratch folders" in treadle("gc", "--yes").stdout
    assert list(base.iterdir()) == []


def test_gc_asks_in_a_terminal_and_takes_no_for_an_answer(
    treadle: Run, thread: str, repository: Path, environment: dict[str, str]
) -> None:
    treadle("trash", thread)
    for answer, left in (("n\r", [thread]), ("y\r", [])):
        terminal = Terminal("", repository, environment, ["treadle", "gc"])
        terminal.read_until("Remove this for good, and free ")
        terminal.type(answer)
        terminal.read_to_the_end()
        assert terminal.process.wait() == (1 if left else 0)
        assert trashed(treadle) == left


def test_gc_leaves_alone_what_came_to_the_trash_lately_where_days_are_given(
    treadle: Run, thread: str
) -> None:
    treadle("trash", thread)
    done = treadle("gc", "--yes", "--older-than", "1")
    assert done.returncode == 0
    assert f"kept: thread {thread}: in the trash since" in done.stderr
    assert trashed(treadle) == [thread]
    assert treadle("gc", "--older-than", "-1").returncode == 2


def test_du_tells_what_takes_how_much_and_what_gc_can_free(
    treadle: Run, thread: str, other: str, data: Path
) -> None:
    treadle("trash", thread)
    age(data)
    found = json.loads(treadle("du", "--json").stdout)
    files = [path for path in data.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert found["size"] == sum(path.stat().st_size for path in files)
    assert found["gc_frees"] == json.loads(treadle("gc", "--dry-run", "--json").stdout)["size"]
    assert found["shares"]["large outputs"]["count"] == 1
    assert [(one["id"], one["title"]) for one in found["biggest"]] == [(other, "another")]
    shown = treadle("du")
    assert human_size(found["size"]) in shown.stdout
    assert f"{other}" in shown.stdout
    assert human_size(found["gc_frees"]) in shown.stderr


def test_du_of_one_thread_counts_its_outputs_in_the_trash_too(
    treadle: Run, thread: str, data: Path
) -> None:
    found = json.loads(treadle("du", thread, "--json").stdout)
    (blob,) = [path for path in (data / "blobs").iterdir() if path.is_file()]
    assert found["blob_size"] == blob.stat().st_size
    assert found["journal_size"] == (data / "threads" / f"{thread}.jsonl").stat().st_size
    treadle("trash", thread)
    assert "(in the trash)" in treadle("du", thread[:20]).stdout
    assert treadle("du", UNKNOWN).returncode == 2


def test_du_tells_what_states_of_files_take_that_no_branch_holds(
    treadle: Run, thread: str, other: str, repository: Path, data: Path
) -> None:
    index = data / "index.sqlite"
    index.unlink()
    for arguments in ((), (thread,)):
        states = json.loads(treadle("du", *arguments, "--json").stdout)["file_states"]
        assert states["repositories"] == 1
        assert states["size"] > 0
        assert f"file states, in 1 repository: {human_size(states['size'])}" in (
            treadle("du", *arguments).stdout
        )
    assert not index.exists(), "it holds all texts, and is dear to make"
    none = {"repositories": 0, "size": 0, "skipped": []}
    assert json.loads(treadle("du", other, "--json").stdout)["file_states"] == none
    ref = f"refs/treadle/{thread}"
    subprocess.run(["git", "branch", "kept", ref], cwd=repository, check=True)
    assert json.loads(treadle("du", "--json").stdout)["file_states"]["size"] == 0
    subprocess.run(["git", "branch", "-D", "kept"], cwd=repository, check=True)
    (tip,) = (repository / ".git" / "refs" / "treadle").iterdir()
    tip.write_text("0" * 39 + "1\n")
    done = treadle("du")
    assert done.returncode == 0
    assert "file states that are not counted" in done.stderr


def test_du_does_not_read_a_large_thread_for_its_title(
    treadle: Run, other: str, data: Path
) -> None:
    os.truncate(data / "threads" / f"{other}.jsonl", 70 * 2**20)
    assert f"{other}   70.0 MiB  (not read: it is large)" in treadle("du").stdout


def test_a_journal_that_cannot_be_read_stops_gc_and_not_du(
    treadle: Run, thread: str, data: Path
) -> None:
    treadle("trash", thread)
    age(data)
    strange = data / "threads" / f"{UNKNOWN}.jsonl"
    strange.mkdir()
    refused = treadle("gc", "--yes")
    assert refused.returncode == 75
    assert str(strange) in refused.stderr
    assert trashed(treadle) == [thread]
    found = treadle("du", "--json")
    assert found.returncode == 0
    assert json.loads(found.stdout)["gc_frees"] is None
    assert str(strange) in found.stderr


def test_nothing_is_there_at_first_and_that_is_no_error(treadle: Run) -> None:
    for arguments in (("trash",), ("gc",), ("gc", "--yes"), ("du",)):
        assert treadle(*arguments).returncode == 0
    assert json.loads(treadle("trash", "--json").stdout) == []
    assert json.loads(treadle("du", "--json").stdout)["size"] == 0


@for_every_row(
    "size, text",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (102_400, "100 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3000 * 1024**4, "3000 TiB"),
    ],
)
def test_sizes_are_told_in_the_unit_that_fits(size: int, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize("is_copy_used", [True, False])
def test_states_that_another_copy_of_the_thread_goes_on_from_stay(
    treadle: Run,
    thread: str,
    repository: Path,
    environment: dict[str, str],
    tmp_path: Path,
    is_copy_used: bool,
) -> None:
    """The copy has the same id, and so the same ref in the same repository."""
    exported = tmp_path / "thread.jsonl"
    treadle("export", thread, "--format", "jsonl", "-o", str(exported))
    elsewhere = {"TREADLE_HOME": str(tmp_path / "elsewhere")}
    assert treadle("import", str(exported), **elsewhere).returncode == 0
    if is_copy_used:
        (repository / "more.txt").write_text("by hand")
        assert treadle("resume", thread, "-p", "more").returncode == 0
    before = refs(repository, environment)
    assert thread in before
    treadle("trash", thread, **elsewhere)
    if is_copy_used:
        mark = tmp_path / "elsewhere" / "data" / "threads" / f"{thread}.adopted"
        mark.write_text("1\n")
        why = f"file states in {repository}: another copy of thread {thread} goes on from them"
    else:
        why = f"file states in {repository}: thread {thread} was imported, they are of its original"
    plan = json.loads(treadle("gc", "--dry-run", "--json", **elsewhere).stdout)
    assert (plan["file_states"], plan["kept"][-1]) == ([], why)
    done = treadle("gc", "--yes", **elsewhere)
    assert done.returncode == 0
    assert f"kept: {why}" in done.stderr
    assert json.loads(treadle("trash", "--json", **elsewhere).stdout) == []
    assert refs(repository, environment) == before


def test_states_of_the_original_stay_when_a_copy_that_was_gone_on_with_is_removed(
    treadle: Run, thread: str, repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    exported = tmp_path / "thread.jsonl"
    treadle("export", thread, "--format", "jsonl", "-o", str(exported))
    elsewhere = {"TREADLE_HOME": str(tmp_path / "elsewhere")}
    treadle("import", str(exported), **elsewhere)
    assert treadle("resume", thread, "-p", "more", **elsewhere).returncode == 0
    before = refs(repository, environment)
    treadle("trash", thread, **elsewhere)
    assert treadle("gc", "--yes", **elsewhere).returncode == 0
    assert refs(repository, environment) == before
    assert thread in before


def test_gc_says_in_which_repository_states_of_files_go(
    treadle: Run, thread: str, repository: Path, environment: dict[str, str]
) -> None:
    treadle("trash", thread)
    assert f"of {thread} in {repository}" in treadle("gc", "--dry-run").stdout
    assert refs(repository, environment) != ""
    done = json.loads(treadle("gc", "--yes", "--json").stdout)
    assert done["file_states"] == [{"thread": thread, "folder": str(repository), "why": ""}]
    assert refs(repository, environment) == ""
