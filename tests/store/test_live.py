"""What is being said can be read by other processes while it is said, and is gone afterwards."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from treadle.store.live_answer import (
    LENGTH_MAX,
    SIZE_MAX,
    LiveAnswer,
    LiveAnswerWriter,
    live_answer_path,
    read_live_answer,
    remove_live_answer,
)
from treadle.store.paths import Places

THREAD = "T-01900000-0000-7000-8000-00000000000a"
DEADLINE_S = 60.0


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "data", tmp_path / "state", tmp_path / "config")


@pytest.fixture
def said(places: Places) -> Iterator[LiveAnswerWriter]:
    found = LiveAnswerWriter(places, THREAD)
    yield found
    found.close()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another thread to have done it."""
    end, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not is_so():
        assert time.monotonic() < end
        pause.wait(0.005)


def writers() -> set[threading.Thread]:
    """The threads that write what is said, which are at work."""
    return {one for one in threading.enumerate() if one.name == "treadle-live"}


def text_of(places: Places) -> str:
    live = read_live_answer(places, THREAD)
    return "" if live is None else live.text


def test_what_is_said_is_read_while_it_grows_and_gone_when_it_is_whole(
    places: Places, said: LiveAnswerWriter
) -> None:
    said.begin(7)
    said.add("Hello ")
    until(lambda: text_of(places) == "Hello ")
    said.add("wörld")
    until(lambda: text_of(places) == "Hello wörld")
    assert read_live_answer(places, THREAD) == LiveAnswer(7, 0, "Hello wörld", os.getpid())
    said.end()
    until(lambda: not live_answer_path(places, THREAD).exists())
    said.begin(9)
    said.add("And")
    until(lambda: read_live_answer(places, THREAD) == LiveAnswer(9, 0, "And", os.getpid()))


def test_only_its_owner_can_read_it(places: Places, said: LiveAnswerWriter) -> None:
    said.add("x")
    until(lambda: text_of(places) == "x")
    path = live_answer_path(places, THREAD)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, places.state)] == [
        *(0o600, 0o700, 0o700)
    ]


def test_of_a_long_text_the_end_is_kept_and_where_it_stands(
    places: Places, said: LiveAnswerWriter
) -> None:
    said.begin(1)
    whole = "".join(f"{number:07},\x01" for number in range(LENGTH_MAX // 2))
    for start in range(0, len(whole), 1000):
        said.add(whole[start : start + 1000])
    until(lambda: text_of(places).endswith(whole[-100:]))
    live = read_live_answer(places, THREAD)
    assert live is not None
    assert len(live.text) == LENGTH_MAX
    assert whole[live.start :] == live.text
    assert live_answer_path(places, THREAD).stat().st_size < SIZE_MAX


def test_nothing_is_left_when_the_work_is_over_and_nothing_is_told_then(places: Places) -> None:
    said = LiveAnswerWriter(places, THREAD)
    said.add("Hello")
    until(lambda: text_of(places) == "Hello")
    said.close()
    assert list(live_answer_path(places, THREAD).parent.iterdir()) == []
    said.add("more")
    said.end()
    assert list(live_answer_path(places, THREAD).parent.iterdir()) == []


def test_who_says_nothing_makes_no_file_and_no_thread(
    places: Places, said: LiveAnswerWriter
) -> None:
    before = writers()
    said.begin(1)
    said.end()
    assert writers() <= before
    assert not places.state.exists()


def test_a_disk_that_refuses_costs_the_watcher_the_text_and_nobody_anything(
    places: Places, said: LiveAnswerWriter
) -> None:
    places.state.mkdir(parents=True)
    (places.state / "live").write_text("a file")
    before = writers()
    said.begin(1)
    said.add("Hello")
    until(lambda: writers() <= before)
    said.add(" again")
    said.end()
    assert writers() <= before, "it is not tried again and again"


def test_what_a_killed_process_left_is_removed_by_the_next_one(places: Places) -> None:
    path = live_answer_path(places, THREAD)
    path.parent.mkdir(parents=True)
    for name in (path, path.with_suffix(".draft")):
        name.write_text("left")
    LiveAnswerWriter(places, THREAD).close()
    assert list(path.parent.iterdir()) == []
    remove_live_answer(places, THREAD)  # there may be nothing


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"after":1,"start":0,"text":"x","pid":',
        b'{"after":-1,"start":0,"text":"x","pid":1}',
        b'{"after":1,"start":-5,"text":"x","pid":1}',
        b'{"after":1,"start":0,"text":"\xff","pid":1}',
        b"[" * 5000,
        msgspec.json.encode(LiveAnswer(1, 0, "x" * SIZE_MAX, 1)),
    ],
    ids=["empty", "torn", "version", "start", "bytes", "deep", "long"],
)
def test_a_file_that_was_not_written_here_says_nothing(places: Places, data: bytes) -> None:
    path = live_answer_path(places, THREAD)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert read_live_answer(places, THREAD) is None


def test_a_pipe_in_its_place_is_not_waited_for(places: Places) -> None:
    path = live_answer_path(places, THREAD)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert read_live_answer(places, THREAD) is None
