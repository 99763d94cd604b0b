"""`list`, `show`, `replay`, `verify`: what is on disk, told and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

Script = Callable[[str], str]

ECHO = '[[replies]]\ntext = "Yes."\n'


@pytest.fixture
def threads(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data" / "threads"


@pytest.fixture
def thread(treadle: Run, script: Script) -> str:
    """A thread of two turns."""
    model = script(ECHO)
    treadle("-p", "first", "-m", model)
    treadle("-c", "-p", "second")
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


def test_list_without_threads_says_how_to_make_one(treadle: Run) -> None:
    done = treadle("list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "treadle demo" in done.stderr
    assert json.loads(treadle("list", "--json").stdout) == []


def test_list_shows_a_line_for_a_thread(treadle: Run, thread: str) -> None:
    (line,) = treadle("list").stdout.splitlines()
    assert line.startswith("first  ready  ")
    assert line.endswith(thread)


def test_show_tells_the_conversation_and_takes_any_unique_prefix(treadle: Run, thread: str) -> None:
    for prefix in (thread, thread[:20], thread[2:20]):
        shown = treadle("show", prefix).stdout
        assert shown.index("first") < shown.index("Yes.") < shown.index("second")


def test_an_id_that_means_several_threads_is_refused_with_all_of_them(
    treadle: Run, tmp_path: Path
) -> None:
    ids = [f"T-01a218dc-ca63-732e-ad78-{end}" for end in ("0000aaaabbbb", "1111aaaabbbb")]
    home = tmp_path / "home"
    places = Places(home / "data", home / "state", home / "config")
    store = LocalStore(places, new_id=iter(ids).__next__)
    for _ in ids:
        store.create("a test", workspace="/w").close()
    done = treadle("show", "aaaabbbb")
    assert done.returncode == 2
    assert "'aaaabbbb' means 2 threads" in done.stderr
    assert [thread in done.stderr for thread in ids] == [True, True]
    assert treadle("show", "1111aaaabbbb").returncode == 0


def test_show_at_a_version_is_the_thread_as_it_stood(treadle: Run, thread: str) -> None:
    whole = json.loads(treadle("show", thread, "--json").stdout)
    states = set()
    for version in range(1, whole["version"] + 1):
        then = json.loads(treadle("show", thread, "--version", str(version), "--json").stdout)
        assert then["version"] == version
        count = len(then["conversation"]["messages"])
        assert then["conversation"]["messages"] == whole["conversation"]["messages"][:count]
        states.add(then["agent_state"]["kind"])
    assert then == whole
    assert states == {"waiting_for_user_input", "calling_llm"}
    beyond = treadle("show", thread, "--version", str(whole["version"] + 1))
    assert beyond.returncode == 2
    assert f"versions 1 to {whole['version']}" in beyond.stderr


def test_an_ambiguous_prefix_lists_the_candidates(
    treadle: Run, thread: str, script: Script
) -> None:
    treadle("-p", "another", "-m", script(ECHO))
    ids = [line["id"] for line in json.loads(treadle("list", "--json").stdout)]
    done = treadle("show", thread[:6])
    assert done.returncode == 2
    assert all(thread_id in done.stderr for thread_id in ids)


def test_replay_prints_every_transition_and_agrees_with_the_snapshot(
    treadle: Run, thread: str
) -> None:
    done = treadle("replay", thread)
    assert done.returncode == 0
    assert "WaitingForUserInput -> CallingLlm / SendLlmRequest" in done.stdout
    assert "CallingLlm -> WaitingForUserInput / WaitForInput" in done.stdout
    assert "says the same" in done.stdout.splitlines()[-1]


def test_replay_and_verify_fail_when_the_snapshot_lies(
    treadle: Run, thread: str, threads: Path
) -> None:
    from treadle.store.local_store import LocalStore
    from treadle.store.paths import Places
    from treadle.thread.record import Head
    from treadle.thread.snapshot import encode_snapshot

    data = threads.parent
    store = LocalStore(Places(data, data, data))
    loaded = store.load(thread)
    earlier = store.load(thread, loaded.fold.version - 1)
    earlier.fold.version = loaded.fold.version
    path = threads / f"{thread}.json"
    head = Head(loaded.head.seq, loaded.head.hash, loaded.head.at, loaded.head.size)
    path.write_bytes(encode_snapshot(earlier.fold, head))
    done = treadle("replay", thread, "--quiet")
    assert done.returncode == 1
    assert "says otherwise" in done.stdout
    assert treadle("verify").returncode == 1


def test_verify_finds_one_flipped_bit_and_names_the_place(
    treadle: Run, thread: str, threads: Path
) -> None:
    path = threads / f"{thread}.jsonl"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = treadle("verify")
    assert done.returncode == 1
    assert "corrupt" in done.stdout
    assert treadle("list").returncode == 0


def test_a_damaged_thread_can_be_shown_and_is_not_continued_or_touched(
    treadle: Run, thread: str, threads: Path
) -> None:
    path = threads / f"{thread}.jsonl"
    data = bytearray(path.read_bytes())
    data[data.rindex(b"second")] ^= 1
    path.write_bytes(data)
    (threads / f"{thread}.json").unlink()
    shown = treadle("show", thread)
    assert shown.returncode == 0
    assert "first" in shown.stdout
    assert "damaged or missing" in shown.stderr
    done = treadle("resume", thread, "-p", "more")
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert path.read_bytes() == data


def test_nothing_is_written_after_damage_that_a_snapshot_covers(
    treadle: Run, thread: str, threads: Path
) -> None:
    path = threads / f"{thread}.jsonl"
    data = bytearray(path.read_bytes())
    data[data.index(b"first")] ^= 1
    path.write_bytes(data)
    done = treadle("resume", thread, "-p", "more")
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert path.read_bytes() == data


def test_a_torn_end_is_cut_kept_and_told(treadle: Run, thread: str, threads: Path) -> None:
    path = threads / f"{thread}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":99,"at":"20')
    assert "torn" in treadle("verify", thread).stdout
    done = treadle("resume", thread, "-p", "more")
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert "quarantine" in done.stderr
    (kept,) = (threads.parent / "quarantine").iterdir()
    assert kept.read_bytes() == b'{"seq":99,"at":"20'
    assert path.read_bytes().startswith(whole)
    assert treadle("verify", thread).returncode == 0


def test_graph_prints_the_diagram_and_checks_a_file(treadle: Run, tmp_path: Path) -> None:
    drawn = treadle("graph").stdout
    assert drawn.startswith(("stateDiagram-v2", "---", "%%"))
    (tmp_path / "fresh.mmd").write_text(drawn)
    (tmp_path / "stale.mmd").write_text(drawn.replace("CallingLlm", "Calling"))
    assert treadle("graph", "--check", str(tmp_path / "fresh.mmd")).returncode == 0
    stale = treadle("graph", "--check", str(tmp_path / "stale.mmd"))
    assert stale.returncode == 1
    assert "make fmt" in stale.stderr


@pytest.mark.parametrize("command", ["trash", "show", "du", "fork", "verify", "resume"])
@pytest.mark.parametrize("short", ["", "T-", "T-019"])
def test_what_is_too_short_for_an_id_means_no_thread(
    treadle: Run, environment: dict[str, str], command: str, short: str
) -> None:
    """An empty variable in a script would mean the only thread there is."""
    store = LocalStore(Places.find(environment))
    thread = store.create("treadle/0.1.0")
    thread.close()
    done = treadle(command, short)
    assert (done.returncode, done.stdout) == (2, "")
    assert "too short to mean a thread" in done.stderr
    assert store.ids() == [thread.thread_id]


def test_replay_tells_programs_each_transition(treadle: Run, thread: str) -> None:
    done = treadle("replay", thread, "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert [one["seq"] for one in told] == list(range(1, len(told) + 1))
    assert {"event", "before", "after", "action", "at"} <= told[0].keys()
    assert "UserInput" in {one["event"] for one in told}
    assert done.stderr != ""
