"""A file is not written over unseen, nor as it was once seen; and not sent twice for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.calls_in_thread import CallsInThread, answer_of
from treadle.core.conversation import Compaction, View
from treadle.core.sightings import SIGHTING_COUNT_MAX
from treadle.core.tools import ToolExecutionOutcome
from treadle.tools.files import EDIT_SIZE_MAX
from treadle.tools.known_files import REPEATED_SIZE_MIN
from treadle.tools.read_file import OUTPUT_SIZE_MAX

LONG = "".join(f"line {number} of some text\n" for number in range(1, 41))
AGAIN = "nothing was written. Make the same call again if it still holds"


@pytest.fixture
def thread(folder: Path) -> CallsInThread:
    return CallsInThread(folder)


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def writing(content: str = "new\n", path: str = "a.txt") -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


def editing(old: str, new: str, path: str = "a.txt") -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "edits": [{"old_str": old, "new_str": new}]}


def reading(path: str = "a.txt", **lines: int) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": path, **lines}


async def test_a_file_that_was_not_read_is_not_overwritten_at_the_first_try(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    outcome = await thread.call(*writing())
    assert answer_of(outcome) == (
        "ERROR: Failed: a.txt exists and holds 8 bytes, and you have not read it; "
        f"{AGAIN}, or read it first"
    )
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert names(folder) == ["a.txt"]
    outcome = await thread.call(*writing())
    assert answer_of(outcome) == "wrote a.txt, 4 bytes (was 8)"


async def test_what_changes_between_the_refusal_and_the_second_try_is_told(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    await thread.call(*writing())
    (folder / "a.txt").write_text("one\ntwo\n")
    assert "has changed since you last heard of it (t1)" in answer_of(await thread.call(*writing()))
    assert answer_of(await thread.call(*writing())).startswith("wrote")


@pytest.mark.parametrize(
    "before",
    [
        [reading()],
        [reading(start_line=1, end_line=1)],
        [editing("one", "1")],
        [
            reading(),
            ("edit_file", {"path": "./sub/../a.txt", "edits": [{"old_str": "o", "new_str": "0"}]}),
        ],
    ],
)
async def test_what_was_read_or_written_may_be_overwritten(
    thread: CallsInThread, folder: Path, before: list[Any]
) -> None:
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("one\ntw\n")
    for one in before:
        await thread.call(*one)
    assert answer_of(await thread.call(*writing())).startswith("wrote a.txt")
    assert answer_of(await thread.call(*writing("newer\n"))).startswith("wrote a.txt")


async def test_there_is_nothing_to_lose_in_a_new_file_nor_in_an_empty_one(
    thread: CallsInThread, folder: Path
) -> None:
    assert answer_of(await thread.call(*writing(path="new.txt"))).startswith("wrote")
    (folder / "a.txt").touch()
    assert answer_of(await thread.call(*writing())).startswith("wrote")


async def test_a_link_to_a_file_that_was_read_is_that_file(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    (folder / "link.txt").symlink_to("a.txt")
    await thread.call(*reading("link.txt"))
    assert answer_of(await thread.call(*writing())).startswith("wrote")


async def test_a_file_too_large_to_be_read_at_once_is_not_overwritten_unseen(
    thread: CallsInThread, folder: Path
) -> None:
    with (folder / "a.txt").open("wb") as file:
        file.truncate(EDIT_SIZE_MAX + 1)
    assert "a.txt exists, and you have not read it" in answer_of(await thread.call(*writing()))
    assert answer_of(await thread.call(*writing())).startswith("wrote")


@pytest.mark.parametrize("change", [writing("x\n"), editing("line 5 ", "line five ")])
async def test_a_file_that_changed_since_it_was_read_is_left_alone_and_its_changes_are_told(
    thread: CallsInThread, folder: Path, change: Any
) -> None:
    (folder / "a.txt").write_text(LONG)
    await thread.call(*reading())
    lines = LONG.splitlines(keepends=True)
    lines[2] = "line three is another one\n"
    del lines[30]
    (folder / "a.txt").write_text("".join(lines))
    outcome = await thread.call(*change)
    assert answer_of(outcome) == (
        "ERROR: Failed: a.txt has changed since you last heard of it (t1), by a command or by "
        "somebody else: now different: line 3; before line 31 something is gone; "
        f"{AGAIN}\n3: line three is another one"
    )
    assert (folder / "a.txt").read_text() == "".join(lines)
    assert isinstance(await thread.call(*change), ToolExecutionOutcome.Success)


async def test_a_command_that_changes_a_file_counts_as_somebody(
    thread: CallsInThread, folder: Path
) -> None:
    await thread.call(*writing("one\n"))
    outcome = await thread.call("bash", {"command": "echo two >> a.txt", "access": "write"})
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    told = answer_of(await thread.call(*editing("one", "1")))
    assert "a.txt has changed since you last wrote it (t1)" in told
    assert told.endswith("\n2: two")
    assert answer_of(await thread.call(*editing("one", "1"))).startswith("edited")


async def test_an_edit_of_a_file_that_was_never_read_stands_on_its_own_text(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    assert answer_of(await thread.call(*editing("one", "1"))).startswith("edited")


async def test_what_the_model_has_not_heard_yet_in_the_same_round_does_not_count(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    first, second, third = await thread.round(reading(), writing(), writing())
    assert answer_of(first) == "one\n"
    assert "you have not read it" in answer_of(second)
    assert "you have not read it" in answer_of(third)
    first, second = await thread.round(writing("one\n"), writing("two\n"))
    assert answer_of(second).startswith("wrote"), "its own write in the round does"


async def test_who_knows_of_no_thread_refuses_nothing(call: Any, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    outcome = await call("write_file", path="a.txt", content="two\n")
    assert isinstance(outcome, ToolExecutionOutcome.Success)


# ---- reading again -------------------------------------------------------------------------------

STUB = (
    "[a.txt has not changed since {}, whose result above shows the same lines ({}-{}); "
    "ask once more to have them again]"
)


async def test_an_unchanged_file_is_named_instead_of_sent_again_but_only_once(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text(LONG)
    for asked, shown in [
        (reading(), LONG),
        (reading(end_line=99), STUB.format("t1", 1, 40)),
        (reading(), LONG),
        (reading(), STUB.format("t3", 1, 40)),
    ]:
        assert answer_of(await thread.call(*asked)) == shown


async def test_other_lines_are_sent_and_so_is_a_file_that_changed(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text(LONG)
    await thread.call(*reading())
    assert answer_of(await thread.call(*reading(start_line=2))).startswith("line 2")
    assert answer_of(await thread.call(*reading(start_line=2))) == STUB.format("t2", 2, 40)
    (folder / "a.txt").write_text("new " + LONG)
    assert answer_of(await thread.call(*reading())) == "new " + LONG
    await thread.call(*editing("new ", ""))
    assert answer_of(await thread.call(*reading())) == LONG, (
        "it is as it was, but not as it is known"
    )


async def test_a_short_file_is_sent_again(thread: CallsInThread, folder: Path) -> None:
    (folder / "a.txt").write_text("x" * (REPEATED_SIZE_MIN - 2) + "\n")
    await thread.call(*reading())
    assert answer_of(await thread.call(*reading())).startswith("xxx")


@pytest.mark.parametrize("line", ["y" * 60 + "\n", "y" * (OUTPUT_SIZE_MAX + 1) + "\n"])
async def test_a_result_that_was_cut_is_sent_again(
    thread: CallsInThread, folder: Path, line: str
) -> None:
    (folder / "a.txt").write_text(line * 1000)
    first = answer_of(await thread.call(*reading()))
    assert first.endswith("]")
    assert answer_of(await thread.call(*reading())) == first


async def test_what_a_compaction_or_a_rewind_took_out_of_view_is_sent_again(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text(LONG)
    await thread.call(*reading())
    whole = thread.conversation
    thread.conversation = whole.compact(Compaction(len(whole), "they read a file"))
    assert answer_of(await thread.call(*reading())) == LONG
    assert answer_of(await thread.call(*writing())).startswith("wrote"), "it was read all the same"
    (folder / "a.txt").write_text(LONG)
    thread.conversation = whole.rewind(View(1))
    assert "you have not read it" in answer_of(await thread.call(*writing()))
    assert answer_of(await thread.call(*reading())) == LONG


async def test_a_result_in_whose_place_something_else_stands_is_sent_again(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text(LONG)
    await thread.call(*reading())
    compacted = thread.conversation.compact(Compaction(1, "nothing"))
    thread.conversation = compacted
    assert answer_of(await thread.call(*reading())) == STUB.format("t1", 1, 40)


async def test_a_thread_remembers_so_many_files_and_forgets_the_oldest(
    thread: CallsInThread, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    await thread.call(*reading())
    seen = thread.sightings[0]
    thread.sightings = (seen,) * (SIGHTING_COUNT_MAX + 5)
    await thread.call(*reading())
    assert len(thread.sightings) == SIGHTING_COUNT_MAX
