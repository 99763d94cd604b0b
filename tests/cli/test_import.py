"""`treadle import`: sessions of other programs, and threads of other machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_run import HELLO
from exchange.recorded import CLAUDE, CODEX, GEMINI, NAME, claude
from treadle.exchange.json_lines import FILE_SIZE_MAX


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a session of each program and files that are none."""
    root = tmp_path / "sessions"
    write(root / f"-w/{NAME}.jsonl", *CLAUDE)
    write(root / "2025/10/01/rollout-x.jsonl", *CODEX)
    (root / "chats").mkdir()
    (root / "chats/session-x.json").write_text(json.dumps(GEMINI))
    (root / "package.json").write_text("{}")
    return root


def threads(treadle: Run) -> list[Any]:
    found: list[Any] = json.loads(treadle("list", "--json").stdout)
    return found


def outcomes(treadle: Run, *arguments: str, **extra: str) -> list[str]:
    done = treadle("import", *arguments, "--json", **extra)
    return [one["outcome"] for one in json.loads(done.stdout)]


def test_sessions_of_three_programs_become_threads_that_verify(treadle: Run, folder: Path) -> None:
    done = treadle("import", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("  imported: ") == 3
    found = threads(treadle)
    assert {line["imported_from"] for line in found} == {"claude-code", "codex", "gemini"}
    assert {line["title"] for line in found} == {"Mend the sum", "mend add()"}
    assert {line["state"] for line in found} == {"waiting_for_user_input"}
    assert treadle("verify").returncode == 0


def test_importing_twice_finds_what_is_there(treadle: Run, folder: Path) -> None:
    assert outcomes(treadle, str(folder)) == ["imported"] * 3
    assert outcomes(treadle, str(folder)) == ["already here"] * 3
    assert len(threads(treadle)) == 3


def test_a_dry_run_changes_nothing(treadle: Run, folder: Path, tmp_path: Path) -> None:
    assert outcomes(treadle, str(folder), "--dry-run") == ["would be imported"] * 3
    assert not (tmp_path / "home" / "data" / "threads").exists()


def test_a_session_that_has_grown_is_told_and_imported_again_when_asked(
    treadle: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / f"{NAME}.jsonl", *CLAUDE)
    assert outcomes(treadle, str(path)) == ["imported"]
    write(path, *CLAUDE, claude("user", 20, "and sub()"))
    told = treadle("import", str(path))
    assert told.returncode == 0
    assert "it has 10 records now, and had 9 when it was imported" in told.stdout
    assert "--again imports it as a new thread" in told.stdout
    assert outcomes(treadle, str(path), "--again") == ["imported"]
    assert outcomes(treadle, str(path)) == ["already here"]
    assert sorted(line["message_count"] for line in threads(treadle)) == [6, 7]


def test_what_was_said_here_since_does_not_make_a_session_grow(
    treadle: Run, folder: Path, script: Callable[[str], str], repository: Path
) -> None:
    path = write(folder / "one.jsonl", *(one | {"cwd": str(repository)} for one in CLAUDE))
    [thread] = json.loads(treadle("import", str(path), "--json").stdout)
    done = treadle("resume", thread["thread"], "-p", "go on", "-m", script(HELLO))
    assert done.returncode == 0, done.stderr
    assert outcomes(treadle, str(path)) == ["already here"]


@pytest.mark.parametrize(
    ("source", "place", "records"),
    [
        ("claude-code", f".claude/projects/-w/{NAME}.jsonl", CLAUDE),
        ("codex", ".codex/sessions/2025/10/01/rollout-x.jsonl", CODEX),
    ],
)
def test_without_a_path_the_folder_of_the_program_is_searched(
    treadle: Run, environment: dict[str, str], source: str, place: str, records: Any
) -> None:
    none = treadle("import", "--from", source)
    assert none.returncode == 2
    assert f"{source} keeps no sessions here" in none.stderr
    write(Path(environment["HOME"]) / place, *records)
    assert outcomes(treadle, "--from", source) == ["imported"]


def test_from_takes_only_what_the_program_wrote(treadle: Run, folder: Path) -> None:
    assert outcomes(treadle, str(folder), "--from", "codex") == ["imported"]
    other = treadle("import", str(folder / "-w" / f"{NAME}.jsonl"), "--from", "codex")
    assert other.returncode == 1
    assert "is no session of codex, but of claude-code" in other.stderr


def test_what_cannot_be_imported_is_told_and_stops_nothing(treadle: Run, tmp_path: Path) -> None:
    bad = [tmp_path / name for name in ("binary.jsonl", "large.jsonl", "cut.json", "pipe.jsonl")]
    bad[0].write_bytes(bytes(range(256)))
    with bad[1].open("wb") as file:
        file.truncate(4 * FILE_SIZE_MAX)
    bad[2].write_text(json.dumps(GEMINI)[:-20])
    os.mkfifo(bad[3])
    good = write(tmp_path / f"{NAME}.jsonl", *CLAUDE)
    done = treadle("import", *map(str, bad), str(good))
    assert done.returncode == 1
    assert "  imported: Mend the sum" in done.stdout
    assert [path.name for path in bad if str(path) not in done.stderr] == []


def test_what_the_disk_refuses_may_be_tried_again(
    treadle: Run, environment: dict[str, str], folder: Path
) -> None:
    data = Path(environment["TREADLE_HOME"]) / "data"
    data.mkdir(parents=True)
    (data / "threads").write_text("a file in the place of the folder")
    done = treadle("import", str(folder))
    assert (done.returncode, done.stdout) == (75, "")
    assert ": Not a directory" in done.stderr
    (data / "threads").unlink()
    assert "imported" in outcomes(treadle, str(folder))


def test_a_damaged_session_is_imported_with_what_was_wrong(treadle: Run, tmp_path: Path) -> None:
    path = write(tmp_path / f"{NAME}.jsonl", *CLAUDE[:4])
    with path.open("a") as file:
        file.write('garbage\n{"type":"user","mess')
    [told] = json.loads(treadle("import", str(path), "--json").stdout)
    assert told["problems"] == [
        "records that are no JSON: 1",
        "records that are unfinished at the end of the file: 1",
        "calls without a result: 1",
    ]
    assert (told["repaired"], told["messages"]) == (1, 3)


def test_a_session_in_which_nothing_was_said_is_left_alone(treadle: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", CLAUDE[0])
    assert outcomes(treadle, str(path)) == ["empty"]
    assert threads(treadle) == []


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["--from", "treadle"]])
def test_nothing_to_import_is_a_mistake_of_the_caller(treadle: Run, arguments: list[str]) -> None:
    assert treadle("import", *arguments).returncode == 2


def test_known_secrets_stay_out_of_what_is_imported(
    treadle: Run, folder: Path, tmp_path: Path
) -> None:
    key = "zq81-xyzzy-4711-plugh"
    write(folder / "more.jsonl", claude("user", 0, f"use {key}", sessionId="more"))
    treadle("import", str(folder), SOME_API_KEY=key)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*.jsonl"))
    assert key.encode() not in stored
    assert b"[REDACTED:some_api_key]" in stored


def test_private_is_for_new_threads_only(
    treadle: Run, folder: Path, script: Callable[[str], str], tmp_path: Path
) -> None:
    treadle("import", str(folder), "--private")
    assert all(line["is_private"] for line in threads(treadle))
    treadle("-p", "hello", "-m", script(HELLO))
    target = tmp_path / "thread.jsonl"
    [line] = [line for line in threads(treadle) if not line.get("imported_from")]
    treadle("export", line["id"], "--format", "jsonl", "-o", str(target))
    done = treadle("import", str(target), "--private", TREADLE_HOME=str(tmp_path / "other"))
    assert done.returncode == 1
    assert "says itself whether it is private" in done.stderr


def test_half_a_surrogate_pair_stops_neither_its_session_nor_the_others(
    treadle: Run, tmp_path: Path
) -> None:
    write(tmp_path / "q/a.jsonl", claude("user", 0, "cut \ud83d", sessionId="a\udc00"))
    for name in "bc":
        write(tmp_path / f"q/{name}.jsonl", claude("user", 0, f"fine {name}", sessionId=name))
    assert outcomes(treadle, str(tmp_path / "q")) == ["imported"] * 3
    assert outcomes(treadle, str(tmp_path / "q")) == ["already here"] * 3
    assert {line["title"] for line in threads(treadle)} == {"cut \ufffd", "fine b", "fine c"}


def test_sub_agents_in_files_of_their_own_belong_to_their_session(
    treadle: Run, tmp_path: Path
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look around"}}
    write(
        tmp_path / f"p/{NAME}.jsonl",
        claude("user", 0, "go"),
        claude("assistant", 1, [call], message={"id": "m"}),
    )
    aside = {"isSidechain": True, "agentId": "a1"}
    file = write(
        tmp_path / f"p/{NAME}/subagents/agent-a1.jsonl",
        claude("user", 9, "look around", parentUuid=None, **aside),
    )
    done = treadle("import", str(tmp_path / "p"), "--json")
    main, agent = (one["thread"] for one in json.loads(done.stdout))
    journal = tmp_path / "home" / "data" / "threads" / f"{agent}.jsonl"
    header = json.loads(journal.read_text().partition("\n")[0])["event"]
    assert (header["parent"], header["parent_call"]) == (main, "t1")
    alone = treadle("import", str(file), "--json", TREADLE_HOME=str(tmp_path / "other"))
    assert [one["outcome"] for one in json.loads(alone.stdout)] == ["imported"]


def test_a_file_of_no_program_is_not_said_to_be_of_one(treadle: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "broken.jsonl", "nothing")
    done = treadle("import", "--from", "claude-code", str(path))
    assert f"{path} is no session of claude-code, nor of a program known here" in done.stderr


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_what_is_piped_in_is_refused_with_the_way_out(treadle: Run, name: str) -> None:
    done = treadle("import", name, stdin="{}\n")
    assert done.returncode == 2
    assert "sessions are read from files, not from stdin" in done.stderr
    assert "treadle import session.jsonl" in done.stderr


# ---- threads of Treadle ------------------------------------------------------------------------


@pytest.fixture
def exported(treadle: Run, script: Callable[[str], str], tmp_path: Path) -> tuple[str, Path]:
    """A thread, and the file it was exported to."""
    treadle("-p", "hello", "-m", script(HELLO))
    [line] = threads(treadle)
    target = tmp_path / "thread.jsonl"
    treadle("export", line["id"], "--format", "jsonl", "-o", str(target))
    return line["id"], target


def test_an_exported_thread_keeps_its_id_and_is_here_already_where_it_is(
    treadle: Run, exported: tuple[str, Path], tmp_path: Path
) -> None:
    thread, path = exported
    assert outcomes(treadle, str(path)) == ["already here"]
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    assert outcomes(treadle, str(path), **other) == ["imported"]
    assert outcomes(treadle, str(path), **other) == ["already here"]
    assert treadle("export", thread, "--format", "jsonl", **other).stdout == path.read_text()


def test_a_thread_that_went_on_differently_is_refused_and_stays(
    treadle: Run, exported: tuple[str, Path], script: Callable[[str], str], tmp_path: Path
) -> None:
    thread, path = exported
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    treadle("import", str(path), **other)
    for place, word in (({}, "mine"), (other, "yours")):
        done = treadle("resume", thread, "-p", word, "-m", script(HELLO), **place)
        assert done.returncode == 0, done.stderr
    longer = tmp_path / "longer.jsonl"
    treadle("export", thread, "--format", "jsonl", "-o", str(longer))
    before = treadle("export", thread, "--format", "jsonl", **other).stdout
    done = treadle("import", str(longer), **other)
    assert done.returncode == 1
    version = len(path.read_text().splitlines())
    assert f"went on differently here and in {longer}, from version {version} on" in done.stderr
    assert "with TREADLE_HOME set to another folder the file is imported there" in done.stderr
    assert treadle("export", thread, "--format", "jsonl", **other).stdout == before
    assert outcomes(treadle, str(path), **other) == ["already here"]


def test_a_thread_that_is_here_in_part_is_brought_up(
    treadle: Run, exported: tuple[str, Path], script: Callable[[str], str], tmp_path: Path
) -> None:
    thread, path = exported
    part = tmp_path / "part.jsonl"
    treadle("export", thread, "--format", "jsonl", "--version", "2", "-o", str(part))
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    assert outcomes(treadle, str(part), **other) == ["imported"]
    assert outcomes(treadle, str(path), "--dry-run", **other) == ["would be brought up"]
    assert len(treadle("export", thread, "--format", "jsonl", **other).stdout.splitlines()) == 2
    done = treadle("import", str(path), **other)
    assert done.returncode == 0, done.stderr
    count = len(path.read_text().splitlines())
    assert f"{thread}  brought up: hello" in done.stdout
    assert f"from version 2 to version {count}" in done.stdout
    assert treadle("export", thread, "--format", "jsonl", **other).stdout == path.read_text()
    assert [line["version"] for line in json.loads(treadle("list", "--json", **other).stdout)] == [
        count
    ]
    assert outcomes(treadle, str(path), **other) == ["already here"]
    assert treadle("verify", "--all", **other).returncode == 0
    assert treadle("resume", thread, "-p", "on", "-m", script(HELLO), **other).returncode == 0


def test_a_thread_in_the_trash_is_restored_before_it_goes_on(
    treadle: Run, exported: tuple[str, Path], tmp_path: Path
) -> None:
    thread, path = exported
    part = tmp_path / "part.jsonl"
    treadle("export", thread, "--format", "jsonl", "--version", "2", "-o", str(part))
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    treadle("import", str(part), **other)
    treadle("trash", thread, **other)
    again = treadle("import", str(part), **other)
    assert again.returncode == 0
    assert f"it is in the trash: treadle restore {thread}" in again.stdout
    done = treadle("import", str(path), **other)
    assert done.returncode == 1
    assert "is in the trash, and goes on in" in done.stderr
    assert f"treadle restore {thread}" in done.stderr


def test_a_journal_with_one_byte_changed_is_refused(
    treadle: Run, exported: tuple[str, Path], tmp_path: Path
) -> None:
    _, path = exported
    path.write_bytes(path.read_bytes().replace(b"hello", b"hellO", 1))
    done = treadle("import", str(path), TREADLE_HOME=str(tmp_path / "other"))
    assert done.returncode == 1
    assert "holds no intact journal" in done.stderr
    assert not list((tmp_path / "other").rglob("*.jsonl"))


def test_an_import_that_is_killed_leaves_whole_threads_and_goes_on_where_it_was(
    treadle: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    for number in range(40):
        name = f"{number:08}-1111-4111-8111-111111111111"
        write(tmp_path / f"all/{name}.jsonl", *(one | {"sessionId": name} for one in CLAUDE))
    running = subprocess.Popen(
        [sys.executable, "-um", "treadle", "import", str(tmp_path / "all")],
        env=environment,
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert b"imported" in running.stdout.readline()
    running.send_signal(signal.SIGKILL)
    running.communicate()
    known = len(threads(treadle))
    assert known >= 1
    found = outcomes(treadle, str(tmp_path / "all"))
    assert (found.count("already here"), found.count("imported")) == (known, 40 - known)
    assert treadle("verify").returncode == 0


LONG = """
[[replies]]
when.step = 0
[[replies.calls]]
tool = "bash"
arguments = { command = "seq 9999; echo zq81-$((4710+1))-plugh; seq 9999" }

[[replies]]
text = "Counted."
"""


@pytest.fixture
def counted(treadle: Run, script: Callable[[str], str], tmp_path: Path) -> tuple[str, Path]:
    """A thread with an output that is too large for its message, and its file."""
    done = treadle("-p", "count", "-m", script(LONG), "--approval-mode", "auto")
    assert done.returncode == 0, done.stderr
    [line] = threads(treadle)
    target = tmp_path / "counted.jsonl"
    done = treadle("export", line["id"], "--format", "jsonl", "-o", str(target))
    assert (done.returncode, "left out" in done.stderr) == (0, False)
    return line["id"], target


def blobs(home: Path) -> dict[str, bytes]:
    folder = home / "data" / "blobs"
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}


def test_large_outputs_come_along_and_are_here_before_the_thread(
    treadle: Run, counted: tuple[str, Path], tmp_path: Path
) -> None:
    thread, path = counted
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    assert outcomes(treadle, str(path), "--dry-run", **other) == ["would be imported"]
    assert blobs(tmp_path / "other") == {}
    assert outcomes(treadle, str(path), **other) == ["imported"]
    assert blobs(tmp_path / "other") == blobs(tmp_path / "home") != {}
    done = treadle("verify", "--all", **other)
    assert (done.returncode, "not imported" in done.stdout) == (0, False)
    again = treadle("export", thread, "--format", "jsonl", **other).stdout
    assert again == path.read_text()


@pytest.mark.parametrize("harm", ["left out", "changed", "cut"])
def test_a_thread_without_its_large_outputs_is_imported_told_and_not_called_damaged(
    treadle: Run, counted: tuple[str, Path], tmp_path: Path, harm: str
) -> None:
    thread, path = counted
    *records, output = path.read_text().splitlines(keepends=True)
    assert output.startswith('{"blob":{"sha256":"')
    other_output = output.replace('"base64":"', '"base64":"AAAA')
    last = {"left out": "", "changed": other_output, "cut": output[: len(output) // 2]}[harm]
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join([*records, last]))
    other = {"TREADLE_HOME": str(tmp_path / "other")}
    [told] = json.loads(treadle("import", str(bare), "--json", **other).stdout)
    assert told["outcome"] == "imported"
    assert told["problems"] == ["large outputs that are not in the file: 1"]
    done = treadle("verify", thread, **other)
    assert done.returncode == 0
    assert "large outputs that were not imported with it: 1" in done.stdout
    assert "1 imported without their large outputs" in treadle("doctor", **other).stdout
    left_out = treadle("export", thread, "--format", "jsonl", **other)
    assert "left out: record" in left_out.stderr
    assert outcomes(treadle, str(path), **other) == ["already here"]
    assert blobs(tmp_path / "other") == blobs(tmp_path / "home")
    assert "not imported" not in treadle("verify", thread, **other).stdout


def test_a_secret_in_a_large_output_holds_it_back(treadle: Run, counted: tuple[str, Path]) -> None:
    thread, _ = counted
    key = {"SOME_API_KEY": "zq81-4711-plugh"}
    done = treadle("export", thread, "--format", "jsonl", **key)
    assert (done.returncode, done.stdout) == (1, "")
    assert "some_api_key in a large output" in done.stderr
