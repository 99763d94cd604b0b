"""How the holder of a lock is known: Linux's way on real locks, that of macOS as it answers."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.platform.file_locks import (
    BY_ANY_LOCK,
    BY_FILE_LOCK,
    MAC_GET_LOCK,
    MAC_NO_LOCK,
    MAC_READ_LOCK,
    UNKNOWN,
    FileControl,
    ask_for_any_lock,
    choose_lock_question,
    lock_question,
)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield file
    os.close(file)


def test_a_holder_is_known_as_long_as_its_file_is_open(tmp_path: Path, file: int) -> None:
    assert not BY_FILE_LOCK.ask(file)
    holder = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    BY_FILE_LOCK.announce(holder)
    for _ in range(2):
        assert BY_FILE_LOCK.ask(file), "the question has taken nothing"
    os.close(os.open(tmp_path / "lock", os.O_RDWR))  # would end a lock of `lockf`
    assert BY_FILE_LOCK.ask(file)
    os.close(holder)
    assert not BY_FILE_LOCK.ask(file)


HOLDING = """
import fcntl, os, sys
from treadle.platform.file_locks import lock_question
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
lock_question.announce(file)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_holder_in_another_process_is_known_until_it_dies(tmp_path: Path, file: int) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock_question.ask(file)
        holder.kill()
    assert not lock_question.ask(file)


def test_who_announces_on_a_file_that_is_not_writable_fails_not(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    for flags in (os.O_RDONLY, os.O_PATH):
        file = os.open(tmp_path / "lock", flags)
        for question in (BY_FILE_LOCK, BY_ANY_LOCK, UNKNOWN):
            question.announce(file)
            if flags == os.O_PATH:
                assert not question.ask(file)
        os.close(file)


def answering(kind: int) -> FileControl:
    """`fcntl` of macOS, where such a lock is held."""

    def control(_: int, what: int, lock: bytes) -> bytes:
        # <sys/fcntl.h>: off_t l_start, l_len; pid_t l_pid; short l_type, l_whence.
        assert len(lock) == 24
        assert what == MAC_GET_LOCK
        start, length, _, asked, whence = struct.unpack("<qqihh", lock)
        assert (start, length, asked, whence) == (0, 0, MAC_READ_LOCK, os.SEEK_SET)
        return struct.pack("<qqihh", start, length, -1, kind, whence)

    return control


def test_on_macos_the_lock_itself_is_found(file: int) -> None:
    write_lock = 3
    assert ask_for_any_lock(file, answering(write_lock))
    assert not ask_for_any_lock(file, answering(MAC_NO_LOCK))


def test_a_disk_that_cannot_answer_says_no(file: int) -> None:
    def refuse(_: int, __: int, ___: bytes) -> bytes:
        raise OSError(errno.ENOTSUP, "")

    assert not ask_for_any_lock(file, refuse)


def test_each_system_has_its_own_way() -> None:
    assert choose_lock_question("linux", has_file_locks=True) is BY_FILE_LOCK is lock_question
    assert choose_lock_question("linux", has_file_locks=False) is UNKNOWN
    # Newer ones have such locks too, laid out otherwise.
    for has_file_locks in (True, False):
        assert choose_lock_question("darwin", has_file_locks=has_file_locks) is BY_ANY_LOCK
        assert choose_lock_question("freebsd14", has_file_locks=has_file_locks) is UNKNOWN
