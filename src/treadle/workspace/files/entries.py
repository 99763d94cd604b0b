"""Files as git's trees name them, and what differs between two states of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from treadle.workspace.status import storable

LINK: Final = "120000"
NOT_KEPT: Final = "160000"
"""The mode of a repository within a repository: an entry without content. A file whose content was
not saved stands in a tree in the same way, so that nobody takes it for a file that was absent."""

_INDEXED: Final = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0"
    rb"  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n"
    rb"  uid: \d+\tgid: \d+\n  size: (\d+)\tflags: [0-9a-f]+\n"
)
_PLAIN: Final = re.compile(rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0")
_CHANGED: Final = re.compile(
    rb":(\d{6}) (\d{6}) ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [A-Z]\d*\0([^\0]+)\0"
)


class FileEntry(NamedTuple):
    """A file in a tree: git's mode (`100644`, `100755`, `120000`, `160000`) and its object."""

    mode: str
    oid: str

    @property
    def is_kept(self) -> bool:
        """Whether its content was saved."""
        return self.mode != NOT_KEPT


class Indexed(NamedTuple):
    """A file in the index, with what `lstat` said of it when it was last known to be the same.

    `seen` holds modification and change time in nanoseconds, inode and size; `None` if unknown.
    """

    entry: FileEntry
    seen: tuple[int, int, int, int] | None


class FileChange(NamedTuple):
    """A file that differs between two states; `None` where it is absent.

    `path` is raw, relative to the root of the repository.
    """

    path: bytes
    old: FileEntry | None
    new: FileEntry | None

    @property
    def name(self) -> str:
        """The path, fit to be shown and stored."""
        return storable(self.path.decode("utf-8", "surrogateescape"))

    @property
    def status(self) -> str:
        """`A` added, `D` deleted, `M` modified."""
        return "A" if self.old is None else "D" if self.new is None else "M"

    @property
    def is_kept(self) -> bool:
        """Whether the contents of both sides were saved."""
        return all(side is None or side.is_kept for side in (self.old, self.new))


class Step(NamedTuple):
    """What changed from one recorded state of the files to the next, and by whom."""

    is_agents: bool
    changes: tuple[FileChange, ...]


class Touched(NamedTuple):
    """A file that the agent changed: as it was before the first and after the last of its changes.

    `by_others` says that somebody else changed it in between or later.
    """

    change: FileChange
    by_others: bool


def parse_index(output: bytes) -> dict[bytes, Indexed] | None:
    """What `git ls-files --stage --debug -z` says; `None` if it has another form.

    A path that a merge left in conflict stands without anything known of its file.
    """
    found: dict[bytes, Indexed] = {}
    at = 0
    for match in _INDEXED.finditer(output):
        if match.start() != at:
            return None
        at = match.end()
        mode, oid, stage, path, *rest = match.groups()
        cs, cn, ms, mn, inode, size = map(int, rest)
        is_known = stage == b"0"
        seen = (ms * 10**9 + mn, cs * 10**9 + cn, inode, size) if is_known else None
        found[path] = Indexed(FileEntry(mode.decode(), oid.decode()), seen)
    return found if at == len(output) else None


def parse_plain_index(output: bytes) -> dict[bytes, Indexed]:
    """What `git ls-files --stage -z` says: nothing is known of the files."""
    return {
        path: Indexed(FileEntry(mode.decode(), oid.decode()), None)
        for mode, oid, _, path in _PLAIN.findall(output)
    }


def parse_changes(output: bytes) -> list[FileChange]:
    """What `git diff-tree -r -z --raw --no-renames` says of two trees."""
    return [
        FileChange(path, _side(old_mode, old), _side(new_mode, new))
        for old_mode, new_mode, old, new, path in _CHANGED.findall(output)
    ]


def _side(mode: bytes, oid: bytes) -> FileEntry | None:
    return None if mode == b"000000" else FileEntry(mode.decode(), oid.decode())


def compare(old: Mapping[bytes, FileEntry], new: Mapping[bytes, FileEntry]) -> list[FileChange]:
    """What differs between two states, by path."""
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return [FileChange(path, old.get(path), new.get(path)) for path in paths]


def touched(steps: Iterable[Step]) -> dict[bytes, Touched]:
    """The files that the agent changed in these steps, by path, in the order of paths.

    A file that is in the end as it was in the beginning stands there too: somebody may want it.
    """
    found: dict[bytes, Touched] = {}
    for step in steps:
        for change in step.changes:
            known = found.get(change.path)
            if step.is_agents:
                first = change.old if known is None else known.change.old
                whole = FileChange(change.path, first, change.new)
                found[change.path] = Touched(whole, known is not None and known.by_others)
            elif known is not None:
                found[change.path] = known._replace(by_others=True)
    return {path: found[path] for path in sorted(found)}


def names(paths: Iterable[bytes], count_max: int) -> tuple[str, ...]:
    """The first of some paths, fit to be stored, and how many more there are."""
    every = sorted(paths)
    shown = [storable(path.decode("utf-8", "surrogateescape")) for path in every[:count_max]]
    more = len(every) - count_max
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)
