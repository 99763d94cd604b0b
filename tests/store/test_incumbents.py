"""How other agents have lost sessions, by the reports of those it happened to, one test each.

Every one of them resumes, or stops with an error that says what is wrong; nothing is cut silently.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Final

import pytest

from core.samples import CONFIG, answer, call, ended, said, success
from lab.mounts import mounted, remount, why_no_mounts
from runtime.desk import imbalance
from store.shelf import CREATOR, TURN, Shelf, fill
from thread.journals import at
from treadle.core.actions import SendLlmRequest
from treadle.core.chat.states import CallingLlm
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.errors import DamagedJournalError, DiskError, ThreadBusyError, UnknownThreadError
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured
from treadle.thread.record import JournalCondition

EVENT_COUNT: Final = 10_667
SIZE: Final = 20_000_000
HOLD: Final = """
import sys
from store.shelf import Shelf
from pathlib import Path
writer = Shelf(Path(sys.argv[1])).store.open(sys.argv[2])
print("open", flush=True)
sys.stdin.read()
"""


def turns(words: int = 1) -> Iterator[tuple[Entry, ...]]:
    """Turns without end, a call in each."""
    for number in count():
        name = f"c{number}"
        yield (said(f"turn {number} " + "word " * words),)
        yield (answer("", call(name, "edit")), ToolStarted(name, at(2)))
        yield (ended(name, success(name, "done " * words, "f.txt")),)
        yield (PostToolsHookCompleted(True, "committed"),)
        yield (answer("so it is " * words),)


@pytest.fixture
def held(shelf: Shelf) -> Iterator[str]:
    """A thread that another process has open."""
    thread_id = shelf.busy()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(shelf.places.data.parent), thread_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        yield thread_id
        other.kill()


def without_snapshot(shelf: Shelf, thread_id: str) -> Path:
    shelf.snapshot(thread_id).unlink()
    return shelf.journal(thread_id)


def test_claude_code_49876_a_run_of_zeros_in_the_middle_is_told_and_cuts_nothing(
    shelf: Shelf,
) -> None:
    thread_id = shelf.busy()
    journal = without_snapshot(shelf, thread_id)
    data = journal.read_bytes()
    middle = len(data) // 2
    journal.write_bytes(data[:middle] + bytes(200) + data[middle + 200 :])
    with pytest.raises(DamagedJournalError, match=r"damaged at byte \d+"):
        shelf.store.open(thread_id)
    assert journal.stat().st_size == len(data)
    loaded = shelf.store.load(thread_id)
    assert loaded.condition is JournalCondition.CORRUPT
    assert loaded.fold.version > 1


def test_claude_code_53821_after_a_power_loss_the_thread_is_not_blank(shelf: Shelf) -> None:
    """What is synced is there; an end that is not is zeros, and is cut off."""
    thread_id = shelf.busy()
    journal = without_snapshot(shelf, thread_id)
    whole = shelf.store.load(thread_id).fold.document()
    data = journal.read_bytes()
    journal.write_bytes(data + bytes(700))
    writer = shelf.store.open(thread_id)
    assert writer.fold.document() == whole
    assert "unfinished write" in writer.note
    writer.close()
    assert journal.read_bytes() == data


def test_claude_code_87525_a_crashed_session_is_resumed_by_one_process_only(
    shelf: Shelf, held: str
) -> None:
    with pytest.raises(ThreadBusyError, match="open in another process"):
        shelf.store.open(held)
    assert shelf.store.load(held).problem == ""


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts() or "-")
def test_opencode_7607_a_full_disk_leaves_a_thread_that_opens(tmp_path: Path) -> None:
    with mounted("tmpfs", "tmpfs", tmp_path / "m", "size=32k"):
        shelf = Shelf(tmp_path / "m")
        writer = shelf.store.create(CREATOR)
        acknowledged = [writer.head]

        def work() -> None:
            for batch in turns(100):
                fill(writer, batch)
                acknowledged.append(writer.head)

        with pytest.raises(DiskError, match=r"No space left .*bytes are needed") as caught:
            work()
        assert caught.value.needed > 0
        assert str(shelf.journal(writer.thread_id)) in caught.value.message
        writer.close()
        loaded = shelf.store.load(writer.thread_id)
        assert loaded.head == acknowledged[-1]
        remount(tmp_path / "m", "size=1m")
        again = shelf.store.open(writer.thread_id)
        assert again.head == acknowledged[-1]
        again.close()


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_oh_my_pi_8596_a_torn_end_is_not_fused_with_the_next_record(shelf: Shelf, cut: int) -> None:
    thread_id = shelf.busy()
    journal = without_snapshot(shelf, thread_id)
    journal.write_bytes(journal.read_bytes()[:-cut])
    writer = shelf.store.open(thread_id)
    version = writer.fold.version
    fill(writer, (said("go on"),))
    writer.close()
    lines = journal.read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [*range(1, version + 2)]


def test_prime_agent_1785_what_is_torn_is_kept_and_nothing_before_it_lost(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    journal = without_snapshot(shelf, thread_id)
    data = journal.read_bytes()
    journal.write_bytes(data + b'{"seq":8,"at":"2026-11')
    shelf.store.open(thread_id).close()
    assert journal.read_bytes() == data
    [kept] = shelf.quarantine.iterdir()
    assert kept.read_bytes() == b'{"seq":8,"at":"2026-11'


def test_pi_9596_two_runs_that_continue_at_once_do_not_mix_in_one_file(
    shelf: Shelf, held: str
) -> None:
    before = shelf.journal(held).read_bytes()
    for _ in range(3):
        with pytest.raises(ThreadBusyError):
            shelf.store.open(held)
    assert shelf.journal(held).read_bytes() == before


def test_copilot_cli_2490_a_line_separator_in_text_breaks_no_line(shelf: Shelf) -> None:
    text = "a\u2028b\u2029c\x85d\v\f\x1c\x1d\x1ee"
    thread_id = shelf.create((said(text),))
    without_snapshot(shelf, thread_id)
    loaded = shelf.store.load(thread_id)
    assert loaded.condition is JournalCondition.CLEAN
    assert loaded.fold.conversation[0].content == text


def test_copilot_cli_2209_a_log_of_twenty_megabytes_and_ten_thousand_events_is_replayed(
    shelf: Shelf,
) -> None:
    """How long that takes is for the benchmark to say."""
    writer = shelf.store.create(CREATOR)
    fill(writer, (Configured(CONFIG),))
    batches = turns(600)
    while writer.fold.version < EVENT_COUNT:
        for entry in chain.from_iterable(islice(batches, 50)):
            writer.stage(entry)
        writer.commit()
    document = writer.fold.document()
    writer.close()
    journal = without_snapshot(shelf, writer.thread_id)
    assert journal.stat().st_size > SIZE
    again = shelf.store.open(writer.thread_id)
    assert again.fold.document() == document
    again.close()


@pytest.mark.parametrize("arguments", ['{"cut', "", "[]", '"text"', '{"a":NaN}', "{}{}"])
def test_open_webui_computer_300_cut_arguments_do_not_stop_later_requests(
    shelf: Shelf, arguments: str
) -> None:
    """They stand in history as they came; the call has its result, so that pairs stay whole."""
    writer = shelf.store.create(CREATOR)
    fill(writer, (Configured(CONFIG), said("go")))
    fill(writer, (answer("", call("a", "edit", arguments)),))
    fill(writer, (ended("a", success("a", "these arguments are no JSON object")),))
    action = writer.stage(PostToolsHookCompleted(False))
    writer.commit()
    assert isinstance(action, SendLlmRequest)
    assert imbalance(action.request.messages) == ""
    writer.close()
    again = shelf.store.open(writer.thread_id)
    assert isinstance(again.fold.state, CallingLlm)
    again.close()


def test_ask_o11y_161_a_call_that_was_open_at_a_crash_has_a_result_in_every_later_request(
    shelf: Shelf,
) -> None:
    thread_id = shelf.create(*TURN[:2])
    writer = shelf.store.open(thread_id)
    fill(writer, (ended("a", success("a", "it was cut")),))
    action = writer.stage(PostToolsHookCompleted(False))
    assert isinstance(action, SendLlmRequest)
    assert imbalance(action.request.messages) == ""
    writer.commit()
    writer.close()


@pytest.mark.parametrize("words", [b"", b"1", b'{"pid":1,"host":"elsewhere","since":"1970"}'])
def test_openclaw_43367_86538_a_lock_that_was_left_behind_holds_nobody_up_however_old(
    shelf: Shelf, words: bytes
) -> None:
    thread_id = shelf.busy()
    shelf.lock(thread_id).write_bytes(words)
    for moment in (0, 4_102_444_800):
        os.utime(shelf.lock(thread_id), (moment, moment))
        shelf.store.open(thread_id).close()


def test_opencode_7607_an_empty_file_says_so_and_others_open(shelf: Shelf) -> None:
    good, bad = shelf.busy(), shelf.busy()
    without_snapshot(shelf, bad).write_bytes(b"")
    with pytest.raises(UnknownThreadError, match="no intact record"):
        shelf.store.open(bad)
    shelf.store.open(good).close()
