"""Each way to find what a program has started, with real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from treadle.platform.descendants import (
    Descendants,
    ListsProcesses,
    LiveProcess,
    PsLister,
    choose_lister,
    list_by_proc,
    make_lister,
)
from workspace.repo import is_gone

MARK = "TREADLE_TEST_MARK"


def read(argv: Sequence[str]) -> bytes:
    return subprocess.run(argv, capture_output=True, env={"LC_ALL": "C"}, check=True).stdout


LISTERS = {"/proc": list_by_proc, "ps": choose_lister("linux", read, has_proc=False)}


@pytest.fixture(params=LISTERS.values(), ids=LISTERS)
def lister(request: pytest.FixtureRequest) -> ListsProcesses:
    way: ListsProcesses = request.param
    return way


class Family:
    """A shell that leads a session, and those that it has started."""

    def __init__(self, script: str, mark: str, lister: ListsProcesses) -> None:
        self.process = subprocess.Popen(
            ["bash", "-c", script],
            env={**os.environ, MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.found = Descendants(self.pid, f"{MARK}={mark}".encode(), lister)

    def read_pid(self) -> int:
        """The number that the next one of them says is its own."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def let_exit(self) -> None:
        """End the leader, which waits for a line, and leave it to be waited for."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> None:
        """Kill all of them that are found."""
        while found := self.found.find():
            for pid in found:
                with suppress(ProcessLookupError):  # its parent was killed, and it read that
                    os.kill(pid, signal.SIGKILL)
                if pid == self.pid:
                    self.process.wait()
                is_gone(pid)
        with self.process:
            pass


Start = Callable[[str], Family]


@pytest.fixture
def start(lister: ListsProcesses, tmp_path: Path) -> Iterator[Start]:
    families: list[Family] = []

    def begin(script: str) -> Family:
        families.append(Family(script, f"{tmp_path}-{len(families)}", lister))
        return families[-1]

    yield begin
    for family in families:
        family.end()


TELL = "echo $$; exec sleep 1000"
BELONGING = {
    "a child": f"bash -c '{TELL}' & read",
    "a group of its own": f"set -m; bash -c '{TELL}' & read",
    "a session of its own": f"setsid bash -c '{TELL}' & read",
    "without its environment": f"env -i bash -c '{TELL}' & read",
    "a group without its environment": f"set -m; env -i bash -c '{TELL}' & read",
    "a child of a stranger's": f"setsid env -i bash -c 'bash -c \"{TELL}\" & read; wait' & read",
}
"""What a program has started, which says its number; the program itself waits for a line."""
LEFT = {
    "in its group": "a child",
    "in its session": "a group without its environment",
    "a daemon": "a session of its own",
}
"""What is found also when its parent has exited."""


@pytest.mark.parametrize("way", BELONGING)
def test_what_a_program_has_started_is_found_and_nothing_else(start: Start, way: str) -> None:
    others, family = start(BELONGING["a child"]), start(BELONGING[way])
    other, pid = others.read_pid(), family.read_pid()
    found = family.found.find()
    assert {family.pid, pid} <= found
    assert not found & {other, others.pid, os.getpid()}


@pytest.mark.parametrize("way", LEFT)
def test_who_has_lost_its_parent_is_found_and_the_dead_parent_is_not(
    start: Start, way: str
) -> None:
    family = start(BELONGING[LEFT[way]])
    pid = family.read_pid()
    family.let_exit()
    assert family.found.find() == {pid}


def test_who_was_seen_once_is_not_forgotten(start: Start) -> None:
    family = start(f"setsid env -i bash -c '{TELL}' & read")
    pid = family.read_pid()
    assert pid in family.found.find()
    family.let_exit()
    assert family.found.find() == {pid}


def test_names_that_look_like_states_are_read_as_names(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ") Z 1 (\n1 x"
    shutil.copy(shutil.which("sleep") or "", program)
    monkeypatch.setenv("ODD", "\n1 x\n\x1b[3m\r1")
    family = start(
        'sh -c \'echo $$; exec "$0" 1000\' "$PROGRAM" & read'.replace("$PROGRAM", str(program))
    )
    pid = family.read_pid()
    assert family.found.find() == {family.pid, pid}


MAC = b"""\
    1     0     1 Ss   Tue Jun  4 12:34:56 2024
7000001     1 7000001 S+   Tue Jun  4 12:35:00 2024
7000002 7000001 7000001 Z    Tue Jun  4 12:35:01 2024
7000003     1 7000003 R    Tue Jun  4 12:35:02 2024
"""
MAC_ENVIRONMENTS = b"""\
    1 /sbin/launchd
7000001 /bin/zsh -c x PATH=/bin MARK=5
7000002 (zsh)
7000003 sleep 9 MARK=6 PATH=/bin
"""


def test_the_words_of_a_mac_are_understood() -> None:
    asked = []

    def say(argv: Sequence[str]) -> bytes:
        asked.append(tuple(argv[1:]))
        return MAC_ENVIRONMENTS if "-AEww" in argv else MAC

    lister = choose_lister("darwin", say, has_proc=False)
    first, *others = lister(b"MARK=6")
    assert first.pid == 1
    assert others == [
        LiveProcess(7000001, 1, (7000001,), b"Tue Jun  4 12:35:00 2024", False),
        LiveProcess(7000003, 1, (7000003,), b"Tue Jun  4 12:35:02 2024", True),
    ]
    assert [" ".join(words) for words in asked] == [
        "-AEww -o pid= -o command=",
        "-A -o pid= -o ppid= -o pgid= -o stat= -o lstart=",
    ]


def test_a_line_that_lacks_a_field_is_passed_over() -> None:
    """A process that ends while `ps` writes may leave no time of its beginning."""

    def read(argv: Sequence[str]) -> bytes:
        return b"" if "command=" in argv else b"7 1 7 S\n8 1 8 S Mon Nov 23 10:00:00 2026\n"

    assert [one.pid for one in PsLister("axeww", read)(b"mark")] == [8]


def test_each_system_is_asked_in_its_own_way() -> None:
    assert choose_lister("linux", read, has_proc=True) is list_by_proc
    assert choose_lister("linux", read, has_proc=False) == PsLister("axeww", read)
    assert choose_lister("darwin", read, has_proc=False) == PsLister("-AEww", read)
    assert make_lister(read) is list_by_proc


def test_where_nothing_is_told_nobody_is_found() -> None:
    def refuse(argv: Sequence[str]) -> bytes:
        raise FileNotFoundError(argv[0])

    assert list(choose_lister("linux", refuse, has_proc=False)(b"x")) == []
