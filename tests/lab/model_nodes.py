"""Files and folders that remember what was synced and what was not. Used by `ModelDisk`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from posixpath import join
from typing import Final, TypeAlias

PAGE_SIZES: Final = (512, 4096)
RECORD_COUNT_MAX: Final = 4
"""A write is torn at its first record ends up to this many, and at its last one."""

Survival: TypeAlias = Callable[[bytes], bytes | None]
"""Of contents whose sync failed: what a disk holds of them. `None` if nothing, not even size."""


def nothing_survives(_: bytes) -> None:
    """The write was lost."""


class Change:
    """A write or a truncation of a file. `data` is `None` for a truncation."""

    __slots__ = ("at", "data", "is_done", "is_lost")

    def __init__(self, at: int, data: bytes | None) -> None:
        self.at = at
        self.data = data
        self.is_done = False
        self.is_lost = False  # a sync of it failed: no later sync makes it durable

    def copy(self) -> Change:
        other = Change(self.at, self.data)
        other.is_done, other.is_lost = self.is_done, self.is_lost
        return other

    def apply(self, content: bytes) -> bytes:
        if self.data is None:
            return content[: self.at].ljust(self.at, b"\0")
        head = content[: self.at].ljust(self.at, b"\0")
        return head + self.data + content[self.at + len(self.data) :]

    def variants(self) -> list[bytes | None]:
        """What may have reached the disk, from nothing (`None`) to everything."""
        data = self.data
        if data is None:
            return [None, b""]
        found: dict[bytes | None, None] = {None: None}
        for cut in _cuts(self.at, data):
            found[data[:cut]] = None
            found[data[:cut] + bytes(len(data) - cut)] = None
            found[bytes(cut) + data[cut:]] = None
        for start, end in pairwise([0, *_record_ends(data), len(data)]):
            found[data[:start] + bytes(end - start) + data[end:]] = None
        found.pop(b"", None)
        found.pop(data, None)
        return [*found, bytes(len(data)), data]


def _cuts(at: int, data: bytes) -> list[int]:
    """Where a write may be torn: one byte in, half, one byte less, record ends, page ends."""
    pages = [size - at % size for size in PAGE_SIZES]
    cuts = {1, len(data) // 2, len(data) - 1, *_record_ends(data), *pages}
    return sorted(cut for cut in cuts if 0 < cut < len(data))


def _record_ends(data: bytes) -> list[int]:
    """Where records end within a write: the first few of them, and the last."""
    ends: list[int] = []
    end = data.find(b"\n") + 1
    while end and len(ends) < RECORD_COUNT_MAX:
        ends.append(end)
        end = data.find(b"\n", end) + 1
    ends.append(data.rfind(b"\n", 0, len(data) - 1) + 1)
    return sorted({end for end in ends if 0 < end < len(data)})


class File:
    __slots__ = ("base", "changes", "content", "holder", "link_count", "sharers", "touched_ns")

    def __init__(self, content: bytes = b"") -> None:
        self.base = self.content = content
        self.changes: list[Change] = []
        self.link_count = 0
        self.holder: int | None = None
        self.sharers: set[int] = set()
        self.touched_ns = 0

    def change(self, change: Change) -> None:
        self.changes.append(change)
        self.content = change.apply(self.content)

    def sync(self) -> None:
        for change in self.changes:
            change.is_done = change.is_done or not change.is_lost
            if change.data is None and change.is_done:
                self._forget_beyond(change)
        self._settle()

    def _forget_beyond(self, cut: Change) -> None:
        """A durable truncation also cuts what was lost before it."""
        for change in self.changes[: self.changes.index(cut)]:
            if change.data is not None and change.is_lost:
                change.data = change.data[: max(0, cut.at - change.at)]

    def _settle(self) -> None:
        self.changes = [change for change in self.changes if change.data != b""]
        while self.changes and self.changes[0].is_done:
            self.base = self.changes.pop(0).apply(self.base)

    def fail_sync(self) -> None:
        for change in self.changes:
            change.is_lost = change.is_lost or not change.is_done

    def reread(self, survival: Survival) -> None:
        """From the disk: contents whose sync failed turn out to be there or not."""
        kept: list[Change] = []
        for change in self.changes:
            if change.is_lost:
                left = survival(change.data) if change.data is not None else None
                if left is None:
                    continue
                change.data, change.is_lost, change.is_done = left, False, True
            kept.append(change)
        self.changes = kept
        self._settle()
        self.content = self.base
        for change in self.changes:
            self.content = change.apply(self.content)

    def open_changes(self) -> list[Change]:
        return [change for change in self.changes if not change.is_done]

    def torn(self, choices: dict[Change, bytes | None]) -> bytes:
        """The contents a crash leaves, by what of each change has reached the disk."""
        content = self.base
        for change in self.changes:
            data = change.data if change.is_done else choices[change]
            if data is None and not (change.is_done and change.data is None):
                continue
            content = (change if change.data is None else Change(change.at, data)).apply(content)
        return content


class Folder:
    """`names` is what is seen; `durable` what was synced; `pending` what was bound since."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: dict[str, list[Node | None]] = {}

    def bind(self, name: str, node: Node | None) -> None:
        old = self.names.pop(name, None)
        if isinstance(old, File):
            old.link_count -= 1
        if node is not None:
            self.names[name] = node
        if isinstance(node, File):
            node.link_count += 1
        self.pending.setdefault(name, []).append(node)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending = {}

    def is_fleeting(self, name: str) -> bool:
        """Whether the name was made and removed again since the last sync."""
        return name not in self.names and name not in self.durable

    def variants(self, name: str) -> list[Node | None]:
        return list(dict.fromkeys([self.durable.get(name), *self.pending[name]]))


FLEETING: Final = object()
"""Stands for the names of a folder that were made and removed again."""

Node: TypeAlias = "File | Folder"
Choice: TypeAlias = "tuple[object, list[object]]"


class Copier:
    """Copies a tree with its history; a file under two names stays one file."""

    def __init__(self) -> None:
        self._made: dict[int, Node] = {}

    def folder(self, old: Folder) -> Folder:
        if id(old) in self._made:
            return self._made[id(old)]  # type: ignore[return-value]
        new = self._made[id(old)] = Folder()
        new.names = {name: self.node(node) for name, node in old.names.items()}
        new.durable = {name: self.node(node) for name, node in old.durable.items()}
        new.pending = {
            name: [None if node is None else self.node(node) for node in bindings]
            for name, bindings in old.pending.items()
        }
        return new

    def node(self, old: Node) -> Node:
        if isinstance(old, Folder):
            return self.folder(old)
        if id(old) not in self._made:
            new = self._made[id(old)] = File(old.base)
            new.content, new.link_count = old.content, old.link_count
            new.touched_ns = old.touched_ns
            new.changes = [change.copy() for change in old.changes]
        return self._made[id(old)]


class Survivor:
    """Builds the tree that a power cut leaves, by the choices made; all of it is durable."""

    def __init__(self, chosen: dict[object, object]) -> None:
        self._chosen = chosen
        self._made: dict[int, File] = {}

    def folder(self, old: Folder) -> Folder:
        new = Folder()
        for name in dict.fromkeys([*old.durable, *old.pending]):
            key = (id(old), name)
            node = self._chosen[key] if key in self._chosen else old.durable.get(name)
            if old.is_fleeting(name) and self._chosen[id(old), FLEETING]:
                node = next(node for node in old.pending[name] if node is not None)
            if isinstance(node, Folder):
                new.names[name] = self.folder(node)
            elif isinstance(node, File):
                new.names[name] = self.file(node)
        new.durable = dict(new.names)
        return new

    def file(self, old: File) -> File:
        if id(old) not in self._made:
            self._made[id(old)] = File(old.torn(self._chosen))  # type: ignore[arg-type]
        new = self._made[id(old)]
        new.touched_ns = old.touched_ns
        new.link_count += 1
        return new


def choices_of(root: Folder) -> Iterator[Choice]:
    """What a power cut decides: per name not synced its binding, per change what is left of it.

    Names of a folder that are gone again as if they had never been come back all or none, so that
    the number of states does not double with each of them.
    """
    seen: set[int] = set()

    def walk(folder: Folder) -> Iterator[Choice]:
        fleeting = [name for name in folder.pending if folder.is_fleeting(name)]
        if fleeting:
            yield (id(folder), FLEETING), [False, True]
        for name in folder.pending:
            if name not in fleeting and len(variants := folder.variants(name)) > 1:
                yield (id(folder), name), list(variants)
        bound = [node for nodes in folder.pending.values() for node in nodes if node is not None]
        for node in [*folder.durable.values(), *bound]:
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Folder):
                yield from walk(node)
            else:
                yield from ((change, list(change.variants())) for change in node.open_changes())

    return walk(root)


def files_below(folder: Folder, above: str) -> Iterator[tuple[str, File]]:
    """Every file with its path, as it is seen now."""
    for name, node in sorted(folder.names.items()):
        path = join(above, name)
        if isinstance(node, Folder):
            yield from files_below(node, path)
        else:
            yield path, node


def folders_below(folder: Folder) -> Iterator[Folder]:
    """The folder and all folders in it."""
    yield folder
    for node in folder.names.values():
        if isinstance(node, Folder):
            yield from folders_below(node)
