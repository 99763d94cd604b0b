"""`list`: which threads it shows, in which order, and how."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from case_tables import for_every_row
from cli.conftest import Run
from core.samples import answer, said
from store.shelf import Shelf, fill
from treadle.app.threads.times import local_time
from treadle.cli.list_command import command
from treadle.cli.thread_filters import parse_moment
from treadle.thread.facts import Pinned, Renamed, Tagged

List = Callable[..., "tuple[str, str]"]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "home")


@pytest.fixture
def listed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> List:
    """The command on the threads of the shelf: what it says on both streams."""
    monkeypatch.setenv("TREADLE_HOME", str(shelf.places.data.parent))

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == code, done.output
        return done.stdout, done.stderr

    return run


def ids(out: str) -> list[str]:
    return [line.rpartition(" ")[2] for line in out.splitlines()]


def test_pinned_threads_stand_on_top_with_their_mark_and_tags(shelf: Shelf, listed: List) -> None:
    pinned = shelf.create((said("old"), Pinned(), Tagged(("red", "blue"))))
    newer = shelf.create((said("newer"),))
    newest = shelf.create((said("newest"),))
    out, err = listed()
    assert ids(out) == [pinned, newest, newer]
    assert out.splitlines()[0].startswith("★ old #red #blue  ")
    assert err == ""
    assert [line["id"] for line in json.loads(listed("--json")[0])] == ids(out)


def test_what_is_left_out_is_counted(shelf: Shelf, listed: List) -> None:
    threads = [shelf.create((said(f"number {n}"),)) for n in range(52)][::-1]
    out, err = listed()
    assert ids(out) == threads[:50]
    assert err == "2 more; --all shows them\n"
    out, err = listed("--limit", "52")
    assert (ids(out), err) == (threads, "")
    assert listed("--all")[1] == ""
    assert len(ids(listed("--all")[0])) == len(json.loads(listed("--json")[0])) == 52
    assert len(json.loads(listed("--json", "--limit", "3")[0])) == 3


def test_a_title_cannot_steer_the_terminal(shelf: Shelf, listed: List) -> None:
    shelf.create((Renamed("\x1b[2J\nall\tis one line"), Tagged(("\x1b[31m",))))
    (line,) = listed()[0].splitlines()
    assert "\x1b" not in line
    assert "all is one line" in line


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--tag", "red"], 1),
        (["--tag", "red", "--tag", "blue"], 0),
        (["--state", "unfinished"], 1),
        (["--state", "waiting"], 0),
        (["--workspace", "/w"], 2),
        (["--workspace=/w/src"], 0),
        (["--workspace"], 0),
        (["--since", "2026-11-20"], 2),
        (["--until", "2026-11-20"], 0),
        (["--trashed"], 0),
        (["--imported"], 0),
        (["--branch", "main"], 0),
        (["--remote", "github"], 0),
        (["--commit", "abcd"], 0),
        (["--model", "x"], 0),
        (["--provider", "x"], 0),
    ],
)
def test_options_choose_the_threads(
    shelf: Shelf, listed: List, arguments: list[str], count: int
) -> None:
    shelf.create((said("done"), answer("yes"), Tagged(("red",))))
    shelf.create((said("not done"),))
    out, err = listed(*arguments)
    assert len(out.splitlines()) == count
    assert (err == "") == (count > 0)
    assert len(json.loads(listed(*arguments, "--json")[0])) == count


@pytest.mark.parametrize(
    "arguments",
    [["--since", "soon"], ["--commit", "abc"], ["--commit", "wxyz"], ["--limit", "0"]],
)
def test_what_means_nothing_is_refused(listed: List, arguments: list[str]) -> None:
    assert arguments[1] in listed(*arguments, code=2)[1]


def test_the_real_command_finds_threads_of_this_folder_and_of_folders_below(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    (repository / "below").mkdir()
    model = script('[[replies]]\ntext = "Yes."\n')
    treadle("-p", "above", "-m", model)
    treadle("-p", "below", "-m", model, cwd=repository / "below")
    assert len(treadle("list", "--workspace").stdout.splitlines()) == 2
    (line,) = treadle("list", "--workspace", ".", cwd=repository / "below").stdout.splitlines()
    assert line.startswith("below")
    (line,) = treadle("list", "--workspace=below").stdout.splitlines()
    assert line.startswith("below")
    assert "main" in json.loads(treadle("list", "--json").stdout)[0]["git_branch"]
    assert len(treadle("list", "--branch", "ma*").stdout.splitlines()) == 2


def test_a_home_that_cannot_be_written_is_listed_all_the_same(
    treadle: Run, script: Callable[[str], str], tmp_path: Path
) -> None:
    treadle("-p", "first", "-m", script('[[replies]]\ntext = "Yes."\n'))
    assert treadle("list").returncode == 0
    data = tmp_path / "home" / "data"
    for path in data.glob("index.sqlite*"):
        path.unlink()
    (data / "index.sqlite").mkdir()
    done = treadle("list")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert "in memory" in done.stderr


def test_many_threads_are_announced_before_they_are_read(
    shelf: Shelf, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.store.index.index_update.NOTICE_COUNT", 2)
    for _ in range(3):
        thread = shelf.create((said("x"),))
    assert "indexing 3 threads" in listed()[1]
    writer = shelf.store.open(thread)
    fill(writer, (answer("y"),))
    writer.close()
    assert listed()[1] == ""


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = "2026-11-21T12:34:56.000000Z"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-11-20", "2026-11-19T23:00:00", "2026-11-20T23:00:00"),
        ("today", "2026-11-20T23:00:00", "2026-11-21T23:00:00"),
        ("Yesterday", "2026-11-19T23:00:00", "2026-11-20T23:00:00"),
        ("7d", "2026-11-14T12:34:56", "2026-11-14T12:34:56"),
        ("2w", "2026-11-07T12:34:56", "2026-11-07T12:34:56"),
        ("12h", "2026-11-21T00:34:56", "2026-11-21T00:34:56"),
        ("2026-11-20T15:30", "2026-11-20T14:30:00", "2026-11-20T14:30:00"),
        ("2026-11-20 15:30:10", "2026-11-20T14:30:10", "2026-11-20T14:30:10"),
        ("2026-11-20T15:30Z", "2026-11-20T15:30:00", "2026-11-20T15:30:00"),
        ("2026-07-01", "2026-06-30T22:00:00", "2026-07-01T22:00:00"),
        ("2026-10-25", "2026-10-24T22:00:00", "2026-10-25T23:00:00"),
    ],
)
def test_times_are_those_of_the_clocks_here(
    in_berlin: None, text: str, start: str, end: str
) -> None:
    assert parse_moment(text, NOW) == f"{start}.000000Z"
    assert parse_moment(text, NOW, wants_end=True) == f"{end}.000000Z"
    assert local_time("2026-07-01T22:30:00.000000Z") == "2026-07-02 00:30"


@for_every_row("text", ["soon", "7", "7m", "999999d", "2026-13-01", "0000-01-01", "-1d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time"):
        parse_moment(text, NOW)


def test_a_moment_of_records_means_itself() -> None:
    moment = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
    text = moment.isoformat(timespec="microseconds") + "Z"
    assert parse_moment(text, NOW) == text


def test_what_waits_for_a_yes_is_unfinished_too(treadle: Run, script: Callable[[str], str]) -> None:
    call = 'calls = [{ tool = "bash", arguments = { access = "write", command = "true" } }]'
    treadle("-p", "go", "-m", script(f"[[replies]]\n{call}\n"), "--approval-mode", "ask")
    for state in ("unfinished", "waiting", "Waiting for approval"):
        assert len(treadle("list", "--state", state).stdout.splitlines()) == 1, state
    assert treadle("list", "--state", "done").stdout == ""


def test_a_state_that_there_is_not_is_refused_with_those_there_are(
    treadle: Run, shelf: Shelf, listed: List
) -> None:
    shelf.create((said("x"),))
    err = listed("--state", "finished", code=2)[1]
    for word in ("unfinished", "waiting", "damaged", "calling_llm", "done"):
        assert word in err
    assert treadle("search", "x", "--state", "finished").returncode == 2


def test_a_fork_is_marked_as_one(treadle: Run, script: Callable[[str], str]) -> None:
    treadle("-p", "first", "-m", script('[[replies]]\ntext = "Yes."\n'))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    fork = treadle("fork", thread).stdout.strip()
    lines = {line.split()[-1]: line for line in treadle("list").stdout.splitlines()}
    assert "  fork ready  " in lines[fork]
    assert "  ready  " in lines[thread]


def test_when_all_threads_are_in_the_trash_that_is_said(
    treadle: Run, script: Callable[[str], str]
) -> None:
    treadle("-p", "first", "-m", script('[[replies]]\ntext = "Yes."\n'))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    treadle("trash", thread)
    for arguments in (("list",), ("-c", "-p", "go")):
        done = treadle(*arguments)
        assert "in the trash" in done.stderr
        assert "treadle trash" in done.stderr


def begin(treadle: Run, tmp_path: Path) -> tuple[str, str, Path]:
    """A thread with a turn: its model, its id and its journal."""
    (tmp_path / "hello.toml").write_text('[[replies]]\ntext = "Hello to you."\n')
    model = f"scripted:{tmp_path / 'hello.toml'}"
    treadle("-p", "hello", "-m", model)
    [line] = json.loads(treadle("list", "--json").stdout)
    return model, line["id"], tmp_path / f"home/data/threads/{line['id']}.jsonl"


def test_a_journal_that_the_disk_refuses_to_read_is_75_and_not_damage(
    treadle: Run, tmp_path: Path
) -> None:
    """A folder in the place of the journal refuses as a failing disk does."""
    model, thread, journal = begin(treadle, tmp_path)
    kept = tmp_path / "kept"
    journal.rename(kept)
    journal.with_suffix(".json").unlink()
    journal.mkdir()
    why = f"cannot read {journal}: it is no plain file"
    wrong = []
    for arguments in (
        ("list",),
        ("list", "--json"),
        ("search", "hello"),
        ("show", thread),
        ("resume", thread),
        ("-c", "-p", "more", "-m", model),
    ):
        done = treadle(*arguments)
        if done.returncode != 75 or why not in done.stderr or "damaged" in done.stdout:
            wrong.append((arguments, done.returncode, done.stdout, done.stderr))
    assert wrong == []
    assert "cannot be read" in treadle("list").stdout
    treadle("-p", "another", "-m", model)
    done = treadle("-c", "-p", "more", "-m", model)
    assert (done.returncode, f"thread {thread} was passed over: {why}" in done.stderr) == (0, True)
    journal.rmdir()
    kept.rename(journal)
    assert treadle("show", thread).returncode == treadle("list").returncode == 0


def test_of_a_base_that_the_disk_refuses_to_read_nobody_says_that_it_is_damaged(
    treadle: Run, tmp_path: Path
) -> None:
    model, thread, journal = begin(treadle, tmp_path)
    fork = treadle("fork", thread).stdout.strip()
    treadle("-r", fork, "-p", "more", "-m", model)
    journal.unlink()
    journal.mkdir()
    done = treadle("show", fork)
    assert f"what each turn used is not known: cannot read {journal}" in done.stderr
    assert "damaged" not in done.stderr
