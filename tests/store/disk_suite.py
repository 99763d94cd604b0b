"""What every `Disk` must do; subclass `DiskSuite` and give the fixtures `disk` and `folder`."""

from __future__ import annotations

from random import Random

import pytest

from treadle.store.disk import Disk


class DiskSuite:
    """A subclass gives `disk`, and `folder`: the path of an existing, empty folder on it."""

    def make(self, disk: Disk, path: str, data: bytes = b"") -> str:
        """A file of this content, its handle given back."""
        handle = disk.create(path)
        disk.write(handle, data)
        disk.sync(handle)
        disk.close(handle)
        return path

    # ---- files -----------------------------------------------------------------------------------

    def test_what_is_written_is_read(self, disk: Disk, folder: str) -> None:
        data = Random(1).randbytes(300_001)
        path = self.make(disk, f"{folder}/a", data)
        assert disk.read(path) == data

    def test_writes_append_whatever_was_read_meanwhile(self, disk: Disk, folder: str) -> None:
        handle = disk.create(f"{folder}/a")
        for piece in (b"one", b"", b"two"):
            disk.write(handle, piece)
            disk.read(f"{folder}/a")
        assert disk.read(f"{folder}/a") == b"onetwo"
        disk.close(handle)

    def test_an_existing_file_is_opened_at_its_end(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"one")
        handle = disk.open_append(path)
        assert disk.size(handle) == 3
        disk.write(handle, b"two")
        disk.close(handle)
        assert disk.read(path) == b"onetwo"

    def test_two_handles_of_one_file_append_behind_each_other(
        self, disk: Disk, folder: str
    ) -> None:
        first = disk.create(f"{folder}/a")
        second = disk.open_append(f"{folder}/a")
        for handle, piece in ((first, b"1"), (second, b"22"), (first, b"3")):
            disk.write(handle, piece)
        assert disk.size(first) == disk.size(second) == 4
        assert disk.read(f"{folder}/a") == b"1223"
        disk.close(first)
        disk.close(second)

    def test_a_taken_name_is_not_created_again(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"mine")
        disk.make_folder(f"{folder}/b")
        for taken in (path, f"{folder}/b"):
            with pytest.raises(FileExistsError):
                disk.create(taken)
        assert disk.read(path) == b"mine"

    def test_a_missing_file_is_said_to_be_missing(self, disk: Disk, folder: str) -> None:
        for use in (disk.open_append, disk.read, disk.unlink):
            with pytest.raises(FileNotFoundError):
                use(f"{folder}/a")
        with pytest.raises(FileNotFoundError):
            disk.read_range(f"{folder}/a", 0, 1)
        with pytest.raises(FileNotFoundError):
            disk.rename(f"{folder}/a", f"{folder}/b")

    def test_nothing_is_made_in_a_missing_folder(self, disk: Disk, folder: str) -> None:
        for use in (disk.create, disk.lock, disk.sync_folder):
            with pytest.raises(FileNotFoundError):
                use(f"{folder}/none/a")
        assert disk.list(folder) == []

    def test_a_part_is_read_from_where_it_begins_to_where_the_file_ends(
        self, disk: Disk, folder: str
    ) -> None:
        path = self.make(disk, f"{folder}/a", b"0123456789")
        assert disk.read(path, 7) == b"789"
        assert disk.read(path, 10) == disk.read(path, 99) == b""
        assert disk.read(path, -5) == b"0123456789"
        assert disk.read_range(path, 2, 3) == b"234"
        assert disk.read_range(path, 8, 99) == b"89"
        assert disk.read_range(path, 99, 1) == disk.read_range(path, 3, 0) == b""
        assert disk.read_range(path, -4, 2) == b"01"

    def test_a_cut_file_is_shorter_and_goes_on_at_its_new_end(
        self, disk: Disk, folder: str
    ) -> None:
        path = self.make(disk, f"{folder}/a", b"0123456789")
        handle = disk.open_append(path)
        disk.truncate(handle, 4)
        assert disk.size(handle) == 4
        disk.write(handle, b"x")
        disk.sync(handle)
        disk.close(handle)
        assert disk.read(path) == b"0123x"

    def test_a_handle_given_back_is_of_no_use(self, disk: Disk, folder: str) -> None:
        handle = disk.create(f"{folder}/a")
        disk.close(handle)
        for use in (disk.close, disk.size, disk.sync):
            with pytest.raises(OSError):  # noqa: PT011  the number differs
                use(handle)
        with pytest.raises(OSError):  # noqa: PT011
            disk.write(handle, b"x")
        assert disk.read(f"{folder}/a") == b""

    # ---- names -----------------------------------------------------------------------------------

    def test_a_file_with_two_names_is_one_file_until_the_last_is_removed(
        self, disk: Disk, folder: str
    ) -> None:
        path, other = self.make(disk, f"{folder}/a", b"one"), f"{folder}/b"
        disk.link(path, other)
        handle = disk.open_append(path)
        disk.write(handle, b"two")
        disk.unlink(path)
        assert disk.size(handle) == 6
        disk.write(handle, b"three")
        disk.close(handle)
        assert disk.read(other) == b"onetwothree"
        assert disk.list(folder) == ["b"]

    def test_a_taken_name_is_no_second_name(self, disk: Disk, folder: str) -> None:
        path, other = self.make(disk, f"{folder}/a", b"one"), self.make(disk, f"{folder}/b", b"2")
        with pytest.raises(FileExistsError):
            disk.link(path, other)
        with pytest.raises(FileNotFoundError):
            disk.link(f"{folder}/c", f"{folder}/d")
        assert disk.read(other) == b"2"

    def test_only_a_file_that_is_there_can_be_touched(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"one")
        disk.touch(path)
        assert disk.read(path) == b"one"
        with pytest.raises(FileNotFoundError):
            disk.touch(f"{folder}/b")
        assert disk.list(folder) == ["a"]

    def test_a_renamed_file_replaces_what_had_its_name(self, disk: Disk, folder: str) -> None:
        new = self.make(disk, f"{folder}/new", b"new")
        old = self.make(disk, f"{folder}/old", b"old")
        disk.rename(new, old)
        disk.sync_folder(folder)
        assert disk.list(folder) == ["old"]
        assert disk.read(old) == b"new"

    def test_a_file_cannot_take_the_name_of_a_folder(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"a")
        disk.make_folder(f"{folder}/b")
        with pytest.raises(OSError):  # noqa: PT011
            disk.rename(path, f"{folder}/b")
        assert disk.list(folder) == ["a", "b"]

    def test_an_open_file_keeps_its_content_under_its_new_name(
        self, disk: Disk, folder: str
    ) -> None:
        handle = disk.create(f"{folder}/a")
        disk.rename(f"{folder}/a", f"{folder}/b")
        disk.write(handle, b"x")
        assert disk.size(handle) == 1
        assert disk.read(f"{folder}/b") == b"x"
        disk.close(handle)

    def test_a_file_that_lost_its_name_while_open_says_so(self, disk: Disk, folder: str) -> None:
        removed, replaced = disk.create(f"{folder}/a"), disk.create(f"{folder}/b")
        disk.unlink(f"{folder}/a")
        self.make(disk, f"{folder}/c", b"new")
        disk.rename(f"{folder}/c", f"{folder}/b")
        for handle in (removed, replaced):
            with pytest.raises(FileNotFoundError):
                disk.size(handle)
            disk.write(handle, b"x")
            disk.close(handle)
        assert disk.list(folder) == ["b"]
        assert disk.read(f"{folder}/b") == b"new"

    def test_a_removed_name_can_be_taken_again(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"first")
        disk.unlink(path)
        assert disk.list(folder) == []
        self.make(disk, path, b"second")
        assert disk.read(path) == b"second"

    def test_a_folder_lists_its_names_sorted(self, disk: Disk, folder: str) -> None:
        for name in ("b", "a", "a.b", "Z", "é"):
            self.make(disk, f"{folder}/{name}")
        disk.make_folder(f"{folder}/c")
        assert disk.list(folder) == sorted(["b", "a", "a.b", "Z", "é", "c"])
        assert disk.list(folder, "b") == ["a.b", "b"]

    def test_stats_tell_size_and_identity_of_the_plain_files_with_an_ending(
        self, disk: Disk, folder: str
    ) -> None:
        path = self.make(disk, f"{folder}/a.x", b"12345")
        self.make(disk, f"{folder}/b.x", b"")
        self.make(disk, f"{folder}/c.y", b"1")
        disk.make_folder(f"{folder}/d.x")
        found = disk.stats(folder, ".x")
        assert {name: one.size for name, one in found.items()} == {"a.x": 5, "b.x": 0}
        assert disk.stats(folder).keys() == {"a.x", "b.x", "c.y"}
        assert disk.stats(f"{folder}/none") == {}
        assert disk.stat(path) == found["a.x"]
        assert disk.stat(f"{folder}/none") is disk.stat(f"{folder}/d.x") is None

    def test_a_stat_changes_when_a_file_grows_or_is_replaced(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"12345")
        before = disk.stat(path)
        disk.rename(self.make(disk, f"{folder}/b", b"67890"), path)
        replaced = disk.stat(path)
        assert replaced != before
        handle = disk.open_append(path)
        disk.write(handle, b"1")
        disk.close(handle)
        assert disk.stat(path) not in (before, replaced)

    def test_a_missing_folder_lists_nothing(self, disk: Disk, folder: str) -> None:
        assert disk.list(f"{folder}/none") == []

    def test_folders_are_made_with_their_parents_and_again_without_harm(
        self, disk: Disk, folder: str
    ) -> None:
        disk.make_folder(f"{folder}/a/b/c")
        self.make(disk, f"{folder}/a/b/c/file", b"kept")
        disk.make_folder(f"{folder}/a/b/c")
        disk.make_folder(f"{folder}/a")
        assert disk.read(f"{folder}/a/b/c/file") == b"kept"
        assert disk.list(folder) == ["a"]

    def test_a_folder_is_not_made_where_a_file_stands(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a", b"kept")
        for taken in (path, f"{path}/b"):
            with pytest.raises(OSError):  # noqa: PT011
                disk.make_folder(taken)
        assert disk.read(path) == b"kept"

    def test_a_folder_is_no_file(self, disk: Disk, folder: str) -> None:
        disk.make_folder(f"{folder}/a")
        for use in (disk.open_append, disk.read, disk.lock, disk.unlink):
            with pytest.raises(OSError):  # noqa: PT011
                use(f"{folder}/a")
        assert disk.list(folder) == ["a"]

    def test_a_file_is_no_folder(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a")
        for use in (disk.sync_folder, disk.list):
            with pytest.raises(OSError):  # noqa: PT011
                use(path)

    # ---- locks -----------------------------------------------------------------------------------

    def test_a_lock_is_held_by_one_until_it_is_given_back(self, disk: Disk, folder: str) -> None:
        lock = disk.lock(f"{folder}/a.lock")
        assert lock is not None
        assert disk.lock(f"{folder}/a.lock") is None
        assert disk.lock(f"{folder}/a.lock") is None
        disk.close(lock)
        again = disk.lock(f"{folder}/a.lock")
        assert again is not None
        disk.close(again)

    def test_a_lock_that_is_shared_is_held_by_many_or_by_one_alone(
        self, disk: Disk, folder: str
    ) -> None:
        path = f"{folder}/a.lock"
        shared = [disk.lock(path, is_shared=True) for _ in range(2)]
        assert None not in shared
        for one in shared:
            assert disk.lock(path) is None
            assert one is not None
            disk.close(one)
        alone = disk.lock(path)
        assert alone is not None
        assert disk.lock(path, is_shared=True) is None
        disk.close(alone)

    def test_locks_of_other_files_are_other_locks(self, disk: Disk, folder: str) -> None:
        one, other = disk.lock(f"{folder}/a.lock"), disk.lock(f"{folder}/b.lock")
        assert one is not None
        assert other is not None
        disk.close(one)
        assert disk.lock(f"{folder}/b.lock") is None
        disk.close(other)

    def test_a_lock_file_stays_when_its_lock_is_given_back(self, disk: Disk, folder: str) -> None:
        lock = disk.lock(f"{folder}/a.lock")
        assert lock is not None
        disk.close(lock)
        assert disk.list(folder) == ["a.lock"]

    def test_reading_and_closing_a_locked_file_does_not_free_it(
        self, disk: Disk, folder: str
    ) -> None:
        lock = disk.lock(f"{folder}/a.lock")
        assert lock is not None
        assert disk.read(f"{folder}/a.lock") == b""
        disk.close(disk.open_append(f"{folder}/a.lock"))
        assert disk.lock(f"{folder}/a.lock") is None
        disk.close(lock)

    def test_whether_a_lock_is_held_can_be_asked_without_taking_it(
        self, disk: Disk, folder: str
    ) -> None:
        path = f"{folder}/a.lock"
        assert not disk.is_locked(path)
        assert disk.list(folder) == []
        for _ in range(2):
            lock = disk.lock(path)
            assert lock is not None
            assert disk.is_locked(path)
            assert disk.is_locked(path)
            assert disk.lock(path) is None
            disk.close(lock)
            assert not disk.is_locked(path)

    def test_a_lock_file_holds_the_note_of_its_last_holder(self, disk: Disk, folder: str) -> None:
        path = f"{folder}/a.lock"
        for note in (b"a long note", b"short"):
            lock = disk.lock(path, note)
            assert lock is not None
            assert disk.read(path) == note
            assert disk.lock(path, b"another") is None
            disk.close(lock)
            assert disk.read(path) == note

    def test_locking_leaves_the_content_of_the_file_alone(self, disk: Disk, folder: str) -> None:
        path = self.make(disk, f"{folder}/a.lock", b"words")
        lock = disk.lock(path)
        assert lock is not None
        assert disk.read(path) == b"words"
        disk.close(lock)
