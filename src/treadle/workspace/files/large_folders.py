"""Which folders are left out when there are more untracked files than are kept. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Crowds(NamedTuple):
    """Folders that are left out, each ended by a slash, and the files in them."""

    folders: tuple[bytes, ...] = ()
    paths: tuple[bytes, ...] = ()


def crowds_of(paths: Sequence[bytes], count_max: int) -> Crowds:
    """What is left out so that at most so many of the files are left; mostly nothing.

    The folder, as deep as there is one, that more than half of the files are in; if there is none,
    the largest of those at the top; at last all, when too many files are in no folder: `./`.

    Args:
        paths: the files, relative to the root.
        count_max: how many are kept.
    """
    left = paths
    found: set[bytes] = set()
    while len(left) > count_max:
        counts = Counter(folder for path in left for folder in _folders(path))
        chosen = _choose(counts, len(left), count_max)
        if not chosen:
            return Crowds((b"./",), tuple(paths))
        found |= chosen
        left = [path for path in left if chosen.isdisjoint(_folders(path))]
    kept = set(left)
    folders = (one for one in found if found.isdisjoint(_folders(one[:-1])))
    return Crowds(tuple(sorted(folders)), tuple(path for path in paths if path not in kept))


def _choose(counts: Mapping[bytes, int], count: int, count_max: int) -> set[bytes]:
    most = [folder for folder, inside in counts.items() if 2 * inside > count]
    if most:
        return {max(most, key=len)}
    chosen: set[bytes] = set()
    tops = sorted(folder for folder in counts if folder.count(b"/") == 1)
    for folder in sorted(tops, key=lambda one: -counts[one]):
        if count <= count_max:
            break
        chosen.add(folder)
        count -= counts[folder]
    return chosen


def _folders(path: bytes) -> Iterator[bytes]:
    at = path.find(b"/")
    while at >= 0:
        yield path[: at + 1]
        at = path.find(b"/", at + 1)
