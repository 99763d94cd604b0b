"""The model disk is a disk, and forgets all that POSIX allows a disk to forget."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from lab.faulty_disk import Fault, FaultyDisk
from lab.model_disk import STATE_COUNT_MAX, ModelDisk
from store.disk_suite import DiskSuite


class TestModelDisk(DiskSuite):
    """The suite."""

    @pytest.fixture
    def disk(self) -> ModelDisk:
        return ModelDisk()

    @pytest.fixture
    def folder(self, disk: ModelDisk) -> str:
        disk.make_folder("/a/folder")
        return "/a/folder"


class TestFaultyDiskThatDoesNotFail(TestModelDisk):
    """The suite again: without a fault the wrapper changes nothing."""

    @pytest.fixture
    def disk(self) -> FaultyDisk:  # type: ignore[override]
        return FaultyDisk(ModelDisk())


def disk_with(data: bytes = b"") -> ModelDisk:
    """A disk with the durable file `/d/a`."""
    disk = ModelDisk()
    disk.make_folder("/d")
    handle = disk.create("/d/a")
    disk.write(handle, data)
    disk.sync(handle)
    disk.sync_folder("/d")
    disk.close(handle)
    return disk


def contents(disk: ModelDisk, path: str = "/d/a") -> set[bytes | None]:
    """What a power cut may make of a file; `None` where it is gone."""
    return {state.files().get(path) for state in disk.crash_states()}


def append(disk: ModelDisk, data: bytes, path: str = "/d/a") -> int:
    handle = disk.open_append(path)
    disk.write(handle, data)
    return handle


def test_what_was_synced_is_all_there_and_nothing_else_can_be() -> None:
    disk = disk_with(b"one\n")
    assert disk.state_count() == 1
    assert contents(disk) == {b"one\n"}
    assert disk.pending_count() == 0


def test_what_was_not_synced_may_be_absent_torn_zero_or_there() -> None:
    disk = disk_with(b"one\n")
    append(disk, b"two\nthree\n")
    found = contents(disk)
    whole = b"one\ntwo\nthree\n"
    assert {b"one\n", b"one\ntwo\n", whole[:9], whole[:-1], whole} <= found
    assert {
        b"one\n" + bytes(10),
        b"one\ntwo\n" + bytes(6),
        b"one\n" + bytes(4) + b"three\n",
    } <= found
    assert all(state is not None and state.startswith(b"one\n") for state in found)
    assert disk.pending_count() == 1


def test_a_record_in_the_middle_of_a_batch_may_be_zero() -> None:
    disk = disk_with()
    append(disk, b"aa\nbb\ncc\n")
    assert b"aa\n" + bytes(3) + b"cc\n" in contents(disk)


def test_writes_may_reach_the_disk_in_any_order() -> None:
    disk = disk_with()
    handle = append(disk, b"one\n")
    disk.write(handle, b"two\n")
    assert bytes(4) + b"two\n" in contents(disk)


def test_a_synced_file_may_have_no_name_until_its_folder_is_synced() -> None:
    disk = disk_with()
    handle = disk.create("/d/b")
    disk.write(handle, b"x")
    disk.sync(handle)
    assert contents(disk, "/d/b") == {None, b"x"}
    disk.sync_folder("/d")
    assert contents(disk, "/d/b") == {b"x"}


def test_a_name_may_be_durable_before_what_it_names() -> None:
    disk = disk_with(b"old")
    handle = disk.create("/d/new")
    disk.write(handle, b"new")
    disk.rename("/d/new", "/d/a")
    disk.sync_folder("/d")
    assert {b"", b"new", bytes(3)} <= contents(disk)
    assert b"old" not in contents(disk)


def test_a_renamed_file_is_under_either_name_or_both_or_none() -> None:
    disk = disk_with(b"x")
    disk.rename("/d/a", "/d/b")
    found = {tuple(sorted(state.files())) for state in disk.crash_states()}
    assert found == {(), ("/d/a",), ("/d/b",), ("/d/a", "/d/b")}


def test_a_removed_name_may_come_back() -> None:
    disk = disk_with(b"x")
    disk.unlink("/d/a")
    assert contents(disk) == {None, b"x"}
    disk.sync_folder("/d")
    assert contents(disk) == {None}


def test_a_cut_may_not_have_happened_yet() -> None:
    disk = disk_with(b"0123456789")
    handle = disk.open_append("/d/a")
    disk.truncate(handle, 4)
    assert contents(disk) == {b"0123", b"0123456789"}
    disk.sync(handle)
    assert contents(disk) == {b"0123"}


def test_a_new_folder_may_be_gone_with_all_that_is_in_it() -> None:
    disk = ModelDisk()
    disk.mkdir("/d")
    handle = disk.create("/d/a")
    disk.write(handle, b"x")
    disk.sync(handle)
    disk.sync_folder("/d")
    assert contents(disk) == {None, b"x"}


def test_a_sync_after_one_that_failed_makes_nothing_durable() -> None:
    disk = disk_with(b"one\n")
    handle = append(disk, b"two\n")
    disk.fail_sync(handle)
    assert disk.read("/d/a") == b"one\ntwo\n"
    disk.sync(handle)
    assert b"one\n" in contents(disk)


@pytest.mark.parametrize(
    ("survival", "left"),
    [
        (lambda data: None, b"one\n"),
        (lambda data: data[:2], b"one\ntw"),
        (lambda data: data, b"one\ntwo\n"),
    ],
)
def test_a_file_opened_again_is_what_the_disk_holds(
    survival: Callable[[bytes], bytes | None], left: bytes
) -> None:
    disk = disk_with(b"one\n")
    disk.survival = survival
    disk.fail_sync(append(disk, b"two\n"))
    handle = disk.open_append("/d/a")
    assert disk.read("/d/a") == left
    disk.sync(handle)
    assert contents(disk) == {left}


def test_a_cut_removes_for_good_what_a_failed_sync_left() -> None:
    disk = disk_with(b"one\n")
    handle = append(disk, b"two\n")
    disk.fail_sync(handle)
    disk.truncate(handle, 4)
    disk.write(handle, b"2\n")
    disk.sync(handle)
    assert contents(disk) == {b"one\n2\n"}


def test_a_killed_process_loses_nothing_but_its_locks() -> None:
    disk = disk_with(b"one\n")
    append(disk, b"two\n")
    assert disk.lock("/d/lock") is not None
    after = disk.after_kill()
    assert after.lock("/d/lock") is not None
    assert after.read("/d/a") == b"one\ntwo\n"
    assert after.handle_count == 1
    assert contents(after) == contents(disk)


def test_every_crash_state_is_durable_and_on_its_own() -> None:
    disk = disk_with(b"one\n")
    append(disk, b"two\n")
    for state in disk.crash_states():
        assert state.state_count() == 1
        append(state, b"more")
    assert disk.read("/d/a") == b"one\ntwo\n"


def test_too_many_states_are_sampled_by_a_seed_with_the_extremes_among_them() -> None:
    disk = disk_with()
    handle = append(disk, b"a\nb\nc\n")
    for _ in range(4):
        disk.write(handle, b"d\ne\nf\n")
    assert disk.state_count() > STATE_COUNT_MAX
    states = [state.files()["/d/a"] for state in disk.crash_states(100, seed=7)]
    assert len(states) == 100
    assert {b"", disk.read("/d/a")} <= set(states)
    assert states == [state.files()["/d/a"] for state in disk.crash_states(100, seed=7)]
    assert states != [state.files()["/d/a"] for state in disk.crash_states(100, seed=8)]


def test_a_fault_strikes_once_or_from_then_on() -> None:
    for lasting, left in ((False, b"xx"), (True, b"x")):
        disk = FaultyDisk(disk_with(), Fault(3, errno.ENOSPC, lasting, part=0.0))
        handle = disk.open_append("/d/a")
        disk.write(handle, b"x")
        with pytest.raises(OSError, match="No space"):
            disk.write(handle, b"y")
        if lasting:
            with pytest.raises(OSError, match="No space"):
                disk.write(handle, b"x")
        else:
            disk.write(handle, b"x")
        assert disk.read("/d/a") == left
        disk.lift()
        disk.write(handle, b"x")


def test_a_part_of_a_failed_write_may_be_there() -> None:
    disk = FaultyDisk(disk_with(), Fault(2, errno.EIO, part=0.5))
    handle = disk.open_append("/d/a")
    with pytest.raises(OSError, match="/d/a"):
        disk.write(handle, b"1234")
    assert disk.read("/d/a") == b"12"
